"""Checks `certificate` and `stamps`: it says what the files say, and shows every warning that is due."""

from __future__ import annotations

import json
import re
from typing import Any

from topdown.publish.verify.check_files import canonical_json
from topdown.publish.verify.expected_certificate import expected_sections, stamps, unspent
from topdown.publish.verify.reader import read_bytes
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session

FILE = "certificate.json"
_OTHER = {"type", "version", "engine", "privacy", "software"}
_SOFTWARE = ("numba", "numpy", "ortools", "pyarrow", "python", "scipy", "topdown")
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,40}|not installed")


def check_certificate(session: Session, out: Findings) -> str:
    """Compare every section with what the files say; nothing may be stated that is not known to be true."""
    stated = session.certificate
    if read_bytes(session.root, FILE, "V140") != canonical_json(stated):
        out.add(Finding("V140", "certificate.json is not written in its canonical form", file=FILE))
    expected = expected_sections(session)
    for key in sorted(set(stated) - set(expected) - _OTHER):
        out.add(Finding("V141", f"the certificate has the unknown section {key!r}", file=FILE))
    for key, value in expected.items():
        out.n_checked += 1
        if key not in stated or _kinds(stated[key]) != _kinds(value):
            place, want, have = _first_difference(key, value, stated.get(key))
            text = f"the certificate's {place} is not what the files say"
            out.add(Finding("V141", text, FILE, None, None, want[:120], have[:120]))
    privacy = stated.get("privacy")
    out.n_checked += 2
    if not isinstance(privacy, dict) or privacy.get("unspent") != unspent(session.plan):
        out.add(Finding("V141", "the certificate states another unspent loss than the plan", file=FILE))
    software = stated.get("software")
    if not isinstance(software, dict) or tuple(sorted(software)) != _SOFTWARE or not _plain(software, stated):
        out.add(Finding("V141", "the certificate does not state the software it was made with", file=FILE))
    if out.ok:
        return f"{out.n_checked} of {out.n_checked} sections agree with the files"
    return f"{out.n_failed} of {out.n_checked} sections do not agree with the files"


def _plain(software: dict[str, Any], stated: dict[str, Any]) -> bool:
    texts = [stated.get("engine"), *software.values()]
    sound = all(isinstance(text, str) and _VERSION.fullmatch(text) for text in texts)
    return sound and stated.get("engine") == software["topdown"]


def _kinds(value: Any) -> Any:
    # JSON true and 1, or 1 and 1.0, are equal in Python; they are not the same statement.
    return json.dumps(value, sort_keys=True)


def _first_difference(place: str, want: Any, have: Any) -> tuple[str, str, str]:
    if isinstance(want, dict) and isinstance(have, dict):
        for key in sorted(set(want) | set(have)):
            if key not in want or key not in have or _kinds(want[key]) != _kinds(have[key]):
                return _first_difference(f"{place}.{key}", want.get(key), have.get(key))
    if isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        for i, (a, b) in enumerate(zip(want, have, strict=True)):
            if _kinds(a) != _kinds(b):
                return _first_difference(f"{place}[{i}]", a, b)
    return place, _kinds(want), _kinds(have)


def _quoted(session: Session, readme: str, out: Findings) -> None:
    """Expect in README.txt what the certificate says of privacy, word by word, and no other such sentence."""
    privacy = session.certificate.get("privacy")
    rows = privacy.get("secrets", []) if isinstance(privacy, dict) else []
    due = [str(privacy.get("sentence"))] if isinstance(privacy, dict) else []
    due += [
        f"Not protected: {row.get('name')}, {row.get('sentence')}."
        for row in rows
        if isinstance(row, dict) and row.get("status") == "disclosed"
    ]
    out.n_checked += 1
    if not all(" ".join(line.split()) in readme for line in due) or readme.count("times in 100") != 1:
        text = "README.txt does not quote what the certificate says of privacy"
        out.add(Finding("V142", text, "README.txt", why="people read it before anything else"))


def check_stamps(session: Session, out: Findings) -> str:
    """Expect NOT-A-RELEASE, DEMO and DRAFT where they are due, in the certificate and in README.txt."""
    due = stamps(session.plan)
    stated = session.certificate.get("stamps")
    readme = read_bytes(session.root, "README.txt", "V142").decode("utf-8", "replace")
    first = readme.splitlines()[0] if readme else ""
    shown = [
        word
        for word in ("NOT-A-RELEASE", "DEMO", "DRAFT")
        if word in re.findall(r"[A-Z]+(?:-[A-Z]+)*", first)
    ]
    for place, file, words in (
        ("certificate", FILE, stated),
        ("first line of README.txt", "README.txt", shown),
    ):
        out.n_checked += 1
        if words != due:
            text = f"the {place} does not show the stamps that are due"
            why = "a reader could take a draft or demo for an official release"
            want, have = ", ".join(due) or "none", str(words)[:80]
            out.add(Finding("V142", text, file, None, None, want, have, why))
    _quoted(session, " ".join(readme.split()), out)
    if out.ok:
        return ", ".join(due) if due else "none due"
    return "a stamp is missing or wrong"
