"""Two plans side by side, and the page for the decision: error and risk over a grid of epsilon, before spending."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from topdown.app.calls import checked_language
from topdown.app.plan_summary import budget_grid, plan_summary
from topdown.errors import ConfigError
from topdown.formats.decision_pages import AREA_SIZES, decision_html
from topdown.formats.plan_documents import (
    ComparedPlan,
    DeviationBeside,
    ExpectedAccuracy,
    PlannedQuery,
    PlanSummary,
)
from topdown.notebook import card
from topdown.output_paths import refuse_existing, write_new
from topdown.plan import PreparedRun
from topdown.plan.plan_values import plan_file
from topdown.privacy.exact_values import significant
from topdown.progress import Report, silent
from topdown.publish import plan_figures, written
from topdown.publish.report_figures import TOTAL
from topdown.publish.table_intervals import is_exact

if TYPE_CHECKING:
    import pandas as pd

    from topdown.app.plan_summary import ExpectedError
    from topdown.plan import Plan


def frame_of(rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Return rows as a data frame with a column for each key."""
    return pa.Table.from_pylist(list(rows)).to_pandas()


@dataclass(frozen=True)
class PlansCompared:
    """A plan beside another of the same schema.

    Args:
        here, there: their summaries.
        noise: of each measured answer.
        estimates: mean over the areas of a level; empty unless both plans ask for estimates.
    """

    here: PlanSummary
    there: PlanSummary
    noise: tuple[DeviationBeside, ...]
    estimates: tuple[DeviationBeside, ...]

    def frame(self) -> pd.DataFrame:
        """Return both plans side by side: what (noise, estimate), level, query, here and there, in records."""
        parts = {"noise": self.noise, "estimate": self.estimates}
        return frame_of(
            {"what": what, "level": one.level, "query": one.query, "here": one.stddev, "there": one.other}
            for what, rows in parts.items()
            for one in rows
        )

    def __repr__(self) -> str:
        name, parts = self.here.privacy.loss_name, len(self.noise) + len(self.estimates)
        losses = [of.privacy.loss for of in (self.here, self.there)]
        return f"PlansCompared({name} {losses[0]} beside {losses[1]}, {parts} deviations in .frame())"

    def _repr_html_(self) -> str:
        rows = [
            (at.level, at.query, *("-" if x is None else f"{x:.1f}" for x in (at.stddev, at.other)))
            for at in (self.estimates or self.noise)
        ]
        head = ("level", "query", "here", "there")
        name, loss = self.here.privacy.loss_name, [of.privacy.loss for of in (self.here, self.there)]
        title = f"{name} {loss[0]} beside {name} {loss[1]}: standard deviations in records"
        return card(title, rows, head=head)

    def document(self) -> ComparedPlan:
        """Return the part `compared` of the plan's summary."""
        there = self.there
        return ComparedPlan(
            plan_hash=there.plan_hash,
            title=there.title,
            settings=there.settings,
            neighbours=there.neighbours,
            loss_name=there.privacy.loss_name,
            loss=there.privacy.loss,
            certified=there.privacy.certified,
            n_numbers=sum(level.n_numbers for level in there.levels),
            needs=there.needs,
            noise=list(self.noise),
            estimates=list(self.estimates),
        )


def compare_plans(here: PlanSummary, there: PlanSummary) -> PlansCompared:
    """Compare the summaries of two plans.

    Raises: ConfigError C005 for plans of two schemas or units, whose queries mean different things.
    """
    pairs = {"schema": (here.schema, there.schema), "unit": (here.privacy.unit, there.privacy.unit)}
    for what, (one, other) in pairs.items():
        if one != other:
            raise ConfigError(
                f"plans of two {what}s are not compared: {one} and {other}",
                code="C005",
                fix=f"compare plans of one {what}",
            )
    estimates = (_stddev_by_answer(here.accuracy or []), _stddev_by_answer(there.accuracy or []))
    return PlansCompared(
        here,
        there,
        _matched(_stddev_by_answer(here.queries), _stddev_by_answer(there.queries)),
        _matched(*estimates) if all(estimates) else (),
    )


Deviations = dict[tuple[str, str], float]  # by level and query


def _stddev_by_answer(rows: Sequence[PlannedQuery] | Sequence[ExpectedAccuracy]) -> Deviations:
    return {(row.level, row.query): row.stddev for row in rows}


def _matched(mine: Deviations, others: Deviations) -> tuple[DeviationBeside, ...]:
    """Return deviations in the order of the first plan, then what the other has besides."""
    return tuple(
        DeviationBeside(level=at[0], query=at[1], stddev=mine.get(at), other=others.get(at))
        for at in mine | others
    )


def write_decision(
    prepared: PreparedRun,
    out: Path,
    epsilons: Sequence[Fraction],
    delta: Fraction,
    *,
    other: PreparedRun | None = None,
    language: str = "en",
    report: Report = silent,
) -> None:
    """Write the report of a plan before anything is spent: error and risk over a grid of epsilon, as one HTML file.

    Args:
        other: a plan of the same schema, whose grid stands beside.

    Raises:
        ConfigError: C005 plans of two schemas, or no such language; C080 `out` exists; or as `Planned.budget_grid`.
    """
    checked_language(language)
    refuse_existing(out, force=False)
    if other is not None:
        compare_plans(plan_summary(prepared), plan_summary(other))
    documents = {
        "plan.json": json.loads(plan_file(prepared.plan)),
        "derived": plan_figures(prepared.plan),
        "sizes": list(AREA_SIZES),
        "decision": _grid_document(prepared, epsilons, delta, report),
        "other": None if other is None else _grid_document(other, epsilons, delta, report),
    }
    write_new(out, decision_html(documents, language, written).encode())


def _grid_document(
    prepared: PreparedRun, epsilons: Sequence[Fraction], delta: Fraction, report: Report
) -> dict[str, Any]:
    points = budget_grid(prepared.context, epsilons, delta, report)
    return {
        "title": prepared.plan.release.title,
        "plan": prepared.plan.plan_hash[:8],
        "delta": str(delta),
        "points": [
            {
                "loss_name": point.loss_name,
                "budget": str(point.budget),
                "epsilon": str(point.epsilon),
                "certified": significant(point.certified_epsilon, 9, up=True),
                "right_in_100": point.right_in_100,
                "sentence": point.sentence,
                "errors": [asdict(error) for error in point.errors],
                "totals": list(_totals_beside_sizes(prepared.plan, point.errors)),
            }
            for point in points
        ],
    }


def _totals_beside_sizes(plan: Plan, errors: Sequence[ExpectedError]) -> Iterator[dict[str, Any]]:
    """Yield the error of the totals of each level that has one, 0 where they are exact, as a share of every size."""
    expected = {error.level: error.expected for error in errors if error.query == TOTAL}
    for depth, level in enumerate(plan.levels):
        error = 0.0 if is_exact(plan, plan.query(TOTAL), depth) else expected.get(level.name)
        if error is not None:
            shares = [significant(Fraction(error) / size, 9, up=True) for size in AREA_SIZES]
            yield {"level": level.name, "shares": shares}
