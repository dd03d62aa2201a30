"""Which levels the tree estimate informs, and why not the others: from plan and public facts alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isqrt

import numpy as np

from topdown.arrays import Ints
from topdown.errors import ConfigError
from topdown.formats.common import EstimateOfLevel
from topdown.model import distinct_rows, parse_query, public_constraints
from topdown.plan import LevelPlan, Plan, PublicContext
from topdown.solve.lattice import Information, Lattice, information, make_lattice
from topdown.solve.least_squares import MOST_CROSSING
from topdown.solve.objectives import CROSSING, FEW_ROWS, WIDE_CELLS
from topdown.solve.tree.tree_estimate import open_values

MOST_WRITTEN_OUT = 2_000_000  # entries of matrices, one a child, above which the lattice step is taken
MOST_DENSE = 64  # combinations of dense values
MOST_AXES = 6  # product attributes, 64 components
MOST_STACKED = 20_000_000  # entries of matrices written out, one a child
TOLD_APART = 1e-9  # least curvature at a leaf, relative to the largest


@dataclass(frozen=True, eq=False)
class CoveredLevels:
    """What a plan's tree estimate covers.

    Args:
        levels: root first.
        lattice: in whose terms; None where no level is covered.
        own: information of each level; empty where no level is covered.
        in_lattice: whether the splits of every level may use the lattice step.
    """

    levels: tuple[EstimateOfLevel, ...]
    lattice: Lattice | None = None
    own: tuple[Information, ...] = field(default=())
    in_lattice: tuple[bool, ...] = field(default=())


@dataclass(frozen=True, eq=False)
class LatticeForm:
    """A plan's cells and measurements as the estimate sorts them.

    Args:
        lattice: dense values and product cells. own: information of each level, root first.
    """

    lattice: Lattice
    own: tuple[Information, ...]


def choose_levels(context: PublicContext) -> CoveredLevels:
    """Decide for every level of a plan that asks for the tree estimate.

    Args:
        context: plan and public facts.
    """
    plan = context.plan
    form = lattice_form(context)
    if isinstance(form, str):
        return _all_own(plan, form)
    if soft := plan.invariants.soft_rules:
        return _all_own(plan, f"there are rules of the kind {soft[0].kind}")
    levels, in_lattice = [], []
    for depth, level in enumerate(plan.levels):
        why, fits = _level_form(context, form.lattice, depth)
        levels.append(EstimateOfLevel(level=level.name, targets="own" if why else "tree", why=why))
        in_lattice.append(fits)
    return CoveredLevels(tuple(levels), form.lattice, form.own, tuple(in_lattice))


def lattice_form(context: PublicContext) -> LatticeForm | str:
    """Return the lattice form of a plan, or why it has none.

    Args:
        context: plan and public facts.
    """
    plan, lattice = context.plan, _plan_lattice(context.plan)
    if isinstance(lattice, str):
        return lattice
    own = tuple(
        information(
            lattice,
            [parse_query(plan.schema, m.query) for m in level.measurements],
            [float(1 / m.variance) for m in level.measurements],
        )
        for level in plan.levels
    )
    if not _information_is_invertible(context, lattice, own[-1]):
        return f"the queries of level {plan.levels[-1].name} do not tell every cell apart"
    return LatticeForm(lattice, own)


def check_intervals(context: PublicContext, *, asked: bool = False) -> None:
    """Refuse a plan that asks for intervals where there is no whole-tree estimate to make them from.

    Args:
        context: plan and public facts.
        asked: whether somebody asks for intervals, whatever the plan says.

    Raises:
        ConfigError: C211 the plan has no lattice form; the reason is named.
    """
    form = lattice_form(context) if asked or context.plan.coverage is not None else ""
    if isinstance(form, str) and form:
        raise ConfigError(
            f"there are no intervals for this plan: {form}",
            code="C211",
            fix=_reason_not_covered(context.plan, asked),
            key=() if asked else ("estimates", "coverage"),
        )


def _reason_not_covered(plan: Plan, asked: bool) -> str:
    if plan.base is not None:
        return f"for the attributes of {plan.base.release} use that release: its counts are the same"
    return (
        "use the counts alone" if asked else "remove estimates.coverage from the run file; nothing was spent"
    )


def _plan_lattice(plan: Plan) -> Lattice | str:
    """Return a plan's cells as the estimate sorts them, or why it cannot."""
    if why := _no_form(plan):
        return why
    lattice = _schema_lattice(plan)
    if lattice.n_dense > MOST_DENSE:
        names = ", ".join(lattice.dense)
        return f"{names} have {lattice.n_dense:,} values together, more than {MOST_DENSE}"
    if len(lattice.sizes) > MOST_AXES:
        return f"more than {MOST_AXES} attributes are neither recoded nor closed by a rule"
    return lattice


def _no_form(plan: Plan) -> str:
    """Return why a plan has no lattice form, whatever the schema; empty if it may have."""
    if plan.base is not None:
        return "an extension keeps its base release's table"
    if len(plan.levels) < 2:
        return "there is one level only"
    if plan.loss_name != "rho":
        return "the noise is not discrete Gaussian"
    return ""


def _all_own(plan: Plan, why: str) -> CoveredLevels:
    return CoveredLevels(
        tuple(EstimateOfLevel(level=level.name, targets="own", why=why) for level in plan.levels)
    )


def _schema_lattice(plan: Plan) -> Lattice:
    names = [m.query for level in plan.levels for m in level.measurements]
    names += [step.table for level in plan.levels for step in level.passes]
    names += [exact.query for exact in plan.invariants.exact]
    return make_lattice(
        plan.schema, plan.invariants, [parse_query(plan.schema, name) for name in dict.fromkeys(names)]
    )


def _information_is_invertible(context: PublicContext, lattice: Lattice, own: Information) -> bool:
    """Tell whether the leaves' own information is invertible for every pattern of open values."""
    is_open = open_values(lattice, context.rules.class_of_cell, context.rules.open[-1])
    for row in distinct_rows(is_open)[0]:
        values = np.flatnonzero(row)
        found = np.linalg.eigvalsh(own.on(values)) if len(values) else np.ones((1, 1))
        if found.min() <= TOLD_APART * found.max():
            return False
    return True


def _level_form(context: PublicContext, lattice: Lattice, depth: int) -> tuple[str, bool]:
    """Return why a level is left to its own measurements ("" if it is not), and whether the lattice step may serve."""
    plan = context.plan
    if depth == len(plan.levels) - 1:
        return "nothing is below the areas of this level", False
    cutting = [name for name, labels in _groups(context, depth) if _cuts(lattice, labels)]
    if depth == 0 or not cutting:
        return "", not cutting
    is_open = open_values(lattice, context.rules.class_of_cell, context.rules.open[depth - 1])
    most_cells = int(is_open.sum(axis=1).max()) * lattice.n_product
    most_children = int(np.diff(context.geography.child_pointers[depth - 1]).max())
    if most_cells**2 * most_children > MOST_STACKED:
        return f"{cutting[0]} cuts across attributes that the estimate keeps apart", False
    return "", False


def _groups(context: PublicContext, depth: int) -> Iterator[tuple[str, Ints]]:
    """Yield what fixes or bounds groups of cells in the splits into a level, with the group of each cell.

    Tables that passes of the root fix are sums of its entries, as those of rows are in a split.
    """
    plan, rules = context.plan, context.rules
    level: LevelPlan = plan.levels[depth]
    for step in level.passes[:-1] if depth else ():
        yield (
            f"the table {step.table!r} of a pass",
            parse_query(plan.schema, step.table).labels.astype(np.int64),
        )
    for name, cells in rules.bounded:
        yield f"the rule {name!r}", cells.astype(np.int64)
    order = [at.name for at in plan.levels]
    for exact in plan.invariants.exact:
        if order.index(exact.level) >= depth:
            yield (
                f"the exact table {exact.name!r}",
                parse_query(plan.schema, exact.query).labels.astype(np.int64),
            )


def _cuts(lattice: Lattice, labels: Ints) -> bool:
    here = labels[lattice.cell]
    return bool((here != here[:, :1]).any())


MOST_PIECES = 2**20  # that the limits of one area are added up from, and its flow network is made of


def check_solve(context: PublicContext) -> None:
    """Refuse a plan that asks for what its solve cannot do.

    Args:
        context: plan and public facts.

    Raises:
        ConfigError: C211 no intervals, see `check_intervals`; C235 the limits of the root have too many pieces.
    """
    check_intervals(context)
    check_pieces(context)


def check_pieces(context: PublicContext) -> None:
    """Refuse a plan whose root has limits of more than `MOST_PIECES` pieces; no other area has more (ConfigError C235).

    Extensions keep no limits: their base tables say what each area holds.

    Cost: nothing for trees of fewer leaves; a piece is one leaf, or several.
    """
    plan, geography = context.plan, context.geography
    if plan.base is not None or len(geography.leaves) <= MOST_PIECES:
        return
    constraints = public_constraints(plan.schema, plan.invariants, geography, context.rules)
    reasons = constraints.form.needed[0]
    if reasons and (n_pieces := constraints.n_pieces(0, 0)) > MOST_PIECES:
        raise ConfigError(
            f"what {geography.root.codes[0]} can hold is a sum of {n_pieces:,} pieces; {MOST_PIECES:,} are the most",
            code="C235",
            fix="leave out upper bounds and nested bounds, keep totals exact further up, or make a release for each "
            "part of the country; nothing was spent",
        )


def most_dense_rows(plan: Plan) -> int:
    """Return how many rows the largest dense matrix of a split may have: all cells, where it depends on the tables."""
    rules, n = plan.invariants, plan.schema.n_cells
    bounded = rules.bounds or rules.soft_rules or rules.exact
    plain = n > WIDE_CELLS and not bounded and all(_is_plain_level(level) for level in plan.levels)
    if not plain:
        return n
    in_lattice = plan.fits_tree and not isinstance(_plan_lattice(plan), str)
    own = plan.levels[-1:] if in_lattice else plan.levels
    crossing = max(_crossing_answers(plan, level) for level in own)
    rows = n if crossing > MOST_CROSSING else max(FEW_ROWS, CROSSING * (crossing + 1))
    return min(n, max(rows, isqrt(MOST_WRITTEN_OUT)) if in_lattice else rows)


def _crossing_answers(plan: Plan, level: LevelPlan) -> int:
    """Return the answers of the last pass that may be of more than one cell."""
    return sum(plan.query(name).n_answers for name in level.passes[-1].queries if name != "detailed")


def _is_plain_level(level: LevelPlan) -> bool:
    """Tell whether the passes of a level are total, from its own answers, and cells, from theirs among others."""
    *before, last = level.passes
    totals = all(step.table == "total" and set(step.queries) == {"total"} for step in before)
    return totals and len(before) < 2 and "detailed" in last.queries
