"""Checks `certificate` and `stamps`: it says what the files say, and shows every warning that is due."""

from __future__ import annotations

import json
import re
from itertools import zip_longest
from typing import Any

from topdown.publish.verify.check_files import canonical_json
from topdown.publish.verify.expected_certificate import expected_sections, stamps, unspent
from topdown.publish.verify.expected_readme import expected_readme
from topdown.publish.verify.reader import read_bytes
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session

README = "README.txt"
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
