"""The constraints of an area in readable algebra: of an inner node in general, and of one area with its numbers.

Numbers are there where public facts give them; exact statistics stay symbols. Of the limits on sets of cells only those
are shown that do not follow from others: the facets of the base polytope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, Ints
from topdown.formats.plan_documents import AlgebraLine, Area, CellKind, Combination, Verdict
from topdown.model import (
    NO_LIMIT,
    CellPartition,
    ConstraintSystem,
    Invariants,
    LimitUse,
    Line,
    Schema,
    Selection,
    leaf_rows,
    public_constraints,
)
from topdown.solve.implied.level_verdicts import VerdictInputs, worst_case_facts

SHOWN = 3  # labels, or runs of labels, that are named one by one


def selection_text(schema: Schema, selection: Selection) -> str:
    """Write chosen cells as `hhgq=nursing & votingage=under_18`; neighbouring values as `age=0..14`."""
    labels = {attribute.name: attribute.labels for attribute in schema.attributes}
    parts = [
        f"{name}={'|'.join(_runs(labels[name], [labels[name].index(v) for v in values]))}"
        for name, values in selection
    ]
    return " & ".join(parts) or "everyone"


def cells_name(schema: Schema, cells: Ints) -> str:
    """Name a set of cells, `part of ...` if it is no product of values."""
    parts, n_product = [], 1
    for attribute, values in zip(schema.attributes, schema.coordinates(cells), strict=True):
        used = np.unique(values)
        n_product *= len(used)
        if len(used) < len(attribute.labels):
            shown = _runs(attribute.labels, used.tolist())
            few = len(shown) <= SHOWN
            parts.append("|".join(shown) if few else f"{len(used)} values of {attribute.name}")
    name = " & ".join(parts) or "everyone"
    return name if n_product == len(cells) else f"part of {name}"


def _runs(labels: tuple[str, ...], chosen: list[int]) -> list[str]:
    """Write values; four or more that follow each other as `first..last`."""
    out: list[str] = []
    chosen = sorted(chosen)
    start = 0
    for i in range(1, len(chosen) + 1):
        if i < len(chosen) and chosen[i] == chosen[i - 1] + 1:
            continue
        run = [labels[v] for v in chosen[start:i]]
        out += [f"{run[0]}..{run[-1]}"] if len(run) > SHOWN else run
        start = i
    return out


def kind_names(schema: Schema, kinds: CellPartition) -> tuple[str, ...]:
    """Name the kinds of cells of a release, each differently."""
    names: list[str] = []
    for k in range(kinds.n_kinds):
        name = cells_name(schema, np.flatnonzero(kinds.of_cell == k))
        again = sum(other == name or other.startswith(f"{name} (") for other in names)
        names.append(f"{name} ({again + 1})" if again else name)
    return tuple(names)


def algebra_lines(lines: Iterable[Line]) -> list[AlgebraLine]:
    """Return constraints and their reasons as they stand in documents."""
    return [AlgebraLine(algebra=algebra, reason=reason) for algebra, reason in lines]


def node_lines(schema: Schema, invariants: Invariants, verdicts: Sequence[Verdict]) -> list[AlgebraLine]:
    """Write the constraints of a node above the leaves; sums run over the leaves below it.

    Args:
        schema, invariants: as read from their files.
        verdicts: of all levels, which say where combinations are needed.
    """
    rules = (*sorted(invariants.leaf_rules, key=lambda rule: not rule.closes), *invariants.exact)
    lines: list[Line] = [rule.algebra(partial(selection_text, schema)) for rule in rules]
    lines += soft_lines(schema, invariants)
    lines.append(("x >= 0, whole; the children add up to x", "histograms"))
    if any(v.needs == "combination_table" for v in verdicts):
        lines += _limit_lines(schema, invariants, [v.level for v in verdicts])
    return algebra_lines(lines)


def soft_lines(schema: Schema, invariants: Invariants) -> list[Line]:
    """Write soft rules: sums over leaves keep what every leaf keeps."""
    return [soft.algebra(partial(selection_text, schema)) for soft in invariants.soft_rules]


def _limit_lines(schema: Schema, invariants: Invariants, levels: Sequence[str]) -> list[Line]:
    geography, facts = worst_case_facts(invariants, levels)
    rules = ConstraintSystem.from_facts(schema, geography, invariants, facts)
    constraints = public_constraints(schema, invariants, geography, rules)
    kinds = constraints.partition
    k = kinds.n_kinds
    lines = [
        (f"kinds: {'; '.join(kind_names(schema, kinds))}", f"{k} kinds of cells that no rule tells apart")
    ]
    if invariants.exact:
        held = "x[A] <= sum of min(most people in A there, N - fewest people outside A there)"
        what = (
            "exact answer, for the kinds of each answer apart"
            if constraints.has_exact_table
            else "exact total"
        )
        lines.append(
            (f"{held} for every set A of kinds; N: {what}", f"Theorem 3, section 7.3: 2^{k} numbers")
        )
    else:
        held = "x[A] <= sum of the most people in A there, x[A] >= sum of the fewest,"
        lines.append((f"{held} for every set A of kinds", f"Frank 1984: 2^{k} numbers"))
    return lines


_BOUNDLESS = np.int64(2**60)


@dataclass(frozen=True)
class Facets:
    """An irredundant description: sets are bit sets of the ground elements.

    Args:
        parts: sets whose sum is fixed, which together hold every element once.
        limits: sets A with x(A) <= limit that follow from no others.
    """

    parts: tuple[int, ...]
    limits: tuple[int, ...]


def facets(limits: Ints) -> Facets:
    """Describe the base polytope {x: x(A) <= limits[A], x(all) = limits[all]} without redundant rows.

    Args:
        limits: int64 (2^n,), submodular, NO_LIMIT and above for none; finite for all elements together.

    Cost: 3^n additions.
    """
    values = np.where(limits >= NO_LIMIT // 2, _BOUNDLESS, limits)
    parts = _separate_parts(values, len(values) - 1)
    found = []
    for part in parts:
        for inside in _subsets(part)[1:-1].tolist():
            whole = values[inside] < _BOUNDLESS
            if whole and _cut_sets(values, inside, 0) == 0 and _cut_sets(values, part & ~inside, inside) == 0:
                found.append(inside)
    return Facets(tuple(parts), tuple(sorted(found, key=lambda a: (a.bit_count(), a))))


def _separate_parts(values: Ints, everything: int) -> list[int]:
    waiting, done = [everything], []
    while waiting:
        part = waiting.pop()
        piece = _cut_sets(values, part, 0)
        if piece:
            waiting += [piece, part & ~piece]
        else:
            done.append(part)
    return sorted(part for part in done if part)


def _cut_sets(values: Ints, inside: int, before: int) -> int:
    """Return a part that `inside` falls into, once `before` is full; 0 if it does not fall apart."""
    some = _subsets(inside)[1:-1]
    some = some[(some & inside & -inside) != 0]  # the half that holds the first element
    if not len(some):
        return 0
    base = values[before]
    both = (values[some | before] - base) + (values[(inside & ~some) | before] - base)
    apart = some[both == values[inside | before] - base]
    return int(apart[0]) if len(apart) else 0


def _subsets(of: int) -> Ints:
    """Return all subsets of a bit set, the empty one first and itself last."""
    out = np.zeros(1, dtype=np.int64)
    for bit in (1 << i for i in range(of.bit_length()) if of >> i & 1):
        out = np.concatenate([out, out | bit])
    return out


@dataclass(frozen=True, eq=False)
class KindPatterns:
    """Sets of kinds that are open together in some areas, the most frequent first.

    Args:
        is_open: bool (n_patterns, n_kinds). count: areas of each. of_leaf: pattern of each leaf's area.
    """

    is_open: Bools
    count: Ints
    of_leaf: Ints

    @property
    def symbols(self) -> list[str]:
        """Name the sum of the exact totals of each pattern's areas; empty where nobody can be."""
        number = np.cumsum(self.is_open.any(axis=1))
        return [f"N{i}" if row.any() else "" for i, row in zip(number, self.is_open, strict=True)]

    def combinations(self, names: tuple[str, ...], *, symbols: bool) -> list[Combination]:
        """Describe the patterns in words."""
        return [
            Combination(
                symbol=symbol if symbols else "",
                kinds=[n for n, there in zip(names, row, strict=True) if there],
                n_areas=int(count),
            )
            for symbol, row, count in zip(self.symbols, self.is_open, self.count, strict=True)
        ]


def limit_lines(
    ground: VerdictInputs, names: tuple[str, ...], patterns: KindPatterns, depth: int, node: int
) -> list[str]:
    """Write the limits that follow from no others, small sets first.

    With exact totals they are those that follow from no others whenever every area has people to spare beyond its
    lower bounds; with upper bounds besides, the numbers depend on the totals and only the formula is written.

    Args:
        ground: rules and constraints from public facts. names: of the kinds.
        patterns: of the areas below with exact totals.
        depth, node: the area.
    """
    constraints = ground.constraints
    top = ground.constraints.form.root_table  # the root's own table does not enter the limits
    at = [d for d in range(depth, len(ground.level_names)) if ground.exact_tables(d)]
    exact_tables = bool(set(at) - ({0} if top else set()))
    if depth >= constraints.unit_depth and not exact_tables:  # the area's own total only adds one equation
        return _numeric(constraints.with_totals({}).limits(depth, np.array([node]))[0], names)
    if ground.rules.cap_cells or exact_tables or ground.rules.nested:
        area = ground.level_names[constraints.unit_depth]
        text = (
            f"x[A] <= the sum over every {area} of min(most people in A, its total - fewest people outside A), for "
            "every set A of kinds; the numbers depend on exact statistics"
        )
        return [text]
    return _symbolic(ground, names, patterns, depth, node)


def _numeric(table: Ints, names: tuple[str, ...]) -> list[str]:
    extra = 1 << len(names)  # the last element of the table is minus everybody
    found = facets(table)
    out = [(part, f"= {table[part]}") for part in found.parts if not part & extra]
    for inside in found.limits:
        part = next(part for part in found.parts if part & inside)
        others, least = part & ~inside, table[part] - table[inside]
        if not inside & extra:
            out.append((inside, f"<= {table[inside]}"))
        elif least or others.bit_count() > 1:  # else: a kind holds no less than nobody
            out.append((others, f">= {least}"))
    return _sorted_limits(names, out)


def _symbolic(
    ground: VerdictInputs, names: tuple[str, ...], patterns: KindPatterns, depth: int, node: int
) -> list[str]:
    constraints = ground.constraints
    spare = constraints.set_bounds[0].sum(axis=1) + constraints.numbers.open[-1].any(axis=1)
    spare = constraints.geography.upward(spare, len(constraints.geography.levels) - 1, constraints.unit_depth)
    table = constraints.with_totals({constraints.unit_depth: spare}).limits(depth, np.array([node]))[0]
    found = facets(table)
    low = constraints.set_bounds[0][constraints.leaf_range(depth, node)]
    is_open = constraints.numbers.open[-1][constraints.leaf_range(depth, node)][
        :, constraints.partition.class_of
    ]

    def most(inside: int) -> tuple[NDArray[np.bool_], int]:
        """Return the patterns whose people a set may hold, and how many of them lower bounds keep out of it."""
        chosen = np.array([bool(inside >> k & 1) for k in range(len(names))])
        meets = (patterns.is_open & chosen).any(axis=1)
        kept_out = 0
        for s, members in enumerate(constraints.partition.members):
            avoids = ~(is_open & members & chosen).any(axis=1)
            kept_out += int(low[meets[patterns.of_leaf] & avoids, s].sum())
        return meets, kept_out

    def total(marks: NDArray[np.bool_]) -> list[str]:
        return [symbol for symbol, there in zip(patterns.symbols, marks, strict=True) if there and symbol]

    out = [
        (part, f"= {' + '.join(total(most(part)[0])) or 0}")
        for part in found.parts
        if not table[part]
        or part != max(found.parts, key=int.bit_count)  # the largest follows from the total
    ]
    for inside in found.limits:
        part = next(part for part in found.parts if part & inside)
        meets, kept_out = most(inside)
        if inside.bit_count() <= (part & ~inside).bit_count():
            out.append((inside, f"<= {' + '.join(total(meets))}" + (f" - {kept_out}" if kept_out else "")))
            continue
        only, rest = most(part)[0] & ~meets, part & ~inside
        terms = [*total(only), *([str(kept_out)] if kept_out else [])]
        if terms:  # else: a kind holds no less than nobody
            out.append((rest, f">= {' + '.join(terms)}"))
    return _sorted_limits(names, out)


def _sorted_limits(names: tuple[str, ...], rows: list[tuple[int, str]]) -> list[str]:
    rows.sort(key=lambda row: (row[0].bit_count(), row[0], row[1]))
    return [f"x[{_limit_text(names, chosen)}] {rest}" for chosen, rest in rows]


def _limit_text(names: tuple[str, ...], chosen: int) -> str:
    return " + ".join(name for k, name in enumerate(names) if chosen >> k & 1)


def node_constraints(
    ground: VerdictInputs, columns: Mapping[str, Ints], depth: int, node: int, *, most_limits: int
) -> Area:
    """Add up what the leaves of a node ask of it.

    Args:
        ground: rules and constraints from public facts.
        columns: the public facts. depth, node: the area.
        most_limits: limits on sets of kinds to list.
    """
    constraints = ground.constraints
    names = kind_names(ground.schema, constraints.partition)
    inside = constraints.leaf_range(depth, node)
    is_open = constraints.numbers.open[-1][inside][:, constraints.partition.class_of]
    n_leaves = inside.stop - inside.start
    totals_below = depth < constraints.unit_depth
    units = constraints.geography.ancestors_of_leaves[max(constraints.unit_depth, depth)][inside]
    patterns = _kind_patterns(is_open, units)
    limits: list[str] = []
    if constraints.decided(depth) is LimitUse.KEPT:
        limits = limit_lines(ground, names, patterns, depth, node)
    sizes = zip(names, np.bincount(constraints.partition.of_cell + 1)[1:], is_open.sum(axis=0), strict=True)
    return Area(
        level=ground.level_names[depth],
        node=constraints.geography.levels[depth].codes[node],
        leaf_level=ground.level_names[-1],
        n_leaves=n_leaves,
        kinds=[CellKind(name=name, n_cells=int(n), n_leaves=int(there)) for name, n, there in sizes],
        lines=algebra_lines(_area_lines(ground, columns, depth, inside)),
        leaves=_kind_patterns(is_open, np.arange(n_leaves)).combinations(names, symbols=False),
        total_level=ground.level_names[constraints.unit_depth] if totals_below else "",
        totals=patterns.combinations(names, symbols=True) if totals_below else [],
        limits=limits[:most_limits],
        n_more=max(len(limits) - most_limits, 0),
    )


def _area_lines(ground: VerdictInputs, columns: Mapping[str, Ints], depth: int, inside: slice) -> list[Line]:
    """Write bounds, zeros and exact statistics with their numbers."""
    schema, invariants, levels = ground.schema, ground.invariants, ground.level_names
    out: list[Line] = []
    rows = leaf_rows(schema, invariants, columns, ground.constraints.geography)
    for row in sorted(rows, key=lambda row: not row.rule.closes):
        low, high, name = int(row.low[inside].sum()), row.high[inside], selection_text(schema, row.selection)
        if row.rule.closes:
            out += [(f"x[{name}] = 0", row.name)] * (not high.any())
            continue
        out += [(f"x[{name}] >= {low}", row.name)] * (low > 0)
        out += [(f"x[{name}] <= {int(high.sum())}", row.name)] * row.rule.is_upper
    for exact in invariants.exact:
        at = levels.index(exact.level)
        if at == depth:
            out.append((f"x[{exact.query}] = the {exact.level}'s {exact.query}", exact.name))
        elif at > depth:
            out.append((f"x[{exact.query}] = the sum of every {exact.level}'s {exact.query}", exact.name))
    return out + soft_lines(schema, invariants)


def _kind_patterns(is_open: Bools, areas: Ints) -> KindPatterns:
    _, area = np.unique(areas, return_inverse=True)
    area_open = np.zeros((int(area.max(initial=-1)) + 1, is_open.shape[1]), dtype=bool)
    np.logical_or.at(area_open, area, is_open)
    found, pattern, count = np.unique(area_open, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-count, kind="stable")
    return KindPatterns(found[order], count[order], np.argsort(order)[pattern.reshape(-1)][area])
