"""What the other commands print: errors, reference pages, drafts, made-up tables, measurements, releases."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.formats.common import (
    Charged,
    Count,
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
