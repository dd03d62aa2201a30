"""Read ledger.jsonl anew: canonical lines, each sealed by its own hash and by the hash of the line before."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from time import strptime
from typing import Any, ClassVar, Literal

import msgspec

from topdown.formats.verify_documents import Finding
from topdown.verify.exact_arithmetic import ROUNDED, fraction, log
from topdown.verify.noise_laws import GROUP_STEPS as GROUP_STEPS
from topdown.verify.noise_laws import OF_GROUP_SIZES as OF_GROUP_SIZES
from topdown.verify.noise_laws import RELATIONS, UNIT, delta_needed, law_named
from topdown.verify.plan_reader import canonical
from topdown.verify.strict_reader import UnreadableError, parse_json, read_bytes

FILE, VERSION = "ledger.jsonl", 3
_WEIGHT = re.compile(r"[1-9][0-9]{0,38}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind"):
    seq: int
    prev: str
    hash: str
    time: str


class Opened(_Line, frozen=True, kw_only=True, tag="open"):
    """First line: which ledger this is, and what its losses are about."""

    ledger: str
    version: int
    data_set: str
    neighbours: str
    unit: str
    rho_limit: str = "0"
    epsilon_limit: str = "0"
    delta_limit: str = "0"


class DrawnNoise(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Noise on the counts of one query and level that one change moves."""

    law: str
    parameter: str
    shift: int
    coordinates: int
    level: str
    query: str
    attributes: tuple[str, ...]
    delta: str = "0"
    weights: tuple[str, ...] = ()

    @property
    def scale(self) -> Fraction:
        """Variance of discrete Gaussian noise, scale of geometric noise, epsilon of one count of optimal noise."""
        return fraction(self.parameter)

    @property
    def loss(self) -> Fraction:
        """Exact rho of discrete Gaussian noise, epsilon of the others; ValueError for a law that is not checked."""
        return self.coordinates * law_named(self.law).loss(self.scale, self.shift)

    @property
    def delta_loss(self) -> Fraction:
        """Exact delta beside it."""
        return self.coordinates * fraction(self.delta)

    @property
    def is_sound(self) -> bool:
        """Whether delta and weights are where they belong, and a law of weights keeps what it is charged for."""
        delta = fraction(self.delta)
        if not law_named(self.law).has_delta:
            return not delta and not self.weights
        whole = [int(w) for w in self.weights if _WEIGHT.fullmatch(w)]
        if self.shift != 1 or len(whole) != len(self.weights) or len(whole) < 2:
            return False
        return 2 * sum(whole) - whole[0] == UNIT and delta_needed(whole, self.scale) <= delta

    @property
    def is_bare_pair(self) -> bool:
        """Whether only epsilon and delta of it are known, as in former ledgers."""
        return (
            law_named(self.law).has_delta
            and not self.weights
            and self.shift == 1
            and fraction(self.delta) > 0
        )


class Intent(_Line, frozen=True, kw_only=True, tag="intent"):
    """Noise of these laws was about to be drawn at the levels in `covers`."""

    release: str
    plan_hash: str
    laws: tuple[DrawnNoise, ...]
    exact: tuple[str, ...]
    loss: str
    attempt: int
    covers: tuple[str, ...]
    journal: str
    neighbours: str
    limit_reason: str
    delta: str = "0"
    rho_limit: str = "0"
    epsilon_limit: str = "0"
    delta_limit: str = "0"


class Choice(_Line, frozen=True, kw_only=True, tag="choice"):
    """A choice was about to be drawn from a Poisson sample of the records."""

    release: str
    plan_hash: str
    neighbours: str
    epsilon: str
    rate: str
    base: str
    attempt: int
    covers: tuple[str, ...]
    journal: str
    limit_reason: str
    rho_limit: str = "0"
    epsilon_limit: str = "0"
    delta_limit: str = "0"
    laws: ClassVar[tuple[DrawnNoise, ...]] = ()
    exact: ClassVar[tuple[str, ...]] = ()
    delta: ClassVar[str] = "0"

    def __post_init__(self) -> None:
        if self.neighbours not in RELATIONS:
            raise ValueError("a choice under an unknown relation")

    @property
    def odds(self) -> Fraction:
        """e^epsilon that a one-sided mechanism with this base keeps on a sample of this rate."""
        return RELATIONS[self.neighbours].sampled_odds(fraction(self.rate), fraction(self.base))

    @property
    def loss(self) -> str:
        """Its epsilon."""
        return self.epsilon

    def response(self, times: int) -> tuple[Fraction, Fraction]:
        """Return (epsilon, e^epsilon) for so many neighbours in a row; epsilon is at least the logarithm."""
        return times * fraction(self.epsilon), self.odds**times


class Begun(_Line, frozen=True, kw_only=True, tag="begin"):
    """A part was about to be drawn under `intent`."""

    intent: int
    part: str


class Drawn(_Line, frozen=True, kw_only=True, tag="drawn"):
    """The part begun under `intent` became the file with this hash."""

    intent: int
    part: str
    sha256: str


class Commit(_Line, frozen=True, kw_only=True, tag="commit"):
    """The noise drawn under `intents` is in the files whose digest is `files`."""

    intents: tuple[int, ...]
    plan_hash: str
    journal: str
    files: str


def sealing_commit(commits: Sequence[Commit], files: str, journal: object) -> Commit | None:
    """Return the commit that seals files with this digest for a journal, or the last that seals them.

    Drawn twice, noise can come out the same: the digest alone names both commits.
    """
    same = [commit for commit in commits if commit.files == files]
    return next((commit for commit in same if commit.journal == journal), same[-1] if same else None)


class Refund(_Line, frozen=True, kw_only=True, tag="void"):
    """The noise of one intent was destroyed before anyone saw it."""

    intent: int
    reason: str
    witness: str


class Attestation(_Line, frozen=True, kw_only=True, tag="vouch"):
    """`by` attested that the ledger is complete, its registry being lost; older ledgers do not say who."""

    reason: str
    by: str = ""


Charge = Intent | Choice


class PastCharge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A charge of a former ledger, by its number and time there; its fields are those of a line without the seal."""

    record: int
    time: str
    committed: bool
    charge: dict[str, Any]

    @property
    def line(self) -> Charge:
        """The charge as a line; ValueError or TypeError if it is none."""
        if {"seq", "prev", "hash", "time"} & set(self.charge):
            raise ValueError("a charge within a line has no seal")
        plain = self.charge | {"seq": self.record, "prev": "", "hash": "", "time": self.time}
        charge: Charge = msgspec.convert(plain, Charge, strict=True)
        return charge


class TakenOver(_Line, frozen=True, kw_only=True, tag="take_over"):
    """Everything that a former ledger held counts from here on, in the place of what an earlier line says of it."""

    ledger: str
    version: int
    data_set: str
    records: int
    head: str
    sha256: str
    witness: Literal["agrees", "none"]
    attested: int
    refunded: int
    charges: tuple[PastCharge, ...]
    by: str
    reason: str

    @property
    def stated(self) -> dict[str, Any]:
        """What a certificate says of it."""
        names = ("ledger", "data_set", "records", "head", "sha256", "witness", "attested", "refunded")
        return {name: getattr(self, name) for name in names} | {
            "format": self.version,
            "n_charges": len(self.charges),
        }


class LimitChange(_Line, frozen=True, kw_only=True, tag="limit"):
    """From now on everything may cost this much together; `by` decided it."""

    by: str
    reason: str
    rho_limit: str = "0"
    epsilon_limit: str = "0"
    delta_limit: str = "0"


Line = Opened | Charge | Begun | Drawn | Commit | Refund | Attestation | TakenOver | LimitChange


@dataclass(frozen=True)
class LedgerFile:
    """A ledger as read: its lines, and the SHA-256 of the last one."""

    lines: tuple[Line, ...]
    head: str

    @cached_property
    def intents(self) -> dict[int, Charge]:
        """Every intent by its number, voided ones included."""
        return {line.seq: line for line in self.lines if isinstance(line, Charge)}

    @property
    def begun(self) -> dict[tuple[str, str], list[int]]:
        """(journal, part) -> intents it was begun under, in order."""
        found: dict[tuple[str, str], list[int]] = {}
        for line in self.lines:
            if isinstance(line, Begun) and line.intent in self.intents:
                found.setdefault((self.intents[line.intent].journal, line.part), []).append(line.intent)
        return found

    @property
    def drawn(self) -> dict[tuple[int, str], str]:
        """(intent, part) -> SHA-256 of the file it became."""
        return {(line.intent, line.part): line.sha256 for line in self.lines if isinstance(line, Drawn)}

    @property
    def commits(self) -> tuple[Commit, ...]:
        """Every commit."""
        return tuple(line for line in self.lines if isinstance(line, Commit))

    @property
    def voided(self) -> frozenset[int]:
        """Numbers of the intents taken back."""
        return frozenset(line.intent for line in self.lines if isinstance(line, Refund))

    @property
    def attestations(self) -> list[dict[str, Any]]:
        """What persons attested, as a certificate has it."""
        return [
            {"record": line.seq, "date": _day(line), "by": line.by, "reason": line.reason}
            | ({"taken_over": line.stated} if isinstance(line, TakenOver) else {})
            for line in self.lines
            if isinstance(line, Attestation | TakenOver)
        ]

    @property
    def limits(self) -> list[dict[str, Any]]:
        """The first limits, and every change of them, as a certificate has them."""
        found: list[dict[str, Any]] = []
        for line in self.lines:
            if isinstance(line, LimitChange) or (not found and isinstance(line, Opened | Charge)):
                stated = limits_of(line)
                said = {"by": line.by, "reason": line.reason} if isinstance(line, LimitChange) else {}
                found += [{"record": line.seq, "date": _day(line)} | stated | said] if stated else []
        return found

    @property
    def refunds(self) -> list[dict[str, Any]]:
        """What persons took back, as a certificate has it."""
        return [
            {
                "record": line.seq,
                "date": _day(line),
                "intent": line.intent,
                "by": line.witness,
                "reason": line.reason,
            }
            for line in self.lines
            if isinstance(line, Refund)
        ]

    @property
    def up_to(self) -> dict[str, Any]:
        """Number and date of the last line."""
        return {"record": self.lines[-1].seq, "date": _day(self.lines[-1])}

    @property
    def persons_said(self) -> list[str]:
        """A sentence for every attestation and refund."""
        return persons_said(self.attestations, self.limits, self.refunds)

    def readers(self, first: Opened, *, copy: bool) -> str:
        """Return who reads what was charged: up to the last line, or by a copy that may be an old one."""
        end = f"record {self.up_to['record']} of {self.up_to['date']}"
        who = f"According to a copy that ends at {end}, someone" if copy else "Someone"
        until, said = "" if copy else f" up to {end}", self.attestations
        if said:
            return (
                f'{who} who reads everything in ledger {first.ledger} of data set "{first.data_set}"{until}, which '
                f"{said[-1]['by'] or UNNAMED} attested on {said[-1]['date']} to be complete"
            )
        return f'{who} who reads everything charged to data set "{first.data_set}" in ledger {first.ledger}{until}'

    def of_journal(self, journal: str) -> dict[int, Charge]:
        """Return the intents that one measurement may draw under, by number."""
        found = self.intents.items()
        return {seq: one for seq, one in found if one.journal == journal and seq not in self.voided}

    @cached_property
    def live(self) -> list[Charge]:
        """Every charge that was not taken back, and those of the last line about each former ledger."""
        last = {line.ledger: line for line in self.lines if isinstance(line, TakenOver)}
        past = [one.line for line in sorted(last.values(), key=lambda x: x.seq) for one in line.charges]
        return [*(one for seq, one in self.intents.items() if seq not in self.voided), *past]

    @property
    def charged(self) -> dict[str, Fraction]:
        """Sums of their losses by kind."""
        found: dict[str, Fraction] = {}
        for one in self.live:
            kind = law_named(one.laws[0].law).loss_name if one.laws else "epsilon"
            found[kind] = found.get(kind, Fraction(0)) + fraction(one.loss)
        return found

    @property
    def charged_words(self) -> str:
        """The same as words."""
        return ", ".join(f"{kind} {loss}" for kind, loss in sorted(self.charged.items())) or "nothing"

    @property
    def charged_delta(self) -> Fraction:
        """Sum of their deltas."""
        return sum((fraction(one.delta) for one in self.live), Fraction(0))


UNNAMED = "somebody whom the ledger does not name"


def persons_said(
    attestations: Sequence[dict[str, Any]],
    limits: Sequence[dict[str, Any]],
    refunds: Sequence[dict[str, Any]],
) -> list[str]:
    """Return a sentence for every attestation, change of limits and refund, given as a certificate has them."""
    changed = [
        f"Limit changed on {one['date']} by {one['by']}: {_limit_words(one)} (record {one['record']}: {one['reason']})."
        for one in limits
        if "by" in one
    ]
    return [
        f"Attested on {one['date']} by {one['by'] or UNNAMED}: {_attested(one.get('taken_over'))} (record "
        f"{one['record']}: {one['reason']})."
        for one in attestations
    ] + [
        *changed,
        *(
            f"Taken back on {one['date']}: the charge of record {one['intent']}, whose noise {one['by']} saw "
            f"destroyed ({one['reason']})."
            for one in refunds
        ),
    ]


def limits_of(line: Opened | Charge | LimitChange) -> dict[str, str]:
    """Return the limits that a line states, those above 0."""
    stated = {name: getattr(line, name) for name in ("rho_limit", "epsilon_limit", "delta_limit")}
    return {name: one for name, one in stated.items() if fraction(one)}


def _limit_words(stated: dict[str, Any]) -> str:
    words = f"rho {stated['rho_limit']}" if "rho_limit" in stated else ""
    if "epsilon_limit" not in stated:
        return words
    return f"{words}{' and ' * bool(words)}epsilon {stated['epsilon_limit']} at delta {stated.get('delta_limit', '0')}"


def _attested(taken: dict[str, Any] | None) -> str:
    if not taken:
        return "the ledger is complete"
    return (
        f'ledger {taken["ledger"]} of format {taken["format"]}, data set "{taken["data_set"]}", is complete and was '
        f"taken over with {taken['n_charges']} charges in {taken['records']} records; "
        f"{'no witness of it was found' if taken['witness'] == 'none' else 'its witness agreed'}; {taken['attested']} "
        f"times somebody had attested it, {taken['refunded']} charges had been taken back; its last line has the "
        f"SHA-256 {taken['head']}"
    )


def _day(line: Line) -> str:
    return line.time.partition("T")[0]


def load_ledger(root: Path) -> LedgerFile:
    """Read ledger.jsonl; UnreadableError if a line is damaged (V020), or the chain is broken (V021)."""
    return ledger_of_bytes(read_bytes(root, FILE, "V020"))


def ledger_of_bytes(data: bytes) -> LedgerFile:
    """Return the ledger that bytes hold; see `load_ledger`."""
    rows = data.split(b"\n")
    if rows.pop() != b"" or not rows:
        raise _broken_ledger("V021", "ends in the middle of a line", len(rows) + 1)
    previous = "0" * 64
    lines: list[Line] = []
    for row, raw in enumerate(rows, start=1):
        line = _ledger_line(raw, row)
        if line.seq != row - 1 or line.prev != previous:
            raise _broken_ledger("V021", "has a broken chain: a line was changed, removed or moved", row)
        previous = hashlib.sha256(raw).hexdigest()
        lines.append(line)
    return LedgerFile(tuple(lines), previous)


def _ledger_line(raw: bytes, row: int) -> Line:
    document = parse_sealed_line(raw)
    if document is None:
        raise _broken_ledger("V021", "has a line that does not match its own hash", row)
    if document.get("kind") == "open" and document.get("version") != VERSION:
        text = f"is of format {str(document.get('version'))[:8]}, and format {VERSION} is verified here"
        raise _broken_ledger("V020", text, row)
    try:
        line: Line = msgspec.convert(document, Line, strict=True)
        strptime(line.time, "%Y-%m-%dT%H:%M:%SZ")
        if document.get("by") == "" or not _TIME.fullmatch(line.time):
            raise _broken_ledger("V020", "has a line that is not what a ledger holds", row)
        past = [one.line for one in line.charges] if isinstance(line, TakenOver) else []
        if isinstance(line, TakenOver) and not (line.by and line.reason and line.records > 0):
            raise _broken_ledger("V020", "has a former ledger that nobody took over", row)
        if isinstance(line, LimitChange) and not (line.by and line.reason and limits_of(line)):
            raise _broken_ledger("V020", "has a limit that nobody changed", row)
        intents = [one for one in (line, *past) if isinstance(one, Intent)]
        if not all(_adds_up(one, past=one is not line) for one in intents):
            raise _broken_ledger("V020", "has an intent whose loss is not that of its laws", row)
        choices = [one for one in (line, *past) if isinstance(one, Choice)]
        if not all(0 < fraction(one.rate) < 1 < fraction(one.base) for one in choices):
            raise _broken_ledger("V020", "has a choice without a rate and a base", row)
        # epsilon is at least the logarithm of what rate and base keep
        if not all(log(one.odds) <= fraction(one.epsilon) * (1 + ROUNDED) for one in choices):
            raise _broken_ledger("V020", "has a choice whose loss is not that of its rate and base", row)
    except (ValueError, TypeError, ZeroDivisionError):
        raise _broken_ledger("V020", "has a line that is not what a ledger holds", row) from None
    return line


def _adds_up(intent: Intent, *, past: bool) -> bool:
    both = (fraction(intent.loss), fraction(intent.delta))
    sums = (sum(law.loss for law in intent.laws), sum(law.delta_loss for law in intent.laws))
    return both == sums and all(law.is_sound or (past and law.is_bare_pair) for law in intent.laws)


def parse_sealed_line(raw: bytes) -> dict[str, Any] | None:
    """Parse a line that carries the hash of its own canonical JSON; None if it is not one."""
    try:
        document = parse_json(raw, "V020", FILE)
        inner = {key: value for key, value in document.items() if key != "hash"}
        stated = hashlib.sha256(canonical(inner)).hexdigest() == document.get("hash")
        return document if stated and canonical(document) == raw else None
    except (UnreadableError, ValueError, TypeError):
        return None


def _broken_ledger(code: str, text: str, row: int) -> UnreadableError:
    fix = "ask the publisher for the ledger of the data set; do not use this copy"
    return UnreadableError(
        Finding(code, f"ledger.jsonl {text}", FILE, row, why="the ledger was altered", fix=fix)
    )
