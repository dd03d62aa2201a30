"""Write a release: microdata, tables, ledger copy, certificate, README, manifest; prove it, then seal it.

The files of a large release are made and verified section by section, in several processes.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from textwrap import fill
from typing import TypeVar

import numpy as np

from topdown.errors import CertificateError, InternalError
from topdown.formats import json_bytes, release_documents
from topdown.formats.release_documents import CertifiedPrivacy, PlanMeasured, Privacy
from topdown.formats.report_parts import REPORT
from topdown.formats.strict_toml import exact_text
from topdown.model import Histogram, LeafTable, Sections, sections_of
from topdown.model.sections import part_path
from topdown.plan import Plan, PublicContext, exact_paths
from topdown.plan.plan_values import MEASURED_PLAN, WORK
from topdown.privacy.exact_values import fixed
from topdown.privacy.ledger import history_lines
from topdown.progress import Event, Report, silent
from topdown.publish import release_tables
from topdown.publish.release_certificate import CERTIFICATE, NOTHING_CERTIFIED, make_certificate, stamps
from topdown.publish.release_files import MANIFEST, TEMPORARY, Hashes, list_files, write_manifest
from topdown.publish.report_figures import report_bytes
from topdown.publish.table_intervals import EstimateSource, intervals_sentence
from topdown.verify import CheckedContent, EachSection, VerifyResult, verify_content
from topdown.workers import ReportLoss, tell_nobody, workers_with

Shared = TypeVar("Shared")
Result = TypeVar("Result")


def each_section(
    work: Callable[[Shared, int], Result],
    shared: Shared,
    n_sections: int,
    n_workers: int,
    lost: ReportLoss = tell_nobody,
) -> Iterator[Result]:
    """Yield the result of each section, in order; one that is alone stays in this process.

    Args:
        work: a function of a module, that changes nothing but what it returns.
        shared: what it needs beside the number of a section.
        n_sections, n_workers: how many. lost: told about each worker that is lost.
    """
    with workers_with(shared, min(n_workers, n_sections), lost) as pool:
        yield from pool.map(work, range(n_sections), n_workers + 1, lambda number: f"section {number}")


def verified_in(n_workers: int, lost: ReportLoss = tell_nobody) -> EachSection:
    """Return how to verify sections in so many processes of this machine."""

    def each(look: Callable[[Shared, int], Result], shared: Shared, n_sections: int, /) -> Iterable[Result]:
        return each_section(look, shared, n_sections, n_workers, lost)

    return each


@dataclass(frozen=True, eq=False)
class SectionSource:
    """What the files of all sections are made from.

    Args:
        context: plan and public facts.
        leaves: records of every leaf and cell.
        sections: of the tree.
    """

    context: PublicContext
    leaves: LeafTable
    sections: Sections


@dataclass(frozen=True, eq=False)
class SectionFiles:
    """The files of one section.

    Args:
        files: their bytes, by path inside the release.
        above: its records by node and cell of the level above the cut; None where there is one section.
    """

    files: dict[str, bytes]
    above: Histogram | None


def section_files(source: SectionSource, number: int) -> SectionFiles:
    """Make the files of a section; those of a plan with intervals have no tables."""
    context, sections, levels = source.context, source.sections, source.context.geography.levels
    bottom, cut, alone = len(levels) - 1, sections.cut, len(sections) == 1
    nodes = [sections.nodes(number, depth) for depth in range(cut, bottom + 1)]
    here = source.leaves.between(nodes[-1].start, nodes[-1].stop)
    files = {release_tables.PERSONS: release_tables.microdata_bytes(context, here, nodes[-1])}
    if context.plan.coverage is None:
        files.update(release_tables.tables_up(context, here, nodes, bottom))
    if alone:
        return SectionFiles(files, None)
    above = here
    for depth in range(bottom, cut - 1, -1):
        above = above.aggregate(levels[depth].parent, len(levels[depth - 1]))
    return SectionFiles({part_path(path, number): data for path, data in files.items()}, above)


README, LEDGER = "README.txt", "ledger.jsonl"
ACCURACY_ONLY = ("solver",)  # a failure here costs accuracy; it is published, and said in the certificate
_STEPS = 6
_OWN = (README, LEDGER, CERTIFICATE, REPORT, MANIFEST)
_FOREIGN = re.compile(
    r"plan\.json|solve\.json|(base/)+(plan\.json|public/leaves\.parquet)|base/(manifest\.json|persons(/part-[0-9]{3,})?\.parquet)|"
    r"public/(geography|leaves)\.parquet|measurements/journal\.json|measurements/[^/]+/part-[0-9]{3,}\.parquet"
)


@dataclass(frozen=True)
class PublishOptions:
    """How a stage runs; no byte depends on it.

    Args:
        report: told about each step.
        workers: processes of this machine that make files.
        drawn: SHA-256 of the measurement files that this very process wrote, by path in their folder.
    """

    report: Report = silent
    workers: int = 1
    drawn: Mapping[str, str] = field(default_factory=dict)

    def lost(self, text: str) -> None:
        """Tell about a worker that was lost."""
        self.report(Event("workers", 1, 1, text))


IN_THIS_PROCESS = PublishOptions()


@dataclass(frozen=True)
class OptionalFiles:
    """Files that a release may have.

    Args:
        csv: one line a record. language: of report.html; None leaves it out.
    """

    csv: bool = False
    language: str | None = "en"


USUAL_FILES = OptionalFiles()


def publish(
    release: Path,
    context: PublicContext,
    leaves: LeafTable,
    ledger_path: Path,
    *,
    optional: OptionalFiles = USUAL_FILES,
    privacy: CertifiedPrivacy = NOTHING_CERTIFIED,
    numbers: EstimateSource | None = None,
    running: PublishOptions = IN_THIS_PROCESS,
) -> CheckedContent:
    """Write and check every file of a release that measure and solve have not written.

    Guarantees: reads nothing confidential; writes manifest.json last, so a folder with a manifest is whole;
    refuses to write one if a check of the content fails; a second call gives the same bytes; files that an
    interrupted or earlier call left behind are removed.

    Args:
        release: folder with plan.json, public/, measurements/ and solve.json.
        context: plan and public facts.
        leaves: records of every leaf and cell.
        ledger_path: ledger of the data set, to be copied.
        optional: which files to write that a release may have.
        privacy: what is certified of the release (see `certified_privacy`).
        numbers: whence the estimates of intervals come, for a plan that asks for them.
        running: who is told about each step, and how many processes make files.

    Returns:
        the checks that went into the certificate, and what they read.

    Raises:
        CertificateError: a check failed, or the folder holds files that do not belong into a release.

    Cost: beside `leaves`, what a section takes for each process; a plan with intervals holds all tables at once.
    """
    plan, report = context.plan, running.report
    hashes = Hashes(release, {f"measurements/{path}": sha256 for path, sha256 in running.drawn.items()})
    if (numbers is None) != (plan.coverage is None):
        raise InternalError(
            "intervals are asked for and there are no estimates, or the other way round",
            code="X031",
            fix="this is a fault of the engine; the measurements are kept",
        )
    _clear(release)
    tables = _write_sections(hashes, SectionSource(context, leaves, sections_of(context.geography)), running)
    if optional.csv:
        release_tables.write_csv(release, context, leaves)
    report(Event("publish", 1, _STEPS, "microdata"))
    if numbers is not None:
        for path, data in release_tables.tables_with_intervals(
            context, leaves.whole(), numbers, sections_of(context.geography)
        ):
            hashes.write(path, data)
            report(Event("publish", 1, _STEPS, path))
    report(Event("publish", 2, _STEPS, f"{len(tables)} tables"))
    hashes.write(LEDGER, ledger_path.read_bytes())
    content = verify_content(
        release,
        verified_in(running.workers, running.lost),
        hashes.written,
        lambda _, __, text: report(Event("publish", 2, _STEPS, f"checks: {text}")),
    )
    checked = content.result
    refuse_failed_checks(checked)
    report(Event("publish", 3, _STEPS, f"{checked.n_checks} checks"))
    certificate = make_certificate(release, context, checked, privacy, hashes)
    hashes.write(CERTIFICATE, json_bytes(certificate))
    report(Event("publish", 4, _STEPS, "certificate"))
    hashes.write(
        README, readme_text(context, leaves.n_records, optional, certificate.privacy).encode("utf-8")
    )
    if optional.language is not None:
        hashes.write(REPORT, report_bytes(release, context, optional.language))
    report(Event("publish", 5, _STEPS, "README and report"))
    shutil.rmtree(release / WORK, ignore_errors=True)
    first = [*exact_paths(plan), *([] if plan.measured is None else [MEASURED_PLAN])]
    microdata = sections_of(context.geography).paths(release_tables.PERSONS, len(plan.levels) - 1)
    _refuse_strangers(release, {*_OWN, *tables, *first, *microdata, release_tables.PERSONS_CSV})
    n = len(write_manifest(release, plan.plan_hash, hashes))
    report(Event("publish", _STEPS, _STEPS, f"{n} files"))
    return content


def _write_sections(hashes: Hashes, source: SectionSource, running: PublishOptions) -> list[str]:
    """Write the microdata, and tables without intervals; return the paths of all tables."""
    context, sections = source.context, source.sections
    release_tables.check_leaves(context, source.leaves)
    tables, above, n = release_tables.all_paths(context, sections), list[Histogram](), len(sections)
    for made in each_section(section_files, source, n, running.workers, running.lost):
        for path, data in made.files.items():
            hashes.write(path, data)
        if made.above is not None:
            above.append(made.above)
    if above and context.plan.coverage is None:
        nodes = [slice(0, len(level)) for level in context.geography.levels[: sections.cut]]
        node, cell, count = (
            np.concatenate([getattr(t, c) for t in above]) for c in ("node", "cell", "count")
        )
        summed = Histogram.build(above[0].n_nodes, above[0].n_cells, node, cell, count)
        for path, data in release_tables.tables_up(context, summed, nodes, sections.cut - 1):
            hashes.write(path, data)
    return tables


def refuse_failed_checks(checked: VerifyResult) -> None:
    """Raise CertificateError with the first finding if a check failed that is not about accuracy only."""
    for check in checked.checks:
        if check.ok or check.name in ACCURACY_ONLY:
            continue
        first = check.findings[0]
        raise CertificateError(
            f"check '{check.name}' failed: {first.text}; nothing was published",
            code=first.code,
            file=first.file or None,
            node=first.node,
            details=(("expected", first.expected), ("found", first.found))
            if first.expected or first.found
            else (),
            fix="the measurements are kept and nothing more is spent; solve again from them",
        )


def _clear(release: Path) -> None:
    """Remove what an earlier call wrote; the manifest first, so that no half release looks whole."""
    for name in (MANIFEST, *(n for n in _OWN if n != MANIFEST)):
        for path in (release / name, release / (name + TEMPORARY)):
            path.unlink(missing_ok=True)
    for name in ("microdata", "tables"):
        folder = release / name
        if folder.is_symlink():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)


def _refuse_strangers(release: Path, own: set[str]) -> None:
    for path in list_files(release):
        if (path not in own and not _FOREIGN.fullmatch(path)) or (release / path).is_symlink():
            raise CertificateError(
                f"{release.name}/{path} does not belong into a release; nothing was published",
                code="V003",
                file=path,
                fix="move it out of the folder and run the same command again",
            )


def readme_text(context: PublicContext, n_records: int, optional: OptionalFiles, privacy: Privacy) -> str:
    """Return README.txt: whose release it is, what is said of privacy, what is exact, what each file holds."""
    plan, geography = context.plan, context.geography
    words, release = ", ".join(stamps(plan)), plan.release
    parted = len(sections_of(geography)) > 1
    return release_documents.README_FORM.format(
        head=f"{words}: not for use as official statistics" if words else "Release",
        title=release.title,
        id=release.id,
        people=f"{n_records:,} {plan.schema.record} records in {len(geography.leaves):,} {geography.leaves.name} areas",
        agency=release.agency,
        contact=release.contact,
        date=privacy.everything_released.up_to.date,
        licence=release.licence or "not stated; ask the contact",
        plan=plan.plan_hash[:8],
        said="".join(
            fill(line, release_documents.README_COLUMNS) + "\n" for line in _privacy_lines(plan, privacy)
        ),
        exact=fill(exact_line(privacy), release_documents.README_COLUMNS),
        persons="persons/, in parts" if parted else "persons.parquet",
        file="file, or folder of parts," if parted else "file",
        csv=release_documents.README_CSV if optional.csv else "",
        listed=release_documents.README_LISTED[plan.coverage is not None],
        base="" if plan.base is None else release_documents.README_BASE,
        report=release_documents.README_REPORT if optional.language else "",
    )


def _privacy_lines(plan: Plan, privacy: Privacy) -> list[str]:
    """Return what is said of privacy: whose noise it is, the sentence, what is not protected, what persons said."""
    disclosed = [row for row in privacy.secrets or () if row["status"] == "disclosed"]
    said = [] if plan.measured is None else [_of_another(plan, plan.measured)]
    said += ([privacy.sentence] if privacy.sentence else []) + epsilon_lines(privacy)
    if plan.delta:
        delta = exact_text(plan.delta_of(plan.loss))
        said += [
            f"Epsilon {exact_text(plan.loss)}, delta {delta}: sums over every count that one record moves."
        ]
    said += [f"Not protected: {row['name']}, {row['sentence']}." for row in disclosed]
    said += history_lines(privacy.everything_released)
    return said if plan.coverage is None else [*said, intervals_sentence(plan.coverage)]


def epsilon_lines(privacy: Privacy) -> list[str]:
    """Return a line with epsilon of the first change of one record that has one, rounded up; none if none has."""
    for row in privacy.secrets or ():
        for delta, (_, high) in row.get("epsilon", {}).items():
            at = "" if delta == "0" else f" at delta {delta}"
            return [f"Epsilon is at most {fixed(Fraction(high), 2, up=True)}{at} ({row['name']})."]
    return []


def exact_line(privacy: Privacy) -> str:
    """Return which statistics are published without noise."""
    names = ", ".join(privacy.conditional_on or ())
    if not names:
        return "No statistic is published without noise; plan.json lists the public facts that hold in every area."
    return f"Published without noise: {names}. plan.json says why, and lists the public facts that hold in every area."


def _of_another(plan: Plan, measured: PlanMeasured) -> str:
    """Return whose measurement a release solves, and what that means for chances."""
    text = release_documents.SOLVED_ANOTHER_WAY.format(release=measured.release, plan=measured.plan_hash[:8])
    return text if plan.coverage is None else f"{text} {release_documents.CHOSEN_AFTERWARDS}"
