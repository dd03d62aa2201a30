"""A plan that solves what another one measured in another way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from msgspec import structs

from topdown.errors import ConfigError
from topdown.file_names import checked_name
from topdown.formats.common import Targets
from topdown.formats.release_documents import PlanMeasured
from topdown.formats.strict_toml import Chance, exact_text
from topdown.model import parse_query
from topdown.plan.plan_values import Estimates, Plan
from topdown.plan.planning import check_solvable, plan_estimates, plan_passes, plan_rounding
from topdown.plan.preparation import PublicContext
from topdown.plan.settings import EstimatesTable, Settings

_FIX = "choose settings that differ in passes, rounding chains and [estimates] only; nothing was written"


@dataclass(frozen=True)
class SolveChanges:
    """How a measurement is to be solved.

    Args:
        settings: passes, rounding chains and estimates; those of the plan if None.
        targets, coverage: of [estimates], in place of what settings or plan say; None leaves that.
        name: what follows the id of the release that was measured.
    """

    settings: Settings | None = None
    targets: Targets | None = None
    coverage: Fraction | None = None
    name: str = "resolved"


def make_resolved_plan(context: PublicContext, wish: SolveChanges) -> Plan:
    """Return the plan of a release that solves a measurement in another way.

    Args:
        context: of the release whose measurement it is; that may itself be such a release.
        wish: what is to be different.

    Raises:
        ConfigError: C251 the settings ask for another measurement, C252 nothing would be different, C253 the release
            extends another one; a pass, chain or coverage is wrong (C053 to C055, C135, C210); C130 the name.
    """
    first = context.plan
    if first.base is not None:
        raise ConfigError(
            "a release that extends another one cannot be solved in another way yet",
            code="C253",
            fix="solve the release that it extends in another way; its own counts stay as they are",
        )
    measured = first.measured or PlanMeasured(release=first.release.id, plan_hash=first.plan_hash)
    levels, estimates, settings = first.levels, first.estimates, first.settings
    if wish.settings is not None:
        for what, was, now in _measured_and_asked(first, wish.settings):
            if was != now:
                raise ConfigError(
                    f"the settings ask for another measurement: {what} is {_text(now)}, and {_text(was)} was measured",
                    code="C251",
                    fix=_FIX,
                )
        tables = {table.name: table for table in wish.settings.level}
        levels = tuple(
            replace(
                level,
                passes=plan_passes(tables[level.name], first.schema, is_root=depth == 0),
                rounding=plan_rounding(tables[level.name], first.schema),
            )
            for depth, level in enumerate(first.levels)
        )
        estimates, settings = plan_estimates(wish.settings.estimates), wish.settings.name
    there = estimates or Estimates()
    coverage = there.coverage if wish.coverage is None else wish.coverage
    wished = EstimatesTable(
        targets=wish.targets or there.targets, coverage=None if coverage is None else Chance(coverage)
    )
    name = checked_name(wish.name, "release")
    plan = replace(
        first,
        release=structs.replace(first.release, id=f"{measured.release}-{name}"),
        levels=levels,
        estimates=plan_estimates(wished),
        settings=settings,
        measured=measured,
    )
    if (plan.levels, plan.estimates) == (first.levels, first.estimates):
        raise ConfigError(
            f"this asks for nothing but what {first.release.id} is",
            code="C252",
            fix="give settings with other passes, rounding chains or estimates, or targets, or coverage",
        )
    check_solvable(plan, context.geography, is_extension=False)
    return plan


def _measured_and_asked(plan: Plan, settings: Settings) -> Iterator[tuple[str, object, object]]:
    """Yield what decides a measurement, as it is in the plan and in settings; None where there is none."""
    yield "schema", plan.schema.name, settings.schema
    yield "neighbours", plan.neighbours, settings.neighbours
    yield "mechanism", plan.mechanism, settings.mechanism
    budget = settings.budget
    yield "budget", plan.budget, budget.rho if plan.loss_name == "rho" else budget.epsilon
    yield "budget.delta", plan.delta, budget.delta or Fraction(0)
    shares = {level.name: level.share for level in plan.levels} | dict(plan.unspent)
    tables = {table.name: table for table in settings.level}
    for name in {**shares, **tables}:
        yield f"share of {name}", shares.get(name), tables[name].share if name in tables else None
    for level in plan.levels:
        was = {m.query: m.share for m in level.measurements}
        now = {parse_query(plan.schema, n).name: share for n, share in tables[level.name].queries.items()}
        for name in {**was, **now}:
            yield f"share of {name!r} at {level.name}", was.get(name), now.get(name)


def _text(value: object) -> str:
    return exact_text(value) if isinstance(value, Fraction) else "none" if value is None else str(value)
