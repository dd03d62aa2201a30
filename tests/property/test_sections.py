"""Sections of random trees: writer and verifier cut alike, each by its own lines."""

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from tests.helpers.sections import cut_small
from topdown.formats import InvariantRules
from topdown.model import Geography, Level, sections_of
from topdown.verify import Facts, Rules, Tree, bounds_by_level, file_sections


def _random_tree(rng: np.random.Generator) -> Geography:
    """Return a tree of 1 to 5 levels, some of whose nodes have many children."""
    levels, n_above = [Level("l0", ("0",), np.zeros(1, dtype=np.int64))], 1
    for depth in range(1, int(rng.integers(1, 6))):
        children = rng.integers(1, rng.choice([2, 4, 12]), n_above)
        parent = np.repeat(np.arange(n_above), children)
        n_above = len(parent)
        levels.append(Level(f"l{depth}", tuple(f"{depth}-{i:05d}" for i in range(n_above)), parent))
    return Geography(tuple(levels))


@pytest.mark.parametrize("seed", range(4))
def test_writer_and_verifier_cut_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section that ends elsewhere for one of them would make every large release fail, or hide a moved part."""
    rng = np.random.default_rng(seed)
    n_cut = 0
    for _ in range(50):
        geography = _random_tree(rng)
        cut_small(monkeypatch, int(rng.integers(1, 9)), n_section := int(rng.integers(1, 30)))
        tree = Tree(
            geography.level_names,
            tuple(pa.array(list(level.codes), pa.string()) for level in geography.levels),
            tuple(level.parent for level in geography.levels),
            Facts({}),
        )
        ours, theirs = sections_of(geography), file_sections(tree)
        assert (ours.cut, len(ours)) == (theirs.level, theirs.n_sections)
        assert [list(at) for at in ours.first] == [at.tolist() for at in theirs.first]
        sizes = np.diff(ours.first[-1])
        assert sizes.sum() == len(geography.leaves)
        assert (sizes[:-1] >= n_section).all()
        held = rng.integers(0, 9, tree.n_leaves)
        for above, added in zip(tree.ancestors, tree.sums(held), strict=True):
            assert np.bincount(above, held).tolist() == added.tolist()
        if len(ours) > 1:
            n_cut += 1
            assert 0 < ours.cut < len(geography.levels) - 1
            assert ours.paths("t/x.parquet", ours.cut - 1) == ["t/x.parquet"]
            assert ours.paths("t/x.parquet", ours.cut) == theirs.paths("t/x.parquet", ours.cut)
    assert n_cut > 5


def test_facts_in_few_bytes_are_added_up_in_eight() -> None:
    """A bound of a nation that wraps around at 255 would be met by anybody."""
    codes = tuple(pa.array(texts, pa.string()) for texts in (["0"], ["00", "01"]))
    parents = (np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64))
    tree = Tree(("land", "block"), codes, parents, Facts({"homes": np.array([200, 100], dtype=np.uint8)}))
    stated = {"name": "homes", "cells": [], "basis": {"legal_basis": "law", "decided_by": "", "date": ""}}
    least, zero = stated | {"column": "homes", "per": 2}, stated | {"columns": ["homes", "homes"]}
    kinds = {"exact": [], "at_least": [least], "none_where_zero": [zero], "never": []}
    head = dict.fromkeys(("name", "title", "schema", "source"), "toy")
    rules = Rules.of_plan(msgspec.convert(head | kinds, InvariantRules))
    bounds = bounds_by_level(tree, rules.bounds[0])
    assert bounds is not None
    assert [at.tolist() for at in bounds] == [[600], [400, 200]]
    assert tree.facts.at(slice(1, 2))["homes"].tolist() == [100]
    closed = rules.closing[0].closed(tree.facts, tree.n_leaves)
    assert closed.tolist() == [False, False]
