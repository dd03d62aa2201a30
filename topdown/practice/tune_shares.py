"""Shares of a plan's budget, exact, that suit the whole-tree estimate and some goals, from public facts alone.

The search makes the worst of all deviations, each relative to what is wished, as small as it can be. A goals file says
which tables matter more than others. The tuned run file drops queries that get nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from scipy.optimize import minimize

from topdown.arrays import Floats
from topdown.errors import ConfigError, TopdownError
from topdown.formats.common import Targets
from topdown.formats.strict_toml import add_location, locating_errors, read_toml
from topdown.plan import Plan, PublicContext, RunFile
from topdown.plan.settings import EstimatesTable, LevelTable, Pass
from topdown.practice.uniform_deviations import UniformDeviations, uniform_deviations
from topdown.solve.tree import LatticeForm

USUAL_LEAST = Fraction(1, 50)  # below it, splits of wide levels take long to solve


LEAST_LEAST, MOST_LEAST = Fraction(1, 1000), Fraction(1, 2)


LEAST_GOAL, MOST_GOAL = Fraction(1, 1000), Fraction(1000)


class GoalTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[goal]]`: below 1, deviations of this table matter more; above 1, less."""

    level: str
    query: str
    goal: Fraction


class GoalsFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A goals file. `least_detailed` is the part of every level that `detailed` keeps where it is measured."""

    type: str
    version: int
    goal: tuple[GoalTable, ...] = ()
    least_detailed: Fraction = USUAL_LEAST


@dataclass(frozen=True)
class Goals:
    """What matters more.

    Args:
        of: goal of a level's name and a query's; 1 where there is none.
        least_detailed: part of every level that `detailed` keeps where it is measured.
    """

    of: Mapping[tuple[str, str], Fraction] = field(default_factory=dict)
    least_detailed: Fraction = USUAL_LEAST


def load_goals(path: Path, plan: Plan) -> Goals:
    """Read a goals file.

    Args:
        path: the file. plan: whose levels and tables it names.

    Raises:
        ConfigError: see `read_toml`; C214 an unknown level or table, one named twice, or a number outside its range.
    """
    file = read_toml(path, GoalsFile, "topdown.goals")
    try:
        return _goals_by_query(file, plan)
    except TopdownError as error:
        add_location(error, path)
        raise


def _goals_by_query(file: GoalsFile, plan: Plan) -> Goals:
    levels = [level.name for level in plan.levels]
    measured = {"total", *(m.query for level in plan.levels for m in level.measurements)}
    found: dict[tuple[str, str], Fraction] = {}
    for i, table in enumerate(file.goal):
        with locating_errors("goal", str(i)):
            if table.level not in levels:
                raise _wrong_goal(
                    f"level {table.level!r} is none of the plan's", f"use one of: {', '.join(levels)}"
                )
            name = plan.query(table.query).name
            if name not in measured:
                raise _wrong_goal(
                    f"the plan measures no table {name!r}", f"use one of: {', '.join(sorted(measured))}"
                )
            if (table.level, name) in found:
                raise _wrong_goal(f"{name!r} of level {table.level!r} has two goals", "keep one of them")
            if not LEAST_GOAL <= table.goal <= MOST_GOAL:
                raise _wrong_goal(
                    f"the goal {table.goal} is not from {LEAST_GOAL} to {MOST_GOAL}",
                    "write a number below 1 for what matters more",
                )
            found[table.level, name] = table.goal
    with locating_errors("least_detailed"):
        if file.least_detailed > MOST_LEAST:
            raise _wrong_goal(
                f"least_detailed is {file.least_detailed}, more than {MOST_LEAST}", 'write "1/50"'
            )
    return Goals(found, file.least_detailed)


def _wrong_goal(text: str, fix: str) -> ConfigError:
    return ConfigError(text, code="C214", fix=fix + "; nothing was written")


EXPONENTS = (20, 100)  # of smooth stand-ins for the largest ratio, one search after the other


LEAST = -20.0  # logarithm of a share


STEPS = 600


ENOUGH = 1e-6  # relative change of the objective at which the search ends


@dataclass(frozen=True, eq=False)
class WantedDeviations:
    """What shares are to serve.

    Args:
        deviations: (n_levels, n_tables), that a ratio is taken to; 0 where a table does not count.
        worthless: per level, bool (n_queries,), queries that get nothing, because their answers are exact.
        least: per level, (n_queries,), parts of the level's share that queries get in any case.
    """

    deviations: Floats
    worthless: tuple[NDArray[np.bool_], ...]
    least: tuple[Floats, ...]


def best_shares(model: UniformDeviations, start: Sequence[Floats], wishes: WantedDeviations) -> list[Floats]:
    """Return shares of the whole budget, per level one a query, that minimise the largest ratio.

    Powers in place of the largest, L-BFGS on logarithms of shares; the same on every run.

    Args:
        model: deviations by shares.
        start: shares to begin with, positive but where worthless.
        wishes: what is wished.

    Cost: about 300 sweeps; ten seconds for Rhode Island.
    """
    cuts = np.cumsum([len(part) for part in start])[:-1]
    live = wishes.deviations > 0
    if not live.any():
        return list(start)
    worthless = np.concatenate(wishes.worthless)
    begin = np.clip(np.log(np.where(worthless, 1.0, np.concatenate(start))), LEAST, 0.0)

    def free(logs: Floats) -> Floats:
        found = np.where(worthless, 0.0, np.exp(logs))
        return np.asarray(found / found.sum())

    def objective(logs: Floats, exponent: int) -> tuple[float, Floats]:
        ratios = np.zeros_like(wishes.deviations)

        def weigh(deviations: Floats) -> Floats:
            ratios[live] = deviations[live] / wishes.deviations[live]
            powers = (ratios / ratios.max()) ** exponent
            return np.asarray(np.where(live, powers / powers.sum() / np.where(live, deviations, 1.0), 0.0))

        parts = free(logs)
        _, slopes = model.with_gradient(_with_least(parts, cuts, wishes), weigh)
        smooth = np.log(ratios.max()) + np.log(((ratios / ratios.max()) ** exponent).sum()) / exponent
        by_part = np.concatenate(
            [
                (1 - least.sum()) * slope + least @ slope
                for slope, least in zip(slopes, wishes.least, strict=True)
            ]
        )
        return float(smooth), parts * (by_part - parts @ by_part)

    logs = begin
    for exponent in EXPONENTS:
        logs = minimize(
            objective,
            logs,
            args=(exponent,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(LEAST, 0.0)] * len(begin),
            options={"maxiter": STEPS, "maxfun": STEPS, "ftol": ENOUGH, "maxcor": 20},
        ).x
    return _with_least(free(logs), cuts, wishes)


def _with_least(parts: Floats, cuts: NDArray[np.int64], wishes: WantedDeviations) -> list[Floats]:
    """Return shares per level in which some queries have their least part of the level's."""
    return [
        (1 - least.sum()) * part + least * part.sum()
        for part, least in zip(np.split(parts, cuts), wishes.least, strict=True)
    ]


PARTS = 4096  # least denominator of shares


NEGLIGIBLE = 1e-6  # deviation, relative to the largest, that is no goal


@dataclass(frozen=True, eq=False)
class LevelShares:
    """Shares of one level: of the budget, and of the level by the number of each query; 0 where it is dropped."""

    share: Fraction
    queries: tuple[Fraction, ...]


@dataclass(frozen=True, eq=False)
class Tuned:
    """New shares.

    Args:
        levels: root first.
        compared: what deviations were compared with: those of levels fitted to their own measurements only, or,
            where these do not tell every cell apart, those of the tree under the old shares.
    """

    levels: tuple[LevelShares, ...]
    compared: Targets


def best_exact_shares(
    context: PublicContext,
    form: LatticeForm,
    goals: Goals,
    exact: Mapping[tuple[int, int], bool],
    names: Sequence[str],
) -> Tuned:
    """Return shares that make the largest of all deviations, relative to goals, as small as they can be.

    Args:
        context: plan and public facts. form: its lattice form.
        goals: what matters more.
        exact: per index of a level and of a name, whether all its answers are exact by policy.
        names: tables that count.

    Cost: about 300 sweeps of the tree; ten seconds for Rhode Island.
    """
    plan = context.plan
    model = uniform_deviations(context, form, names)
    start = [np.array([float(m.loss / plan.loss) for m in level.measurements]) for level in plan.levels]
    linear = model.linear(start)
    wished = model.deviations(start) if linear is None else linear
    wished = np.where(wished > NEGLIGIBLE * wished.max(), wished, 0.0)
    worthless, least = [], []
    for depth, level in enumerate(plan.levels):
        for i, name in enumerate(names):
            told = exact[depth, i]
            wished[depth, i] *= 0.0 if told else float(goals.of.get((level.name, name), Fraction(1)))
        known = np.array([exact[depth, names.index(m.query)] for m in level.measurements])
        worthless.append(known & (not known.all()))
        finest = np.array([m.query == "detailed" for m in level.measurements])
        least.append(np.where(finest, float(goals.least_detailed), 0.0))
    found = best_shares(model, start, WantedDeviations(wished, tuple(worthless), tuple(least)))
    return Tuned(_exact_shares(context, found), "tree" if linear is None else "own")


def _exact_shares(context: PublicContext, found: Sequence[Floats]) -> tuple[LevelShares, ...]:
    """Return shares as fractions: those of levels add up to what they did, those of queries to 1."""
    plan = context.plan
    whole = sum((level.share for level in plan.levels), Fraction(0))
    times = -(-PARTS // whole.numerator)
    levels = _share_parts([float(level_shares.sum()) for level_shares in found], whole.numerator * times)
    kept = _kept_queries(context, found)
    out = []
    for n, level_shares, keeps in zip(levels, found, kept, strict=True):
        counts = iter(
            _share_parts([float(x) for x, keep in zip(level_shares, keeps, strict=True) if keep], PARTS)
        )
        queries = tuple(Fraction(next(counts), PARTS) if keep else Fraction(0) for keep in keeps)
        out.append(LevelShares(Fraction(n, whole.denominator * times), queries))
    return tuple(out)


def _kept_queries(context: PublicContext, found: Sequence[Floats]) -> list[list[bool]]:
    """Tell which queries are kept: those of a share worth writing, and each where it is largest, for its table.

    A level without `detailed` keeps all: fewer might not tell its cells apart.
    """
    levels = context.plan.levels
    parts = [level_shares / level_shares.sum() for level_shares in found]
    most: dict[str, float] = {}
    for level, level_shares in zip(levels, parts, strict=True):
        for m, part in zip(level.measurements, level_shares, strict=True):
            most[m.query] = max(most.get(m.query, 0.0), float(part))
    kept = []
    for level, level_shares in zip(levels, parts, strict=True):
        names = [m.query for m in level.measurements]
        last = [
            part == most[name] and name != "total" for name, part in zip(names, level_shares, strict=True)
        ]
        kept.append(
            [
                "detailed" not in names or only or float(part) * PARTS >= 1
                for only, part in zip(last, level_shares, strict=True)
            ]
        )
    return kept


def _share_parts(weights: Sequence[float], total: int) -> list[int]:
    """Return whole numbers, at least 1 each, that add up to a total and are nearest to proportional."""
    spare = total - len(weights)
    exact = [Fraction(w) / sum(map(Fraction, weights)) * total for w in weights]
    above = [max(x - 1, Fraction(0)) for x in exact]
    scaled = [x * spare / sum(above) if sum(above) else Fraction(spare, len(weights)) for x in above]
    out = [int(x) for x in scaled]
    order = sorted(range(len(out)), key=lambda i: (out[i] - scaled[i], i))
    for i in order[: spare - sum(out)]:
        out[i] += 1
    return [1 + n for n in out]


TUNED = ", tuned"


def tuned_run(run: RunFile, plan: Plan, shares: Sequence[LevelShares]) -> RunFile:
    """Return a run file with other shares; levels that the geography lacks keep theirs.

    Args:
        run: as it was. plan: made from it.
        shares: one a level of the plan, queries in the order of the run file.
    """
    of = {level.name: found for level, found in zip(plan.levels, shares, strict=True)}
    tables = tuple(
        _tuned_level(plan, table, of[table.name]) if table.name in of else table for table in run.level
    )
    given = run.estimates or EstimatesTable()
    name = run.settings if run.settings.endswith(TUNED) else run.settings + TUNED
    estimates = msgspec.structs.replace(given, tuned_for=given.targets)
    return msgspec.structs.replace(run, level=tables, estimates=estimates, settings=name)


def _tuned_level(plan: Plan, table: LevelTable, shares: LevelShares) -> LevelTable:
    queries = {name: share for name, share in zip(table.queries, shares.queries, strict=True) if share}
    dropped = {plan.query(name).name for name in set(table.queries) - set(queries)}
    return msgspec.structs.replace(
        table,
        share=shares.share,
        queries=queries,
        passes=_tuned_passes(plan, table.passes, dropped),
        root_passes=_tuned_passes(plan, table.root_passes, dropped),
    )


def _tuned_passes(plan: Plan, passes: tuple[Pass, ...], dropped: set[str]) -> tuple[Pass, ...]:
    """Return passes without some queries; one that is left with none uses all that are measured."""
    return tuple(
        msgspec.structs.replace(
            step, queries=tuple(name for name in step.queries if plan.query(name).name not in dropped)
        )
        for step in passes
    )
