"""Make one release of group sizes, or one simulation: check, rehearse, then charge and draw, or draw seeded noise.

A charge is durable before the noise it pays for; what a crash tears is resumed, and only lost noise is paid for again.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
from msgspec import to_builtins
from pyarrow import parquet

from pgsr.estimators import all_answers, rows_answers_of_level
from pgsr.formats import (
    ANSWER,
    JOURNAL,
    MANIFEST,
    MEASUREMENTS,
    PART,
    WRITING,
    Certificate,
    part_file,
    release_files,
)
from pgsr.group_files import (
    answers_bytes,
    certificate_document,
    hash_sections,
    plan_sections,
    publish_release,
    release_contents,
)
from pgsr.group_tables import check_totals, origin_of_groups
from pgsr.hierarchy import Hierarchy
from pgsr.level_noise import LAW_NAMES, Calibration, NoiseSource, calibrate
from pgsr.neighbours import relation_name
from pgsr.prepared_release import Prepared, Release, check_shape, refuse_unkept_totals, with_listed_units
from pgsr.privacy_section import refuse_empty_promise
from pgsr.released_groups import ReleasedFiles, check_form, check_privacy, check_statement
from pgsr.run_settings import LedgerFile, Plan, Policy, Source, ledger_place, refuse_unnamed
from topdown.arrays import Ints
from topdown.errors import SPEND_NOTE, ConfigError, DataError, TopdownError
from topdown.formats import json_bytes
from topdown.inputs import has_stamps
from topdown.output_paths import refuse_inside, refuse_needed
from topdown.privacy.ledger import (
    DIGEST_FILE,
    Book,
    Disk,
    DrawnLaw,
    Journal,
    Ledger,
    LedgerLocation,
    MeasuredPart,
    NoiseCharge,
    PartSize,
    disk_errors,
    folder_lock,
    keyed_digest,
    run_charged,
    spend_note,
    with_charge,
)
from topdown.progress import Event, Report, silent
from topdown.publish.ledger_statement import spent_statement
from topdown.resources import report_slow_kernels
from topdown.verify.findings import Findings
from topdown.verify.ledger_reader import ledger_of_bytes

_DRAWN = re.compile(rf"{PART}\.[0-9]+\.[0-9a-f]{{64}}\.drawn")
QUERY = "group sizes"
SPENT = "this run spent"
NOTHING = "nothing"
P = ParamSpec("P")
R = TypeVar("R")


def with_spend_note(run: Callable[P, R]) -> Callable[P, R]:
    """Make a command add to every error what it has spent itself: nothing, unless it was said before."""

    @wraps(run)
    def telling(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return run(*args, **kwargs)
        except TopdownError as error:
            notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(SPEND_NOTE)]
            if SPENT not in dict(error.details):
                error.details += ((SPENT, notes[0].removeprefix(SPEND_NOTE) if notes else NOTHING),)
            raise

    return telling


def refuse_used_folder(out: Path, *, resumable: bool) -> None:
    """Refuse a folder that no run can write to or that holds something else; writes nothing.

    Args:
        out: folder to write.
        resumable: whether a run that began there may go on.

    Raises:
        ConfigError: C172 no folder can be there; C164 something else is there.
    """
    shown = ascii(str(out))[1:-1]
    try:
        is_link, there = stat.S_ISLNK(out.lstat().st_mode), True
        names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    except FileNotFoundError:
        is_link, there, names = out.is_symlink(), False, set()
    except (OSError, ValueError):  # too long, below a file, without end, or with a character no name has
        raise _no_folder(shown, "is no path that can be written") from None
    if is_link:
        raise _no_folder(shown, "is a link")
    begun = resumable and names and (out / MEASUREMENTS / JOURNAL).is_file()
    if (there and not out.is_dir()) or (names and not begun and not _only_begun(out, names)):
        raise ConfigError(
            f"{shown} exists and is not an empty folder",
            code="C164",
            fix="give a new folder, or, with --resume, that of a run that was interrupted",
        )


def _only_begun(out: Path, names: set[str]) -> bool:
    """Tell whether a run that was killed before its first durable step is all there is."""
    inside = out / MEASUREMENTS
    if names != {MEASUREMENTS} or inside.is_symlink() or not inside.is_dir():
        return False
    return {path.name for path in inside.iterdir()} <= {JOURNAL + WRITING}


def _no_folder(shown: str, why: str) -> ConfigError:
    return ConfigError(
        f"--out {shown} {why}", code="C172", fix="give --out a new folder of its own; nothing was spent"
    )


def refuse_strangers(out: Path, levels: Sequence[str]) -> None:
    """Refuse a folder that holds anything but files of this run, whole or half written (ConfigError C164)."""
    own = {*release_files(levels, is_release=True), MANIFEST, f"{MEASUREMENTS}/{DIGEST_FILE}"}
    own |= {name + WRITING for name in own}
    folders = {MEASUREMENTS, *(f"{MEASUREMENTS}/{level}" for level in levels)}
    for place, inner, names in os.walk(out):
        for name in (*inner, *names):
            path = Path(place, name)
            inside = path.relative_to(out).as_posix()
            drawn = _DRAWN.fullmatch(name) and inside.removesuffix(f"/{name}") in folders
            known = inside in folders if name in inner else drawn or inside in own
            if path.is_symlink() or not known:
                raise ConfigError(
                    f"{ascii(str(path))[1:-1]} does not belong to the run in {out}",
                    code="C164",
                    fix="move it out of the folder and run the same command again; nothing was spent",
                )


def level_laws(noise: Calibration, levels: tuple[str, ...]) -> dict[str, DrawnLaw]:
    """Return, per level, what the ledger records: the law, and what the worst neighbour moves there, exactly.

    One step is the worst at every level at once (see `joint_sensitivity`), and moves each answer by one at most, so
    the composition of these laws is the loss of a single pair of neighbours.

    Args:
        levels: their names, root first.
    """
    law = LAW_NAMES[noise.noise]
    drawn = zip(levels, noise.parameters, noise.sensitivities, strict=True)
    return {name: DrawnLaw(law, parameter, 1, moved, name, QUERY) for name, parameter, moved in drawn}


def answers_in(data: bytes | None, n_sizes: int) -> Ints:
    """Return the answers [size][region] of the file of one level."""
    with parquet.ParquetFile(pa.BufferReader(data or b""), pre_buffer=False) as file:
        # A thread of Arrow's that is left when the program ends could abort it.
        table = file.read([ANSWER], use_threads=False)
    return np.asarray(table.column(ANSWER).to_numpy().reshape(-1, n_sizes).T)


def resumed_answers(plan: Prepared, n_levels: int, drawn: Callable[[MeasuredPart], bytes]) -> Ints:
    """Return the noisy answers [size][node] of the first levels of a run, 0 below them.

    Args:
        n_levels: how many levels; the ledger has recorded their parts.
        drawn: reads the file of such a part.
    """
    tree = plan.hierarchy.tree
    noisy = np.zeros((plan.sizes.n_sizes, tree.n_nodes), dtype=np.int64)
    for level, name in enumerate(plan.hierarchy.level_names[:n_levels]):
        noisy[:, tree.columns(level)] = answers_in(drawn(MeasuredPart(name, PART)), len(noisy))
    return noisy


def refuse_lost_levels(plan: Prepared, journal: Journal, book: Book) -> None:
    """Refuse to draw a level again while answers that were chosen by it are whole (DataError D139).

    A level is begun when all above it are recorded, so that no crash leads here: a file was damaged or removed.
    """
    if plan.rows_design is None or book.commits.get(journal.id) is not None:
        return
    names = plan.hierarchy.level_names
    whole = [journal.find(MeasuredPart(name, PART), book) is not None for name in names]
    if whole != sorted(whole, reverse=True):
        raise DataError(
            f"the answers of level {names[whole.index(False)]} are lost, by which those of levels below were chosen",
            code="D139",
            fix="restore the folder from a copy; or release into another folder with --again, which is charged anew",
        )


BYTES_A_CELL = 20  # of a release


def run_release(
    plan: Prepared,
    truth: Ints,
    place: LedgerLocation,
    folder: Path,
    policy: Policy,
    report: Report,
    disk: Disk,
) -> Release:
    """Charge, draw, commit and publish a release, or go on with one that was interrupted.

    Guarantees: a charge is durable before the noise it pays for, no part is drawn twice
    under one charge, nothing has a name that readers know before the ledger holds the commit. One run at a time
    writes to the folder. A second call after success charges nothing and gives the same bytes.

    Args:
        plan: what will be released; rehearsed.
        truth: exact answers [size][node]; confidential.
        folder: the release.

    Raises:
        ConfigError: the folder is in use (C173), holds another run (C070, C071, C164), or this one and `resume` is
            not given (C086).
        BudgetError: the ledger refuses, is missing or is another one.
        DataError: a file cannot be written (D050), or answers that others were chosen by are lost (D139).
        KeyboardInterrupt: between two parts; going on later costs nothing more.
    """
    work = _GroupSizes(plan, truth, place, folder, policy, disk)
    with spend_note(place, plan.plan_hash), disk_errors(folder), folder_lock(folder, disk, MEASUREMENTS):
        refuse_strangers(folder, plan.hierarchy.level_names)
        receipt = run_charged(work, again=policy.again, resume=policy.resume, report=report, disk=disk)
        report(Event("solve", 0, 1))
        names = plan.hierarchy.level_names
        found = [answers_in(disk.read(folder / part_file(level)), plan.sizes.n_sizes) for level in names]
        made = plan.release_from(
            np.ascontiguousarray(np.concatenate(found, axis=1), dtype=np.int64), journal=receipt.journal
        )
        report(Event("solve", 1, 1))
        report(Event("publish", 0, 1))
        publish_release(made, folder, release_contents(made, receipt.lines), disk)
        report(Event("publish", 1, 1))
        return replace(made, folder=folder, charged=receipt.loss, n_attempts=len(receipt.charges))


@dataclass(frozen=True, eq=False)
class _GroupSizes:
    """Group sizes as a charged run of one part a level; see `ChargedWork`."""

    plan: Prepared
    truth: Ints
    location: LedgerLocation
    out: Path
    policy: Policy
    disk: Disk

    @property
    def folder(self) -> Path:
        return self.out / MEASUREMENTS

    @property
    def binds(self) -> dict[str, str]:
        return {"plan_hash": self.plan.plan_hash}

    @cached_property
    def parts(self) -> list[MeasuredPart]:
        return [MeasuredPart(level, PART) for level in self.plan.hierarchy.level_names]

    @cached_property
    def noise_source(self) -> NoiseSource:
        return NoiseSource()

    def charge(self, so_far: Fraction) -> NoiseCharge:
        plan = self.plan
        return NoiseCharge(
            release=f"{self.location.binding.data_set}-{plan.plan_hash[:8]}",
            plan_hash=plan.plan_hash,
            laws={
                level: (law,)
                for level, law in level_laws(plan.calibration, plan.hierarchy.level_names).items()
            },
            exact=tuple(plan.sections["privacy"]["conditional_on"]),
            limits=self.policy.limits,
            neighbours=relation_name(plan.calibration.relations, plan.sizes.smallest),
        )

    def open_records(self) -> None:
        """Go on: the groups were read and checked before."""

    def preflight(self, journal: Journal | None, ledger: Ledger) -> None:
        if journal is None:
            book, charged = with_charge(
                (self.disk.read(ledger.path) or b""), ledger.path, self.charge(Fraction(0)), "0" * 32
            )
            found = Findings()
            check_statement(found, ledger_of_bytes(charged), to_builtins(spent_statement(book)))
            if not found.ok:
                raise _refused(found.kept[0].text)
        else:
            refuse_lost_levels(self.plan, journal, ledger.book)

    def exact(self) -> bytes:
        plan = self.plan
        return json_bytes({"total": plan.total, "public_totals": plan.sections["public_totals"]})

    def digest(self, key: bytes) -> str:
        return keyed_digest(key, [np.ascontiguousarray(self.truth, dtype="<i8").data])

    def size(self, part: MeasuredPart) -> PartSize:
        n_cells = self.plan.sizes.n_sizes * self.plan.hierarchy.tree.n_nodes
        return PartSize(n_bytes=2 * BYTES_A_CELL * n_cells)

    def has_form(self, part: MeasuredPart, data: bytes) -> bool:
        return has_stamps("pgsr.measurements", data, {})

    def draw(self, parts: Iterator[MeasuredPart], drawn: Callable[[MeasuredPart], bytes]) -> Generator[bytes]:
        for part in parts:
            plan, public, source = self.plan, self.plan.rows_design, self.noise_source
            level = plan.hierarchy.level_names.index(part.level)
            if public is None:
                answers = source.add_level(self.truth, plan.calibration, plan.hierarchy.tree, level)
            else:
                draw = partial(source.noise, plan.calibration)
                above = resumed_answers(plan, level, drawn)
                answers = rows_answers_of_level(draw, self.truth, above, level, public)
            noisy = np.zeros_like(self.truth)
            noisy[:, plan.hierarchy.tree.columns(level)] = answers
            yield answers_bytes(plan, noisy, level, "")


def refuse_unverifiable(plan: Prepared, report: Report) -> None:
    """Refuse a plan whose estimator stops, whose files cannot be written or whose certificate would not verify.

    Raises:
        ConfigError: C175 the certificate would fail its own check; or what the estimator refuses.
    """
    report(Event("preflight", 0, 2, "estimate of made-up answers"))
    made = plan.rehearsal()
    report(Event("preflight", 1, 2, "files"))
    document = certificate_document(made)
    try:
        release_contents(made)
        check_form(document, Certificate)
    except ValueError as error:  # a text that no file holds, or a number past what a certificate may state
        raise _refused(str(error)[:200] if str(error).isprintable() else type(error).__name__) from None
    tree = plan.hierarchy.tree
    parents, levels = tree.parent, tree.level_of.astype(np.int64)
    found = Findings()
    check_privacy(
        ReleasedFiles(Path(), document, made.counts, made.bounds, made.noisy, parents, levels), found
    )
    if not found.ok:
        raise _refused(found.kept[0].text)
    report(Event("preflight", 2, 2))


def _refused(why: str) -> ConfigError:
    return ConfigError(
        f"this release would not pass pgsr verify: {why}",
        code="C175",
        fix="change what the message names; nothing was spent",
    )


OWN_LEDGER, OWN_POLICY = LedgerFile(), Policy()


@with_spend_note
def release(
    plan: Plan,
    source: Source,
    out: Path | str,
    ledger: LedgerFile = OWN_LEDGER,
    policy: Policy = OWN_POLICY,
    *,
    approve: Callable[[Prepared], None] = lambda _: None,
    report: Report = silent,
    disk: Disk | None = None,
) -> Release:
    """Release the number of groups of every size in every region of a hierarchy.

    The data are checked completely before the ledger is opened; the ledger holds a durable intent before the
    first bit of noise is drawn, the hash of every noisy part before it may be read, and a commit before anything is
    made of them (see `run_release`).

    >>> import pgsr
    >>> regions = {"region": ["land", "N", "S"], "parent": ["", "land", "land"], "level": ["land", "part", "part"]}
    >>> groups = {"region": ["N", "S"], "size": [1, 2], "count": [9, 4]}
    >>> source = pgsr.Source(groups, regions, data_set="firms")
    >>> planned, named = pgsr.plan(sizes=3, epsilon=1), pgsr.LedgerFile("office/groups.jsonl")
    >>> place = pgsr.ledger_place(None, planned.binding("firms"), named)
    >>> ledger = pgsr.LedgerFile(named.path, pgsr.new_ledger(place))
    >>> made = pgsr.release(planned, source, "sizes", ledger, pgsr.Policy(epsilon_limit=2))
    >>> made.is_release, all(check.ok for check in pgsr.verify("sizes"))
    (True, True)

    Args:
        plan: what is released, and how it is measured.
        source: the groups, confidential, and their regions.
        out: folder to write; what is paid for must outlive a crash.
        ledger: that of the data set, which must exist (see `new_ledger`).
        policy: what may be charged.
        approve: called with what will be released before the ledger is opened; raises to refuse. A call of this
            function is the approval if it is not given.
        report: called with progress.
        disk: another model of the disk, for tests.

    Raises:
        TopdownError: its details say what this run has spent: nothing, unless noise may have been drawn.
        KeyboardInterrupt: between two parts; its note says what is spent.
    """
    regions, noise = _regions_and_noise(plan, source)
    if noise.name == "published":
        raise ConfigError(
            f"the published calibration claims {noise.claimed} but costs {noise.loss}: it is not private",
            code="C162",
            fix="use the correct calibration; to reproduce the paper add a simulation seed (--simulate 1)",
        )
    folder = Path(out)
    refuse_used_folder(folder, resumable=True)
    report_slow_kernels("pgsr", report)
    prepared, leaves = _prepare(plan, source, regions, noise, report)
    place = ledger_place(source.file, plan.binding(source.data_set), ledger)
    refuse_unnamed(place)
    refuse_inside(folder, "out", (place.path, place.registry_folder, *source.files))
    refuse_needed(place.path, "ledger", source.files)
    refuse_unverifiable(prepared, report)
    approve(prepared)
    return run_release(prepared, prepared.truth(leaves), place, folder, policy, report, disk or Disk())


@with_spend_note
def simulate(
    plan: Plan,
    source: Source,
    seed: int,
    out: Path | str | None = None,
    *,
    truth_is_public: str = "",
    report: Report = silent,
) -> Release:
    """Draw seeded noise, which protects nobody and is not charged; stamped NOT-A-RELEASE.

    >>> import pgsr
    >>> regions = {"region": ["land", "N", "S"], "parent": ["", "land", "land"], "level": ["land", "part", "part"]}
    >>> source = pgsr.Source({"region": ["N", "S"], "size": [1, 2], "count": [9, 4]}, regions)
    >>> made = pgsr.simulate(pgsr.plan(sizes=3, epsilon=1), source, 1, truth_is_public="made up for this example")
    >>> int(made.counts[:, 0].sum())  # the number of groups is public
    13

    Args:
        plan: as for `release`; its calibration may be the published one, which is not private as claimed.
        source: made-up groups (a file marked by `pgsr synth`) or public ones only.
        seed: of the noise.
        out: folder to write; None keeps the result in memory.
        truth_is_public: why groups without a mark are public; stamped on the result.
        report: called with progress.

    Raises:
        TopdownError: C121 if the groups are not known to be made up or public.
    """
    regions, noise = _regions_and_noise(plan, source)
    folder = None if out is None else Path(out)
    if folder is not None:
        refuse_used_folder(folder, resumable=False)
    origin = origin_of_groups(source.table, truth_is_public)
    report_slow_kernels("pgsr", report)
    prepared, leaves = _prepare(plan, source, regions, noise, report)
    report(Event("measure", 0, 1))
    truth = prepared.truth(leaves)
    noisy = all_answers(NoiseSource(seed), truth, noise, regions.tree, prepared.rows_design)
    report(Event("measure", 1, 1))
    made = prepared.release_from(noisy, seed=seed, origin=origin)
    report(Event("solve", 1, 1))
    if folder is None:
        return made
    disk = Disk()
    with disk_errors(folder), folder_lock(folder, disk, MEASUREMENTS):
        publish_release(made, folder, release_contents(made), disk)
    return replace(made, folder=folder)


def _regions_and_noise(plan: Plan, source: Source) -> tuple[Hierarchy, Calibration]:
    """Return the regions and the noise of a plan, if it promises anything in them."""
    regions = source.regions()
    check_shape(regions, plan.sizes)
    refuse_unkept_totals(plan, regions)
    noise = calibrate(plan.kind, regions.tree, plan.sizes, plan.budget, plan.steps)
    refuse_empty_promise(plan, regions.tree)
    return regions, noise


def _prepare(
    plan: Plan, source: Source, regions: Hierarchy, noise: Calibration, report: Report
) -> tuple[Prepared, Ints]:
    """Return what is decided before noise is drawn, and the counts [size][leaf], which are confidential."""
    report(Event("check", 0, 1))
    leaves = source.leaves(regions, plan.sizes)
    total = check_totals(leaves, regions, plan.total, plan.public)
    plan = with_listed_units(plan, regions, leaves)
    report(Event("check", 1, 1))
    sections = plan_sections(plan, regions, total, noise)
    mechanism, kind = plan.post_processing, plan.kind
    prepared = Prepared(regions, plan.sizes, total, mechanism, kind, noise, sections, hash_sections(sections))
    return prepared, leaves
