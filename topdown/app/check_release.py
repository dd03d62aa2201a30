"""Verify, evaluate and audit: look at a finished release, a plan, or a whole ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import convert

from topdown.app.calls import (
    PathText,
    checked_workers,
    path_of,
    public_function,
    records_source,
    require_release,
)
from topdown.app.planned import opened, opened_again
from topdown.app.verify_by_solving import verify_and_solve
from topdown.errors import BudgetError, ConfigError
from topdown.formats.accuracy_documents import Evaluation
from topdown.formats.privacy_documents import AuditLedger
from topdown.inputs.sources import MemoryTable, containing_file, locate_table
from topdown.made_up import refuse_simulation
from topdown.measure.evaluation import evaluate as compare
from topdown.measure.evaluation import write_evaluation
from topdown.measure.records import RecordsForm
from topdown.notebook import card
from topdown.output_paths import refuse_existing, refuse_needed
from topdown.plan.preparation import load_context, load_release_chain
from topdown.practice.audit_by_runs import audit_by_runs as run_pairs
from topdown.practice.audit_by_runs import runs_document
from topdown.privacy.exact_values import delta_of
from topdown.privacy.ledger.ledger_file import read_ledger
from topdown.progress import Report, silent
from topdown.publish.ledger_statement import ledger_document
from topdown.publish.publish_release import verified_in
from topdown.publish.release_certificate import statement_of
from topdown.verify.run_checks import verify as check
from topdown.verify.run_checks import verify_privacy
from topdown.verify.verify_choice import is_choice, verify_choice

if TYPE_CHECKING:
    from topdown.formats.privacy_documents import AuditRuns
    from topdown.inputs import ArrowTable
    from topdown.plan import PublicContext, ReleaseChain
    from topdown.verify import VerifyResult
    from topdown.workers import ExecutorChoice


@public_function
def verify(
    release: PathText, *, solve: bool = False, workers: ExecutorChoice = 1, report: Report = silent
) -> VerifyResult:
    """Check a release from its files alone; needs no confidential data.

    Args:
        release: folder of a release, or of a choice.
        solve: also solve again what was measured, and compare the records.
        workers: processes for the sections of a large release and for solving, 1 or more; for solving "ray", too, see
            `generate`.
        report: told about the progress of solving, see `generate`.

    Returns:
        every check with its findings; `ok` says whether all passed. A failed check is no error.

    Raises:
        ConfigError: C088 the folder is no release, C122 it holds a simulation, C005 no worker, C230-C234 Ray.
        InternalError: X046 a worker was killed too often.
    """
    folder = path_of(release, "release")
    if is_choice(folder):
        if solve:
            raise ConfigError("a choice is not solved", code="C005", fix="leave out solve")
        return verify_choice(folder)
    require_release(folder)
    if solve:
        return verify_and_solve(folder, workers=checked_workers(workers), report=report)
    n_workers = checked_workers(workers)
    return check(folder, verified_in(n_workers if isinstance(n_workers, int) else 1))


@public_function
def evaluate(
    release: PathText,
    truth: PathText | ArrowTable,
    *,
    out: PathText | None = None,
    force: bool = False,
    ignore: Sequence[str] = (),
    count: bool = True,
    columns: Mapping[str, str] | None = None,
) -> Evaluation:
    """Compare a release with the confidential records. The result is CONFIDENTIAL: it is about real errors.

    Args:
        release: folder.
        truth: the records it was made from: a file, KIND:FILE?table=NAME, a data frame, or anything with an Arrow C
            stream.
        out: file for the result, readable by its owner only; None writes nothing.
        force: replace that file.
        ignore: columns of the records that are not read.
        count: whether the records have a column `count`; else each row is one record.
        columns: what columns are called in the records, where that is another name.

    Returns:
        errors by level and query, and how often each invariant holds.

    Raises:
        ConfigError: C088 the folder is no release, C080 or C132 `out` may not be written, C250 `truth` is no table.
        CertificateError: the microdata are damaged.
        DataError: the records are not those of this geography and schema; no value of them is shown.
    """
    folder, given = path_of(release, "release"), records_source(truth, "truth")
    records = locate_table(given) if isinstance(given, Path) else given
    file = None if isinstance(records, MemoryTable) else containing_file(records)
    target = None if out is None else path_of(out, "out")
    require_release(folder)
    if target is not None:
        refuse_needed(target, "--out", () if file is None else (file,))
        refuse_existing(target, force=force)
    document = compare(folder, records, RecordsForm(tuple(ignore), count, dict(columns or {})))
    if target is not None:
        write_evaluation(document, target, folder, truth=file, force=force)
    return convert(document, Evaluation)


DELTA = "1e-10"


@dataclass(frozen=True, eq=False)
class Audit:
    """What can be said of a plan or release together with the releases it extends.

    Args:
        policy: what the statements are made from.
        statement: every secret with its status and certified numbers, the curve and the sentence to quote.
        contradictions: what the release's certificate states that its files contradict; None if there is none.
    """

    policy: ReleaseChain
    statement: dict[str, Any]
    contradictions: tuple[str, ...] | None

    @property
    def agrees(self) -> bool | None:
        """Whether the certificate says the same; None without one."""
        return None if self.contradictions is None else not self.contradictions

    @property
    def sentence(self) -> str:
        """The sentence to quote."""
        return str(self.statement["sentence"])

    @property
    def document(self) -> dict[str, Any]:
        """The `topdown.audit.static` document."""
        return {
            "type": "topdown.audit.static",
            "version": 1,
            "engine": self.statement["secrets"][0]["method"],
            "neighbours": self.policy.plan.neighbours,
            "plan_hash": self.policy.plan.plan_hash,
            "certificate_agrees": self.agrees,
        } | self.statement

    def __repr__(self) -> str:
        return f"Audit(plan {self.policy.plan.plan_hash[:8]}, agrees={self.agrees}): {self.sentence}"

    def _repr_html_(self) -> str:
        rows = [(row["name"], row["status"], row["sentence"]) for row in self.statement["secrets"]]
        agrees = {None: "no certificate to compare with", True: "its certificate agrees"}
        return card(
            f"Audit of plan {self.policy.plan.plan_hash[:8]}",
            rows,
            head=("secret", "status", "what is stated"),
            note=agrees.get(self.agrees, "its certificate states something else"),
        )


@dataclass(frozen=True, eq=False)
class RunsAudit:
    """What runs of the drawing code show.

    Args:
        document: what was shown beside what is claimed, by secret and by pair.
        extends: whether the plan extends a release; then both are about this step alone, not what it extends.
    """

    document: AuditRuns
    extends: bool

    @property
    def passes(self) -> bool:
        """Whether nothing shown beats its claim. That proves no claim right."""
        return self.document.passes

    def __repr__(self) -> str:
        made = self.document
        return f"RunsAudit(passes={made.passes}, runs={made.runs}, n_pairs={made.n_pairs}, extends={self.extends})"


@public_function
def audit(source: PathText, *, base: PathText | None = None, deltas: Sequence[str] = (DELTA,)) -> Audit:
    """Compute the exact privacy loss of a plan or release, together with what it extends.

    Every number is an enclosure: the exact value lies between the two. What exact statistics give away is named and
    has no number.

    Args:
        source: run file, plan.json or folder of a release.
        base: folder of the release that the run file extends.
        deltas: where epsilon is stated, as text: "1e-10".

    Raises:
        ConfigError: a file is no plan, C122 the folder holds a simulation, or a delta is none.
        DataError, BudgetError: as `topdown.plan`.
    """
    path = path_of(source, "source")
    policy = _release_chain(path, None if base is None else path_of(base, "base"))
    return Audit(policy, statement_of(policy, tuple(deltas)), _contradictions_of(path))


@public_function
def audit_ledger(ledger: PathText, *, deltas: Sequence[str] = (DELTA,)) -> AuditLedger:
    """Compute what everything ever released from a data set costs together; writes nothing, needs no witness.

    Args:
        ledger: file.
        deltas: where epsilon is stated, as text.

    Raises:
        BudgetError: B006 the file is no ledger, or it is damaged.
        ConfigError: a delta is none.
    """
    path = path_of(ledger, "ledger")
    book = read_ledger(path)
    if book.opened is None:
        raise BudgetError(
            f"{path} is no ledger: it has no whole first record",
            code="B006",
            file=str(path),
            fix="give the ledger that the run file names",
        )
    return convert(ledger_document(book, tuple(deltas)), AuditLedger)


@public_function
def audit_runs(
    source: PathText,
    runs: int,
    *,
    base: PathText | None = None,
    delta: str = DELTA,
    report: Report = silent,
) -> RunsAudit:
    """Run the drawing code on made-up neighbours and hold what it shows against the claim; opens no records.

    Args:
        source, base: see `audit`.
        runs: draws on each side of each pair.
        delta: where epsilon is stated, as text; of optimal noise it is the largest delta that is claimed.
        report: see `generate`.

    Returns:
        what was shown beside what is claimed; `passes` is False where the drawing code breaks its claim. Of an
        extension, its own step alone.

    Raises:
        ConfigError: as `audit`, or too few runs.
    """
    context = _public_context(path_of(source, "source"), None if base is None else path_of(base, "base"))
    own = replace(context.policy, bases=())  # what is drawn is noise of this step alone
    secrets = statement_of(own, (delta,))["secrets"]
    at = max((Fraction(row["delta"]) for row in secrets if "delta" in row), default=delta_of(delta))
    found = run_pairs(context, runs, delta=at, report=report)
    made = runs_document(context, found, secrets)
    return RunsAudit(made, context.plan.base is not None)


def _release_chain(source: Path, base: Path | None) -> ReleaseChain:
    """Read what statements are made from: a release's own files, or a run file's with its plan.json beside it."""
    folder = _release_of_folder(source, base)
    return _audit_of_plan(source, base).policy if folder is None else load_release_chain(folder)


def _public_context(source: Path, base: Path | None) -> PublicContext:
    """Read plan and public facts: of a release, or of a run file."""
    folder = _release_of_folder(source, base)
    return _audit_of_plan(source, base) if folder is None else load_context(folder)


def _release_of_folder(source: Path, base: Path | None) -> Path | None:
    """Return the folder that holds a plan with its public facts; None for a run file."""
    if source.is_dir():
        refuse_simulation(source)
    if base is not None:
        return None
    if source.is_dir():
        return source
    return source.parent if source.name == "plan.json" and (source.parent / "public").is_dir() else None


def _audit_of_plan(source: Path, base: Path | None) -> PublicContext:
    planned = opened_again(source) if base is None else opened(source, base)
    return planned.prepared.context


def _contradictions_of(source: Path) -> tuple[str, ...] | None:
    """Return what the certificate of a release states that its files contradict; None if it has no certificate."""
    if not (source / "certificate.json").is_file():
        return None
    return tuple(finding.text for finding in verify_privacy(source).findings)
