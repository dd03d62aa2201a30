"""Ledgers of format 2, which held one kind of loss and no limits of epsilon at a delta: read, and taken over.

Their lines were sealed like those of today. Their witness, `ledger-ID.witness.json`, said how many records there were
and what the last of them hashed to; the last of them had a registry like that of today in its place. Nothing is ever
charged to one again: what it holds becomes one record of the data set's ledger, with every charge and its laws.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from topdown.errors import BudgetError
from topdown.formats.caps import parse_json
from topdown.privacy.ledger.book import SealedLine, canonical_line, read_lines
from topdown.privacy.ledger.durable import REAL_DISK, Disk
from topdown.privacy.ledger.ledger_file import Ledger, open_ledger, person_and_reason
from topdown.privacy.ledger.ledger_records import (
    LOSS_NAMES,
    Charge,
    Choice,
    Intent,
    PastCharge,
    TakenOver,
    exact_number,
    record_from,
)
from topdown.privacy.ledger.registry import LedgerLocation, Mark, read_registry, registry_path
from topdown.privacy.relation import GROUP_STEPS, RELATIONS

FORMER_FORMAT, WITNESS_TYPE = 2, "topdown.ledger_witness"
AGREES, NO_WITNESS = "agrees", "none"
_KEYS = {
    "begin": {"intent", "part"},
    "drawn": {"intent", "part", "sha256"},
    "commit": {"intents", "plan_hash", "journal", "files"},
    "void": {"intent", "reason", "witness"},
    "vouch": {"reason"},
}
_STEPS = re.compile(r"(move|dropped|new( of size 0 or 1)?)(\+(move|dropped|new( of size 0 or 1)?))*")
_WHOLE_GROUPS = re.compile(r"household(\+appears)?")


@dataclass(frozen=True)
class FormerLedger:
    """A ledger of format 2 as read.

    Args:
        path: its file.
        ledger, data_set, unit: which one it is.
        heads: SHA-256 of every line.
        sha256: of the file.
        charges: all that were not taken back.
        attested, refunded: how often somebody vouched for it, and took a charge back.
        witnesses: files that were found to agree with it; see `find_former_ledger`.
    """

    path: Path
    ledger: str
    data_set: str
    unit: str
    heads: tuple[str, ...]
    sha256: str
    charges: tuple[PastCharge, ...]
    attested: int
    refunded: int
    witnesses: tuple[Path, ...] = ()

    def refuse_older(self, records: int, head: str, seen_by: str) -> None:
        """Refuse a ledger without the record that somebody has seen in it (B064)."""
        if records > len(self.heads) or self.heads[records - 1] != head:
            raise BudgetError(
                f"the former ledger {self.path} lacks record {records - 1}, which {seen_by} has seen: it is an older "
                "copy, or another one",
                code="B064",
                file=str(self.path),
                fix="take over the newest copy of it; an older one forgets what was spent. Nothing was written",
            )


def read_former_ledger(path: Path, disk: Disk = REAL_DISK) -> FormerLedger:
    """Read and check a ledger of format 2, while nobody writes to it: its chain of hashes, every charge and its laws.

    Raises:
        BudgetError: it is of another format, or none (B063), damaged (B006), or in use (B005).
    """
    data = _locked_content(path, disk)
    try:
        lines = read_lines(data)[0]
    except ValueError as error:
        raise _damaged(path, error.args[0]) from None
    first = lines[0].fields if lines else {}
    if first.get("kind") != "open" or first.get("version") != FORMER_FORMAT:
        version = first.get("version")
        what = "no ledger" if first.get("kind") != "open" else f"a ledger of format {version}"
        raise BudgetError(
            f"{path} is {what}, and only ledgers of format {FORMER_FORMAT} are taken over",
            code="B063",
            file=str(path),
            fix="give the file that the former run file names as ledger.path; a ledger of today's format needs no "
            "taking over",
        )
    where, charges, closed = 1, dict[int, PastCharge](), set[int]()
    try:
        ledger, data_set, unit, relation, kind = _binding(first)
        for where, line in enumerate(lines[1:], start=2):
            _follow(line, where - 1, relation, kind, charges, closed)
    except (ValueError, TypeError, KeyError):
        raise _damaged(path, where) from None
    live = tuple(one for seq, one in charges.items() if seq not in closed or one.committed)
    heads, kinds = tuple(line.sha256 for line in lines), [line.fields["kind"] for line in lines]
    digest, times = hashlib.sha256(data).hexdigest(), (kinds.count("vouch"), kinds.count("void"))
    return FormerLedger(path, ledger, data_set, unit, heads, digest, live, *times)


def _binding(first: Mapping[str, object]) -> tuple[str, str, str, str, str]:
    """Return id, data set, unit, relation by its name of today, and kind of loss; ValueError for another first line."""
    names = ("ledger", "data_set", "unit", "neighbours", "loss_name")
    if set(first) != {"kind", "time", "version", *names}:
        raise ValueError("missing or unknown field")
    ledger, data_set, unit, neighbours, kind = (_text(first[name]) for name in names)
    return ledger, data_set, unit, _relation(neighbours, kind), kind


def _damaged(path: Path, line: int) -> BudgetError:
    return BudgetError(
        f"ledger damaged: {path}, line {line} is not what was written",
        code="B006",
        file=str(path),
        line=line,
        fix="restore it from a copy, the newest there is; nothing can be taken over from a damaged ledger",
    )


def _follow(
    line: SealedLine, seq: int, relation: str, kind: str, charges: dict[int, PastCharge], closed: set[int]
) -> None:
    """Take one line after the first into the charges so far; `closed`: those committed or taken back."""
    fields = dict(line.fields)
    name, time = _text(fields.pop("kind")), _text(fields.pop("time"))
    if name in ("intent", "choice"):
        charge = _past_charge(name, fields, relation, kind)
        charges[seq] = PastCharge(seq, time, committed=False, charge=charge)
        return
    if set(fields) - ({"by"} if name == "vouch" else set()) != _KEYS[name]:
        raise ValueError("missing or unknown field")
    ended: Any = fields["intents"] if name == "commit" else [fields["intent"]] if name == "void" else []
    for one in ended:
        if one not in charges or one in closed:
            raise ValueError("a record about a charge that is not there, or not open")
        closed.add(one)
        charges[one] = replace(charges[one], committed=name == "commit")


def _past_charge(name: str, fields: Mapping[str, Any], relation: str, kind: str) -> Charge:
    """Return a charge of format 2 as one of today; what it was limited by then is not kept."""
    known = {key: value for key, value in fields.items() if key not in ("limit", "delta_limit", "loss_name")}
    if name == "choice":
        if (fields["neighbours"], fields["loss_name"]) != (relation, kind):
            raise ValueError("a choice of another relation or kind of loss")
        stated = exact_number(known.pop("loss"))
        choice: Choice = record_from(Choice, known)
        odds = choice.exp_epsilon
        due = choice.epsilon if kind == "epsilon" else choice.epsilon * (odds - 1) / (odds + 1)
        if stated != due:
            raise ValueError("the loss of a choice is not that of its epsilon")
        return choice
    intent: Intent = record_from(Intent, known | {"neighbours": relation})
    if intent.loss_name != kind:
        raise ValueError("a loss of another kind")
    return intent


def _relation(neighbours: str, kind: str) -> str:
    """Return the name of a relation today: steps of group sizes of persons had no words before them."""
    if kind not in LOSS_NAMES:
        raise ValueError("a loss that no ledger had")
    if neighbours in RELATIONS or _WHOLE_GROUPS.fullmatch(neighbours):
        return neighbours
    if not _STEPS.fullmatch(neighbours):
        raise ValueError("an unknown relation")
    return GROUP_STEPS + neighbours


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("not text")
    return value


def read_witness(path: Path, ledger: str, disk: Disk) -> Mark | None:
    """Read how far a ledger of format 2 had come by its witness; None if there is none.

    Raises:
        BudgetError: it is no witness of this ledger (B060).
    """
    data = disk.read(path)
    if data is None:
        return None
    try:
        plain = parse_json(data)
        records, head = plain["records"], plain["head"]
        stated = {"type": WITNESS_TYPE, "version": 1, "ledger": ledger}
        sound = canonical_line(stated | {"records": records, "head": head}) + b"\n" == data
        sound &= type(records) is int and records > 0 and re.fullmatch(r"[0-9a-f]{64}", head) is not None
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise BudgetError(
            f"{path} is no witness of ledger {ledger}, or is damaged",
            code="B060",
            file=str(path),
            fix="restore it from a copy; if it is lost, remove the file: the take-over then says that none was found",
        )
    return Mark(records, head)


def find_former_ledger(
    place: LedgerLocation,
    path: Path,
    *,
    folders: Sequence[Path] = (),
    data_set: str = "",
    disk: Disk = REAL_DISK,
) -> FormerLedger:
    """Read a ledger of format 2 of a data set, and compare it with every witness of it that is found.

    Args:
        place: ledger of the data set, of today's format; it need not be there yet.
        path: the former ledger.
        folders: where else to look for its witness; it is looked for beside the former ledger, one folder above, and
            with the records.
        data_set: its name in the former ledger, if that is another one.
        disk: another model of the disk, for tests.

    Raises:
        BudgetError: the file is no ledger of format 2 (B063), damaged (B006) or in use (B005); a witness knows more
            records (B064) or is damaged (B060); it is of another data set or unit (B065).
    """
    former = read_former_ledger(path, disk)
    named, unit = data_set or place.binding.data_set, place.binding.unit
    if (former.data_set, former.unit) != (named, unit):
        what = f"data set {former.data_set!r}, one {former.unit}"
        raise BudgetError(
            f"the former ledger {path} is of {what}, not of {named!r}, one {unit}",
            code="B065",
            file=str(path),
            fix="take over the one that was kept for these records; if it is of the same records under another name, "
            f'say so: --former-name "{former.data_set}". Nothing was written',
        )
    near = path.absolute().parent
    beside = () if place.records is None else (place.records.path.parent,)
    found = _witnesses(former, (*folders, place.registry_folder, *beside, near, near.parent), disk)
    return replace(former, witnesses=tuple(found))


def take_over(
    place: LedgerLocation, former: FormerLedger, by: str, reason: str, disk: Disk = REAL_DISK
) -> TakenOver:
    """Take every charge of a ledger of format 2 into the ledger of the data set, in one durable record.

    The former ledger is not changed. Its witness gets another name afterwards, so that the program that kept it
    refuses to go on. Called again after that ledger has grown, it takes the newer state in the place of the older one.

    Args:
        place: ledger of the data set, of today's format.
        former: the former ledger, as `find_former_ledger` found it.
        by, reason: who attests that it is complete, and why it is taken over.
        disk: another model of the disk, for tests.

    Raises:
        BudgetError: no name or reason (B062); an older copy than the one taken over before (B064); what is charged says
            nothing of the ledger's relation (B021); or what `open_ledger` raises.
    """
    taken = TakenOver(
        former.ledger,
        FORMER_FORMAT,
        former.data_set,
        len(former.heads),
        former.heads[-1],
        former.sha256,
        AGREES if former.witnesses else NO_WITNESS,
        former.attested,
        former.refunded,
        former.charges,
        *person_and_reason(by, reason),
    )
    with open_ledger(place, disk) as ledger:
        before = _taken_before(ledger, former)
        if before is None:
            ledger.take_over(taken)
    for path in former.witnesses:
        disk.rename(path, path.with_name(f"{path.name}.taken-over"))
        disk.sync_folder(path.parent)
    return before or taken


def _taken_before(ledger: Ledger, former: FormerLedger) -> TakenOver | None:
    """Return the record by which this very ledger was taken over; B064 if a newer one was."""
    before = ledger.book.taken_over.get(former.ledger)
    if before is None:
        return None
    former.refuse_older(before.records, before.head, f"the ledger {ledger.path}")
    return before if before.sha256 == former.sha256 else None


def _witnesses(former: FormerLedger, folders: Sequence[Path], disk: Disk) -> list[Path]:
    """Return every witness or registry of a former ledger in some folders, all of which agree with it."""
    found = []
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        path = folder / f"ledger-{former.ledger}.witness.json"  # of a ledger of format 2
        mark = read_witness(path, former.ledger, disk)
        if mark is None:
            path = registry_path(folder, former.ledger)
            registry = read_registry(path, disk)
            mark = None if registry is None else registry.mark
        if mark is not None:
            former.refuse_older(mark.records, mark.head, f"its witness {path}")
            found.append(path)
    return found


def _locked_content(path: Path, disk: Disk) -> bytes:
    """Read a former ledger while nobody writes to it."""
    try:
        file = disk.lock(path)
    except FileNotFoundError:
        raise BudgetError(
            f"there is no former ledger {path}",
            code="B063",
            file=str(path),
            fix="give the file that the former run file names as ledger.path",
        ) from None
    except OSError as error:
        busy = isinstance(error, BlockingIOError)
        raise BudgetError(
            f"the former ledger {path} {'is in use by another run' if busy else 'cannot be opened'}",
            code="B005" if busy else "B006",
            file=str(path),
            fix="wait until that run has ended" if busy else "give a plain file that you may read and write",
        ) from None
    try:
        return file.read()
    finally:
        file.close()
