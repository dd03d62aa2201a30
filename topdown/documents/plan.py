"""plan.json."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.documents.shared import Basis, Count, Neighbours, Part, Rational, ReleaseNames, Sha256

Law = Literal["discrete_gaussian", "two_sided_geometric", "optimal_integer"]
Mechanism = Literal["discrete_gaussian", "geometric", "optimal"]
Cells = list[tuple[str, list[str]]]
"""Attributes and their labels: cells with one of them each."""


Weight = Annotated[str, Meta(pattern="^[1-9][0-9]*$", description="Whole number, over 2^128")]
"""Of a symmetric law: probability of a value, and of its negative."""


class Recode(Part, frozen=True, kw_only=True):
    """A coarser reading of an attribute: the group of each label."""

    name: str
    group_labels: list[str]
    group_of: list[Count]


class Attribute(Part, frozen=True, kw_only=True):
    """One answer of a record."""

    name: str
    labels: list[str]
    recodes: list[Recode]


class SchemaOfRecords(Part, frozen=True, kw_only=True):
    """The domain of a record."""

    name: str
    title: str
    unit: str
    source: str
    attributes: list[Attribute]


class ExactRule(Part, frozen=True, kw_only=True):
    """Answers of a query that are published exactly at a level."""

    name: str
    level: str
    query: str
    basis: Basis


class NeverRule(Part, frozen=True, kw_only=True):
    """Cells that hold no record, by definition."""

    name: str
    cells: Cells
    basis: Basis


class BoundRule(NeverRule, frozen=True, kw_only=True):
    """Records in cells are at least, or at most, `per` times a public column, at every leaf."""

    column: str
    per: Count


class ZeroRule(NeverRule, frozen=True, kw_only=True):
    """Cells that hold no record where public columns are zero."""

    columns: list[str]


class CompareRule(NeverRule, frozen=True, kw_only=True):
    """Soft: records in cells are at most `times` those in others, at every leaf."""

    than: Cells
    times: Count


class InvariantRules(Part, frozen=True, kw_only=True):
    """What the release promises about public knowledge."""

    name: str
    title: str
    schema: str
    source: str
    exact: list[ExactRule]
    at_least: list[BoundRule]
    none_where_zero: list[ZeroRule]
    never: list[NeverRule]
    at_most: list[BoundRule] | UnsetType = UNSET
    no_more_than: list[CompareRule] | UnsetType = UNSET


class PlanMeasurement(Part, frozen=True, kw_only=True):
    """One query of one level: its share of the level's budget, and its noise."""

    query: str
    n_answers: Count
    share: Rational
    loss: Rational
    law: Law
    parameter: Rational
    delta: Rational | UnsetType = UNSET
    weights: list[Weight] | UnsetType = UNSET


class PlanPass(Part, frozen=True, kw_only=True):
    """A table that is solved for some queries, then kept."""

    table: str
    queries: list[str]


class PlanRounding(Part, frozen=True, kw_only=True):
    """One table of the rounding chain."""

    table: str
    weight: Count


class PlanLevel(Part, frozen=True, kw_only=True):
    """Everything one level needs."""

    name: str
    n_nodes: Count
    n_measured: Count
    share: Rational
    loss: Rational
    measurements: list[PlanMeasurement]
    passes: list[PlanPass]
    rounding: list[PlanRounding]


class BaseRelease(Part, frozen=True, kw_only=True):
    """The release that this one extends."""

    release: str
    plan_hash: Sha256
    manifest_sha256: Sha256
    table_sha256: Sha256
    map: list[tuple[str, str]]


class PlanBase(BaseRelease, frozen=True, kw_only=True):
    """The release that this one extends, and the noisy numbers at each level."""

    n_numbers: list[Count]


class PlanEstimates(Part, frozen=True, kw_only=True):
    """What splits are fitted to, and the coverage of the intervals in the tables."""

    targets: Literal["own", "tree"]
    coverage: Rational | UnsetType = UNSET


class PlanMeasured(Part, frozen=True, kw_only=True):
    """The release whose measurement this one solves in another way."""

    release: str
    plan_hash: Sha256


class Plan(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.plan"):
    """plan.json: what decides a release, and its hash."""

    version: Literal[2] = 2
    plan_hash: Sha256
    run_file: str | UnsetType = UNSET
    release: ReleaseNames
    schema: SchemaOfRecords
    invariants: InvariantRules
    neighbours: Neighbours
    mechanism: Mechanism
    settings: str
    budget: Rational
    levels: list[PlanLevel]
    unspent: list[tuple[str, Rational]]
    public_sha256: Sha256
    geography_sha256: Sha256
    base: PlanBase | UnsetType = UNSET
    estimates: PlanEstimates | UnsetType = UNSET
    delta: Rational | UnsetType = UNSET
    measured: PlanMeasured | UnsetType = UNSET
