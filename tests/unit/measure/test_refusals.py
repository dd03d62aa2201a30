"""What stops the reading of records, foreseen or not, is said without a word out of them."""

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from topdown.errors import TopdownError
from topdown.measure import PLAIN_FORM, Refused, load_records, read_or_refuse
from topdown.measure import records as labels
from topdown.model import Schema

TELLTALE = "CANARY-4711"


def talk(*_: object) -> None:
    """Fail as a library does that quotes what it read."""
    record = [TELLTALE]
    raise KeyError(record[0])


def refuse(*_: object) -> None:
    """Fail because of a rule, with the record at hand."""
    record = [TELLTALE]
    raise Refused("D031", f"some of {len(record)} records have no label", column="sex", fix="correct them")


def everything_carried(error: BaseException) -> str:
    """Return all that a log could show of an error: texts, notes, errors before it, and local names of every frame."""
    told = "".join(traceback.format_exception(error)) + repr(getattr(error, "__notes__", ()))
    for one in (error, error.__context__, error.__cause__):
        frames = traceback.walk_tb(one.__traceback__ if one else None)
        told += "".join(repr(frame.f_locals) for frame, _ in frames if frame.f_globals is not globals())
    return told + repr(error.__context__)


@pytest.mark.parametrize(("read", "code"), [(talk, "X023"), (refuse, "D031")])
def test_no_error_carries_a_record(tmp_path: Path, read: Callable[[], None], code: str) -> None:
    """A traceback with the library's own words, or with local names, would take a record to a log."""
    with pytest.raises(TopdownError) as caught:
        read_or_refuse(tmp_path / "people.csv", read, "they could not be read", "nothing", list_errors=False)
    error = caught.value
    assert error.code == code
    assert error.__context__ is None
    assert error.__cause__ is None
    assert TELLTALE not in everything_carried(error)
    assert "people.csv" in str(error.file)


def test_what_nobody_foresaw_says_what_it_spared(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records and labels are read by two functions; each must end in the same error, and say what did not happen."""
    prepared = toy.prepare()
    monkeypatch.setattr(Schema, "cells", talk)
    monkeypatch.setattr(labels, "_values_in_batch", talk)
    for read, spared in (
        (lambda: load_records(prepared.records_path, prepared.context), "nothing was spent"),
        (
            lambda: labels.confirmed_labels(prepared.records_path, PLAIN_FORM, lambda _, names: names),
            "nothing was written",
        ),
    ):
        with pytest.raises(TopdownError) as caught:
            read()
        assert caught.value.code == "X023"
        assert caught.value.fix.endswith(spared)
        assert "(KeyError)" in str(caught.value)
        assert TELLTALE not in everything_carried(caught.value)


def test_what_is_read_is_returned(tmp_path: Path) -> None:
    """A box around reading must not keep what was read."""
    found = object()
    assert read_or_refuse(tmp_path, lambda: found, "", "", list_errors=False) is found
