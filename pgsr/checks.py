"""Check a release from its files alone, in integers, with none of the code that made it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgsr.check import Check
from pgsr.check_privacy import check_privacy
from pgsr.documents import VERSIONS
from pgsr.verify_files import Files, load, read_json
from pgsr.write import LEDGER, MANIFEST, MEASUREMENTS, sha256
from topdown.errors import DataError

Ints = NDArray[np.int64]


def verify(folder: Path | str) -> list[Check]:
    """Return the checks of a release folder.

    Manifest, whole numbers, hierarchy (every parent equals the sum of its children), total, everything that is said
    about privacy, ledger, measurements, and, where Model 1 was solved on them, the exchange certificate.

    Raises:
        DataError: not a release folder.
    """
    place = Path(folder)
    if not (place / MANIFEST).is_file():
        raise DataError(f"{place} has no {MANIFEST}", code="D137", fix="give the folder of a pgsr release")
    sealed = Check("manifest")
    manifest = read_json(place / MANIFEST)
    for name, entry in manifest.get("files", {}).items():
        sealed.n_checked += 1
        path = place / name
        if Path(name).name != name or not path.is_file():
            sealed.fail(f"{name} is missing")
        elif sha256(path) != entry.get("sha256"):
            sealed.fail(f"{name} has another SHA-256 than the manifest states")
    extra = {p.name for p in place.iterdir()} - set(manifest.get("files", {})) - {MANIFEST}
    for name in sorted(extra):
        sealed.fail(f"{name} is not in the manifest")
    sealed.summary = f"{sealed.n_checked} files have the stated SHA-256"
    try:
        files = load(place, manifest)
    except (KeyError, ValueError, OSError, TypeError) as error:
        unreadable = Check("files", "files can be read")
        unreadable.fail(f"a file is not what its format says ({type(error).__name__})")
        return [sealed, unreadable]
    if files.certificate.get("version") != VERSIONS["certificate"]:
        raise DataError(
            f"{place} was written by another version of pgsr, whose certificate says less",
            code="D138",
            fix="check it with that version, or release again",
        )
    checks = (_whole_numbers, _hierarchy, _total, check_privacy, _ledger, _optimality)
    return [sealed, *(_guarded(run, files) for run in checks)]


def _guarded(run: Callable[[Files], Check], files: Files) -> Check:
    """Run one check; a certificate without what the check reads fails it."""
    try:
        return run(files)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        check = Check(run.__name__.strip("_").removeprefix("check_").replace("_", " "), n_checked=1)
        check.fail(f"the certificate is not what its format says ({type(error).__name__})")
        return check


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
    return check


def _ledger(files: Files) -> Check:
    """Compare what the ledger was charged with what the certificate states: laws, steps, unit and files."""
    from pgsr.ledger import find_charge

    check = Check("ledger", n_checked=1)
    document = files.certificate
    path, stated, levels = files.folder / LEDGER, document["privacy"], document["levels"]
    if not document["release"]:
        check.summary = f"none: {document['stamp']}"
        if path.exists() or not document["stamp"] or not files.manifest.get("stamp"):
            check.fail("a simulation must be stamped and charge nothing")
        return check
    if not path.is_file():
        check.fail("there is no ledger")
        return check
    found = find_charge(path, document["plan_hash"], document["journal"])
    check.summary = found.problem or found.summary
    if found.problem:
        check.fail(found.problem)
        return check
    law = {"geometric": "two_sided_geometric", "gaussian": "discrete_gaussian"}[stated["noise"]]
    new = "new of size 0 or 1" if document["sizes"]["smallest"] == 0 else "new"
    expected = {
        "loss": (found.loss, Fraction(stated["loss"])),
        "kind of loss": (found.loss_name, stated["loss_name"]),
        "unit of privacy": (found.unit, stated["unit"]),
        "neighbour steps": (
            found.neighbours,
            "+".join(new if s == "new" else s for s in stated["relations"]),
        ),
        "exact statistics": (list(found.exact), stated["conditional_on"]),
        "noise": (
            found.laws,
            tuple((lv["name"], law, Fraction(lv["parameter"]), 1, lv["sensitivity"]) for lv in levels),
        ),
    }
    for what, (charged, certified) in expected.items():
        if charged != certified:
            check.fail(f"the ledger was charged for another {what} than the certificate states")
    if found.files != sha256(files.folder / MEASUREMENTS):
        check.fail("the committed measurements are not these")
    return check


def _optimality(files: Files) -> Check:
    """Repeat the exchange certificate where Model 1 was solved on the published measurements."""
    check = Check("optimality", files.certificate["mechanism"]["claim"])
    proof = files.certificate["optimality"]
    if proof is None or not proof["of_measurements"]:
        check.summary += " (not checkable from the files)"
        return check
    gain, check.n_checked = exchange_gain_plain(files.parent, files.answers, files.counts)
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
