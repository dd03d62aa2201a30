"""Check a release from its files alone, in integers, with none of the code that made it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgsr.check import Check
from pgsr.check_choice import check_choice
from pgsr.check_intervals import check_intervals
from pgsr.check_ledger import check_ledger
from pgsr.check_privacy import check_privacy
from pgsr.documents.manifest import Manifest
from pgsr.folder import CERTIFICATE, MANIFEST, MEASUREMENTS, release_files
from pgsr.mechanism import MECHANISMS
from pgsr.verify_files import (
    Files,
    OddFileError,
    check_form,
    load,
    read_certificate,
    read_document,
    sha256_of,
)
from topdown.errors import ConfigError, DataError
from topdown.made_up import WARNING

Ints = NDArray[np.int64]


def verify(folder: Path | str) -> list[Check]:
    """Return the checks of a release folder.

    Manifest (canonical, exactly the files that follow from the release, no link, no empty folder), whole numbers,
    hierarchy (every parent equals the sum of its children), total, everything that is said about privacy, ledger,
    measurements, and, where Model 1 was solved on them, the exchange certificate. What is damaged is a failed check.

    Raises:
        DataError: not a release folder (D137), or one of another version (D138).
        ConfigError: a simulation, which is no release (C122).
    """
    place = Path(folder)
    if _is_simulation(place):
        raise ConfigError(
            f"{ascii(str(place))[1:-1]} holds a simulation, not a release: its noise protects nobody",
            code="C122",
            fix="give the folder that pgsr release wrote without --simulate; a simulation is never published",
        )
    return check_folder(place)


def check_folder(place: Path) -> list[Check]:
    """Return the checks of a folder, a simulation's too; see `verify`."""
    try:
        found = place.is_dir() and (place / MANIFEST).is_file()
    except (OSError, ValueError):
        found = False
    if not found:
        raise DataError(
            f"{ascii(str(place))[1:-1]} has no {MANIFEST}",
            code="D137",
            fix="give the folder of a pgsr release",
        )
    try:
        certificate = read_certificate(place)
    except OddFileError as error:
        return [_guarded("manifest", lambda: _sealed(place, None)), _failed("files", str(error))]
    sealed = _guarded("manifest", lambda: _sealed(place, certificate))
    try:
        files = load(place, certificate)
    except Exception as error:  # a hostile file can surface as almost anything
        text = (
            str(error)
            if isinstance(error, OddFileError)
            else f"a file cannot be read ({type(error).__name__})"
        )
        return [sealed, _failed("files", text)]
    checks: dict[str, Callable[[Files], Check]] = {
        "whole numbers": _whole_numbers,
        "hierarchy": _hierarchy,
        "total": _total,
        "choice": check_choice,
        "intervals": check_intervals,
        "privacy": check_privacy,
        "ledger": check_ledger,
        "optimality": _optimality,
    }
    return [sealed, *(_guarded(name, partial(run, files)) for name, run in checks.items())]


def _is_simulation(place: Path) -> bool:
    """Tell whether a folder says of itself, anywhere, that it is a simulation."""
    if os.path.lexists(place / WARNING):
        return True
    for name in (CERTIFICATE, MANIFEST):
        try:
            document = read_document(place, name)
        except (OddFileError, ValueError):
            continue
        if document.get("release") is False or document.get("stamp"):
            return True
    return False


def _sealed(place: Path, certificate: dict[str, Any] | None) -> Check:
    """Compare the folder with its manifest, and the manifest with what follows from the certificate."""
    check = Check("manifest")
    try:
        manifest = read_document(place, MANIFEST)
        check_form(manifest, Manifest)
    except (ValueError, TypeError, RecursionError) as error:
        check.fail(f"{MANIFEST} cannot be used: {str(error)[:120]}")
        return check
    listed = manifest["files"]
    for name, entry in listed.items():
        check.n_checked += 1
        try:
            same = (
                sha256_of(place, name) == entry["sha256"] and (place / name).stat().st_size == entry["bytes"]
            )
        except (OSError, ValueError):
            check.fail(f"{name!a} is missing, or is no plain file inside the folder")
            continue
        if not same:
            check.fail(f"{name} has another SHA-256 or size than the manifest states")
    if certificate is not None:
        levels = [level["name"] for level in certificate["levels"]]
        due = {*release_files(levels, is_release=certificate["release"])}
        for name in sorted(due ^ set(listed)):
            check.fail(f"{name!a} is {'not in the manifest' if name in due else 'no file of such a release'}")
        folders = {MEASUREMENTS, *(f"{MEASUREMENTS}/{level}" for level in levels)}
        _compare_names(check, place, due | {MANIFEST}, folders)
        for key in ("engine", "release", "stamp"):
            if manifest[key] != certificate[key]:
                check.fail(f"manifest and certificate state another {key}")
        if certificate["release"] != (not certificate["stamp"]) or certificate["release"] != (
            certificate["truth"] is None
        ):
            check.fail("the certificate does not say clearly whether this is a release")
    check.summary = f"{check.n_checked} files have the stated SHA-256"
    return check


def _compare_names(check: Check, place: Path, files: set[str], folders: set[str]) -> None:
    """Fail for everything in the folder that does not follow from the release: files, links, empty folders."""
    for top, inner, names in os.walk(place):
        for name in (*inner, *names):
            path = Path(top, name)
            inside = path.relative_to(place).as_posix()
            if path.is_symlink():
                check.fail(f"{inside!a} is a link; a release holds plain files only")
            elif inside not in (folders if name in inner else files):
                check.fail(f"{inside!a} is not in the manifest of such a release")


def _failed(name: str, text: str) -> Check:
    check = Check(name, n_checked=1)
    check.fail(text)
    return check


def _guarded(name: str, run: Callable[[], Check]) -> Check:
    """Run one check; whatever a hostile file makes it stumble over fails it."""
    try:
        return run()
    except OddFileError as error:
        return _failed(name, str(error))
    except Exception as error:
        return _failed(name, f"the release is not what its format says ({type(error).__name__})")


def _name(files: Files, node: int) -> str:
    code, level, _ = files.certificate["regions"][node]
    return f"{level} {code}"


def _whole_numbers(files: Files) -> Check:
    check = Check("whole numbers", n_checked=files.counts.size)
    if files.certificate["mechanism"]["consistent"]:
        for size, node in np.argwhere(files.counts < 0).tolist():
            check.fail(f"{_name(files, node)}, size row {size}: {files.counts[size, node]} is below 0")
    check.summary = f"{files.counts.size:,} counts, none below 0"
    return check


def _hierarchy(files: Files) -> Check:
    check = Check("hierarchy")
    sums = np.zeros_like(files.counts)
    inner = np.zeros(len(files.parent), dtype=np.bool_)
    inner[files.parent[files.parent >= 0]] = True
    for node in range(len(files.parent) - 1, 0, -1):
        sums[:, files.parent[node]] += files.counts[:, node]
    wrong = np.flatnonzero(inner & np.any(sums != files.counts, axis=0))
    check.n_checked = int(inner.sum())
    if files.certificate["mechanism"]["consistent"]:
        for node in wrong.tolist():
            check.fail(f"{_name(files, node)} is not the sum of its children")
        check.summary = f"{check.n_checked:,} of {check.n_checked:,} regions add up"
    else:
        check.summary = f"not promised; {len(wrong):,} of {check.n_checked:,} regions do not add up"
    return check


def _total(files: Files) -> Check:
    expected = int(files.certificate["total"])
    check = Check("total", f"every level has {expected:,} groups")
    if not files.certificate["mechanism"]["consistent"]:
        check.summary = "not promised"
        return check
    for level in range(int(files.level.max()) + 1):
        check.n_checked += 1
        found = int(files.counts[:, files.level == level].sum())
        if found != expected:
            check.fail(f"level {level} has {found} groups, not {expected}")
    public, held = files.certificate["public_totals"], files.counts.sum(axis=0)
    if public and MECHANISMS[files.certificate["mechanism"]["name"]].informed:
        codes = {code: node for node, (code, _, _) in enumerate(files.certificate["regions"])}
        for region, number in public.items():
            check.n_checked += 1
            if held[codes[region]] != number:
                check.fail(
                    f"{_name(files, codes[region])} has {held[codes[region]]} groups, not the public {number}"
                )
        check.summary += f", and {len(public):,} regions have their public numbers"
    return check


def _optimality(files: Files) -> Check:
    """Repeat the exchange certificate where Model 1 was solved on the published measurements."""
    check = Check("optimality", files.certificate["mechanism"]["claim"])
    proof, mechanism = files.certificate["optimality"], files.certificate["mechanism"]
    known = MECHANISMS.get(mechanism["name"])
    if known is None or (known.claim, known.keeps) != (mechanism["claim"], mechanism["consistent"]):
        check.fail("the certificate claims something else of its mechanism than is known of it")
    if (mechanism["name"] == "M_H^dp") != bool(proof and proof["of_measurements"]):
        check.fail("the exchange certificate is missing, or is stated of another mechanism")
    if proof is None or not proof["of_measurements"]:
        check.summary += " (not checkable from the files)"
        return check
    gain, check.n_checked = exchange_gain_plain(files.parent, files.answers, files.counts)
    if proof["largest_gain"] != gain or proof["optimal"] != (gain <= 0):
        check.fail(f"the certificate states a largest gain of {proof['largest_gain']}, found {gain}")
    if gain > 0:
        check.fail(f"moving one group would lower the cost by {gain}")
    return check


def exchange_gain_plain(parent: Ints, answers: Ints, counts: Ints) -> tuple[int, int]:
    """Return (largest gain of an exchange, comparisons) with NumPy only: the twin of the compiled check.

    Args:
        parent: node of each node's parent, nodes ordered so that parents come first.
        answers, counts: [size][node].
    """
    far = 2**62
    step = 2 * (counts - answers)
    add, take = step + 1, step - 1
    least, most = np.full_like(counts, far), np.full_like(counts, -far)
    inner = np.unique(parent[1:])
    leaf = np.ones(len(parent), dtype=np.bool_)
    leaf[inner] = False
    best = -far
    for node in range(len(parent) - 1, -1, -1):
        if leaf[node]:
            down, up = np.where(counts[:, node] > 0, take[:, node], -far), add[:, node]
        else:
            some = most[:, node] > -far
            if some.any():
                best = max(best, int((most[:, node] - least[:, node])[some].max()))
            down = np.where(some, most[:, node] + take[:, node], -far)
            up = least[:, node] + add[:, node]
        if node:
            above = parent[node]
            least[:, above] = np.minimum(least[:, above], up)
            most[:, above] = np.maximum(most[:, above], down)
        elif (down > -far).any():
            best = max(best, int(down.max()) - int(up.min()))
    return best, len(inner) * len(counts) + 1
