"""The document of `topdown evaluate`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from topdown.documents.shared import Count, Part, Sha256


class Statistics(Part, frozen=True, kw_only=True):
    """Errors of values, in records: released minus true."""

    n_values: Count
    mae: float
    rmse: float
    bias: float
    l1: Count
    quantiles: Annotated[dict[str, Count], Meta(description="Of the absolute error, by percent, and max")]


class AnswerError(Statistics, frozen=True, kw_only=True):
    """Error of one answer of a table."""

    label: str


class IntervalsHeld(Part, frozen=True, kw_only=True):
    """How many numbers of a table are not exact and have an interval, and how many intervals hold the true count."""

    n_intervals: Count
    n_held: Count


class TableError(Statistics, frozen=True, kw_only=True):
    """Error of one query at all areas of a level."""

    query: str
    measured: bool
    n_answers: Count
    mean_total_variation: float | None
    answers: list[AnswerError] | UnsetType = UNSET
    intervals: IntervalsHeld | UnsetType = UNSET


class PopulationError(Statistics, frozen=True, kw_only=True):
    """Error of the total in areas of some size."""

    from_: Count = msgspec.field(name="from")
    to: Count | None
    n_nodes: Count


class LevelErrors(Part, frozen=True, kw_only=True):
    """Errors at one level."""

    level: str
    n_nodes: Count
    tables: list[TableError]
    total_by_population: list[PopulationError]


class Kept(Part, frozen=True, kw_only=True):
    """In how many places one invariant holds."""

    name: str
    kind: Literal["exact", "at_least", "at_most", "none_where_zero", "never", "no_more_than"]
    level: str
    n_checked: Count
    n_met: Count
    percent: float


class AllKept(Part, frozen=True, kw_only=True):
    """In how many places invariants hold; soft rules are listed and not counted in the percentage."""

    percent: float
    checks: list[Kept]


class RecordCounts(Part, frozen=True, kw_only=True):
    """Records of both tables."""

    released: Count
    true: Count


class Evaluation(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.evaluation"):
    """The result of topdown evaluate --json. CONFIDENTIAL."""

    version: Literal[1] = 1
    confidential: Annotated[bool, Meta(extra_json_schema={"const": True})] = True
    heading: str
    engine: str
    release_id: str
    plan_hash: Sha256
    unit: str
    n_records: RecordCounts
    levels: list[LevelErrors]
    invariants: AllKept

    def __repr__(self) -> str:
        return f"Evaluation({self.release_id!r}): {self.heading}; its errors are in .levels"

    def _repr_html_(self) -> str:
        from topdown.shown import card

        rows = [("release", self.release_id), ("levels", ", ".join(level.level for level in self.levels))]
        return card(
            self.heading, rows, note="Errors are not shown: a notebook keeps what it shows. See .levels"
        )
