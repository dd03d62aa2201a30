"""What `topdown evaluate`, `simulate`, `tune`, `interval` and `tables` print: errors, deviations, intervals, files."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from topdown.formats.common import Count, Part, Positive, Rational, Sha256, Targets, TruthKind
from topdown.formats.release_documents import InvariantKindName
from topdown.notebook import card


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
    kind: InvariantKindName
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


class Convergence(Part, frozen=True, kw_only=True):
    """Splits whose estimate is further than the target from the optimum, and the furthest of all."""

    n_splits: Count
    n_unconverged: Count
    worst_persons: float
    target_persons: float


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
    solver: Convergence

    def __repr__(self) -> str:
        """Return a line without an error of the release.

        >>> import topdown
        >>> topdown.evaluate("release", "town/persons.csv.gz").release_id
        'made-up'
        """
        return f"Evaluation({self.release_id!r}): {self.heading}; its errors are in .levels"

    def _repr_html_(self) -> str:
        rows = [("release", self.release_id), ("levels", ", ".join(level.level for level in self.levels))]
        return card(
            self.heading, rows, note="Errors are not shown: a notebook keeps what it shows. See .levels"
        )


class Truth(Part, frozen=True, kw_only=True):
    """What was simulated on, and why that is nobody's secret."""

    kind: TruthKind
    name: str
    sha256: Sha256
    reason: str
    generator: str
    seed: int | None
    n_records: Count


class QueryError(Part, frozen=True, kw_only=True):
    """Error of one query, in records; its standard error comes from the replicates and needs two."""

    query: str
    n_answers: Positive
    mae: float
    mae_standard_error: float | None
    bias: float


class SizeError(Part, frozen=True, kw_only=True):
    """Error of the total, in records, in areas whose true total is of some size."""

    least: Count
    most: Count
    n_areas: Positive
    mean_records: float
    mae: float
    mae_of_mean: Annotated[
        float | None, Meta(description="mae as a share of mean_records; null if that is 0")
    ]
    bias: float


class LevelError(Part, frozen=True, kw_only=True):
    """Errors at one level."""

    level: str
    n_nodes: Positive
    queries: list[QueryError]
    totals_by_size: list[SizeError]


class SimulationErrors(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.simulation"):
    """simulation.json, and the result of topdown simulate --json."""

    version: Literal[1] = 1
    stamp: Literal["NOT-A-RELEASE"] = "NOT-A-RELEASE"
    engine: str
    plan_hash: Sha256
    unit: str
    truth: Truth
    seed: int
    seed_is_default: bool
    replicates: Positive
    n_failsafe: Count
    solver: Convergence
    levels: list[LevelError]

    def __repr__(self) -> str:
        """Return a line that says what was simulated.

        >>> import topdown
        >>> topdown.simulate("town/run.toml", "town/persons.csv.gz", replicates=2).stamp
        'NOT-A-RELEASE'
        """
        made = f"plan {self.plan_hash[:8]}, seed {self.seed}, {self.replicates} replicates"
        return f"SimulationErrors({self.stamp}, {made})"

    def _repr_html_(self) -> str:
        rows = [
            (level.level, query.query, f"{query.mae:.3g}", f"{query.bias:+.3g}")
            for level in self.levels
            for query in level.queries
        ]
        return card(
            f"Errors of {self.replicates} simulated releases, seed {self.seed}",
            rows,
            head=("level", "query", "mean absolute error", "bias"),
            note=f"{self.stamp}. Errors are in {self.unit} records, of one answer.",
        )


class TunedQuery(Part, frozen=True, kw_only=True):
    """A query's part of its level's share before and after; 0 where it is dropped."""

    query: str
    before: Rational
    after: Rational


class TunedLevel(Part, frozen=True, kw_only=True):
    """A level's share of the budget before and after."""

    level: str
    before: Rational
    after: Rational
    queries: list[TunedQuery]


class TunedDeviation(Part, frozen=True, kw_only=True):
    """Mean standard deviation of a table's estimates, records, before and after; `goal` is what it was weighed by."""

    level: str
    query: str
    goal: Rational
    before: float
    after: float


class Tune(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.tune"):
    """A run file with tuned shares.

    `compared` says what deviations were compared with in the search: those of levels fitted to their own measurements
    only (own), or the tree's under the old shares where these do not tell every cell apart (tree).
    """

    version: Literal[1] = 1
    run_file: str
    out: str
    plan_hash: Sha256
    budget: Rational
    loss: Rational
    compared: Targets
    levels: list[TunedLevel]
    deviations: list[TunedDeviation]


class IntervalOfAnswer(Part, frozen=True, kw_only=True):
    """One count of a union: released, estimated, and its interval."""

    labels: dict[str, str]
    count: Count
    estimate: float
    stddev: float
    low: Count
    high: Count
    basis: Literal["tree", "exact"]
    expected_error: Annotated[
        float | None, Meta(description="Root mean square error of the released count, from simulation")
    ]


class CutAreas(Part, frozen=True, kw_only=True):
    """What a union would gain from borders along whole areas of the level above the leaves."""

    level: Annotated[str, Meta(description="Level above the leaves")]
    n_cut: Annotated[Count, Meta(description="Areas of it that lie partly inside")]
    mean_stddev: Annotated[float, Meta(description="Of the union's answers")]
    mean_stddev_whole: Annotated[
        float | None,
        Meta(
            description="Of the same answers of all areas that lie inside by half or more; null if there is none"
        ),
    ]


class IntervalsOfUnion(Part, frozen=True, kw_only=True):
    """The answers of one union that public facts leave open."""

    area: str
    n_areas: Count
    n_leaves: Count
    cut: Annotated[CutAreas | None, Meta(description="Null where no area is cut")]
    answers: list[IntervalOfAnswer]


class SimulatedErrors(Part, frozen=True, kw_only=True):
    """Where expected errors come from: this plan, simulated with the released records taken for true."""

    truth: Literal["the released records"] = "the released records"
    replicates: Positive
    seed: int


class Intervals(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.interval"):
    """Intervals of unions of areas, from the measurements of a release."""

    version: Literal[1] = 1
    release: str
    plan_hash: Sha256
    query: str
    coverage: Rational
    meaning: str
    simulated: SimulatedErrors | None
    unions: list[IntervalsOfUnion]


class TablesFile(Part, frozen=True, kw_only=True):
    """One table of a query at a level, or for a list of areas."""

    query: str
    level: str
    path: Annotated[str, Meta(description="Inside the folder; .csv, or .partN.csv where there are many rows")]
    wide: bool
    intervals: bool
    n_rows: Count


class Tables(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.tables"):
    """Tables for ordinary programs, made from a release."""

    version: Literal[1] = 1
    release: str
    plan_hash: Sha256
    out: str
    coverage: Rational | None
    meaning: str
    n_files: Positive
    n_named: Annotated[Count, Meta(description="Areas with a name")]
    unnamed: Annotated[
        dict[str, Count], Meta(description="Areas without a name by level, where names were given")
    ]
    tables: list[TablesFile]
