"""The JSON documents of a release: plan, solve, manifest and certificate; how its tables are written."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.formats.common import (
    Basis,
    ByDelta,
    Composed,
    Count,
    CurvePoint,
    EstimateOfLevel,
    EverythingReleased,
    LawName,
    LossName,
    Mechanism,
    Neighbours,
    OneLine,
    Part,
    Positive,
    Rational,
    ReleaseNames,
    Secrets,
    Sha256,
    Step,
    Targets,
)

LISTED_ENDS = ("listed_low", "listed_high")
"""Columns of a table whose rows are listed because their count is above 0."""

LISTED_ROWS = (
    "Rows are listed because their released count is above 0. The chance of low and high is that of a count chosen "
    "before the noise was drawn, not of listed rows: of those of blocks, 88 to 94 in 100 such intervals of 95 % held "
    "in simulations of Rhode Island 2010. listed_low and listed_high are corrected for the listing by a model of it: "
    "95 to 96 in 100 held there. That was measured for that state and those settings, and is no guarantee."
)
"""Stamp `meaning` of such a table."""

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

    name: OneLine
    level: str
    query: str
    basis: Basis


class NeverRule(Part, frozen=True, kw_only=True):
    """Cells that hold no record, by definition."""

    name: OneLine
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


InvariantKindName = Literal["exact", "at_least", "none_where_zero", "never", "at_most", "no_more_than"]


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
    law: LawName
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

    targets: Targets
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
    """solve.json: how every level was solved.

    The digests of what was read and of what came out are empty where answers were solved in memory.
    """

    version: Literal[1] = 1
    plan_hash: Sha256
    inputs_sha256: Sha256 = ""
    records_sha256: Sha256 = ""
    target_kkt_residual_persons: float
    failsafe: list[FailsafeUse]
    levels: list[SolvedLevel]
    staged: Annotated[bool, Meta(extra_json_schema={"const": True})] | UnsetType = UNSET
    comparisons: Comparisons | UnsetType = UNSET
    statistics: TreeEstimate | UnsetType = UNSET


class SealedFile(Part, frozen=True, kw_only=True):
    """One file of the release."""

    path: str
    bytes: Count
    sha256: Sha256


class Manifest(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.manifest"):
    """manifest.json: SHA-256 of every other file of a release."""

    version: Literal[1] = 1
    plan_hash: Sha256
    files: list[SealedFile]


class UnspentLoss(Part, frozen=True, kw_only=True):
    """Budget of a level that the geography lacks."""

    level: str
    loss: Rational
    delta: Rational | UnsetType = UNSET


class UsualEpsilon(Part, frozen=True, kw_only=True):
    """Epsilon by delta of the usual formula, rounded up."""

    label: str
    formula: str
    epsilon: dict[str, Annotated[str, Meta(pattern="^[0-9.]+$")]]


class CertifiedPrivacy(Part, frozen=True, kw_only=True):
    """What is certified of a release: the numbers of every secret, and the sentence to quote."""

    epsilon: Annotated[ByDelta | None, Meta(description="Of the first secret")] = None
    curve: list[CurvePoint] | UnsetType = UNSET
    secrets: Secrets | UnsetType = UNSET
    steps: list[Step] | UnsetType = UNSET
    conditional_on: list[str] | UnsetType = UNSET
    sentence: str | UnsetType = UNSET
    composed: Composed | UnsetType = UNSET


class Privacy(CertifiedPrivacy, frozen=True, kw_only=True):
    """What the release costs, and what is said of each secret."""

    unit: str
    neighbours: Neighbours
    loss_name: LossName
    loss: Rational
    loss_with_base: Rational
    delta: Rational | UnsetType = UNSET
    unspent: list[UnspentLoss]
    usual: UsualEpsilon
    everything_released: EverythingReleased


class PassedCheck(Part, frozen=True, kw_only=True):
    """One check of the release's files."""

    name: str
    ok: bool
    text: str
    n_checked: Count
    n_failed: Count


ReleaseStamp = Literal["NOT-A-RELEASE", "DEMO", "DRAFT"]


class Certificate(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.certificate"):
    """certificate.json: what the release costs, what was checked, and the files that decide it."""

    version: Literal[1] = 1
    engine: str
    plan_hash: Sha256
    stamps: list[ReleaseStamp]
    open_answers: list[str]
    privacy: Privacy
    checks: list[PassedCheck]
    software: dict[str, str]
    files: dict[str, Sha256]
    measured: PlanMeasured | UnsetType = UNSET


ROWS_PER_GROUP = 1 << 20
"""Rows of a row group, where a kind of table has no smaller ones of its own."""
_DELTA = {"answers.list.element": "DELTA_BINARY_PACKED"}
_BESIDE_ANSWERS = ["level", "node", "query", "variance_numerator", "variance_denominator"]
_OTHERWISE: dict[str, dict[str, Any]] = {
    "topdown.measurements": {
        "compression": dict.fromkeys(_BESIDE_ANSWERS, "zstd"),
        "use_dictionary": _BESIDE_ANSWERS,
        "column_encoding": _DELTA,
        "write_statistics": False,
    },
    "topdown.exact_answers": {"use_dictionary": False, "column_encoding": _DELTA},
}
TABLE_OPTIONS: dict[str, dict[str, Any]] = {
    kind: {"compression": "zstd", "store_schema": False, "write_page_checksum": True}
    | _OTHERWISE.get(kind, {})
    for kind in (
        "topdown.geography",
        "topdown.leaves",
        "topdown.microdata",
        "topdown.table",
        "topdown.simulated",
        "topdown.measurements",
        "topdown.exact_answers",
        "pgsr.counts",
        "pgsr.measurements",
    )
}
"""Arguments of `pyarrow.parquet.ParquetWriter` by kind; without Arrow's schema a table's own metadata stays out."""
TABLE_VERSIONS = dict.fromkeys(TABLE_OPTIONS, "1") | {"topdown.measurements": "2"}
"""Stamp `version` of a table, by kind."""

README_FORM = """\
{head}
{title} ({id})
{people}; made from protected statistics, none is copied from anyone's answers.

From:      {agency}
Questions: {contact}
Date:      {date}, of the last line of ledger.jsonl
Licence:   {licence}
Cite as:   {agency}: {title}, {id}, {date}. Plan {plan}.

How well people are protected
{said}
What is exact
{exact}

What each file holds
microdata/        {persons}: one row an area and kind of record, with its count.{csv}
tables/           one folder a table, one {file} a level; {listed}
measurements/     the noisy numbers that all else was made from, and the exact statistics.
public/           the areas, and the public facts about them.
{base}plan.json         what is exact and why, and what was measured with how much noise.
solve.json        how well the noisy numbers could be fitted together.
certificate.json  the privacy loss, every check, and the files that decide.
ledger.jsonl      what was charged to the ledger up to this release, line by line.
manifest.json     the SHA-256 of every file.
{report}
Codes of areas are text: keep their leading zeros.
Check it with:  topdown verify FOLDER
"""
"""Layout and words of README.txt; writer and checker fill it by lines of their own."""
README_CSV = " persons.csv.gz: one line a record."
README_LISTED = {
    False: "answers that are zero are left out, but not in `total`.",
    True: "each count with an interval; the stamp `rows` says whether zeros are listed.",
}
"""What tables list, by whether there are intervals."""
README_BASE = "base/             the release that this one extends, as far as it is needed.\n"
README_REPORT = "report.html       all of this for people to read and print.\n"
README_COLUMNS = 112
CHANCE_OF_INTERVALS = (
    "Intervals: before the noise was drawn, the chance that this interval would contain the count in the confidential "
    "records was at least {odds}, counting noise as normal. That is of one number chosen beforehand, not of numbers "
    "picked because they look large; of the records, not of the true population. Two intervals are not independent: "
    "those of sums do not follow from them but are made by topdown interval."
)
"""What is said of the intervals of a release, and no more than that."""
SOLVED_ANOTHER_WAY = (
    "This release solves the measurement of {release}, plan {plan}, in another way: no noise was drawn for it and "
    "nothing charged."
)
CHOSEN_AFTERWARDS = (
    "How it is solved may have been chosen after the noise was drawn: the chances of its intervals hold if that choice "
    "did not depend on the noise."
)
"""Of the intervals of a release that solves another one's measurement."""
