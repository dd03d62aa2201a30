"""Choose: confidential records in, one choice out, charged once and only once before anything is drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from topdown.canonical import json_bytes
from topdown.interrupt import interrupt_between_parts
from topdown.ledger.book import Entry
from topdown.ledger.chained_lines import canonical
from topdown.ledger.choice import Choice
from topdown.ledger.durable import Disk
from topdown.ledger.journal import Journal, MeasuredPart, open_journal, start_journal
from topdown.ledger.ledger import Ledger, open_ledger
from topdown.ledger.protocol import carry_out, check_new, finish
from topdown.ledger.records import Commit
from topdown.measure.confidential import load_records
from topdown.measure.leaf_counts import LeafCounts
from topdown.measure.questions import Question
from topdown.measure.records import form_of
from topdown.measure.run_ledger import place_of
from topdown.measure.truth import records_digest
from topdown.noise import AesBits
from topdown.plan.prepare import Prepared
from topdown.plan.public_files import geography_sha256
from topdown.selection.chance import RealChance
from topdown.selection.plan import Subsampling

FOLDER, SELECTION = "choice", "selection.json"
PART = MeasuredPart("answer", "part-000", "json")


@dataclass(frozen=True, eq=False)
class Asked:
    """A question, what its answer may cost, and the run that knows records and ledger.

    Args:
        prepared: run file and public facts.
        question: what is asked, made with `plan`.
        epsilon: pure, exact; the plan keeps it.
        plan: rate and base, for the relation of the run.
    """

    prepared: Prepared
    question: Question
    epsilon: Fraction
    plan: Subsampling

    @property
    def document(self) -> dict[str, Any]:
        """selection.json."""
        release, here = self.prepared.context.plan, self.prepared.context
        document: dict[str, Any] = {
            "type": "topdown.selection",
            "version": 1,
            "data_set": release.release.data_set,
            "unit": release.schema.unit,
            "neighbours": self.plan.neighbours,
            "schema": release.schema.name,
            "geography_sha256": geography_sha256(here.geography),
            "epsilon": str(self.epsilon),
            "rate": str(self.plan.rate),
            "base": str(self.plan.base),
            "question": self.question.asked,
        }
        return document | {"plan_hash": hashlib.sha256(canonical(document)).hexdigest()}

    @property
    def spend(self) -> ChoiceSpend:
        """What it may charge to the ledger of its run."""
        release, policy = self.prepared.context.plan, self.prepared.run.ledger
        plan_hash = self.document["plan_hash"]
        return ChoiceSpend(
            release=f"{self.question.asked['kind']}-{plan_hash[:8]}",
            plan_hash=plan_hash,
            plan=self.plan,
            epsilon=self.epsilon,
            loss_name=release.loss_name,
            limit=policy.limit,
            limit_reason=policy.reason,
        )


@dataclass(frozen=True)
class ChoiceSpend:
    """What a choice may charge; see `protocol.Spending`."""

    release: str
    plan_hash: str
    plan: Subsampling
    epsilon: Fraction
    loss_name: str
    limit: Fraction
    limit_reason: str
    covers: tuple[str, ...] = (PART.level,)
    delta_limit: ClassVar[Fraction] = Fraction(0)

    def intent(self, covers: tuple[str, ...], attempt: int, journal_id: str) -> Choice:
        """Return the intent that pays for drawing the choice once."""
        return Choice(
            release=self.release,
            plan_hash=self.plan_hash,
            neighbours=self.plan.neighbours,
            epsilon=self.epsilon,
            rate=self.plan.rate,
            base=self.plan.base,
            loss_name=self.loss_name,
            attempt=attempt,
            covers=covers,
            journal=journal_id,
        )


def choose(asked: Asked, out: Path, *, again: bool = False, disk: Disk | None = None) -> Commit:
    """Draw a choice once, and write it to `out/choice`; a second call changes nothing.

    Guarantees what `measure` does: the charge is durable before the sample is drawn, nothing is drawn twice under one
    charge whatever crashes, and the choice has no name that readers know before the ledger holds the commit.

    Args:
        asked: question and run.
        out: folder of the choice; created if missing, held by whoever calls.
        again: choose although the ledger holds this choice already, in another folder.
        disk: another model of the disk, for tests.

    Returns: the ledger's commit, which names every charge.

    Raises:
        ConfigError: `out` belongs to another choice, or is damaged.
        DataError: the records break a rule, or are others than those of the choice there is.
        BudgetError: the ledger is missing, another one, in use, damaged, rolled back, or refuses the loss.
        CertificateError: committed files are missing or altered.
        KeyboardInterrupt: once the choice is drawn.
    """
    run = _Call(asked, out / FOLDER, asked.spend, disk or Disk())
    with run.ledger() as ledger:  # what it refuses is refused before the records are read
        journal, made = run.begun(ledger, again=again)
        if journal is not None and made is not None:
            finish(journal, ledger, [PART], made, run.disk)
            return made
    prepared = asked.prepared
    records = load_records(prepared.records_path, prepared.context, form_of(prepared.run))
    with run.ledger() as ledger:
        journal, _ = run.begun(ledger, again=again)
        _write_public(asked, out, run.disk)
        run.disk.make_folder(run.folder)
        journal = journal or start_journal(run.folder, run.binds, run.disk)
        with interrupt_between_parts() as check:
            check()
            work = _Choosing(asked, records.open_counts())
            carry_out(journal, ledger, [PART], run.spend, work, run.disk)
        made = ledger.book.commit_of(journal.id)
        if made is None:
            raise ValueError("the protocol ended without a commit")
        return made


@dataclass(frozen=True, eq=False)
class _Call:
    """One call of `choose`: what stays the same from step to step."""

    asked: Asked
    folder: Path
    spend: ChoiceSpend
    disk: Disk

    @property
    def binds(self) -> dict[str, str]:
        return {"plan_hash": self.spend.plan_hash}

    def ledger(self) -> AbstractContextManager[Ledger]:
        return open_ledger(place_of(self.asked.prepared), self.disk)

    def begun(self, ledger: Ledger, *, again: bool) -> tuple[Journal | None, Commit | None]:
        journal = open_journal(self.folder, self.binds, self.disk)
        if journal is None:
            check_new(self.spend, ledger, again=again)
            return None, None
        return journal, ledger.book.commit_of(journal.id)


class _Choosing:
    """How the one part is made of confidential records; see `protocol.Work`."""

    def __init__(self, asked: Asked, leaves: LeafCounts) -> None:
        self._asked, self._leaves = asked, leaves

    def charged(self, entry: Entry) -> None:
        """Tell nobody: the screen says what is spent at the end."""

    def exact(self) -> None:
        """Publish nothing exactly."""

    def digest(self, key: bytes) -> str:
        return records_digest(self._leaves, key)

    def ready(self, part: MeasuredPart) -> None:
        """Go on: there is one part."""

    def draw(self, parts: Iterator[MeasuredPart]) -> Generator[bytes]:
        yield from map(self._make, parts)

    def done(self, part: MeasuredPart, drawn: bool) -> None:
        """Tell nobody."""

    def _make(self, _: MeasuredPart) -> bytes:
        answer = self._asked.question.answer(self._leaves.whole(), RealChance(AesBits()))
        head = {
            "type": "topdown.selection.result",
            "version": 1,
            "plan_hash": self._asked.document["plan_hash"],
        }
        return json_bytes(head | answer)


def _write_public(asked: Asked, out: Path, disk: Disk) -> None:
    """Write the question and its public files, durably, before anything is spent."""
    disk.make_folder(out / "public")
    for path, data in (*asked.question.files.items(), (SELECTION, json_bytes(asked.document))):
        disk.replace(out / path, data)
