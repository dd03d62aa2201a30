"""Check the folder of a choice from its files alone: question, ledger, result, certificate."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from topdown.formats.choice_documents import AskedFrequent, AskedOrder, AskedSites, Selection
from topdown.formats.verify_documents import Finding
from topdown.verify.check_certificate import FilesDue, check_files
from topdown.verify.check_ledger import named_journal
from topdown.verify.check_privacy import check_everything_released
from topdown.verify.exact_arithmetic import (
    ROUNDED,
    exact_text,
    exp,
    fraction,
    log,
    read_enclosure,
)
from topdown.verify.findings import Findings
from topdown.verify.ledger_reader import Choice, Commit, Opened, sealing_commit
from topdown.verify.noise_laws import RELATIONS, changes_needed, speaks_of_unit
from topdown.verify.plan_reader import canonical
from topdown.verify.session import Session
from topdown.verify.stated_losses import Comparison
from topdown.verify.strict_reader import canonical_json, check_bytes, read_bytes, read_json, unreadable

QUESTION, RESULT, LEDGER, CERTIFICATE = "selection.json", "result.json", "ledger.jsonl", "certificate.json"
ANSWER, JOURNAL, COVERAGE = "choice/answer/part-000.json", "choice/journal.json", "public/coverage.csv"
PART, LEVEL = "answer/part-000", "answer"
_QUESTIONS = {"sites": AskedSites, "order": AskedOrder, "frequent": AskedFrequent}
_COVERAGE_HEAD = ["candidate", "geocode"]
NOT_CHECKED = (
    "that the choice was drawn as the certificate says (no file can show it; see topdown select --self-check)"
)
_SHARP = Fraction(1, 10**9)  # how much of e^epsilon a plan may leave unused
_NOT_PROTECTED = [
    "facts about groups: an area or answer that is chosen has many records, and that is said on purpose",
    "how good the choice is: neither the sample, its size, nor what the choice covers is published",
]


def is_choice(folder: Path) -> bool:
    """Tell whether a folder holds a choice, and no release."""
    return (folder / QUESTION).is_file() and not (folder / "plan.json").exists()


def check_choice_manifest(session: Session, out: Findings) -> str:
    """Compare the folder of a choice with manifest.json."""
    due = {QUESTION, RESULT, LEDGER, CERTIFICATE, ANSWER, JOURNAL}
    due |= {COVERAGE} if "coverage_sha256" in _question(session)["question"] else set()
    known = re.compile("|".join(map(re.escape, sorted(due))))
    return check_files(session, out, FilesDue(due, due, known, _question(session)["plan_hash"]))


def check_choice_question(session: Session, out: Findings) -> str:
    """Compute hash and constants of the question anew: rate and base keep the stated epsilon, and waste none of it."""
    asked = _question(session)
    rest = {key: value for key, value in asked.items() if key != "plan_hash"}
    if hashlib.sha256(canonical(rest)).hexdigest() != asked["plan_hash"]:
        _choice_finding(out, "V190", "selection.json is not the question of its hash", QUESTION)
    odds, epsilon = _question_odds(asked), fraction(asked["epsilon"])
    if not log(odds) <= epsilon * (1 + ROUNDED) or odds < exp(epsilon) * (1 - _SHARP):
        _choice_finding(out, "V190", "rate and base are not those of the stated epsilon", QUESTION)
    question = asked["question"]
    if "candidates" in question:
        names = [one["name"] for one in question["candidates"]]
        if len(set(names)) < len(names):
            _choice_finding(out, "V190", "a candidate has its name twice", QUESTION)
        if session.sha256(COVERAGE) != question["coverage_sha256"]:
            _choice_finding(out, "V190", "coverage.csv is not the one that was asked about", COVERAGE)
        if not _is_coverage(read_bytes(session.root, COVERAGE, "V190"), names):
            _choice_finding(out, "V201", "coverage.csv is not written in its canonical form", COVERAGE)
    out.n_checked = 4
    return f"{question['kind']}, epsilon {asked['epsilon']}, {asked['neighbours']}: rate and base keep it"


def check_choice_ledger(session: Session, out: Findings) -> str:
    """Find the commit of this choice, the charges it names, and the file it seals."""
    asked, ledger = _question(session), session.ledger
    out.warnings += ledger.persons_said
    first = ledger.lines[0]
    bound = (asked["data_set"], asked["unit"])
    if (
        not isinstance(first, Opened)
        or (first.data_set, first.unit) != bound
        or any(changes_needed(first.neighbours, one.neighbours) is None for one in ledger.live)
        or not speaks_of_unit(first.unit, asked["neighbours"], is_noise=False)
    ):
        _choice_finding(out, "V024", "the ledger is of another data set, relation or unit", LEDGER)
    commit, charged = _commit_and_charges(session)
    if commit is None:
        _choice_finding(out, "V022", "no commit of this choice is in the ledger", LEDGER)
        return "the ledger does not cover this choice"
    sha256 = session.sha256(ANSWER)
    line = f"{sha256}  {PART}.json\n"
    if commit.files != hashlib.sha256(line.encode()).hexdigest():
        _choice_finding(out, "V025", "the choice is not the one the ledger committed to", ANSWER)
    due = (asked["plan_hash"], asked["neighbours"], asked["epsilon"], asked["rate"], asked["base"], (LEVEL,))
    for one in charged:
        if (one.plan_hash, one.neighbours, one.epsilon, one.rate, one.base, one.covers) != due:
            _choice_finding(out, "V023", f"charge {one.seq} is not that of this question", LEDGER)
    used = ledger.begun.get((commit.journal, PART), [])
    if not used or used[-1] not in commit.intents or ledger.drawn.get((used[-1], PART)) != sha256:
        _choice_finding(
            out, "V026", "the choice is not the one the ledger recorded when it was drawn", ANSWER
        )
    if len(charged) < len(commit.intents) or len(used) > len(charged) or len(set(used)) < len(used):
        _choice_finding(out, "V023", "the choice was drawn more often than it was charged", LEDGER)
    head = read_bytes(session.root, JOURNAL, "V026")
    wanted = {
        "type": "topdown.journal",
        "version": 2,
        "journal": commit.journal,
        "plan_hash": asked["plan_hash"],
    }
    if head != canonical(wanted) + b"\n":
        _choice_finding(out, "V026", "the journal does not agree with the ledger", JOURNAL)
    out.n_checked = 4 + len(charged)
    return f"charged {len(charged)} time{'s' * (len(charged) != 1)} before it was drawn, chain unbroken"


def check_choice_result(session: Session, out: Findings) -> str:
    """Compare the result with what was drawn and with what could be chosen at all."""
    asked = _question(session)
    question = asked["question"]
    result = read_json(session.root, RESULT, "V191", "topdown.selection.result")
    if read_bytes(session.root, RESULT, "V191") != read_bytes(session.root, ANSWER, "V191"):
        _choice_finding(out, "V191", "result.json is not the choice that was drawn", RESULT)
    keys = {"type", "version", "plan_hash", "chosen", "frequent"}
    if set(result) != keys or result["plan_hash"] != asked["plan_hash"]:
        _choice_finding(
            out, "V191", "result.json is that of another question, or says more than a choice", RESULT
        )
    chosen, found = result["chosen"], result["frequent"]
    out.n_checked = len(chosen) + len(found)
    if question["kind"] == "frequent":
        shown = [canonical(one) for one in found]
        odd = [one for one in found if set(one) != {"query", "area", "values"}]
        odd += [one for one in found if one["query"] not in question["queries"]]
        if chosen or odd or len(set(shown)) < len(shown):
            _choice_finding(out, "V191", "an answer was not asked for, or is there twice", RESULT)
        return f"{len(found)} answers of {len(question['queries'])} queries"
    districts = {one["name"]: one["district"] for one in question["candidates"]}
    if found or not set(chosen) <= set(districts) or len(set(chosen)) < len(chosen):
        _choice_finding(out, "V191", "a choice is no candidate, or is there twice", RESULT)
    elif len(chosen) != _n_chosen(question, districts):
        _choice_finding(out, "V191", "so many candidates were not asked for", RESULT)
    elif _district_full(question, [districts[name] for name in chosen]):
        _choice_finding(out, "V191", "a district has more candidates than it may", RESULT)
    return f"{len(chosen)} of {len(districts)} candidates"


def check_choice_certificate(session: Session, out: Findings) -> str:
    """Derive every number and sentence of the certificate anew."""
    asked = _question(session)
    stated = read_json(session.root, CERTIFICATE, "V140", "topdown.selection.certificate")
    _, charged = _commit_and_charges(session)
    n = len(charged)
    compare = Comparison(out)
    odds = exp(n * fraction(asked["epsilon"]))
    guess = odds / (1 + odds)
    times = min(-int(-100 * guess // 1), 100)
    due = {
        key: asked[key] for key in ("plan_hash", "data_set", "unit", "neighbours", "epsilon", "rate", "base")
    }
    unit = asked["unit"]
    which = f"which of two answers one {unit} gave, both of which fit the public facts"
    if RELATIONS[asked["neighbours"]].stated[0][0] == "presence":
        which = f"whether one {unit}'s answers were there at all, where both fit the public facts"
    due |= {
        "type": "topdown.selection.certificate",
        "version": 1,
        "exp_epsilon": exact_text(_question_odds(asked)),
        "right_in_100": times,
        "sentence": f"Someone who reads only this choice, knows every other {unit}'s answers, and must tell {which}, "
        f"chooses rightly at most {times} times in 100; a coin gives 50.",
        "not_protected": _NOT_PROTECTED,
        "n_attempts": n,
    }
    shown = {key: value for key, value in stated.items() if key in due}
    compare.same("V140", "fields", due, shown)
    compare.same(
        "V140", "keys", sorted({*due, "engine", "best_guess", "everything_released"}), sorted(stated)
    )
    with compare.reading("V132", "best_guess"):
        low, high = read_enclosure(stated["best_guess"])
        if not low <= guess * (1 + ROUNDED) or not guess * (1 - ROUNDED) <= high <= low + Fraction(1, 10**12):
            compare.wrong("V132", "best_guess", "is not what epsilon implies")
    with compare.reading("V136", "everything_released"):
        check_everything_released(
            compare, session.ledger, stated["everything_released"], "everything_released"
        )
    return (
        f"at most {times} right choices in 100, computed anew"
        if out.ok
        else "the certificate says something else"
    )


def _is_coverage(data: bytes, names: list[str]) -> bool:
    """Tell whether a table lists leaves of candidates, in the order of candidates, each pair once, in one spelling."""
    text, place = io.StringIO(newline=""), {name: i for i, name in enumerate(names)}
    try:
        head, *rows = csv.reader(io.StringIO(data.decode("utf-8"), newline=""))
        order = [place[name] for name, _ in rows]
    except (ValueError, LookupError, csv.Error):
        return False
    csv.writer(text, lineterminator="\n").writerows([_COVERAGE_HEAD, *rows])
    once = len(set(map(tuple, rows))) == len(rows) and order == sorted(order)
    return head == _COVERAGE_HEAD and once and text.getvalue().encode() == data


def _question(session: Session) -> dict[str, Any]:
    """Return selection.json; UnreadableError (V190) if it lacks a key, or has one that no question has."""
    document = read_json(session.root, QUESTION, "V190", "topdown.selection")
    try:
        whole = msgspec.convert(document, Selection)
        asked = msgspec.convert(whole.question, _QUESTIONS[str(whole.question.get("kind"))])
        again = msgspec.to_builtins(whole) | {"question": msgspec.to_builtins(asked)}
    except (ValueError, TypeError, LookupError) as error:
        raise unreadable("V190", QUESTION, f"is not as documented: {str(error)[:120]}") from None
    check_bytes(QUESTION, canonical_json(document), again)
    return document


def _question_odds(asked: dict[str, Any]) -> Fraction:
    return RELATIONS[asked["neighbours"]].sampled_odds(fraction(asked["rate"]), fraction(asked["base"]))


def _commit_and_charges(session: Session) -> tuple[Commit | None, list[Choice]]:
    """Return the commit that seals the answer in the folder, and the charges of its journal."""
    mine = [c for c in session.ledger.commits if c.plan_hash == _question(session)["plan_hash"]]
    due = hashlib.sha256(f"{session.sha256(ANSWER)}  {PART}.json\n".encode()).hexdigest()
    commit = sealing_commit(mine, due, named_journal(session, JOURNAL)) or (mine[-1] if mine else None)
    live = session.ledger.of_journal(commit.journal).values() if commit else ()
    return commit, [one for one in live if isinstance(one, Choice)]


def _n_chosen(question: dict[str, Any], districts: dict[str, str | None]) -> int:
    if question["kind"] == "order":
        return len(districts)
    k = int(question["k"])
    if question["per"] is None:
        return k
    return min(k, sum(min(int(question["most"]), n) for n in Counter(districts.values()).values()))


def _district_full(question: dict[str, Any], districts: list[str | None]) -> bool:
    if question["kind"] == "order" or question["per"] is None:
        return False
    return max(Counter(districts).values()) > int(question["most"])


def _choice_finding(out: Findings, code: str, text: str, file: str) -> None:
    out.add(Finding(code, text, file))
