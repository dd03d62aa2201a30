"""solve.json."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.documents.shared import Count, EstimateOfLevel, Part, Positive, Sha256


class FailsafeUse(Part, frozen=True, kw_only=True):
    """A table that could not be split and was changed by the least number of records."""

    node: str
    level: str
    distance: Annotated[int, Meta(ge=2, description="L1 distance in records")]
    marginals_kept: bool
    constraints: Annotated[list[str], Meta(description="A set of constraints that conflict")]
    smallest: Annotated[bool, Meta(description="Whether that set is proved to be a smallest one")]


class SolvedLevel(Part, frozen=True, kw_only=True):
    """How the splits of one level were solved."""

    level: str
    n_splits: Count
    n_problems: Count
    n_variables: Count
    n_unconverged: Count
    max_iterations: Count
    max_kkt_residual_persons: float
    n_roundings: Count
    n_roundings_optimal: Count
    n_milp: Count


class ComparedLevel(Part, frozen=True, kw_only=True):
    """Splits of one level under soft rules."""

    level: str
    n_enforced: Count
    n_dropped: Count
    n_broken: Count


class Broken(Part, frozen=True, kw_only=True):
    """A leaf that breaks soft rules."""

    node: str
    proved: bool
    constraints: list[str]


class Repair(Broken, frozen=True, kw_only=True):
    """A leaf that was changed so that it keeps soft rules."""

    distance: Positive
    marginals_kept: bool


class Comparisons(Part, frozen=True, kw_only=True):
    """How soft rules were kept."""

    levels: list[ComparedLevel]
    repairs: list[Repair]
    broken: list[Broken]


class TreeEstimate(Part, frozen=True, kw_only=True):
    """The tree estimate: how attributes were sorted, and how far it is from its normal equations."""

    targets: list[EstimateOfLevel]
    dense: list[str] | UnsetType = UNSET
    product: list[str] | UnsetType = UNSET
    residual_persons: float | UnsetType = UNSET


class Solve(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.solve"):
    """solve.json: how every level was solved."""

    version: Literal[1] = 1
    plan_hash: Sha256
    inputs_sha256: Sha256
    records_sha256: Sha256
    target_kkt_residual_persons: float
    failsafe: list[FailsafeUse]
    levels: list[SolvedLevel]
    staged: Annotated[bool, Meta(extra_json_schema={"const": True})] | UnsetType = UNSET
    comparisons: Comparisons | UnsetType = UNSET
    statistics: TreeEstimate | UnsetType = UNSET
