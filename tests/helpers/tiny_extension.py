"""Tiny extensions in memory: random trees, base tables, zeros by sex and nested bounds, no files but a run file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.helpers.runs import run_text
from topdown.arrays import Ints
from topdown.model import (
    AtLeast,
    Attribute,
    ConstraintSystem,
    Geography,
    Histogram,
    Invariants,
    Level,
    Never,
    NoneWhereZero,
    PublicFacts,
    Recode,
    Schema,
    Support,
    base_labels,
)
from topdown.plan import PublicContext, RunFile, load_run_file, make_plan

KINDS, SEXES, AGES = ("k0", "k1", "k2", "k3"), ("m", "f"), ("young", "old")
SCHEMA = Schema(
    "tiny",
    "tiny",
    "person",
    (
        Attribute("kind", KINDS, (Recode("dwelling", ("d0", "d1"), (0, 1, 1, 1)),)),
        Attribute("sex", SEXES),
        Attribute("age", AGES),
    ),
)
BASE = Schema("coarse", "coarse", "person", (Attribute("dwelling", ("d0", "d1")), Attribute("age", AGES)))
BODY = '[budget]\nrho = "1"\n' + "".join(
    f"""
[[level]]
name = "{name}"
share = "1/3"
passes = [{passes}]
rounding = [{{ table = "kind", weight = 1 }}, {{ table = "detailed", weight = 1 }}]
[level.queries]
"sex * age" = "1/2"
"detailed" = "1/2"
"""
    for name, passes in (
        ("top", '{ table = "detailed" }'),
        ("middle", '{ table = "detailed" }'),
        ("leaf", '{ queries = ["sex * age"], table = "sex * age" }, { table = "detailed" }'),
    )
)


@cache
def run_file() -> RunFile:
    """Return the run file of all tiny extensions."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.toml"
        text = run_text(
            BODY,
            {"schema": "tiny", "invariants": "tiny"},
            geography={"levels": ["top", "middle", "leaf"], "prefix_lengths": [0, 1, 2]},
        )
        path.write_text(text, encoding="utf-8")
        return load_run_file(path)


@dataclass(frozen=True)
class World:
    """A tree, what is public about it, and the base table of its leaves (n_leaves, n_base_cells)."""

    geography: Geography
    invariants: Invariants
    facts: PublicFacts
    base: Ints

    def context(self) -> PublicContext:
        """Return what the solver is given."""
        rules = ConstraintSystem.from_facts(SCHEMA, self.geography, self.invariants, self.facts)
        leaf, cell = np.nonzero(self.base)
        table = Histogram.build(*self.base.shape, leaf, cell, self.base[leaf, cell])
        support = Support(SCHEMA, rules, base_labels(SCHEMA, BASE, {}), table.at_every_level(self.geography))
        plan = make_plan(run_file(), SCHEMA, self.invariants, self.geography, self.facts, support.inhabited)
        return PublicContext(plan, self.geography, self.facts, support)

    def allowed(self, leaf: int) -> tuple[bool, ...]:
        """Return the cells that may hold records at a leaf, straight from the constraints."""
        out = np.ones(SCHEMA.n_cells, dtype=bool)
        for never in self.invariants.never:
            out &= ~SCHEMA.select(dict(never.cells))
        for zero in self.invariants.none_where_zero:
            if sum(int(self.facts.columns[c][leaf]) for c in zero.columns) == 0:
                out &= ~SCHEMA.select(dict(zero.cells))
        return tuple(out.tolist())

    def open_cells(self, depth: int, node: int) -> list[int]:
        """Return the cells that may hold records at a node, straight from the constraints and the base table."""
        leaves = np.flatnonzero(self.geography.ancestors_of_leaves[depth] == node)
        allowed = np.any([self.allowed(int(leaf)) for leaf in leaves], axis=0)
        has_base = self.base[leaves].sum(axis=0) > 0
        return np.flatnonzero(allowed & has_base[base_labels(SCHEMA, BASE, {})]).tolist()

    def meets_bounds(self, leaf: int, table: tuple[int, ...]) -> bool:
        """Tell whether a leaf's table meets every lower bound, straight from the constraints."""
        return all(
            int(np.array(table)[SCHEMA.select(dict(b.cells))].sum())
            >= b.per * int(self.facts.columns[b.column][leaf])
            for b in self.invariants.at_least
        )

    def without(self, leaf: int) -> World:
        """Return the world with nobody, and nothing, at a leaf."""
        base = self.base.copy()
        base[leaf] = 0
        columns = {name: np.where(np.arange(len(v)) == leaf, 0, v) for name, v in self.facts.columns.items()}
        return replace(self, base=base, facts=PublicFacts(columns))


def facilities(rng: np.random.Generator) -> Invariants:
    """Draw zeros by sex and a nested family of bounds: kinds, sexes of a kind, kinds together."""
    zeros, bounds, never = [], [], []
    for kind in ("k1", "k2", "k3"):
        for sex in SEXES:
            cells = (("kind", (kind,)), ("sex", (sex,)))
            zeros.append(NoneWhereZero(f"{kind} {sex}", cells, (f"{kind}_{sex}", f"{kind}_both")))
            if rng.random() < 0.7:
                bounds.append(
                    AtLeast(f"{sex} in {kind}", cells, f"{kind}_{sex}", 1 + int(rng.random() < 0.2))
                )
        if rng.random() < 0.7:
            bounds.append(AtLeast(f"in {kind}", (("kind", (kind,)),), kind))
    if rng.random() < 0.4:
        bounds.append(AtLeast("in k1 or k2", (("kind", ("k1", "k2")),), "k1_k2"))
    if rng.random() < 0.3:
        bounds.append(AtLeast("everybody", (), "all"))
    if rng.random() < 0.3:
        bounds.append(AtLeast("in k1 again", (("kind", ("k1",)),), "k1_both"))
    if rng.random() < 0.5:
        never.append(Never("no young in k3", (("kind", ("k3",)), ("age", ("young",)))))
    if rng.random() < 0.3:
        never.append(Never("no young woman in k1", (("kind", ("k1",)), ("age", ("young",)), ("sex", ("f",)))))
    order = [bounds[i] for i in rng.permutation(len(bounds))]
    return Invariants(
        "tiny", "tiny", "tiny", at_least=tuple(order), none_where_zero=tuple(zeros), never=tuple(never)
    )


def draw_world(seed: int, *, n_leaves: int = 3, most: int = 2, scarce: float = 0.8) -> World:
    """Draw a world whose leaves may or may not have an extension.

    Args:
        most: people a base cell and leaf, at most. scarce: chance that a kind of facility is absent.
    """
    rng = np.random.default_rng(seed)
    parent = np.sort(rng.integers(0, 2, n_leaves))
    parent = np.unique(parent, return_inverse=True)[1].reshape(-1)
    n_up = int(parent.max()) + 1
    levels = (
        Level("top", ("0",), np.zeros(1, dtype=np.int64)),
        Level("middle", tuple(f"{i}" for i in range(n_up)), np.zeros(n_up, dtype=np.int64)),
        Level("leaf", tuple(f"{p}{i}" for i, p in enumerate(parent)), parent.astype(np.int64)),
    )
    columns: dict[str, Ints] = {}
    for kind in ("k1", "k2", "k3"):
        parts = []
        for part in (*SEXES, "both"):
            parts.append((1 + (rng.random(n_leaves) < 0.2)) * (rng.random(n_leaves) > scarce))
            columns[f"{kind}_{part}"] = parts[-1]
        columns[kind] = np.sum(parts, axis=0)
    columns["k1_k2"] = columns["k1"] + columns["k2"] + (rng.random(n_leaves) < 0.2)
    columns["all"] = rng.integers(0, 4, n_leaves)
    base = rng.integers(0, most + 1, (n_leaves, BASE.n_cells)) * (rng.random((n_leaves, BASE.n_cells)) < 0.7)
    return World(Geography(levels), facilities(rng), PublicFacts(columns), base)
