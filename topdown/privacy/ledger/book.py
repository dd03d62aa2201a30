"""What a ledger says: sealed lines, the records in them checked one against the other, and what they add up to.

Sealed lines are JSON objects, one a line, each carrying its number, the hash of the line before and its own. `prev`
is the SHA-256 of the bytes of the line before, without its newline (64 zeros for the first). `hash` is the SHA-256 of
the line's canonical JSON without the key `hash`. So a changed byte anywhere is seen, in the last line too, and what a
crash left of an unfinished last line can be told from damage.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topdown.errors import BudgetError
from topdown.formats.caps import exact_text, parse_json
from topdown.formats.common import LossName
from topdown.privacy import accountant
from topdown.privacy.exact_values import fixed
from topdown.privacy.ledger.ledger_records import (
    LEDGER_VERSION,
    LOSS_NAMES,
    Attested,
    Begun,
    Charge,
    Choice,
    Commit,
    Drawn,
    Event,
    LedgerBinding,
    LimitChange,
    LimitedRecord,
    Limits,
    Opened,
    Refund,
    TakenOver,
    from_fields,
    level_of,
)
from topdown.privacy.relation import steps_between, why_not_charged

if TYPE_CHECKING:
    from topdown.privacy.accountant import NoisyCounts, WholeLoss

ZEROS = "0" * 64


@dataclass(frozen=True)
class SealedLine:
    """One sealed line: its fields without the seal, and the SHA-256 of its bytes."""

    fields: dict[str, object]
    sha256: str


def canonical_line(fields: dict[str, object]) -> bytes:
    """Write JSON with sorted keys and no spaces, as UTF-8."""
    return json.dumps(
        fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def time_text() -> str:
    """Return the time now as records have it (UTC)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seal(fields: dict[str, object], seq: int, prev: str) -> bytes:
    """Return a sealed line with its newline."""
    inner = fields | {"seq": seq, "prev": prev}
    return canonical_line(inner | {"hash": hashlib.sha256(canonical_line(inner)).hexdigest()}) + b"\n"


def line_hash(line: bytes) -> str:
    """Return what the next line's `prev` must be."""
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def read_lines(data: bytes) -> tuple[list[SealedLine], int, bool]:
    """Check a file of sealed lines.

    Returns:
        (lines, n_bytes, whole): the lines, the bytes they take up, and False if the last of them lacks only
        its newline. Bytes after `n_bytes` are an unfinished last line, which never took effect.

    Raises:
        ValueError: with the 1-based number of the damaged line.
    """
    *whole, tail = data.split(b"\n")
    lines: list[SealedLine] = []
    for raw in whole:
        lines.append(_open_line(raw, lines))
    n_bytes = len(data) - len(tail)
    if not tail or not _holds_an_object(tail):
        return lines, n_bytes, True
    lines.append(_open_line(tail, lines))
    return lines, len(data), False


def _open_line(raw: bytes, before: list[SealedLine]) -> SealedLine:
    number = len(before)
    try:
        fields = parse_json(raw)
        stated = fields.pop("hash")
        sound = (
            canonical_line(fields | {"hash": stated}) == raw
            and hashlib.sha256(canonical_line(fields)).hexdigest() == stated
            and fields.pop("seq") == number
            and fields.pop("prev") == (before[-1].sha256 if before else ZEROS)
        )
    except (ValueError, KeyError, AttributeError, TypeError):
        sound = False
    if not sound:
        raise ValueError(number + 1)
    return SealedLine(fields, line_hash(raw))


def _holds_an_object(tail: bytes) -> bool:
    """Tell whether a tail without newline starts with a complete JSON object: then it is no torn write."""
    try:
        json.JSONDecoder().raw_decode(tail.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return False
    return True


@dataclass(frozen=True)
class Entry:
    """One record with its place, its time (UTC) and the SHA-256 of its line."""

    seq: int
    time: str
    event: Event
    sha256: str


class Book:
    """All records of a ledger; grows with `add`, which costs the same however long it is.

    Attributes:
        entries: every record in order.
        intents: every intent, of noise or of a choice, by its number, voided ones included.
        voided, committed: numbers of the intents taken back, and of those whose noise may be read.
        begun: (journal, part) -> intents it was begun under, in order.
        drawn: (intent, part) -> SHA-256 of the file the part became.
        commits: journal -> the commit of its measurement.
        taken_over: id of a former ledger -> the last record by which it was taken over.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.intents: dict[int, Charge] = {}
        self.voided: set[int] = set()
        self.committed: set[int] = set()
        self.begun: dict[tuple[str, str], list[int]] = {}
        self.drawn: dict[tuple[int, str], str] = {}
        self.taken_over: dict[str, TakenOver] = {}
        self.commits: dict[str, Commit] = {}
        self._of_journal: dict[str, list[int]] = {}

    @property
    def head(self) -> str:
        """SHA-256 of the last line: print it elsewhere, and a ledger cut back later is found out."""
        return self.entries[-1].sha256 if self.entries else ZEROS

    @property
    def opened(self) -> Opened | None:
        """The first record; None while there is none."""
        first = self.entries[0].event if self.entries else None
        return first if isinstance(first, Opened) else None

    @property
    def binding(self) -> LedgerBinding:
        """What the ledger is bound to; ValueError while it is empty."""
        if self.opened is None:
            raise ValueError("an empty ledger is bound to nothing")
        return self.opened.binding

    @property
    def attestations(self) -> list[Entry]:
        """Every record by which somebody attested that the ledger, or one that was taken over, is complete."""
        return [entry for entry in self.entries if isinstance(entry.event, Attested | TakenOver)]

    @property
    def refunds(self) -> list[Entry]:
        """Every record by which a charge was taken back."""
        return [entry for entry in self.entries if isinstance(entry.event, Refund)]

    @property
    def stated_limits(self) -> list[tuple[Entry, Limits]]:
        """The limits of the first record, or else of the first charge that was checked against some; every change."""
        found: list[tuple[Entry, Limits]] = []
        for entry in self.entries:
            limits = entry.event.limits if isinstance(entry.event, LimitedRecord) else None
            if limits is not None and (not found or isinstance(entry.event, LimitChange)):
                found.append((entry, limits))
        return found

    @property
    def limits(self) -> Limits | None:
        """The limits in force; None: of one release alone."""
        found = self.stated_limits
        return found[-1][1] if found else None

    @property
    def charges(self) -> list[tuple[int, Charge]]:
        """Every charge that counts, finished or not, with the number of the record that holds it."""
        live = [(seq, intent) for seq, intent in self.intents.items() if seq not in self.voided]
        return [
            *live,
            *(
                (entry.seq, past.charge)
                for entry in self.entries
                if isinstance(entry.event, TakenOver) and entry.event is self.taken_over[entry.event.ledger]
                for past in entry.event.charges
            ),
        ]

    @property
    def unfinished(self) -> set[tuple[int, str]]:
        """(number of the record, journal) of every charge whose noise was never committed."""
        past = (
            (entry.seq, one.charge.journal)
            for entry in self.entries
            if isinstance(entry.event, TakenOver)
            for one in entry.event.charges
            if not one.committed
        )
        open_ones = self.intents.keys() - self.voided - self.committed
        return {*past, *((seq, self.intents[seq].journal) for seq in open_ones)}

    @property
    def charged(self) -> dict[LossName, Fraction]:
        """Sums of the losses of all charges that count, by kind."""
        return losses_by_kind(charge for _, charge in self.charges)

    @property
    def charged_delta(self) -> Fraction:
        """Sum of the deltas beside them."""
        return sum((charge.delta for _, charge in self.charges), Fraction(0))

    def composed(self, neighbours: str | None = None, more: Sequence[Charge] = ()) -> WholeLoss | None:
        """Return the loss of everything charged, finished or not, as one composition.

        Args:
            neighbours: relation whose change is asked about; that of the ledger if None.
            more: charges that are not in the book yet.

        Returns: None where some charge says nothing of that change (see `steps_between`).
        """
        about = self.binding.neighbours if neighbours is None else neighbours
        noise: list[NoisyCounts] = []
        pure: list[tuple[Fraction, Fraction]] = []
        for charge in (*(one for _, one in self.charges), *more):
            times = steps_between(about, charge.neighbours)
            if times is None:
                return None
            noise += [
                accountant.NoisyCounts(
                    x.law, x.parameter, times * x.coordinates, x.shift, x.delta, x.whole_weights
                )
                for x in charge.laws
            ]
            if isinstance(charge, Choice):
                pure.append((times * charge.epsilon, charge.exp_epsilon**times))
        return accountant.WholeLoss(tuple(noise), tuple(pure))

    def of_journal(self, journal: str) -> dict[int, Charge]:
        """Return the intents one measurement may draw under, by number."""
        return {s: self.intents[s] for s in self._of_journal.get(journal, ()) if s not in self.voided}

    def n_attempts(self, journal: str) -> int:
        """Return how many intents a measurement has, voided ones included."""
        return len(self._of_journal.get(journal, ()))

    def problem(self, event: Event) -> str:
        """Say why a record cannot come next; empty if it can."""
        if isinstance(event, Opened):
            return "it is already open" if self.entries else ""
        if not self.entries:
            return "its first record does not open it"
        if isinstance(event, Charge):
            return relation_problem(self.binding, event) or lacks_weights(event)
        if isinstance(event, TakenOver):
            return self._taking_problem(event)
        if isinstance(event, Commit):
            return self._commit_problem(event)
        if isinstance(event, Refund):
            return self._gone(event.intent) or (
                "" if event.reason and event.witness else "a void needs a reason and a witness"
            )
        if isinstance(event, Begun | Drawn):
            return self._part_problem(event)
        if isinstance(event, LimitChange):
            return "these are its limits already" if event.limits == self.limits else ""
        return "" if event.reason else "whoever attests that a ledger is complete gives a reason"

    def _taking_problem(self, event: TakenOver) -> str:
        before = self.taken_over.get(event.ledger)
        if before is not None and (event.records < before.records or event.sha256 == before.sha256):
            return f"ledger {event.ledger} was taken over already, or a newer state of it"
        problems = (relation_problem(self.binding, past.charge) for past in event.charges)
        return next(filter(None, problems), "")

    def _gone(self, seq: int) -> str:
        if seq not in self.intents:
            return f"record {seq} is no intent"
        if seq in self.voided or seq in self.committed:
            return f"intent {seq} is already {'voided' if seq in self.voided else 'committed'}"
        return ""

    def _commit_problem(self, commit: Commit) -> str:
        gone = next(filter(None, map(self._gone, commit.intents)), "")
        if gone or not commit.intents:
            return gone or "a commit names no intent"
        if any(self.intents[seq].journal != commit.journal for seq in commit.intents):
            return "a commit names an intent of another journal"
        return "it is committed already" if commit.journal in self.commits else ""

    def _part_problem(self, event: Begun | Drawn) -> str:
        gone = self._gone(event.intent)
        if gone:
            return gone
        intent = self.intents[event.intent]
        try:
            covered = level_of(event.part) in intent.covers
        except ValueError as error:
            return str(error)
        if not covered:
            return f"intent {event.intent} does not cover {event.part}"
        begun = event.intent in self.begun.get((intent.journal, event.part), ())
        if isinstance(event, Begun):
            return f"{event.part} was begun under intent {event.intent} before" if begun else ""
        if not begun:
            return f"{event.part} was not begun under intent {event.intent}"
        recorded = (event.intent, event.part) in self.drawn
        return f"{event.part} was drawn under intent {event.intent} before" if recorded else ""

    def add(self, event: Event, time: str, sha256: str) -> Entry:
        """Append one record and return it; ValueError if it cannot come next."""
        problem = self.problem(event)
        if problem:
            raise ValueError(problem)
        entry = Entry(len(self.entries), time, event, sha256)
        self.entries.append(entry)
        if isinstance(event, Charge):
            self.intents[entry.seq] = event
            self._of_journal.setdefault(event.journal, []).append(entry.seq)
        elif isinstance(event, Begun):
            self.begun.setdefault((self.intents[event.intent].journal, event.part), []).append(event.intent)
        elif isinstance(event, Drawn):
            self.drawn[event.intent, event.part] = event.sha256
        elif isinstance(event, Commit):
            self.committed.update(event.intents)
            self.commits[event.journal] = event
        elif isinstance(event, Refund):
            self.voided.add(event.intent)
        elif isinstance(event, TakenOver):
            self.taken_over[event.ledger] = event
        return entry


def read_book(data: bytes, path: Path) -> tuple[Book, int, bool]:
    """Check the bytes of a ledger; see `read_lines` for what is returned beside the book.

    Raises:
        BudgetError: a changed, missing, repeated or senseless record (B006), or a ledger of another format (B022).
    """
    book, where = Book(), 0
    try:
        lines, n_bytes, whole = read_lines(data)
        version = lines[0].fields.get("version", LEDGER_VERSION) if lines else LEDGER_VERSION
        if version != LEDGER_VERSION:
            raise BudgetError(
                f"the ledger {path} is of format {version}, and this program keeps format {LEDGER_VERSION}: what was "
                "charged to a ledger of one kind of loss cannot be composed with others",
                code="B022",
                file=str(path),
                fix="take over what it holds: topdown ledger take-over RUN.toml --former FILE --by NAME --reason ... "
                "(pgsr ledger take-over for group sizes), with another ledger.path in the run file. Nothing was spent",
            )
        for line in lines:
            where = len(book.entries) + 1
            event, time = from_fields(line.fields)
            book.add(event, time, line.sha256)
    except (ValueError, TypeError) as error:
        where = where or error.args[0]
        raise BudgetError(
            f"ledger damaged: {path}, line {where} is not what was written",
            code="B006",
            file=str(path),
            line=where,
            fix="restore the ledger from a copy; nothing can be spent until its chain of hashes is whole",
        ) from None
    return book, n_bytes, whole


def losses_by_kind(charges: Iterable[Charge]) -> dict[LossName, Fraction]:
    """Add the losses of charges by kind, kinds in order; losses of one kind add up."""
    found: dict[LossName, Fraction] = {}
    for charge in charges:
        found[charge.loss_name] = found.get(charge.loss_name, Fraction(0)) + charge.loss
    return {name: found[name] for name in LOSS_NAMES if name in found}


def charged_fields(book: Book) -> dict[str, Any]:
    """Return the sums of what is charged, by kind, and of delta beside them where there is any."""
    delta = {"charged_delta": exact_text(book.charged_delta)} if book.charged_delta else {}
    return {"charged": {name: exact_text(loss) for name, loss in book.charged.items()}} | delta


def charged_text(charges: Iterable[Charge]) -> str:
    """Return the sums of the losses of charges by kind, and of delta: "rho 1/2, epsilon 1"; empty if there are none."""
    all_of = list(charges)
    found = [f"{name.split('_')[0]} {exact_text(loss)}" for name, loss in losses_by_kind(all_of).items()]
    delta = sum((charge.delta for charge in all_of), Fraction(0))
    return ", ".join([*found, f"delta {exact_text(delta)}"] if delta else found)


def relation_problem(bound: LedgerBinding, charge: Charge | LedgerBinding) -> str:
    """Say why a charge, or one that another binding would make, has no place in a ledger; empty if it has."""
    neighbours, is_noise = charge.neighbours, not isinstance(charge, Choice)
    why = why_not_charged(bound.neighbours, bound.unit, neighbours, is_noise=is_noise)
    return f"its relation is {neighbours!r}, the ledger's is {bound.neighbours!r}: {why}" if why else ""


def lacks_weights(charge: Charge) -> str:
    """Say that noise of finitely many values is charged without its weights; empty if it is not."""
    without = any(law.delta and not law.weights for law in charge.laws)
    return "noise with a delta of its own is charged with its weights" if without else ""


def other_relation(path: Path, problem: str) -> BudgetError:
    """Return the error for a charge whose neighbour relation does not follow from that of the ledger (B021)."""
    return BudgetError(
        f"the ledger {path} cannot be charged with it: {problem}",
        code="B021",
        file=str(path),
        fix="plan with the ledger's relation, neighbours in the run file; one bound to add_remove takes group sizes of "
        "persons, too. Nothing was spent",
    )


def other_limits(path: Path, book: Book, asked: Limits | None) -> BudgetError | None:
    """Return the error for limits that are not those in force (B066); None if they are, or none are asked for."""
    force = book.limits
    if asked in (None, force) or (force is None and not book.charges):
        return None
    there = str(force) if force is not None else "that of the one release in it alone"
    return BudgetError(
        f"the limit asked for is {asked}, but that of the ledger {path} is {there}",
        code="B066",
        file=str(path),
        fix="state the ledger's limit; if it is to be another one, write that into the run file and say who decided: "
        "topdown ledger limit RUN.toml --by NAME --reason ... (pgsr ledger limit). Nothing was spent",
    )


def over_budget(path: Path, book: Book, intent: Charge, asked: Limits | None) -> BudgetError | None:
    """Return the error for a loss over the limit, of everything in the book composed with it; None if under.

    The bound of rho is `WholeLoss.rho`; epsilon is the upper end of the composition at the delta of the limit. Where
    neither the ledger nor `asked` has a limit, one measurement may be charged, as often as a crash makes it.

    Args:
        path, book: the ledger. intent: the charge.
        asked: limits of the run file, if it states any; other limits than those in force are refused.

    Returns: BudgetError B004 (over the limit), B023 (no bound), B066 (other limits), B021 (relation), or None.
    """
    other = other_limits(path, book, asked)
    if other is not None:
        return other
    limits = book.limits or asked
    if limits is None:
        if all(charge.journal == intent.journal for _, charge in book.charges):
            return None
        said = "; the ledger has no limit, which leaves room for one release, and holds another"
        return _over(path, book, intent, f"the plan costs {cost_text(intent)}{said}", Fraction(0))
    after = book.composed(more=(intent,))
    if after is None:
        return other_relation(path, relation_problem(book.binding, intent))
    again = f" (attempt {intent.attempt}, for {', '.join(intent.covers)})" if intent.attempt > 1 else ""
    what = "choice" if isinstance(intent, Choice) else "plan"
    costs = f"the {what} costs {cost_text(intent)}{again}"
    if limits.rho is not None:
        rho, before = after.rho, book.composed()
        if rho is None:
            return _without(
                path, "rho", f"{costs}, and noise with a delta of its own has no rho, which is limited"
            )
        if rho > limits.rho:
            spent = None if before is None else before.rho
            left = max(limits.rho - (spent or Fraction(0)), Fraction(0))
            said = f"; only {decimal_text(left, up=False)} of {exact_text(limits.rho)} is left"
            return _over(path, book, intent, costs + said, left)
    if limits.epsilon is not None:
        found = after.epsilon_at(limits.delta)
        at = f"ε {exact_text(limits.epsilon)} at δ {exact_text(limits.delta)}"
        if found is None:
            return _without(
                path, "epsilon", f"{costs}, and with it everything has no ε at δ {exact_text(limits.delta)}"
            )
        if found.upper > limits.epsilon:
            said = f"; with it everything costs ε {decimal_text(found.upper, up=True)}, more than {at}"
            return _over(path, book, intent, costs + said, Fraction(0))
    return None


def _over(path: Path, book: Book, intent: Charge, text: str, left: Fraction) -> BudgetError:
    fix = "raise the limit: write it into the run file, and topdown ledger limit RUN.toml --by NAME --reason ..."
    if left > 0 and intent.loss_name == "rho":
        fix = f"lower budget.rho to {exact_text(left)} or less, or {fix}"
    elif isinstance(intent, Choice):
        fix = f"give a smaller --epsilon, or {fix}"
    else:
        fix = f"lower the budget, or {fix}"
    return BudgetError(
        f'{text} for "{book.binding.data_set}"',
        code="B004",
        file=str(path),
        details=(
            ("charged so far", charged_text(one for _, one in book.charges) or "nothing"),
            *(
                (str(seq), f"{book.entries[seq].time[:10]}  {one.plan_hash[:8]}  {cost_text(one)}")
                for seq, one in book.charges
            ),
        ),
        fix=fix,
    )


def _without(path: Path, kind: str, text: str) -> BudgetError:
    fix = {
        "rho": "limit epsilon_limit at delta_limit in place of rho_limit, or plan with other noise",
        "epsilon": "raise delta_limit above the deltas of all optimal noise together, and above 0 where noise is "
        "Gaussian; or limit rho_limit in place of epsilon_limit",
    }[kind]
    return BudgetError(text, code="B023", file=str(path), fix=f"{fix}. Nothing was spent")


def cost_text(intent: Charge) -> str:
    """Return what a charge costs by itself, in its own kind of loss, rounded up: "ρ 0.5"."""
    sign = "ρ" if intent.loss_name == "rho" else "ε"
    beside = f", δ {exact_text(intent.delta)}" if intent.delta else ""
    return f"{sign} {decimal_text(intent.loss, up=True)}{beside}"


def decimal_text(value: Fraction, *, up: bool) -> str:
    """Write a nonnegative number with 4 decimals, rounded up or down, without trailing zeros."""
    return fixed(value, 4, up=up).rstrip("0").rstrip(".")
