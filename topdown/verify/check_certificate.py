"""Checks `manifest`, `certificate` and `stamps`: the listed files and no others, and what they say of themselves."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, zip_longest
from math import ceil
from textwrap import fill
from typing import Any, TypeVar

import msgspec

from topdown.formats import release_documents
from topdown.formats.release_documents import Manifest, SealedFile
from topdown.formats.report_parts import REPORT
from topdown.formats.verify_documents import Finding
from topdown.verify.check_constraints import exact_tables
from topdown.verify.check_tables import CSV, table_paths
from topdown.verify.exact_arithmetic import exact_text, fraction
from topdown.verify.findings import Findings
from topdown.verify.noise_laws import unit_of
from topdown.verify.plan_reader import PlanFile
from topdown.verify.released_records import PERSONS
from topdown.verify.session import MEASURED_PLAN, Session, part_paths
from topdown.verify.strict_reader import (
    NotAvailableError,
    UnreadableError,
    check_bytes,
    open_inside,
    parse_json,
    read_bytes,
    sha256_of,
    unreadable,
)

T = TypeVar("T")
D = TypeVar("D")
MANIFEST_FILE = "manifest.json"
MAX_FILES = 1_000_000

REQUIRED = (
    "README.txt",
    "certificate.json",
    "ledger.jsonl",
    "measurements/exact.json",
    "measurements/journal.json",
    "plan.json",
    "public/geography.parquet",
    "public/leaves.parquet",
    "solve.json",
)

OF_ANOTHER = ("measurements/plan.json",)
OPTIONAL = ("microdata/persons.csv.gz", "report.html")

KNOWN = re.compile(
    "|".join(re.escape(path) for path in (*REQUIRED, *OF_ANOTHER, *OPTIONAL))
    + r"|measurements/exact-[0-9]{3,}\.parquet"
    + r"|(base/)+(plan\.json|public/leaves\.parquet)|base/(manifest\.json|persons(/part-[0-9]{3,})?\.parquet)"
    + r"|microdata/persons(/part-[0-9]{3,})?\.parquet|measurements/[^/]+/part-[0-9]{3,}\.parquet"
    + r"|tables/[^/]+/[^/]+(/part-[0-9]{3,})?\.parquet"
)


@dataclass(frozen=True)
class FilesDue:
    """Which files a folder must and may have.

    Args:
        required: paths.
        possible: paths; None where what would decide them cannot be read.
        known: what every path looks like.
        plan_hash: that the manifest must name; None where it cannot be read.
    """

    required: Set[str]
    possible: Set[str] | None
    known: re.Pattern[str]
    plan_hash: str | None


def check_manifest(session: Session, out: Findings) -> str:
    """Compare the folder of a release with manifest.json."""
    another = _available(lambda: () if session.plan.measured is None else OF_ANOTHER, ())
    mine = _available(lambda: session.carried, ()), another, _available(lambda: exact_tables(session), [])
    microdata = _available(lambda: session.cuts.paths(PERSONS, len(session.tree.names) - 1), [])
    required = {*REQUIRED, *microdata, *chain.from_iterable(mine)}
    optional = _available(lambda: {*OPTIONAL, *table_paths(session), *part_paths(session)}, None)
    plan_hash = _available(lambda: session.plan.computed_hash, None)
    possible = None if optional is None else required | optional
    return check_files(session, out, FilesDue(required, possible, KNOWN, plan_hash))


def _available(load: Callable[[], T], otherwise: D) -> T | D:
    """Return what the plan decides; another value where it cannot be read, which another check reports."""
    try:
        return load()
    except NotAvailableError:
        return otherwise


def check_files(session: Session, out: Findings, due: FilesDue) -> str:
    """Compare a folder with manifest.json: names, sizes, SHA-256, nothing else, no way out."""
    if not session.root.is_dir():
        text = "there is no such folder"
        out.add(Finding("V002", text, why="nothing can be checked", fix="check the path"))
        return text
    here = _walk_folder(session, out)
    try:
        listed = _read_manifest(session, due.plan_hash)
    except UnreadableError as error:
        out.n_checked = max(1, len(here))
        out.add(error.finding)
        return "manifest.json cannot be used"
    out.n_checked = len(listed)
    for path, entry in listed.items():
        _compare_file(session, out, path, entry, here, due.known)
    for path in sorted(here - set(listed) - {MANIFEST_FILE}):
        out.add(Finding("V003", f"{path} is not in the manifest", file=path, why="somebody added it"))
    for path in sorted(set(listed) & here - due.possible if due.possible is not None else ()):
        text = f"{path} is no file of this plan's release"
        out.add(Finding("V003", text, file=path, why="somebody added it"))
    for path in sorted(due.required - set(listed)):
        text = f"the manifest does not list {path}"
        out.add(Finding("V002", text, file=path, why="the release is not complete"))
    if out.ok:
        return f"{len(listed)} files have the stated SHA-256"
    return f"{out.n_failed} of {len(listed)} files changed, missing or added"


def _read_manifest(session: Session, plan_hash: str | None) -> dict[str, SealedFile]:
    data = read_bytes(session.root, MANIFEST_FILE, "V005")
    document = parse_json(data, "V005", MANIFEST_FILE)
    try:
        manifest = msgspec.convert(document, Manifest, strict=True)
    except (ValueError, TypeError) as error:
        raise unreadable("V005", MANIFEST_FILE, f"is not a manifest: {str(error)[:120]}") from None
    check_bytes(MANIFEST_FILE, data, msgspec.to_builtins(manifest))
    paths = [entry.path for entry in manifest.files]
    if paths != sorted(set(paths)) or MANIFEST_FILE in paths or len(paths) > MAX_FILES:
        raise unreadable("V005", MANIFEST_FILE, "does not list its paths sorted, each once, without itself")
    if plan_hash is not None and manifest.plan_hash != plan_hash:
        raise unreadable("V005", MANIFEST_FILE, "belongs to another plan")
    return {entry.path: entry for entry in manifest.files}


def _walk_folder(session: Session, out: Findings) -> set[str]:
    found: set[str] = set()
    folders = [""]
    while folders and len(found) <= MAX_FILES:
        folder = folders.pop()
        with os.scandir(session.root / folder) as listing:
            entries = list(listing)
            if folder and not entries:
                why = "a release holds no empty folders; its name could say something"
                out.add(Finding("V003", f"{folder!r} is an empty folder", file=folder, why=why))
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif entry.is_file(follow_symlinks=False):
                    found.add(path)
                else:
                    kind = "a symbolic link" if entry.is_symlink() else "a special file"
                    why = "a release holds plain files only; a link could show other data to each reader"
                    out.add(Finding("V004", f"{path!r} is {kind}", file=path, why=why))
    return found


def _compare_file(
    session: Session, out: Findings, path: str, entry: SealedFile, here: set[str], known: re.Pattern[str]
) -> None:
    if {"", ".", ".."} & set(path.split("/")) or set(path) & set("\\\0"):
        text = f"the manifest lists {path!r}, which leaves the folder"
        why = "such a path could make a reader open a file outside the release"
        out.add(Finding("V004", text, file=MANIFEST_FILE, why=why))
        return
    if not known.fullmatch(path):
        text = f"{path} is no file of this format"
        out.add(Finding("V003", text, file=path, why="it was not made by publish"))
        return
    if path not in here:
        out.add(Finding("V002", f"{path} is missing", file=path, why="the release is not complete"))
        return
    try:
        with open_inside(session.root, path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry.bytes:
                shown = (f"{entry.bytes:,} bytes", f"{size:,} bytes")
                out.add(Finding("V006", f"{path} has another size", path, None, None, *shown))
                return
            digest = sha256_of(file)
    except (OSError, ValueError) as error:
        out.add(Finding("V002", f"{path} cannot be read ({type(error).__name__})", file=path))
        return
    session.hashes[path] = digest
    if digest != entry.sha256:
        shown = (f"SHA-256 {entry.sha256[:8]}...", f"{digest[:8]}...")
        out.add(Finding("V001", f"{path} was changed", path, None, None, *shown))


def is_open(answer: str) -> bool:
    """Tell whether an answer that only a person can give has not been given: no letter or digit is in it."""
    return not any(map(str.isalnum, answer))


def open_answers(plan: PlanFile) -> list[str]:
    """Name the answers that only a person can give and nobody has given."""
    fields = msgspec.to_builtins(plan.doc.release)
    names = [f"release.{key}" for key, value in fields.items() if is_open(value)]
    rules = [rule for rule in plan.rules.all if is_open(rule.legal_basis)]
    return names + [f"invariants.{rule.kind}.{rule.name}.legal_basis" for rule in rules]


def stamps(plan: PlanFile) -> list[str]:
    """Return the words every reader must see: DEMO, DRAFT."""
    release = plan.doc.release
    out = ["DEMO"] if release.data_set == "demo" or release.id.startswith("demo-") else []
    return out + (["DRAFT"] if open_answers(plan) else [])


def expected_sections(session: Session) -> dict[str, Any]:
    """Return the sections of the certificate that the files determine, as JSON values."""
    plan = session.plan
    paths = ["plan.json", "ledger.jsonl", "solve.json", "public/geography.parquet", "public/leaves.parquet"]
    paths += ["measurements/exact.json", *part_paths(session)]
    paths += session.cuts.paths(PERSONS, len(session.tree.names) - 1)
    paths += session.carried
    paths += [] if session.plan.measured is None else [MEASURED_PLAN]
    return {
        "plan_hash": plan.computed_hash,
        "stamps": stamps(plan),
        "open_answers": open_answers(plan),
        "checks": [
            {"name": r.name, "ok": r.ok, "text": r.text, "n_checked": r.n_checked, "n_failed": r.n_failed}
            for r in session.results
            if r.name not in ("manifest", "privacy", "certificate", "stamps")
        ],
        "files": {path: session.sha256(path) for path in sorted(paths)},
    } | ({} if plan.measured is None else {"measured": msgspec.to_builtins(plan.measured)})


def unspent(plan: PlanFile) -> list[dict[str, str]]:
    """Return the loss, and its delta where losses are pairs, left unspent because the geography lacks a level."""
    amounts = {"loss": fraction(plan.doc.budget)}
    amounts |= {"delta": plan.whole_delta} if plan.whole_delta else {}
    return [
        {"level": name} | {what: exact_text(total * fraction(share)) for what, total in amounts.items()}
        for name, share in plan.doc.unspent
    ]


def expected_readme(session: Session, due: Sequence[str]) -> str:
    """Return the text that README.txt must have."""
    plan, tree, release = session.plan, session.tree, session.plan.doc.release
    n_records = session.n_records
    parted, record = session.cuts.n_sections > 1, unit_of(plan.schema.unit).record
    return release_documents.README_FORM.format(
        persons="persons/, in parts" if parted else "persons.parquet",
        file="file, or folder of parts," if parted else "file",
        head=f"{', '.join(due)}: not for use as official statistics" if due else "Release",
        title=release.title,
        id=release.id,
        agency=release.agency,
        contact=release.contact,
        licence=release.licence or "not stated; ask the contact",
        date=session.ledger.up_to["date"],
        exact=fill(_exact_words(session), release_documents.README_COLUMNS),
        base=release_documents.README_BASE if plan.doc.base else "",
        people=f"{n_records:,} {record} records in {len(tree.geocodes[-1]):,} {tree.names[-1]} areas",
        report=release_documents.README_REPORT if os.path.lexists(session.root / REPORT) else "",
        csv=release_documents.README_CSV if os.path.lexists(session.root / CSV) else "",
        listed=release_documents.README_LISTED[plan.coverage is not None],
        plan=plan.computed_hash[:8],
        said="".join(fill(line, release_documents.README_COLUMNS) + "\n" for line in _privacy_lines(session)),
    )


def _privacy_lines(session: Session) -> list[str]:
    """Return what is said of privacy: the sentence, every secret that is not protected, what persons attested."""
    plan, privacy = session.plan, session.certificate.get("privacy")
    stated = privacy if isinstance(privacy, dict) else {}
    rows = [row for row in stated.get("secrets", []) if isinstance(row, dict)]
    disclosed = [row for row in rows if row.get("status") == "disclosed"]
    said = []
    if measured := plan.measured:
        text = release_documents.SOLVED_ANOTHER_WAY.format(
            release=measured.release, plan=measured.plan_hash[:8]
        )
        said.append(text if plan.coverage is None else f"{text} {release_documents.CHOSEN_AFTERWARDS}")
    said += [str(stated["sentence"])] if "sentence" in stated else []
    said += _epsilon_words(rows)
    if plan.loss_name == "epsilon_delta":
        both = f"Epsilon {exact_text(plan.loss)}, delta {exact_text(plan.delta)}"
        said += [f"{both}: sums over every count that one record moves."]
    said += [f"Not protected: {row.get('name')}, {row.get('sentence')}." for row in disclosed]
    said += session.ledger.persons_said
    if plan.coverage is None:
        return said
    n, of = (100 * plan.coverage).as_integer_ratio()
    odds = f"{n} in 100" if of == 1 else f"{plan.coverage.numerator} in {plan.coverage.denominator}"
    return [*said, release_documents.CHANCE_OF_INTERVALS.format(odds=odds)]


def _epsilon_words(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the upper end of the first epsilon that is stated, in hundredths and rounded up."""
    for row in rows:
        stated = row.get("epsilon")
        if not isinstance(stated, dict) or not stated:
            continue
        delta, ends = next(iter(stated.items()))
        try:
            hundredths = ceil(100 * Fraction(ends[1]))
        except (TypeError, ValueError, LookupError, ZeroDivisionError):
            return []
        at = "" if delta == "0" else f" at delta {delta}"
        return [f"Epsilon is at most {hundredths // 100}.{hundredths % 100:02}{at} ({row.get('name')})."]
    return []


def _exact_words(session: Session) -> str:
    """Return which statistics the certificate says are published without noise."""
    privacy = session.certificate.get("privacy")
    stated = privacy.get("conditional_on") if isinstance(privacy, dict) else None
    rules = "the public facts that hold in every area."
    if not isinstance(stated, list) or not stated:
        return f"No statistic is published without noise; plan.json lists {rules}"
    return f"Published without noise: {', '.join(map(str, stated))}. plan.json says why, and lists {rules}"


README = "README.txt"
FILE = "certificate.json"
_OTHER = {"type", "version", "engine", "privacy", "software"}
_SOFTWARE = ("numpy", "pyarrow", "python", "scipy", "topdown")
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,40}|not installed")


def check_certificate(session: Session, out: Findings) -> str:
    """Compare every section with what the files say; nothing may be stated that is not known to be true."""
    stated = session.certificate
    expected = expected_sections(session)
    for key in sorted(set(stated) - set(expected) - _OTHER):
        out.add(Finding("V141", f"the certificate has the unknown section {key!r}", file=FILE))
    for key, value in expected.items():
        out.n_checked += 1
        if key not in stated or _typed_json(stated[key]) != _typed_json(value):
            place, want, have = _first_difference(key, value, stated.get(key))
            text = f"the certificate's {place} is not what the files say"
            out.add(Finding("V141", text, FILE, None, None, want[:120], have[:120]))
    privacy = stated.get("privacy")
    out.n_checked += 2
    if not isinstance(privacy, dict) or privacy.get("unspent") != unspent(session.plan):
        out.add(Finding("V141", "the certificate states another unspent loss than the plan", file=FILE))
    software = stated.get("software")
    if (
        not isinstance(software, dict)
        or tuple(sorted(software)) != _SOFTWARE
        or not all(isinstance(text, str) and _VERSION.fullmatch(text) for text in software.values())
        or stated.get("engine") != software["topdown"]
    ):
        out.add(Finding("V141", "the certificate does not state the software it was made with", file=FILE))
    if out.ok:
        return f"{out.n_checked} of {out.n_checked} sections agree with the files"
    return f"{out.n_failed} of {out.n_checked} sections do not agree with the files"


def _typed_json(value: Any) -> Any:
    # JSON true and 1, or 1 and 1.0, are equal in Python; they are not the same statement.
    return json.dumps(value, sort_keys=True)


def _first_difference(place: str, want: Any, have: Any) -> tuple[str, str, str]:
    if isinstance(want, dict) and isinstance(have, dict):
        for key in sorted(set(want) | set(have)):
            if key not in want or key not in have or _typed_json(want[key]) != _typed_json(have[key]):
                return _first_difference(f"{place}.{key}", want.get(key), have.get(key))
    if isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        for i, (a, b) in enumerate(zip(want, have, strict=True)):
            if _typed_json(a) != _typed_json(b):
                return _first_difference(f"{place}[{i}]", a, b)
    return place, _typed_json(want), _typed_json(have)


def check_stamps(session: Session, out: Findings) -> str:
    """Expect NOT-A-RELEASE, DEMO and DRAFT in the certificate where they are due, and the README that follows."""
    due = stamps(session.plan)
    out.n_checked = 2
    stated = session.certificate.get("stamps")
    if stated != due:
        text = "the certificate does not show the stamps that are due"
        why = "a reader could take a draft or demo for an official release"
        out.add(Finding("V142", text, FILE, None, None, ", ".join(due) or "none", str(stated)[:80], why))
    written = read_bytes(session.root, README, "V142")
    wanted = expected_readme(session, due).encode("utf-8")
    if written != wanted:
        line, want, have = _first_other_line(wanted, written)
        text = "README.txt is not what plan, microdata and certificate say"
        out.add(Finding("V142", text, README, line, None, want, have, "people read it before anything else"))
    if out.ok:
        return ", ".join(due) if due else "none due"
    return "a stamp is missing or wrong, or README.txt says something else"


def _first_other_line(wanted: bytes, written: bytes) -> tuple[int, str, str]:
    lines = [data.decode("utf-8", "replace").split("\n") for data in (wanted, written)]
    for number, (want, have) in enumerate(zip_longest(*lines, fillvalue=""), start=1):
        if want != have:
            return number, want[:80], have[:80]
    return 1, "", "bytes that are no text"
