"""Random releases: sound ones always pass, and one changed count never does."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.depth import DEPTH
from tests.helpers.small_release import (
    Small,
    allowed,
    build,
    edit_table,
    from_dense,
    make_context,
    population,
    reseal,
)
from topdown.verify import differences, tally, verify

CALM = settings(deadline=None, max_examples=6 * DEPTH, derandomize=True)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Return a sound release, built once; tests work on copies."""
    return build(tmp_path_factory.mktemp("sound"), csv=True)


@pytest.mark.deep
@CALM
@given(data=st.data())
def test_every_consistent_population_passes(data: st.DataObject) -> None:
    """A verifier that rejects some lawful population would block a release nobody can repair."""
    with tempfile.TemporaryDirectory() as folder:
        context = make_context(Path(folder) / "probe")
        dense = population(context, data.draw(st.integers(0, 10**6), "seed")).dense(0, 5)
        extra = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 17), st.integers(1, 2**33))))
        for leaf, cell, count in extra:
            dense[leaf, cell] += count * int(allowed(context)[leaf, cell])
        small = build(Path(folder), from_dense(dense), nodes_a_part=data.draw(st.integers(1, 5), "part"))
        result = verify(small.folder)
        assert [f.text for check in result.checks for f in check.findings] == []


@pytest.mark.deep
@CALM
@given(data=st.data())
def test_no_single_change_passes(sound: Small, data: st.DataObject) -> None:
    """One count changed anywhere, by any amount, with a manifest to match, must be found."""
    with tempfile.TemporaryDirectory() as folder:
        release = Path(folder) / "release"
        shutil.copytree(sound.folder, release)
        tables = sorted(path.relative_to(release).as_posix() for path in release.glob("tables/*/*.parquet"))
        path = data.draw(st.sampled_from(["microdata/persons.parquet", *tables]), "file")

        def change(rows: list[dict[str, Any]]) -> None:
            row = data.draw(st.sampled_from(rows), "row")
            step = st.integers(-(2**63), 2**63 - 1).filter(lambda count: count != row["count"])
            near = st.sampled_from([row["count"] - 1, row["count"] + 1])
            row["count"] = data.draw(st.one_of(near, step), "count")

        edit_table(release / path, change)
        assert not verify(release).check("manifest").ok
        reseal(release)
        result = verify(release)
        assert not result.check("tables").ok
        assert [f.text for c in result.checks for f in c.findings if f.code == "V199"] == []


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-4, 4)), max_size=30),
    st.sampled_from([1, 10**12]),
    st.sampled_from([0, 7, -3]),
    st.data(),
)
def test_sums_equal_a_dictionary(
    pairs: list[tuple[int, int]], apart: int, first: int, data: st.DataObject
) -> None:
    """The vectorised sums rest on sorting, or on places; a plain dictionary cannot be wrong the same way."""
    pairs = [(first + apart * k, count) for k, count in pairs]
    keys = np.array([k for k, _ in pairs], dtype=np.int64)
    counts = np.array([c for _, c in pairs], dtype=np.int64)
    slow: dict[int, int] = {}
    for key, count in pairs:
        slow[key] = slow.get(key, 0) + count
    assert dict(zip(*(x.tolist() for x in tally(keys, counts)), strict=True)) == slow
    assert tally(keys, counts)[0].tolist() == sorted(slow)
    both = tally(keys, np.stack([counts, -2 * counts], axis=1))[1]
    assert both.tolist() == [[slow[key], -2 * slow[key]] for key in sorted(slow)]
    shuffled = np.array(data.draw(st.permutations(range(len(pairs)))), dtype=np.int64)
    assert len(differences(keys, counts, keys[shuffled], counts[shuffled])) == 0
    other = differences(keys, counts, keys[:0], counts[:0])
    assert set(other.tolist()) == {key for key, total in slow.items() if total}
