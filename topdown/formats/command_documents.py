"""What the other commands print: errors, reference pages, drafts, made-up tables, measurements, releases, noise."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.formats.common import (
    Charged,
    Count,
    Enclosure,
    LedgerHistory,
    LedgerId,
    LedgerSecrets,
    LossName,
    Part,
    Positive,
    Rational,
    Sha256,
)
from topdown.formats.verify_documents import VerifyResult
from topdown.notebook import card


class Error(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.error"):
    """An error of any command, with --json."""

    version: Literal[1] = 1
    code: Annotated[str, Meta(pattern="^[CDBIHVAX][0-9]{3}$", description="Page of `topdown explain`")]
    text: str
    details: list[list[str]]
    file: str | None
    line: Count | None
    column: Count | None
    node: Annotated[str | None, Meta(description="Geocode of the area concerned")]
    key: Annotated[str | None, Meta(description="Path of the key concerned in a TOML file")]
    fix: str
    exit_code: Annotated[int, Meta(extra_json_schema={"enum": [1, 2, 3, 4, 130]})]


class ErrorPage(Part, frozen=True, kw_only=True):
    """What an error code means, why it is an error, and how to fix it."""

    code: str
    title: str
    why: str
    fix: str
    example: str


class Explain(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.explain"):
    """The result of topdown explain --json."""

    version: Literal[1] = 1
    pages: list[ErrorPage]


class ReferenceKey(Part, frozen=True, kw_only=True):
    """One key of an input file."""

    key: str
    type: str
    default: str
    required: bool
    text: str
    example: str
    codes: list[str]


class ReferenceTable(Part, frozen=True, kw_only=True):
    """One table of an input file; empty for its top."""

    table: str
    keys: list[ReferenceKey]


class Reference(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.reference"):
    """What can stand in an input file."""

    version: Literal[1] = 1
    file: str
    title: str
    tables: list[ReferenceTable]


class Schemas(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.schemas"):
    """The result of topdown schema --json: documents and their titles."""

    version: Literal[1] = 1
    schemas: dict[str, str]


class LedgerPlace(Part, frozen=True, kw_only=True):
    """The ledger that was made or joined."""

    id: LedgerId
    path: str


class Init(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.init"):
    """The result of topdown init --json."""

    version: Literal[1] = 1
    run_file: str
    drafted: Annotated[
        list[str], Meta(description="Schema, invariants, settings, drafted from a list of codes")
    ]
    open_answers: list[str]
    missing_files: list[str]
    found: Annotated[
        list[str], Meta(description="Columns of the levels, and what was left out, in sentences")
    ]
    ledger: LedgerPlace | None


class MadeUp(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.made_up"):
    """FILE.made-up.json: the mark of a made-up table."""

    version: Literal[1] = 1
    generator: str
    seed: int
    sha256: Sha256


class LevelSize(Part, frozen=True, kw_only=True):
    """Areas of one level."""

    level: str
    n_nodes: Count


class ReportWritten(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.report"):
    """The result of topdown report --json."""

    version: Literal[1] = 1
    release: str
    plan_hash: Sha256
    out: str
    language: str
    n_bytes: Positive
    n_numbers: Annotated[
        Count, Meta(description="Numbers that name the place of the release they were read from")
    ]


class ReportChecked(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.report.check"):
    """The result of topdown report --check --json."""

    version: Literal[1] = 1
    ok: bool
    release: str
    language: str | None
    n_numbers: Count
    findings: list[str]


class Exported(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.export"):
    """The result of topdown export --json, and of pgsr export --json."""

    version: Literal[1] = 1
    to: Literal["registry", "sims", "dcat", "citation"]
    out: Annotated[str | None, Meta(description="The file that was written; null if none was")]
    text: str


class Synth(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.synth"):
    """The result of topdown synth --json."""

    version: Literal[1] = 1
    records: str
    leaves: str
    run_file: str
    n_people: Count
    n_rows: Count
    n_empty: Count
    nodes: list[LevelSize]


class LedgerState(LedgerHistory, frozen=True, kw_only=True, tag_field="type", tag="topdown.ledger"):
    """The result of topdown ledger --json."""

    version: Literal[2] = 2
    action: Literal["new", "show", "move", "attest", "refund", "limit", "take-over"]
    path: str
    registry: str
    registry_head: Annotated[Sha256, Meta(description="SHA-256 of the registry's last line")]
    head: Annotated[Sha256, Meta(description="SHA-256 of the ledger's last line")]
    data_set: str
    neighbours: str
    unit: str
    charged: Charged
    charged_delta: Rational | UnsetType = UNSET
    rho_limit: Rational | UnsetType = UNSET
    epsilon_limit: Rational | UnsetType = UNSET
    delta_limit: Rational | UnsetType = UNSET
    secrets: LedgerSecrets | UnsetType = UNSET
    n_records: Positive


class Measure(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.measure"):
    """The result of topdown measure --json."""

    version: Literal[1] = 1
    release_id: str
    release: Annotated[str, Meta(description="Folder of the release")]
    plan_hash: Sha256
    loss_name: LossName
    loss: Annotated[Rational, Meta(description="Charged for this release, all attempts together")]
    delta: Rational | UnsetType = UNSET
    seconds: Annotated[dict[str, float], Meta(description="Wall time by stage")]
    n_attempts: Annotated[Count, Meta(description="Charges; 1 without a crash")]
    n_drawn: Annotated[Count, Meta(description="Files of noisy answers drawn now")]
    n_adopted: Annotated[Count, Meta(description="Files kept from before")]


class GenerateResult(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.generate"):
    """A finished release: the result of topdown generate --json, and of resolve, extend and demo.

    `peak_memory_bytes` is an upper bound, since processes share pages: largest resident size of this process plus that
    of its largest child times workers; of this process alone where the workers are Ray's.
    """

    version: Literal[1] = 1
    engine: str
    release_id: str
    release: Annotated[str, Meta(description="Folder of the release")]
    plan_hash: Sha256
    loss_name: LossName
    loss: Rational
    delta: Rational | UnsetType = UNSET
    seconds: Annotated[dict[str, float], Meta(description="Wall time by stage")]
    peak_memory_bytes: Count
    n_records: Count
    n_splits: Count
    n_failsafe: Count
    n_attempts: Annotated[Count, Meta(description="Charges; 1 without a crash")]
    n_drawn: Annotated[Count, Meta(description="Files of noisy answers drawn now")]
    checks: VerifyResult

    def __repr__(self) -> str:
        """Return a line: folder, records, checks.

        >>> import topdown
        >>> topdown.generate(topdown.plan("town/run.toml"), "release", resume=True).n_drawn
        0
        """
        passed = f"{self.checks.n_checks - self.checks.n_failed} of {self.checks.n_checks} checks"
        return f"GenerateResult({self.release!r}, {self.n_records:,} records, {passed})"

    def _repr_html_(self) -> str:
        rows = [
            ("folder", self.release),
            ("records", f"{self.n_records:,}"),
            ("checks", f"{self.checks.n_checks - self.checks.n_failed} of {self.checks.n_checks} passed"),
            ("charged for the measurement", f"{self.loss_name} {self.loss}"),
            ("seconds", round(sum(self.seconds.values()), 1)),
        ]
        return card("Release", rows)


WholeText = Annotated[str, Meta(pattern="^[0-9]{1,40}$", description="Whole number as text")]

Short = Annotated[
    str, Meta(pattern="^[0-9]{1,80}(/[1-9][0-9]{0,80})?$", description="Whole or a fraction a/b")
]


class NoisePromise(Part, frozen=True, kw_only=True):
    """An event is at most e^epsilon times as likely, plus delta, for answers that differ by the sensitivity."""

    epsilon: Rational
    delta: Rational


class NoiseMultipliers(Part, frozen=True, kw_only=True):
    """Multipliers of one promise and shift: `left` before `start`, then `values`, then 0; mirrored below 0."""

    promise: Count
    shift: int
    start: int
    left: Short
    values: list[Short]


class NoiseLaw(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.noise_law"):
    """A noise law: probabilities weight / 2^bits of whole values from `first` on, and multipliers of a lower bound."""

    version: Literal[1] = 1
    promises: Annotated[list[NoisePromise], Meta(min_length=1, max_length=16)]
    sensitivity: Positive
    loss: Annotated[str, Meta(max_length=100_000, description="l1, l2, pinball:a:b, table:v,v,v:left:right")]
    bits: Literal[128]
    first: int
    weights: Annotated[list[WholeText], Meta(min_length=1, max_length=1_000_000)]
    multipliers: list[NoiseMultipliers]


Up = Annotated[str, Meta(description="Decimal, rounded up")]
Down = Annotated[str, Meta(description="Decimal, rounded down")]


class OtherNoise(Part, frozen=True, kw_only=True):
    """Noise of another kind that keeps the same promise."""

    name: str
    parameter: str
    expected_loss: Annotated[str, Meta(description="Decimal of nine digits")]
    saved_percent: Annotated[str, Meta(description="What the optimal law saves of that loss, rounded down")]


class SharedNoise(Part, frozen=True, kw_only=True):
    """Noise of several answers that keep the promise together, each moved by 1 by one record: variances, computed."""

    n_answers: Positive
    variance: Annotated[str, Meta(description="Of the best noise for one answer, tuned for so many")]
    gaussian_variance: Annotated[str, Meta(description="Of Gaussian noise that keeps the same")]
    ratio: Annotated[str, Meta(description="Above 1, Gaussian noise is better")]


class Noise(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.noise"):
    """The result of topdown noise --json."""

    version: Literal[1] = 1
    law: NoiseLaw
    expected_loss: Up
    least_possible_loss: Down
    gap: Annotated[
        str, Meta(description="Loss over the bound, less 1 (the difference where the bound is 0); rounded up")
    ]
    variance: Up
    delta_at: Annotated[dict[str, Up], Meta(description="The delta that the law needs, by epsilon")]
    others: list[OtherNoise]
    several: Annotated[
        list[SharedNoise], Meta(description="For sensitivity 1 and one promise, where it was compared")
    ]


class LatticeLaw(Part, frozen=True, kw_only=True):
    """Noise on multiples of the width: P(first + j widths) = weights[j] / 2^bits."""

    first: int
    weights: list[Annotated[str, Meta(pattern="^[0-9]+$")]]
    bits: Positive
    delta_needed: Annotated[str, Meta(description="Decimal, rounded up")]


class NoiseContinuous(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.noise.continuous"):
    """The result of topdown noise --continuous --json."""

    version: Literal[1] = 1
    epsilon: Rational
    delta: Rational
    sensitivity: Rational
    loss: Literal["l1", "l2"]
    cells: Positive
    width: Rational
    least_loss: Annotated[Enclosure, Meta(description="Least expected loss of real noise")]
    lattice: LatticeLaw
    lattice_loss: Annotated[str, Meta(description="Decimal, rounded up")]
    compared: Annotated[
        dict[str, float], Meta(description="Expected loss of other noise, in floats, not certified")
    ]
    sentences: list[str]


class NoiseDependent(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.noise.dependent"):
    """The result of topdown noise --dependent --json."""

    version: Literal[1] = 1
    epsilon: Rational
    delta: Rational
    sensitivity: Positive
    loss: str
    largest_count: Positive
    minimised: Literal["average", "largest"]
    least_loss: Annotated[Enclosure, Meta(description="Least loss of kernels with these answers")]
    bits: Positive
    weights: Annotated[
        list[list[Annotated[str, Meta(pattern="^[0-9]+$")]]],
        Meta(description="P(answer y | count n) = weights[n][y] / 2^bits"),
    ]
    delta_needed: Annotated[str, Meta(description="Decimal, rounded up")]
    row_losses: Annotated[list[str], Meta(description="Decimals, rounded up")]
    compared: Annotated[dict[str, str], Meta(description="Loss of simple rules, decimals, rounded up")]
    sentences: list[str]
