"""A plan that solves what another one measured in another way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from topdown.errors import ConfigError
from topdown.formats.strict_toml import exact_text
from topdown.model import parse_query
from topdown.output_paths import checked_name
from topdown.plan.plan_values import Estimates, LevelPlan, MeasuredRelease, Plan
from topdown.plan.planning import check_solvable, plan_estimates, plan_passes, plan_rounding
from topdown.plan.preparation import PublicContext
from topdown.plan.run_file import EstimatesTable, LevelTable, SettingsFile

_FIX = "choose settings that differ in passes, rounding chains and [estimates] only; nothing was written"


@dataclass(frozen=True)
class SolveChanges:
    """How a measurement is to be solved.

    Args:
        settings: passes, rounding chains and estimates; those of the plan if None.
        targets, coverage: of [estimates], in place of what settings or plan say; None leaves that.
        name: what follows the id of the release that was measured.
    """

    settings: SettingsFile | None = None
    targets: Literal["own", "tree"] | None = None
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
            fix="solve its base in another way, and extend that by a measurement of its own",
        )
    measured = first.measured or MeasuredRelease(first.release.id, first.plan_hash)
    levels, estimates, settings = first.levels, first.estimates, first.settings
    if wish.settings is not None:
        check_same_measurement(first, wish.settings)
        tables = {table.name: table for table in wish.settings.level}
        levels = tuple(
            _resolved_level(first, depth, tables[at.name]) for depth, at in enumerate(first.levels)
        )
        estimates, settings = plan_estimates(wish.settings.estimates), wish.settings.name
    name = checked_name(wish.name, "release")
    plan = replace(
        first,
        release=replace(first.release, id=f"{measured.release}-{name}"),
        levels=levels,
        estimates=_resolved_estimates(estimates, wish),
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


def _resolved_estimates(given: Estimates | None, wish: SolveChanges) -> Estimates | None:
    there = given or Estimates()
    coverage = there.coverage if wish.coverage is None else wish.coverage
    return plan_estimates(EstimatesTable(targets=wish.targets or there.targets, coverage=coverage))


def _resolved_level(plan: Plan, depth: int, table: LevelTable) -> LevelPlan:
    passes = plan_passes(table, plan.schema, is_root=depth == 0)
    return replace(plan.levels[depth], passes=passes, rounding=plan_rounding(table, plan.schema))


def check_same_measurement(plan: Plan, settings: SettingsFile) -> None:
    """Refuse settings under which something else would have been measured (ConfigError C251)."""
    budget = settings.budget.rho if plan.loss_name == "rho" else settings.budget.epsilon
    given = [
        ("schema", plan.schema.name, settings.schema),
        ("neighbours", plan.neighbours, settings.neighbours),
        ("mechanism", plan.mechanism, settings.mechanism),
        ("budget", exact_text(plan.budget), "none" if budget is None else exact_text(budget)),
        ("budget.delta", exact_text(plan.delta), exact_text(settings.budget.delta or Fraction(0))),
    ]
    _require_equal(given)
    shares = {level.name: level.share for level in plan.levels} | dict(plan.unspent)
    asked = {table.name: table.share for table in settings.level}
    _require_equal(
        [
            (f"share of {name}", _share_text(shares.get(name)), _share_text(asked.get(name)))
            for name in {**shares, **asked}
        ]
    )
    tables = {table.name: table for table in settings.level}
    for level in plan.levels:
        was = {m.query: m.share for m in level.measurements}
        now = {parse_query(plan.schema, n).name: share for n, share in tables[level.name].queries.items()}
        _require_equal(
            [
                (f"share of {n!r} at {level.name}", _share_text(was.get(n)), _share_text(now.get(n)))
                for n in {**was, **now}
            ]
        )


def _share_text(share: Fraction | None) -> str:
    return "none" if share is None else exact_text(share)


def _require_equal(values: list[tuple[str, str, str]]) -> None:
    for what, was, now in values:
        if was != now:
            raise ConfigError(
                f"the settings ask for another measurement: {what} is {now}, and {was} was measured",
                code="C251",
                fix=_FIX,
            )
