"""Random chains of releases that extend each other, on small schemas and geographies."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from tests.helpers.changes_brute import Ruled, Statistic, crossing
from topdown.model import (
    AtLeast,
    AtMost,
    Attribute,
    AttributeMapping,
    BoundRule,
    Exact,
    Geography,
    Invariants,
    KnownStatistic,
    Never,
    NoneWhereZero,
    Recode,
    Schema,
    ZeroRule,
    base_labels,
    compose_mappings,
    from_prefixes,
    group_values,
    identity_mapping,
    map_attributes,
    parse_query,
)

LEVELS = ("land", "county", "town", "block")


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain of releases, as labels and as what a reader sees.

    Args:
        schema, geography, known, zeros, bounds: of the newest release and all below; arguments of `find_changes`.
        allowed: bool (n_leaves, n_cells), whether anybody can be there as far as zeros go.
        seen, ruled: every exact statistic and every bound as a reader sees it.
        releases: schema, invariants and public columns of every release, newest first; each map is by name.
    """

    schema: Schema
    geography: Geography
    known: list[KnownStatistic]
    zeros: list[ZeroRule]
    bounds: list[BoundRule]
    allowed: np.ndarray
    seen: list[Statistic]
    ruled: list[Ruled]
    releases: tuple[tuple[Schema, Invariants, dict[str, np.ndarray]], ...]

    @property
    def crossing(self) -> bool:
        """Whether two bounds cross: then what is said may be less than every pair says."""
        nobody = [b.inside[None, :] & (b.number == 0)[:, None] for b in self.ruled if b.above]
        return crossing(self.allowed & ~np.any([np.zeros_like(self.allowed), *nobody], axis=0), self.ruled)


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
def chains(draw: st.DrawFn, bounded: bool = True) -> Chain:
    """Draw a chain of one to three releases, with exact statistics, zeros and bounds each, that some census fits."""
    geography = _geography(draw)
    schemas = [_draw_schema(draw, "s", None)]
    for name in "tu"[: draw(st.integers(0, 2))]:
        schemas.append(_draw_schema(draw, name, schemas[-1]))
    newest = schemas[-1]
    readings: list[AttributeMapping] = [identity_mapping(newest)]
    of_cell = [np.arange(newest.n_cells)]
    for old, new in reversed(list(pairwise(schemas))):
        readings.append(compose_mappings(map_attributes(new, old, {}), readings[-1]))
        of_cell.append(base_labels(new, old, {})[of_cell[-1]])
    known, seen, zeros, bounds, ruled, releases = [], [], [], [], [], []
    n_leaves = len(geography.leaves)
    allowed = np.ones((n_leaves, newest.n_cells), dtype=bool)
    steps = list(zip(reversed(schemas), readings, of_cell, strict=True))
    for i, (schema, reading, cells) in enumerate(steps):
        exact, facts = [], {}
        for k in range(draw(st.sampled_from([0, 0, 1, 2]))):
            depth = draw(st.integers(0, 3))
            query = parse_query(schema, _draw_query(draw, schema))
            known.append(KnownStatistic(f"{i} {k}", depth, group_values(query, reading)))
            exact.append(Exact(f"{i} {k}", LEVELS[depth], query.name))
            up = geography.ancestors_of_leaves[depth]
            seen.append(Statistic(f"{i} {k}", up, query.labels[cells]))
        never = [Never(f"never {i}", _draw_cells(draw, schema))] if draw(st.booleans()) else []
        where = [
            NoneWhereZero(f"zero {i} {k}", _draw_cells(draw, schema), (f"z{i}{k}",))
            for k in range(draw(st.integers(0, 1)))
        ]
        for rule in (*never, *where):
            leaves = np.ones(n_leaves, dtype=bool)
            if isinstance(rule, NoneWhereZero):
                facts[rule.columns[0]] = np.array([draw(st.integers(0, 1)) for _ in range(n_leaves)])
                leaves = facts[rule.columns[0]] == 0
            zeros.insert(0, ZeroRule(rule.name, _read(schema, reading, rule.cells), leaves))
            allowed &= ~(leaves[:, None] & schema.select(dict(rule.cells))[cells][None, :])
        releases.append(
            [schema, Invariants("i", "i", schema.name, (*exact,), (), (*where,), (*never,)), facts]
        )
    truth = np.zeros_like(allowed, dtype=np.int64)
    for leaf in range(n_leaves if bounded else 0):
        held = np.flatnonzero(allowed[leaf]).tolist()
        for cell in draw(st.lists(st.sampled_from(held), min_size=1, max_size=2)) if held else []:
            truth[leaf, cell] += 1
    for i, (schema, reading, cells) in enumerate(steps if bounded else []):
        least, most = [], []
        for k in range(draw(st.integers(0, 2 if len(steps) < 3 and i == 0 else 1))):
            chosen = _draw_cells(draw, schema)
            inside = schema.select(dict(chosen))[cells]
            for above in draw(st.sampled_from([(False, True), (False, True), (True,), (False,)])):
                off = [draw(st.sampled_from([0, 0, 0, 1])) * (1 if above else -1) for _ in range(n_leaves)]
                number = np.maximum(truth[:, inside].sum(axis=1) + np.array(off), 0)
                name = f"bound {i} {k} {'most' if above else 'least'}"
                releases[i][2][name] = number
                (most if above else least).append((AtMost if above else AtLeast)(name, chosen, name))
                ruled.append(Ruled(name, inside, number, above))
                bounds.append(BoundRule(name, _read(schema, reading, chosen), number, above))
        releases[i][1] = replace(releases[i][1], at_least=tuple(least), at_most=tuple(most))
    return Chain(
        newest,
        geography,
        known,
        zeros,
        bounds,
        allowed,
        seen,
        ruled,
        tuple((s, v, f) for s, v, f in releases),
    )


def _read(schema: Schema, reading: AttributeMapping, cells) -> dict[str, tuple[bool, ...]]:
    """Return what cells of an older release are in attributes of the newest."""
    out = {}
    for attribute, labels in cells:
        here, value = reading[attribute]
        inside = [label in labels for label in schema.attribute(attribute).labels]
        out[here] = tuple(inside[v] for v in value)
    return out
