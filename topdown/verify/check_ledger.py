"""Check `ledger`: the chain is unbroken, and this plan's noise was charged in full before it was drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction

from topdown.formats.verify_documents import Finding
from topdown.verify.exact_arithmetic import exact_text, fraction
from topdown.verify.findings import Findings
from topdown.verify.ledger_reader import (
    FILE,
    Begun,
    Charge,
    Choice,
    Commit,
    Drawn,
    DrawnNoise,
    LedgerFile,
    LimitChange,
    Opened,
    Refund,
    limits_of,
    sealing_commit,
)
from topdown.verify.noise_laws import changes_needed, speaks_of_unit
from topdown.verify.plan_reader import PlanFile, canonical
from topdown.verify.session import Session, part_paths
from topdown.verify.strict_reader import UnreadableError, parse_json, read_bytes

JOURNAL = "measurements/journal.json"
_KEYS = {"journal", "layout", "plan_hash", "type", "version"}


def named_journal(session: Session, path: str = JOURNAL) -> object:
    """Return the journal that a folder says is its own; None if its file cannot be read, which is checked later."""
    try:
        return parse_json(read_bytes(session.root, path, "V026"), "V026", path).get("journal")
    except UnreadableError:
        return None


def check_journal(session: Session, commit: Commit | None, out: Findings) -> None:
    """Check that the folder names the measurement that the ledger committed to, in canonical JSON."""
    try:
        data = read_bytes(session.root, JOURNAL, "V026")
        head = parse_json(data, "V026", JOURNAL)
    except UnreadableError as error:
        out.add(error.finding)
        return
    plain = all(isinstance(value, str | int) and len(str(value)) <= 200 for value in head.values())
    right = (head.get("type"), head.get("version")) == ("topdown.journal", 2) and set(head) == _KEYS
    mine = head.get("plan_hash") == session.plan.measured_hash
    mine &= commit is None or head.get("journal") == commit.journal
    if not (plain and right and mine and canonical(head) + b"\n" == data):
        why = "noise may have been drawn that the ledger was not charged for"
        out.add(Finding("V026", "the journal does not agree with the ledger", JOURNAL, why=why))


def check_drawn(session: Session, commit: Commit, out: Findings) -> None:
    """Check that each part is the file that the ledger recorded under the last intent it was begun under."""
    ledger = session.ledger
    begun, drawn = ledger.begun, ledger.drawn
    for path in part_paths(session):
        out.n_checked += 1
        part = path.removeprefix("measurements/").removesuffix(".parquet")
        used = begun.get((commit.journal, part), [])
        paid = ledger.intents[used[-1]] if used and used[-1] in commit.intents else None
        covered = paid is not None and part.rpartition("/")[0] in paid.covers
        if not covered or drawn.get((used[-1], part)) != session.sha256(path):
            text = "a part is not the one that the ledger recorded when it was drawn"
            out.add(Finding("V026", text, path, why="noise may have been drawn that was not charged for"))


# level, query, law, parameter, counts, shift, delta, weights
_Charged = tuple[str, str, str, Fraction, int, int, Fraction, tuple[str, ...]]


def check_ledger(session: Session, out: Findings) -> str:
    """Follow the chain; find this plan's commit, the intents it names, what they charge, the files it seals.

    Whether the charges stay under the limit of the data set is for the keeper of the ledger to judge.
    """
    plan = session.plan
    ledger = _chain(session, out)
    if not any(i.plan_hash == plan.measured_hash for i in ledger.intents.values()):
        why = "noise was drawn without being charged"
        _wrong(out, "V022", "no intent of this plan is in the ledger", why)
    commits = [c for c in ledger.commits if c.plan_hash == plan.measured_hash]
    paths = [*part_paths(session), "measurements/exact.json"]
    hashes = {path.removeprefix("measurements/"): session.sha256(path) for path in paths}
    # as sha256sum would print them, sorted by path inside measurements/
    text = "".join(f"{sha256}  {path}\n" for path, sha256 in sorted(hashes.items()))
    sealed = hashlib.sha256(text.encode("utf-8")).hexdigest()
    commit = sealing_commit(commits, sealed, named_journal(session))
    if not commits:
        why = "the measurements were never completed"
        _wrong(out, "V022", "no commit of this plan is in the ledger", why)
    elif commit is None:
        text = "the measurement files are not those the ledger committed to"
        why = "measurements were changed or mixed"
        _wrong(out, "V025", text, why, commits[-1].files[:8], sealed[:8])
    out.warnings += ledger.persons_said
    mine = commit or (commits[-1] if commits else None)
    check_journal(session, mine, out)
    _check_charges(session, mine.intents if mine else (), mine.journal if mine else "", out)
    if mine is not None:
        check_drawn(session, mine, out)
    if out.ok:
        n = (len(ledger.intents), len(ledger.commits))
        words = (f"{n[0]} intent" + "s" * (n[0] != 1), f"{n[1]} commit" + "s" * (n[1] != 1))
        return f"{words[0]}, {words[1]}, chain unbroken"
    return "the ledger does not cover this release"


def check_charge(session: Session, out: Findings) -> str:
    """Follow the chain of a ledger whose last intent is to pay for this plan; nothing is drawn under it yet."""
    ledger = _chain(session, out)
    last = max(ledger.intents, default=-1)
    _check_charges(session, (last,), ledger.intents[last].journal if last >= 0 else "", out)
    return "the charge is what the plan costs" if out.ok else "the charge is not what the plan costs"


def _chain(session: Session, out: Findings) -> LedgerFile:
    """Return the ledger, its lines followed from the first, which says whose it is."""
    ledger = session.ledger
    out.n_checked = len(ledger.lines)
    check_order(ledger, out)
    first = ledger.lines[0]
    if isinstance(first, Opened):
        plan = session.plan
        wanted = {
            "data set": (plan.doc.release.data_set, first.data_set),
            "unit of privacy": (plan.schema.unit, first.unit),
        }
        for what, (expected, found) in wanted.items():
            if expected != found:
                _wrong(out, "V024", f"the ledger is of another {what}", "files were mixed", expected, found)
        for line in session.ledger.live:
            speaks = speaks_of_unit(first.unit, line.neighbours, is_noise=not isinstance(line, Choice))
            if not speaks or changes_needed(first.neighbours, line.neighbours) is None:
                text = f"intent {line.seq} is about a relation that says nothing of the ledger's"
                _wrong(out, "V024", text, "losses of different meaning were added")
    return ledger


def check_order(ledger: LedgerFile, out: Findings) -> None:
    """Expect one opening line first, then lines about intents that are open, each part begun and drawn once."""
    if not isinstance(ledger.lines[0], Opened) or sum(isinstance(line, Opened) for line in ledger.lines) != 1:
        _wrong(
            out, "V024", "the ledger does not begin with its one opening line", "its beginning was cut off"
        )
    # every charge was checked against the limits that were in force
    force: dict[str, str] = {}
    for line in ledger.lines:
        if isinstance(line, Opened | LimitChange):
            force = limits_of(line)
        elif isinstance(line, Charge):
            force = force or limits_of(line)
            if limits_of(line) != force:
                text = f"intent {line.seq} was checked against another limit than that of the ledger"
                _wrong(out, "V024", text, "more may have been spent than was allowed")
    closed: set[int] = set()
    parts: set[tuple[type, int, str]] = set()
    for line in ledger.lines:
        closes = isinstance(line, Commit | Refund)
        named = line.intents if isinstance(line, Commit) else (getattr(line, "intent", None),)
        for seq in named:
            if seq is not None and (seq not in ledger.intents or seq >= line.seq or seq in closed):
                text = f"line {line.seq} names {seq}, which is no open intent"
                _wrong(out, "V024", text, "the ledger was altered")
            elif seq is not None and closes:
                closed.add(seq)
        if isinstance(line, Begun | Drawn):
            once = (type(line), line.intent, line.part)
            early = isinstance(line, Drawn) and (Begun, line.intent, line.part) not in parts
            if once in parts or early:
                text = f"line {line.seq} has a part that was drawn twice, or before it was begun"
                _wrong(out, "V024", text, "the ledger was altered")
            parts.add(once)


def _check_charges(session: Session, intents: Sequence[int], journal: str, out: Findings) -> None:
    plan, ledger = session.plan, session.ledger
    loss_of = {
        level.name: fraction(plan.doc.budget) * fraction(level.share)
        for level in plan.doc.levels
        if level.n_measured
    }
    per_loss = plan.whole_delta / fraction(plan.doc.budget)
    covered: set[str] = set()
    total = total_delta = Fraction(0)
    for seq in intents:
        intent = ledger.intents.get(seq)
        if intent is None:
            continue
        least = sum((loss_of.get(name, Fraction(0)) for name in intent.covers), Fraction(0))
        total += fraction(intent.loss)
        total_delta += fraction(intent.delta)
        covered |= set(intent.covers)
        if intent.neighbours != plan.doc.neighbours:
            text = f"intent {seq} is about another neighbour relation than the plan"
            _wrong(out, "V023", text, "loss is understated", plan.doc.neighbours, intent.neighbours)
        if intent.plan_hash != plan.measured_hash or intent.journal != journal:
            _wrong(
                out, "V022", f"the commit names intent {seq} of another plan or journal", "runs were mixed"
            )
        too_little = fraction(intent.loss) < least or fraction(intent.delta) < least * per_loss
        if too_little or _charged_noise(intent.laws) != _planned_noise(plan, intent.covers):
            shown = (exact_text(least)[:80], intent.loss[:80])
            _wrong(
                out, "V023", f"intent {seq} charges less than its levels cost", "loss is understated", *shown
            )
    if total < plan.loss or total_delta < plan.delta or not set(loss_of) <= covered:
        shown = (exact_text(plan.loss)[:80], exact_text(total)[:80])
        _wrong(
            out, "V023", "the ledger charges less than the plan costs", "the ledger forgets a loss", *shown
        )


def _charged_noise(laws: tuple[DrawnNoise, ...]) -> list[_Charged]:
    return sorted(
        (x.level, x.query, x.law, fraction(x.parameter), x.coordinates, x.shift, x.delta_loss, x.weights)
        for x in laws
    )


def _planned_noise(plan: PlanFile, covers: tuple[str, ...]) -> list[_Charged]:
    """Return the laws the plan draws at some levels, on the counts that neighbours move."""
    n, shift = len(plan.relation.shifts), plan.relation.shift
    return sorted(
        (
            *(level.name, m.query, m.law, fraction(m.parameter), n, shift),
            *(fraction(m.delta or "0"), tuple(m.weights or ())),
        )
        for level in plan.doc.levels
        if level.name in covers and level.n_measured
        for m in level.measurements
    )


def _wrong(out: Findings, code: str, text: str, why: str, expected: str = "", found: str = "") -> None:
    fix = "ask the publisher for the ledger of the data set; do not use this copy"
    out.add(Finding(code, text, FILE, None, None, expected, found, why, fix))
