"""Check `manifest`: exactly the listed files, unchanged, all inside the folder."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import msgspec

from topdown.publish.verify.check_tables import table_paths
from topdown.publish.verify.exact_values import exact_tables
from topdown.publish.verify.measurement_files import part_paths
from topdown.publish.verify.once import NotAvailableError
from topdown.publish.verify.population import PERSONS
from topdown.publish.verify.reader import (
    UnreadableError,
    open_inside,
    parse_json,
    read_bytes,
    sha256_of,
    unreadable,
)
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session

FILE = "manifest.json"
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
OPTIONAL = ("microdata/persons.csv.gz",)
KNOWN = re.compile(
    "|".join(re.escape(path) for path in (*REQUIRED, *OF_ANOTHER, *OPTIONAL))
    + r"|measurements/exact-[0-9]{3,}\.parquet"
    + r"|(base/)+(plan\.json|public/leaves\.parquet)|base/(manifest\.json|persons(/part-[0-9]{3,})?\.parquet)"
    + r"|microdata/persons(/part-[0-9]{3,})?\.parquet|measurements/[^/]+/part-[0-9]{3,}\.parquet"
    + r"|tables/[^/]+/[^/]+(/part-[0-9]{3,})?\.parquet"
)


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    bytes: int
    sha256: str


class _Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: str
    version: int
    plan_hash: str
    files: tuple[_Entry, ...]


def canonical_json(document: Any) -> bytes:
    """Return the only bytes a document of this release may have: sorted keys, two spaces, a last newline."""
    return (json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode("utf-8")


def check_manifest(session: Session, out: Findings) -> str:
    """Compare the folder with manifest.json: names, sizes, SHA-256, nothing else, no way out."""
    if not session.root.is_dir():
        out.add(
            Finding("V002", "there is no such folder", why="nothing can be checked", fix="check the path")
        )
        return "there is no such folder"
    here = _walk(session, out)
    try:
        listed = _read(session)
    except UnreadableError as error:
        out.n_checked = max(1, len(here))
        out.add(error.finding)
        return "manifest.json cannot be used"
    out.n_checked = len(listed)
    for path, entry in listed.items():
        _compare(session, out, path, entry, here)
    for path in sorted(here - set(listed) - {FILE}):
        out.add(Finding("V003", f"{path} is not in the manifest", file=path, why="somebody added it"))
    expected = _expected(session)
    for path in sorted(set(listed) & here - expected if expected is not None else ()):
        out.add(
            Finding("V003", f"{path} is no file of this plan's release", file=path, why="somebody added it")
        )
    for path in sorted(
        {*REQUIRED, *_microdata(session), *_exact(session), *_of_others(session)} - set(listed)
    ):
        out.add(
            Finding(
                "V002", f"the manifest does not list {path}", file=path, why="the release is not complete"
            )
        )
    if out.ok:
        return f"{len(listed)} files have the stated SHA-256"
    return f"{out.n_failed} of {len(listed)} files changed, missing or added"


def _read(session: Session) -> dict[str, _Entry]:
    data = read_bytes(session.root, FILE, "V005")
    document = parse_json(data, "V005", FILE)
    try:
        manifest = msgspec.convert(document, _Manifest, strict=True)
    except (ValueError, TypeError) as error:
        raise unreadable("V005", FILE, f"is not a manifest: {str(error)[:120]}") from None
    if (manifest.type, manifest.version) != ("topdown.manifest", 1) or data != canonical_json(document):
        raise unreadable("V005", FILE, "is not written in its canonical form")
    paths = [entry.path for entry in manifest.files]
    if paths != sorted(set(paths)) or FILE in paths or len(paths) > MAX_FILES:
        raise unreadable("V005", FILE, "does not list its paths sorted, each once, without itself")
    if manifest.plan_hash != _plan_hash(session, manifest.plan_hash):
        raise unreadable("V005", FILE, "belongs to another plan")
    return {entry.path: entry for entry in manifest.files}


def _plan_hash(session: Session, otherwise: str) -> str:
    try:
        return session.plan.computed_hash
    except NotAvailableError:
        return otherwise  # the check `plan` reports what is wrong with it


def _of_others(session: Session) -> tuple[str, ...]:
    """Return the files that a release carries of the one it extends, or whose measurement it solves."""
    try:
        return session.carried + (() if session.plan.doc.measured is None else OF_ANOTHER)
    except NotAvailableError:
        return ()


def _microdata(session: Session) -> list[str]:
    try:
        return session.cuts.paths(PERSONS, len(session.tree.names) - 1)
    except NotAvailableError:
        return []  # the check `plan` reports what is wrong with it


def _exact(session: Session) -> list[str]:
    try:
        return exact_tables(session)
    except NotAvailableError:
        return []


def _expected(session: Session) -> set[str] | None:
    """Return every path that a release of this plan may have, by plan alone but for the numbers of parts."""
    try:
        mine = {*table_paths(session), *_microdata(session), *_exact(session), *part_paths(session)}
    except NotAvailableError:
        return None  # the checks `plan` and `base` report what is wrong with them
    return {*REQUIRED, *OPTIONAL, *mine, *_of_others(session)}


def _walk(session: Session, out: Findings) -> set[str]:
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


def _compare(session: Session, out: Findings, path: str, entry: _Entry, here: set[str]) -> None:
    plain = all(part not in ("", ".", "..") for part in path.split("/")) and not set(path) & set("\\\0")
    if not plain:
        why = "such a path could make a reader open a file outside the release"
        out.add(Finding("V004", f"the manifest lists {path!r}, which leaves the folder", file=FILE, why=why))
        return
    if not KNOWN.fullmatch(path):
        out.add(
            Finding("V003", f"{path} is no file of this format", file=path, why="it was not made by publish")
        )
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
