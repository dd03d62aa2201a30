"""One charged release from lock to manifest: the protocol of topdown's ledger, then files made of the noise alone."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from pgsr import _engine
from pgsr.charge import says_what_was_spent, spend_of
from pgsr.drawn import answers_in, drawn_answers, refuse_lost_above
from pgsr.folder import MEASUREMENTS, PART, part_file, refuse_strangers
from pgsr.hierarchy import Ints
from pgsr.policy import Policy
from pgsr.prepared import Prepared, Release
from pgsr.rows import level_answers
from pgsr.write import answers_of, contents, publish
from topdown.canonical import json_bytes
from topdown.errors import ConfigError
from topdown.held import held
from topdown.interrupt import interrupt_between_parts
from topdown.ledger.book import Book, Entry
from topdown.ledger.durable import Disk
from topdown.ledger.journal import Journal, MeasuredPart, open_journal, start_journal
from topdown.ledger.ledger import Ledger, open_ledger
from topdown.ledger.place import Place
from topdown.ledger.protocol import carry_out, check_new
from topdown.ledger.records import Intent
from topdown.ledger.same_records import keyed_digest
from topdown.progress import Event, Report

BYTES_A_CELL, SPARE_BYTES = 20, 1 << 20


def run_release(
    plan: Prepared, truth: Ints, place: Place, folder: Path, policy: Policy, report: Report, disk: Disk
) -> Release:
    """Charge, draw, commit and publish a release, or go on with one that was interrupted.

    Guarantees: as `topdown.measure.measure`: a charge is durable before the noise it pays for, no part is drawn twice
    under one charge, nothing has a name that readers know before the ledger holds the commit. One run at a time
    writes to the folder. A second call after success charges nothing and gives the same bytes.

    Args:
        plan: what will be released; rehearsed.
        truth: exact answers [size][node]; confidential.
        place: the ledger.
        folder: the release.
        policy: what may be charged.
        report: told about progress.
        disk: how files are written.

    Raises:
        ConfigError: the folder is in use (C173), holds another run (C070, C071, C164), or this one and `resume` is
            not given (C086).
        BudgetError: the ledger refuses, is missing or is another one.
        DataError: a file cannot be written (D050), or answers that others were chosen by are lost (D139).
        KeyboardInterrupt: between two parts; going on later costs nothing more.
    """
    levels = plan.hierarchy.level_names
    parts = [MeasuredPart(level, PART) for level in levels]
    with ExitStack() as stack:
        stack.enter_context(says_what_was_spent(place, plan.plan_hash))
        with open_ledger(place, disk) as ledger:
            stack.enter_context(held(folder, disk, MEASUREMENTS))
            refuse_strangers(folder, levels)
            journal = _journal(plan, folder, ledger, policy, disk)
            spend = spend_of(plan, place, policy, _charged(ledger.book, journal))
            if journal is None:
                check_new(spend, ledger, again=policy.again)
            _check_room(plan, folder)
            disk.make_folder(folder / MEASUREMENTS)
            journal = journal or start_journal(folder / MEASUREMENTS, {"plan_hash": plan.plan_hash}, disk)
            refuse_lost_above(plan, journal, ledger.book)
            with interrupt_between_parts() as check:
                check()
                work = _Measuring(
                    plan, truth, report, check, partial(drawn_answers, plan, journal, ledger, disk)
                )
                carry_out(journal, ledger, parts, spend, work, disk)
            book, lines = ledger.book, disk.read(ledger.path)
        made = plan.made_of(_answers(plan, folder, disk), journal=journal.id)
        report(Event("solve", 1, 1))
        publish(made, folder, contents(made, _own_lines(lines or b"", book, journal)), disk)
        intents = book.of_journal(journal.id)
        return replace(made, folder=folder, charged=_charged(book, journal), n_attempts=len(intents))


def exact_bytes(plan: Prepared) -> bytes:
    """Return exact.json: the statistics that are published exactly, in the order of the ledger's intent."""
    return json_bytes({"total": plan.total, "public_totals": plan.sections["public_totals"]})


def _charged(book: Book, journal: Journal | None) -> Fraction:
    """Return what a run was charged so far, all attempts together."""
    intents = book.of_journal(journal.id).values() if journal else ()
    return sum((intent.loss for intent in intents), Fraction(0))


def _journal(plan: Prepared, folder: Path, ledger: Ledger, policy: Policy, disk: Disk) -> Journal | None:
    """Return the journal of the run that the folder holds, None if there is none; refuse it without `resume` (C086)."""
    journal = open_journal(folder / MEASUREMENTS, {"plan_hash": plan.plan_hash}, disk)
    if journal is None or policy.resume:
        return journal
    spent = _charged(ledger.book, journal)
    raise ConfigError(
        f"{folder} holds a run of this very release, {plan.plan_hash[:8]}",
        code="C086",
        details=(("that run spent", f"{ledger.book.binding.loss_name} {spent}" if spent else "nothing yet"),),
        fix="run the same command with --resume: its noise is kept; another folder would spend the budget again",
    )


def _check_room(plan: Prepared, folder: Path) -> None:
    """Refuse to begin what the disk has no room for: a torn part costs a new charge."""
    n_cells = plan.sizes.n_sizes * plan.hierarchy.tree.n_nodes
    if folder.is_dir() and shutil.disk_usage(folder).free < 2 * BYTES_A_CELL * n_cells + SPARE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _answers(plan: Prepared, folder: Path, disk: Disk) -> Ints:
    """Read the noisy answers [size][node] back, which the ledger has committed to."""
    names = plan.hierarchy.level_names
    found = [answers_in(disk.read(folder / part_file(level)), plan.sizes.n_sizes) for level in names]
    return np.ascontiguousarray(np.concatenate(found, axis=1), dtype=np.int64)


def _own_lines(data: bytes, book: Book, journal: Journal) -> bytes:
    """Return a ledger up to the commit of a run: what later releases add is theirs to publish."""
    last = next(e.seq for e in book.entries if e.event is book.commit_of(journal.id))
    return b"".join(data.splitlines(keepends=True)[: last + 1])


class _Measuring:
    """How the protocol's parts are made; see `topdown.ledger.protocol.Work`."""

    def __init__(
        self,
        plan: Prepared,
        truth: Ints,
        report: Report,
        check: Callable[[], None],
        above: Callable[[int], Ints],
    ) -> None:
        self._plan, self._truth, self._report, self._check, self._above = plan, truth, report, check, above
        self._n_seen = 0
        self._source = _engine.NoiseSource()

    def charged(self, entry: Entry) -> None:
        if isinstance(entry.event, Intent):
            again = f" again, for {', '.join(entry.event.covers)}" if entry.event.attempt > 1 else ""
            self._report(Event("ledger", 1, 2, f"intent {entry.event.attempt} written{again}"))

    def exact(self) -> bytes:
        return exact_bytes(self._plan)

    def digest(self, key: bytes) -> str:
        return keyed_digest(key, [np.ascontiguousarray(self._truth, dtype="<i8").data])

    def ready(self, part: MeasuredPart) -> None:
        self._check()

    def draw(self, parts: Iterator[MeasuredPart]) -> Generator[bytes]:
        yield from map(self._make, parts)

    def done(self, part: MeasuredPart, drawn: bool) -> None:
        self._n_seen += 1
        total = len(self._plan.hierarchy.level_names)
        self._report(Event("measure", self._n_seen, total, part.level))

    def _make(self, part: MeasuredPart) -> bytes:
        plan, public, source = self._plan, self._plan.sideways, self._source
        level = plan.hierarchy.level_names.index(part.level)
        if public is None:
            drawn = source.add_level(self._truth, plan.calibration, plan.hierarchy.tree, level)
        else:
            draw = partial(source.noise, plan.calibration)
            drawn = level_answers(draw, self._truth, self._above(level), level, public)
        noisy = np.zeros_like(self._truth)
        noisy[:, plan.hierarchy.tree.columns(level)] = drawn
        return answers_of(plan, noisy, level, "")
