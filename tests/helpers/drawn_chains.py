"""Random chains of releases that extend each other, on small schemas and geographies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from tests.helpers.changes_brute import Statistic
from topdown.model.changes import Known, Zero
from topdown.model.constraint import Exact, Invariants, Never, NoneWhereZero
from topdown.model.geography import Geography, from_prefixes
from topdown.model.public import PublicFacts, Rules, derive_rules
from topdown.model.query import parse_query
from topdown.model.reading import Reading, groups_of, read_in, same, then
from topdown.model.schema import Attribute, Recode, Schema
from topdown.model.support import base_labels

LEVELS = ("land", "county", "town", "block")


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain of releases, as labels and as what a reader sees.

    Args:
        schema, geography, rules, known, zeros: of the newest release; arguments of `find_changes`.
        allowed: bool (n_leaves, n_cells), whether anybody can be there.
        seen: every exact statistic as a reader sees it.
        releases: schema and invariants of every release, newest first; each map is by name.
        facts: public columns of the leaves.
    """

    schema: Schema
    geography: Geography
    rules: Rules
    known: list[Known]
    zeros: list[Zero]
    allowed: np.ndarray
    seen: list[Statistic]
    releases: tuple[tuple[Schema, Invariants], ...]
    facts: dict[str, np.ndarray]


def _draw_schema(draw: st.DrawFn, name: str, base: Schema | None) -> Schema:
    """Draw a schema that a base, if there is one, can be read in: each of its attributes is split or kept."""
    attributes = []
    for i in range(draw(st.integers(1, 2)) if base is None else 0):
        labels = tuple(f"v{v}" for v in range(draw(st.integers(1, 3))))
        attributes.append(_recoded(draw, Attribute(f"a{i}", labels), name))
    for old in base.attributes if base is not None else ():
        if draw(st.booleans()):
            attributes.append(_recoded(draw, Attribute(old.name, old.labels), name))
            continue
        of = [v for v in range(len(old.labels)) for _ in range(draw(st.integers(1, 2)))]
        of = list(draw(st.permutations(of)))
        labels = tuple(f"{name}{i}" for i in range(len(of)))
        attributes.append(Attribute(f"{name}_{old.name}", labels, (Recode(old.name, old.labels, tuple(of)),)))
    if base is not None and draw(st.booleans()):
        attributes.append(Attribute(f"new_{name}", ("p", "q")))
    return Schema(name, name, "person", tuple(attributes))


def _recoded(draw: st.DrawFn, attribute: Attribute, name: str) -> Attribute:
    n = len(attribute.labels)
    if n < 2 or draw(st.booleans()):
        return attribute
    groups = ("low", "high")
    of = (0, *draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2)), 1)
    return Attribute(attribute.name, attribute.labels, (Recode(f"{name}{attribute.name}r", groups, of),))


def _draw_query(draw: st.DrawFn, schema: Schema) -> str:
    parts = []
    for a in schema.attributes:
        names = [a.name, *(r.name for r in a.recodes), None, None]
        parts.append(draw(st.sampled_from(names)))
    return " * ".join(p for p in parts if p) or "total"


def _draw_cells(draw: st.DrawFn, schema: Schema) -> tuple[tuple[str, tuple[str, ...]], ...]:
    out = []
    for a in schema.attributes:
        labels = draw(st.lists(st.sampled_from(a.labels), unique=True))
        if labels:
            out.append((a.name, tuple(labels)))
    return tuple(out)


def _geography(draw: st.DrawFn) -> Geography:
    codes = {f"0{c}{t}{b}" for c in "01" for t in "01" for b in "01"}
    kept = draw(st.sets(st.sampled_from(sorted(codes)), min_size=1, max_size=4))
    return from_prefixes(LEVELS, (1, 2, 3, 4), tuple(sorted(kept)))


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """Draw a chain of one to three releases with exact statistics and zeros each."""
    geography = _geography(draw)
    schemas = [_draw_schema(draw, "s", None)]
    for name in "tu"[: draw(st.integers(0, 2))]:
        schemas.append(_draw_schema(draw, name, schemas[-1]))
    newest = schemas[-1]
    readings: list[Reading] = [same(newest)]
    of_cell = [np.arange(newest.n_cells)]
    for old, new in reversed(list(pairwise(schemas))):
        readings.append(then(read_in(new, old, {}), readings[-1]))
        of_cell.append(base_labels(new, old, {})[of_cell[-1]])
    known, seen, zeros, policies = [], [], [], []
    n_leaves = len(geography.leaves)
    allowed = np.ones((n_leaves, newest.n_cells), dtype=bool)
    for i, (schema, reading, cells) in enumerate(zip(reversed(schemas), readings, of_cell, strict=True)):
        exact, closed = [], []
        for k in range(draw(st.integers(0, 2))):
            depth = draw(st.integers(0, 3))
            query = parse_query(schema, _draw_query(draw, schema))
            known.append(Known(f"{i} {k}", depth, groups_of(query, reading)))
            exact.append(Exact(f"{i} {k}", LEVELS[depth], query.name))
            up = geography.ancestors_of_leaves[depth]
            seen.append(Statistic(f"{i} {k}", up, query.labels[cells]))
        if i and draw(st.booleans()):  # what an older release closes everywhere
            closed = [Never(f"old {i}", _draw_cells(draw, schema))]
            chosen = dict(closed[0].cells)
            masks = {}
            for attribute, labels in chosen.items():
                here, value = reading[attribute]
                inside = [label in labels for label in schema.attribute(attribute).labels]
                masks[here] = tuple(inside[v] for v in value)
            zeros.append(Zero(f"old {i}", masks, everywhere=True))
            allowed &= ~schema.select(chosen)[cells]
        policies.append(Invariants("i", "i", schema.name, exact=tuple(exact), never=tuple(closed)))
    never = [Never("never", _draw_cells(draw, newest))] if draw(st.booleans()) else []
    where = [
        NoneWhereZero(f"zero {i}", _draw_cells(draw, newest), (f"c{i}",))
        for i in range(draw(st.integers(0, 2)))
    ]
    facts = {z.columns[0]: np.array([draw(st.integers(0, 1)) for _ in range(n_leaves)]) for z in where}
    for rule in (*never, *where):
        inside = newest.select(dict(rule.cells))
        zeros.append(
            Zero(
                rule.name,
                {
                    name: tuple(label in labels for label in newest.attribute(name).labels)
                    for name, labels in rule.cells
                },
            )
        )
        shut = facts[rule.columns[0]] == 0 if isinstance(rule, NoneWhereZero) else np.ones(n_leaves, bool)
        allowed &= ~(shut[:, None] & inside[None, :])
    invariants = replace(policies[0], never=tuple(never), none_where_zero=tuple(where))
    rules = derive_rules(newest, geography, invariants, PublicFacts(facts))
    releases = tuple(zip(reversed(schemas), (invariants, *policies[1:]), strict=True))
    return Chain(newest, geography, rules, known, zeros, allowed, seen, releases, facts)
