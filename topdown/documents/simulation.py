"""simulation.json."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Count, Part, Positive, Sha256


class Truth(Part, frozen=True, kw_only=True):
    """What was simulated on, and why that is nobody's secret."""

    kind: Literal["made_up", "release", "public"]
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


class LevelError(Part, frozen=True, kw_only=True):
    """Errors at one level."""

    level: str
    n_nodes: Positive
    queries: list[QueryError]


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
    levels: list[LevelError]

    def __repr__(self) -> str:
        made = f"plan {self.plan_hash[:8]}, seed {self.seed}, {self.replicates} replicates"
        return f"SimulationErrors({self.stamp}, {made})"

    def _repr_html_(self) -> str:
        from topdown.shown import card

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
