"""Every file and JSON document of pgsr: names and columns of the files of a release, one struct a document.

Numbers and texts have the most that a checker reads of a stranger's. Checks take forms from here, as data.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType, convert

from topdown.formats import json_schema
from topdown.formats.common import (
    Count,
    EverythingReleased,
    Numbers,
    OneLine,
    Part,
    Positive,
    Rational,
    Sha256,
    Stated,
    UsualConversions,
)
from topdown.formats.json_schema import either
from topdown.made_up import WARNING_FILE

COUNTS, CERTIFICATE, LEDGER, MANIFEST = "counts.parquet", "certificate.json", "ledger.jsonl", "manifest.json"
README = "README.txt"
MEASUREMENTS, EXACT, JOURNAL = "measurements", "exact.json", "journal.json"
PART = "part-000"
COUNT, ANSWER = "count", "answer"  # the columns of the tables
WRITING = ".tmp"


def bound_columns(coverage: Sequence[object]) -> list[str]:
    """Return the columns of lower and upper bounds for levels of coverage such as 19/20: lower_95, upper_95."""
    return [f"{end}_{int(100 * Fraction(str(c)))}" for c in coverage for end in ("lower", "upper")]


def part_file(level: str) -> str:
    """Return the path of the noisy answers of one level, relative to the release."""
    return f"{MEASUREMENTS}/{level}/{PART}.parquet"


def release_files(levels: Sequence[str], *, is_release: bool) -> tuple[str, ...]:
    """Return the path of every file but the manifest: they follow from the levels alone."""
    own = (
        (f"{MEASUREMENTS}/{EXACT}", f"{MEASUREMENTS}/{JOURNAL}", LEDGER, README)
        if is_release
        else (WARNING_FILE,)
    )
    return (CERTIFICATE, COUNTS, *own, *(part_file(level) for level in levels))


README_FORM = """\
Release
{title}
{groups:,} groups in {regions:,} regions, by size from {smallest} to {largest}

From:      {agency}
Questions: {contact}
Date:      {date}, of the last line of ledger.jsonl
Licence:   {licence}
Cite as:   {agency}: {title}, {date}. Plan {plan}.

How well each {unit} is protected
{said}
What is exact
{exact}

What the intervals mean
{intervals}

What each file holds
counts.parquet    one row a region and size: how many groups, with the lower and upper end of an interval.
measurements/     the noisy answers that the counts were made from, and what is exact.
certificate.json  the privacy loss, and what was measured with how much noise.
ledger.jsonl      what was charged to the ledger up to this release, line by line.
manifest.json     the SHA-256 of every file.

Codes of regions are text: keep their leading zeros.
Check it with:  pgsr verify FOLDER
"""
"""Layout and words of README.txt; writer and checker fill it by lines of their own."""
DOCUMENTS = {
    "audit": "pgsr.formats:Audit",
    "certificate": "pgsr.formats:Certificate",
    "compare": "pgsr.formats:Compare",
    "manifest": "pgsr.formats:Manifest",
    "microdata": "pgsr.formats:Microdata",
    "release": "pgsr.formats:ReleaseDocument",
    "synth": "pgsr.formats:Synth",
}
"""Module and struct by name of the document."""
OF_TOPDOWN = ("error", "explain", "ledger", "schemas", "verify")
"""Documents that both programs write."""


def document_names() -> list[str]:
    """List the documents by name, without the prefix."""
    return sorted([*DOCUMENTS, *OF_TOPDOWN])


def document_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of one document; KeyError if there is none."""
    return json_schema.document_schema(name, *(() if name in OF_TOPDOWN else (DOCUMENTS,)))


Exact = Annotated[
    str,
    Meta(
        pattern="^(0|[1-9][0-9]{0,400})(/[1-9][0-9]{0,400})?$",
        max_length=600,
        description="Exact number, whole or a fraction a/b",
    ),
]


Text = Annotated[str, Meta(max_length=2000)]
Line = Annotated[OneLine, Meta(max_length=2000)]
Whole = Annotated[int, Meta(ge=0, le=2**62)]
Engine = Annotated[str, Meta(pattern="^[0-9]+(\\.[0-9]+)+([a-z0-9.+-]*)$", max_length=40)]
Stamp = Literal["", "NOT-A-RELEASE"]
Vector = Literal["histogram", "cumulative", "tail", "tail_rows", "chain", "tail_chain"]
CalibrationName = Literal["correct", "published"]
LossName = Literal["epsilon", "rho"]
Relation = Literal["move", "new", "dropped", "household", "appears"]


class Truth(Part, frozen=True, kw_only=True):
    """Why a simulation's groups may be simulated on."""

    kind: Literal["made_up", "public"]
    name: Text
    sha256: Sha256
    reason: Text
    generator: Text
    seed: int | None


class DisclosedStep(Part, frozen=True, kw_only=True):
    """A neighbour step that what is exact gives away: it has no number."""

    name: Text
    kind: Literal["presence", "size"]
    relation: Relation
    neighbours: Text
    status: Literal["disclosed"]
    exact: list[Text]
    sentence: Text


class ProtectedStep(Numbers, frozen=True, kw_only=True):
    """A neighbour step behind geometric noise."""

    name: Text
    kind: Literal["presence", "size"]
    relation: Relation
    neighbours: Text
    status: Stated
    exact: list[Text]
    loss: Exact


class GaussianStep(ProtectedStep, frozen=True, kw_only=True):
    """A neighbour step behind Gaussian noise."""

    rho: Rational
    mu: float
    usual: UsualConversions


class Privacy(Part, frozen=True, kw_only=True):
    """What is promised."""

    unit: Annotated[str, Meta(max_length=60)]
    unit_means: Text
    relations: Annotated[list[Relation], Meta(min_length=1)]
    conditional_on: Annotated[list[Text], Meta(min_length=1)]
    noise: Literal["geometric", "gaussian"]
    calibration: CalibrationName
    claimed: Exact
    loss_name: LossName
    loss: Exact
    private_as_claimed: bool
    secrets: Annotated[
        list[Annotated[dict[str, Any], either(GaussianStep, ProtectedStep, DisclosedStep)]],
        Meta(min_length=1),
    ]


VERSION: Final = 7
"""Of the only certificates that are read."""
LevelName = Annotated[str, Meta(min_length=1, max_length=60, pattern="^[^/\\\\\\x00]+$")]


class MechanismRun(Part, frozen=True, kw_only=True):
    """What was run."""

    name: Text
    measures: Vector
    claim: Text
    consistent: bool


class SizeRange(Part, frozen=True, kw_only=True):
    """Public range of sizes."""

    smallest: Literal[0, 1]
    n_sizes: Annotated[int, Meta(ge=1, le=2**26)]
    too_large: Literal["refuse", "top-code"]


class LevelNoise(Part, frozen=True, kw_only=True):
    """Noise of one level."""

    name: LevelName
    parameter: Exact
    sensitivity: Whole
    half_widths: Annotated[
        list[Whole], Meta(description="Of the noise of one count, by coverage", min_length=1)
    ]


class Optimality(Part, frozen=True, kw_only=True):
    """Exchange certificate of Model 1."""

    optimal: bool
    largest_gain: Annotated[int, Meta(ge=-(2**62), le=2**62)]
    n_checks: Whole
    model: Literal["exchange on Model 1"]
    of_measurements: bool


Coverage = Literal["1/2", "9/10", "19/20", "99/100"]


def coverage_name(coverage: Fraction) -> Coverage:
    """Return how documents name a coverage."""
    name: Coverage = convert(str(coverage), Coverage)
    return name


class Intervals(Part, frozen=True, kw_only=True):
    """Where the bounds beside every count come from."""

    method: Literal["noise of the level", "posterior of the count"]
    meaning: Text


class Names(Part, frozen=True, kw_only=True):
    """What only people can say of a release; empty where nobody did. README.txt, reports and citations show it."""

    title: Line = ""
    agency: Line = ""
    contact: Line = ""
    licence: Annotated[Line, Meta(description="Of the data")] = ""


class Certificate(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.certificate"):
    """certificate.json: what was measured, what it costs, what is claimed."""

    version: Literal[7] = VERSION
    engine: Engine
    release: bool
    stamp: Stamp
    truth: Truth | None
    plan_hash: Sha256
    journal: Annotated[str, Meta(pattern="^([0-9a-f]{32})?$")]
    everything_released: Annotated[EverythingReleased | None, Meta(description="null of a simulation")]
    mechanism: MechanismRun
    privacy: Privacy
    total: Whole
    public_totals: dict[str, Whole]
    sizes: SizeRange
    coverage: Annotated[list[Coverage], Meta(description="Of the bounds, ascending", min_length=1)]
    levels: Annotated[list[LevelNoise], Meta(min_length=1)]
    regions: Annotated[
        list[Annotated[tuple[str, str, str], Meta(description="Region, level, parent")]], Meta(min_length=1)
    ]
    names: Annotated[Names, Meta(description="Left out where nobody gave any")] | UnsetType = UNSET
    choice: (
        list[Annotated[tuple[Whole, Whole], Meta(description="Columns and rows of each region")]] | UnsetType
    ) = UNSET
    intervals: Intervals
    optimality: Optimality | None


class SealedFile(Part, frozen=True, kw_only=True):
    """One file of a release."""

    sha256: Sha256
    bytes: Whole


class Manifest(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.manifest"):
    """manifest.json: the files of a release and their SHA-256."""

    version: Literal[2] = 2
    engine: Engine
    release: bool
    stamp: Stamp
    files: dict[str, SealedFile]


class ReleaseDocument(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.release"):
    """The result of pgsr release --json."""

    version: Literal[3] = 3
    engine: str
    release: bool
    stamp: Stamp
    folder: str
    mechanism: str
    plan_hash: Sha256
    n_regions: Count
    n_sizes: Count
    total: Count
    charged: Rational
    n_attempts: Count
    privacy: Privacy


class Microdata(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.microdata"):
    """The result of pgsr microdata --json."""

    version: Literal[1] = 1
    engine: str
    folder: str
    file: str
    groups: Count
    members: Count
    members_exact: bool


NotNegative = Annotated[float, Meta(ge=0)]
ByLevel = Annotated[list[NotNegative], Meta(min_length=1)]


class Held(Part, frozen=True, kw_only=True):
    """How intervals of one coverage did in the cells that hold groups, by level."""

    held: Annotated[
        list[Annotated[float, Meta(ge=0, le=1)]], Meta(description="Part that lies within its interval")
    ]
    width: Annotated[ByLevel, Meta(description="Mean difference of the bounds, in groups")]


class ComparedMechanism(Part, frozen=True, kw_only=True):
    """Mean errors of one mechanism, by level."""

    mechanism: str
    calibration: CalibrationName
    totals: Annotated[Literal["public", "not public"], Meta(description="Numbers of groups of regions")]
    claimed: Rational
    true_epsilon: Rational
    private_as_claimed: bool
    l1: ByLevel
    emd: Annotated[ByLevel, Meta(description="In persons")]
    intervals: Annotated[dict[Coverage, Held] | None, Meta(description="By stated coverage; null of peers")]
    violations: NotNegative
    seconds: NotNegative
    repeats: Positive


class Compare(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.compare"):
    """The result of pgsr compare --json: errors of mechanisms, computed from true counts."""

    version: Literal[4] = 4
    engine: str
    stamp: Literal["NOT-A-RELEASE"] = "NOT-A-RELEASE"
    truth: Truth | None
    shape: str
    levels: Annotated[list[str], Meta(min_length=1)]
    rows: Annotated[list[ComparedMechanism], Meta(min_length=1)]


Counts = Annotated[list[Count], Meta(min_length=1)]


class VectorSensitivity(Part, frozen=True, kw_only=True):
    """How far neighbours move one vector."""

    vector: Literal["histogram", "cumulative", "tail", "tail_rows", "chain", "tail_chain", "region_major"]
    move_l1: Count
    move_l2_squared: Count
    move_l1_by_level: Counts
    new_l1: Count
    dropped_l1: Count
    true_epsilon_of_published_noise_at_1: Rational


class Enumeration(Part, frozen=True, kw_only=True):
    """All neighbour pairs of a small hierarchy, counted."""

    regions: Counts
    n_sizes: Count
    total: Count
    n_pairs: Count
    ok: bool


class ChainOutput(Part, frozen=True, kw_only=True):
    """An output of the published chain that costs more than it claims."""

    claimed: Rational
    epsilon: NotNegative
    bound: Rational
    output: list[int]
    data: tuple[list[int], list[int]]
    smallest_probability: NotNegative


class Audit(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.audit"):
    """The result of pgsr audit --json: sensitivities, their enumeration, the leak of the published chain."""

    version: Literal[1] = 1
    engine: str
    hierarchy: str
    regions: Counts
    n_sizes: Count
    ok: bool
    sensitivities: Annotated[list[VectorSensitivity], Meta(min_length=1)]
    enumerations: list[Enumeration]
    published_chain_output: list[ChainOutput]


class Synth(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.synth"):
    """The result of pgsr synth --json."""

    version: Literal[1] = 1
    engine: str
    shape: str
    folder: str
    groups: Count
