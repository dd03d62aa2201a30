"""Somebody who knows everybody else and reads every published file: what is printed is judged by all pairs of records.

Nothing of the product is used, only what it publishes: plan.json, public tables, microdata of releases that are
extended. Two data sets one record apart are a pair: the record of one and that of the other, or none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np

from tests.helpers.attacker_odds import Moved
from tests.helpers.published import Array, Document, Step
from tests.helpers.rule_twins import NO_END

NEAR = 1e-4  # a test on rounded losses comes this close to the best


@dataclass(frozen=True, eq=False)
class Bounds:
    """Which records some bounds count, least and most at the leaf of each record, and each bound with its number."""

    inside: Array
    low: Array
    high: Array
    rules: list[tuple[str, Array]]


@dataclass(frozen=True, eq=False)
class Attacker:
    """What can be learned from a release and those it extends.

    Args:
        steps: the releases, oldest first; the last is the one whose statement is judged, or one of several (ledger).
        codes: geocodes of the leaves. lengths: characters that name each level, root first.
        labels: which labels of each attribute the enumerated records have; all of an attribute left out. If some are
            given, an extension is taken to publish every count: more than it does, so more than can be learned.
        bases: of each step, the position of the step it extends, or None; by default the one before it.
    """

    steps: list[Step]
    codes: list[str]
    lengths: list[int]
    labels: dict[str, Sequence[str]] = field(default_factory=dict)
    bases: tuple[int | None, ...] = ()

    @property
    def plan(self) -> Document:
        """The plan of the newest release."""
        return self.steps[-1].plan

    @cached_property
    def up(self) -> list[Array]:
        """Per level, the node of each leaf."""
        out = []
        for n in self.lengths:
            nodes = sorted({code[:n] for code in self.codes})
            out.append(np.array([nodes.index(code[:n]) for code in self.codes]))
        return out

    def depth(self, level: str) -> int:
        """Return where a level stands."""
        return [lv["name"] for lv in self.plan["levels"]].index(level)

    def _base(self, i: int) -> int | None:
        return self.bases[i] if self.bases else (i - 1 if i else None)

    def values_in(self, i: int, values: Array) -> Array:
        """Return values of the newest schema as values of the schema of step i."""
        at = len(self.steps) - 1
        chain = [at]
        while self._base(chain[-1]) is not None:
            chain.append(self._base(chain[-1]))  # type: ignore[arg-type]
        if i not in chain:  # another release of the same schema as one on the way
            i = next(j for j in chain if self.steps[j].attributes == self.steps[i].attributes)
        for here in chain[: chain.index(i)]:
            values = self.steps[here].below(self.steps[self._base(here)], values)  # type: ignore[index]
        return values

    @cached_property
    def records(self) -> tuple[Array, Array]:
        """Every record that public facts allow: leaf, and values of the newest schema."""
        kept = [
            [a["labels"].index(label) for label in self.labels.get(a["name"], a["labels"])]
            for a in self.steps[-1].attributes
        ]
        cells = np.array(list(product(*kept)))
        leaf = np.repeat(np.arange(len(self.codes)), len(cells))
        values = np.tile(cells, (len(self.codes), 1))
        possible = np.ones(len(leaf), dtype=bool)
        for i, step in enumerate(self.steps):
            possible &= step.open(leaf, self.values_in(i, values))
        return leaf[possible], values[possible]

    @cached_property
    def exact(self) -> dict[str, Array]:
        """What each exact statistic counts each record in, by name."""
        leaf, values = self.records
        out: dict[str, Array] = {}
        for i, step in enumerate(self.steps):
            for rule in step.plan["invariants"]["exact"]:
                name = (
                    rule["name"]
                    if rule["name"] not in out
                    else f"{rule['name']} ({step.plan['release']['id']})"
                )
                answer = step.answers(rule["query"], self.values_in(i, values))
                out[name] = self.up[self.depth(rule["level"])][leaf] + len(self.codes) * answer
        return out

    @cached_property
    def noisy(self) -> list[tuple[tuple[str, Fraction], Array]]:
        """Every noisy measurement: its noise, and the count each record is in; -1 where none is published."""
        leaf, values = self.records
        out = []
        for i, step in enumerate(self.steps):
            mine = self.values_in(i, values)
            for depth, level in enumerate(step.plan["levels"]):
                node = self.up[depth][leaf]
                for m in level["measurements"]:
                    count = node + len(self.codes) * step.answers(m["query"], mine)
                    if step.plan.get("base") and not self.labels:
                        count = np.where(np.isin(count, self._listed(i, depth, m["query"])), count, -1)
                    out.append(((m["law"], Fraction(m["parameter"])), count))
        return out

    def _listed(self, i: int, depth: int, query: str) -> Array:
        """Return the counts that an extension publishes at a level: those that some open cell is in."""
        leaf, values, held = self._cells[i]
        node = self.up[depth]
        has = np.zeros(((node.max() + 1), held.shape[1]), dtype=bool)
        np.logical_or.at(has, node, held)  # base cells with records in the base table, by node
        below = self._base_cell(i, values)
        keep = has[node[leaf], below]
        return np.unique(node[leaf[keep]] + len(self.codes) * self.steps[i].answers(query, values[keep]))

    def _base_cell(self, i: int, values: Array) -> Array:
        base = self.steps[self._base(i)]  # type: ignore[index]
        return base.answers("detailed", self.steps[i].below(base, values))

    @cached_property
    def _cells(self) -> dict[int, tuple[Array, Array, Array]]:
        """Per extension: every open (leaf, cell) among enumerated labels, and the base cells with records by leaf."""
        leaf, values = self.records
        out = {}
        for i, step in enumerate(self.steps):
            if not step.plan.get("base"):
                continue
            base = self.steps[self._base(i)]  # type: ignore[index]
            held = np.zeros(
                (len(self.codes), int(np.prod([len(a["labels"]) for a in base.attributes]))), dtype=bool
            )
            rows = [[a["labels"].index(row[a["name"]]) for a in base.attributes] for row in base.table]
            where = [self.codes.index(row["geocode"]) for row in base.table]
            held[where, base.answers("detailed", np.array(rows))] = True
            out[i] = (leaf, self.values_in(i, values), held)
        return out

    @cached_property
    def _bounds(self) -> list[Bounds]:
        """The least and the most of each set of cells that bounds speak of."""
        leaf, values = self.records
        found: dict[bytes, Bounds] = {}
        for i, step in enumerate(self.steps):
            mine = self.values_in(i, values)
            for rule, low, high in step.bounds(leaf):
                inside = step.inside(rule["cells"], mine)
                here = found.setdefault(inside.tobytes(), Bounds(inside, 0 * leaf, 0 * leaf + NO_END, []))
                np.maximum(here.low, low, out=here.low)
                np.minimum(here.high, high, out=here.high)
                here.rules.append((rule["name"], np.where(high < NO_END, high, low)))
        return list(found.values())

    def _broken(self, one: Array, other: Array | None) -> dict[str, Array]:
        """Mark by name the pairs that change a count which bounds on one set of cells fix, one by one."""
        leaf, _ = self.records
        out: dict[str, Array] = {}
        for b in self._bounds:
            for mine, theirs in ((one, other), (other, one)):
                if mine is None:
                    continue
                same = (leaf[theirs] == leaf[mine]) & b.inside[theirs] if theirs is not None else False
                left = b.inside[mine] & ~np.asarray(same) & (b.low == b.high)[mine]
                for name, said in b.rules:
                    out[name] = out.get(name, np.zeros(len(one), dtype=bool)) | (
                        left & (said == b.high)[mine]
                    )
        return out

    def pairs(self, kind: str, of: str) -> tuple[Array, Array | None]:
        """Return every pair that a kind of change makes, as positions of records; None for no record."""
        one, other = self._open_pairs(kind, of)
        kept = ~np.any([np.zeros(len(one), dtype=bool), *self._broken(one, other).values()], axis=0)
        return one[kept], None if other is None else other[kept]

    def excluded(self, kind: str, of: str) -> set[str]:
        """Return the bounds whose fixed count some change of a kind would change."""
        return {name for name, marks in self._broken(*self._open_pairs(kind, of)).items() if marks.any()}

    def _open_pairs(self, kind: str, of: str) -> tuple[Array, Array | None]:
        leaf, values = self.records
        n = len(leaf)
        somebody = np.all([np.ones(n, dtype=bool), *(~b.inside | (b.high > 0) for b in self._bounds)], axis=0)
        if kind == "presence":
            return np.flatnonzero(somebody), None
        a, b = np.triu_indices(n, 1)
        if kind == "attribute":
            axis = [x["name"] for x in self.steps[-1].attributes].index(of)
            rest = _number(np.delete(values, axis, axis=1), leaf)
            keep = rest[a] == rest[b]
        elif kind == "within_level":
            node, cell = self.up[self.depth(of)][leaf], _number(values)
            keep = (cell[a] == cell[b]) & (node[a] == node[b])
        else:
            keep = np.ones(len(a), dtype=bool)
        keep &= somebody[a] & somebody[b]
        return a[keep], b[keep]

    def altered(self, one: Array, other: Array | None) -> dict[str, Array]:
        """Mark by name the pairs that an exact statistic tells apart."""
        return {
            name: np.ones(len(one), dtype=bool) if other is None else c[one] != c[other]
            for name, c in self.exact.items()
        }

    def moved(self, one: Array, other: Array | None) -> list[Moved]:
        """Return what noisy counts differ, for every pair that is not another one with fewer of them."""
        rng = np.random.default_rng(1)
        key = np.zeros(len(one), dtype=np.uint64)
        for (_, count), word in zip(
            self.noisy, rng.integers(1, 1 << 63, len(self.noisy), dtype=np.uint64), strict=True
        ):
            key += word * _differ(count, one, other).astype(np.uint64)
        _, first = np.unique(key, return_index=True)
        found: dict[Moved, None] = {}
        for k in first:
            picked = one[k : k + 1], None if other is None else other[k : k + 1]
            found[Moved.of((noise, int(_differ(c, *picked)[0])) for noise, c in self.noisy)] = None
        largest: list[Moved] = []
        for moved in sorted(found, key=lambda m: -m.n):
            if not any(moved.within(other) for other in largest):
                largest.append(moved)
        return largest


def _number(values: Array, leaf: Array | None = None) -> Array:
    out = np.zeros(len(values), dtype=np.int64) if leaf is None else leaf.astype(np.int64)
    for column in values.T:
        out = out * (int(column.max(initial=0)) + 1) + column
    return out


def _differ(count: Array, one: Array, other: Array | None) -> Array:
    if other is None:
        return (count[one] >= 0).astype(np.int64)
    a, b = count[one], count[other]
    return ((a >= 0).astype(np.int64) + (b >= 0)) * (a != b)
