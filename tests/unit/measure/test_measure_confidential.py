"""The box around confidential records shows nothing by accident."""

import copy
import pickle

import numpy as np
import pytest

from topdown.measure import load_records


@pytest.mark.parametrize("show", [repr, str, format, lambda c: f"{c!r:>80}", lambda c: f"{[c]}".strip("[]")])
def test_printing_shows_nothing(toy, show):
    """A log line or a traceback with locals must not print counts."""
    box = load_records(toy.records, toy.prepare().context)
    assert show(box).strip() == "<confidential records, not shown>"


@pytest.mark.parametrize(
    "use",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        np.asarray,
        np.array,
        list,
        len,
        bool,
        hash,
        vars,
        lambda c: c == c,
    ],
)
def test_copying_and_converting_are_refused(toy, use):
    """A pickle or an array is how records reach a temporary file."""
    box = load_records(toy.records, toy.prepare().context)
    with pytest.raises(TypeError):
        use(box)
