"""Check a release from its files alone, in integers, with none of the code that made it.

Columns and rows are chosen again vector by vector, the same sums in the same order as the compiled kernels.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import ceil, log, pi
from pathlib import Path
from statistics import NormalDist
from textwrap import fill
from time import perf_counter
from typing import Any

import numpy as np

from pgsr.estimators import MEANING, MECHANISMS, OF_MODEL, count_bounds
from pgsr.formats import CERTIFICATE, MANIFEST, MEASUREMENTS, README, README_FORM, Manifest, release_files
from pgsr.released_groups import (
    UNUSABLE,
    ReleasedFiles,
    check_form,
    check_ledger,
    check_privacy,
    load_files,
    read_certificate,
    read_document,
    sha256_of,
)
from topdown.arrays import Floats, Ints
from topdown.errors import ConfigError, DataError
from topdown.formats.verify_documents import CheckResult
from topdown.made_up import WARNING_FILE
from topdown.verify.findings import Findings
from topdown.verify.ledger_reader import persons_said
from topdown.verify.strict_reader import UnreadableError, read_bytes

MORE = 1e-6


def check_intervals(files: ReleasedFiles, check: Findings) -> str:
    """Recompute bounds of the noise alone; those of a posterior hold the count and reach no further than noise."""
    document = files.certificate
    stated, valid = document["intervals"], document["mechanism"]["consistent"]
    check.n_checked = files.counts.size * len(files.bounds)
    known = np.full(len(files.parent), int(document["total"]))
    for node, (code, _, _) in enumerate(document["regions"]):
        known[node] = document["public_totals"].get(code, known[node])
    if stated["method"] == OF_MODEL and document["mechanism"]["name"] not in ("tracking", "posterior"):
        check.fail(f"{document['mechanism']['name']} has no posterior")
    inside = (files.counts, files.counts)
    for i, (coverage, (lower, upper)) in enumerate(zip(document["coverage"], files.bounds, strict=True)):
        if stated["method"] == OF_MODEL:
            most = _widest(files, Fraction(coverage))[files.level]
            wrong = (lower > inside[0]) | (upper < inside[1]) | (lower < 0) | (upper > known)
            wrong |= (files.counts - lower > most) | (upper - files.counts > most)
            why = "does not hold the count and the bounds of less coverage, or reaches further than the noise"
            inside = (lower, upper)
        else:
            fixed = np.array([level["half_widths"][i] for level in document["levels"]], dtype=np.int64)
            widths = np.broadcast_to(fixed[files.level], files.counts.shape)
            due = count_bounds(files.counts, widths, known, valid=valid)
            wrong, why = (lower != due[0]) | (upper != due[1]), "is not the count and the noise of its level"
        for size, node in np.argwhere(wrong).tolist():
            check.fail(
                f"{document['regions'][node][0]}, size row {size}: {files.counts[size, node]} and coverage {coverage}: "
                f"[{lower[size, node]}, {upper[size, node]}] {why}"
            )
    if stated["meaning"] != MEANING[stated["method"]]:
        check.fail("what the bounds mean is described in other words than the format has")
    levels = ", ".join(document["coverage"])
    return f"{files.counts.size:,} counts lie within their bounds of coverage {levels} ({stated['method']})"


def _widest(files: ReleasedFiles, coverage: Fraction) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return, per level, how far bounds may be from a count: with the noise of the level and of all above it."""
    gaussian = files.certificate["privacy"]["noise"] == "gaussian"
    within = float(coverage)
    sds = (
        NormalDist().inv_cdf((1.0 + within) / 2.0)
        if gaussian
        else log((1.0 + within) / (1.0 - within)) * 3**0.5 / pi
    )
    spread, found = 0.0, []
    for level in files.certificate["levels"]:
        parameter = float(Fraction(level["parameter"]))
        spread += parameter if gaussian else 2.0 * parameter * parameter
        found.append(sds * (2.0 * spread) ** 0.5 * (1.0 + MORE) + 0.5)
    return np.array(found)


def check_choice(files: ReleasedFiles, check: Findings) -> str:
    """Recompute columns and rows of every region; expect no answer where none was asked."""
    document, n_sizes = files.certificate, len(files.answers)
    stated, adaptive = document.get("choice"), document["mechanism"]["measures"] == "tail_rows"
    none = "none: every region was measured alike"
    if (stated is not None) != adaptive or (adaptive and document["mechanism"]["name"] != "posterior"):
        check.fail("the certificate states columns and rows of a mechanism that has none, or lacks them")
    if not adaptive or stated is None:
        return none
    # Groups of every region from the public numbers; -1 where they do not follow from them.
    totals = [document["public_totals"].get(code, -1) for code, _, _ in document["regions"]]
    totals[0] = int(document["total"])
    for g, below in reversed(_children(files).items()):
        if totals[g] < 0 and min(totals[c] for c in below) >= 0:
            totals[g] = sum(totals[c] for c in below)
    if len(stated) != len(files.parent):
        check.fail("columns and rows are not stated of every region")
        return none
    found = [(n_sizes, 0)] * len(stated)
    parameters = [Fraction(level["parameter"]) for level in document["levels"]]
    gaussian = document["privacy"]["noise"] == "gaussian"
    spreads = [float(p if gaussian else 2 * p * p) for p in parameters]
    for g, below in _children(files).items():
        if totals[g] <= 0:
            continue
        steady = _steady_tails(files.answers[:, g].tolist(), *found[g], totals[g])
        for c in below:
            found[c] = choice_of(steady, totals[c], totals[g], spreads[int(files.level[c])])
    for node, (due, said) in enumerate(zip(found, stated, strict=True)):
        check.n_checked += 1
        code = document["regions"][node][0]
        if due != tuple(said):
            check.fail(
                f"{code}: {said[0]} columns and {said[1]} rows are stated, the answers say {due[0]} and {due[1]}"
            )
    n_rows = sum(1 for _, rows in found if rows)
    return f"{n_rows:,} of {len(found):,} regions by rows too, as the answers above them say"


def choice_of(steady: list[int], part: int, total: int, variance: float) -> tuple[int, int]:
    """Return columns and rows of a region: those of the least expected error, if it is below that of columns.

    Args:
        steady: tail counts of its parent, descending, the last 0.
        part, total: number of groups of the region and of its parent.
        variance: of one answer.
    """
    n = len(steady) - 1
    if total <= 0 or part <= 0:
        return n, 0
    at = np.arange(n)
    end = np.minimum((3 * at + 4) // 2 + 1, n)
    tails, share, scale = np.array(steady, dtype=np.int64), part / total, float(np.sqrt(variance / 2.0))
    rho = share * (tails[:-1] - tails[end]) / (end - at)
    column = np.minimum(share * tails[:-1], _root(variance * rho))
    row = np.minimum(np.minimum(rho * scale, _root(rho * rho * variance)), column.max())
    whole = float(np.cumsum(column)[-1])
    before, left = np.cumsum(column), float(np.cumsum(row)[-1])
    best, found = 0.95 * whole, (n, 0)
    for c in range(1, n):
        left -= float(row[c - 1])
        rows = min(ceil(3.0 * (share * steady[c - 1])) + 10, part)
        cost = float(before[c - 1]) + left
        if cost < best and 2 * rows <= n - c:
            best, found = cost, (c, rows)
    return found


def _root(x: Floats) -> Floats:
    """Return x to the power 1/4 + 1/16 + 1/64 + 1/256."""
    found, power = np.ones_like(x), x
    for _ in range(4):
        power = np.sqrt(np.sqrt(power))
        found = found * power
    return found


def _steady_tails(answers: list[int], columns: int, rows: int, total: int) -> list[int]:
    """Return descending whole tail counts, one more than sizes: pooled columns, then how many pooled rows go on."""
    n = len(answers)
    tails = [total, *_falling(answers[1:columns], total)]
    if rows == 0:
        return [*tails, *[0] * (n + 1 - columns)]
    long = _falling(answers[columns : columns + rows], n - columns)
    over = _falling(answers[columns + rows :], total - rows)
    longer = np.searchsorted([-length for length in long], -np.arange(n + 1 - columns), side="left").tolist()
    excess = [*over, *[0] * (len(longer) - len(over))]
    past = [min(total, n + (more if n == rows else 0)) for n, more in zip(longer, excess, strict=True)]
    return [total, *(max(count, past[0]) for count in tails[1:]), *past]


def _falling(values: list[int], high: int) -> list[int]:
    """Return the least-squares descending fit in 0..high, rounded half up, in whole numbers."""
    blocks: list[tuple[int, int]] = []
    for value in values:
        total, n = value, 1
        while blocks and blocks[-1][0] * n <= total * blocks[-1][1]:
            total, n = total + blocks[-1][0], n + blocks[-1][1]
            blocks.pop()
        blocks.append((total, n))
    return [min(max((2 * total + n) // (2 * n), 0), high) for total, n in blocks for _ in range(n)]


def _children(files: ReleasedFiles) -> dict[int, list[int]]:
    """Return the parts of every region that has some, in order."""
    found: dict[int, list[int]] = {}
    for c, g in enumerate(files.parent.tolist()[1:], start=1):
        found.setdefault(g, []).append(c)
    return dict(sorted(found.items()))


def verify(folder: Path | str) -> list[CheckResult]:
    """Return the checks of a release folder.

    Manifest (canonical, exactly the files that follow from the release, no link, no empty folder), whole numbers,
    hierarchy (every parent equals the sum of its children), total, everything that is said about privacy, ledger,
    measurements, and, where Model 1 was solved on them, the exchange certificate. What is damaged is a failed check.

    >>> import pgsr, topdown
    >>> try:
    ...     pgsr.verify("nothing here")
    ... except topdown.TopdownError as error:
    ...     print(error.code)
    D137

    Raises:
        DataError: not a release folder (D137), or one of another version (D138).
        ConfigError: a simulation, which is no release (C122).
    """
    place = Path(folder)
    if is_simulation(place):
        raise ConfigError(
            f"{ascii(str(place))[1:-1]} holds a simulation, not a release: its noise protects nobody",
            code="C122",
            fix="give the folder that pgsr release wrote without --simulate; a simulation is never published",
        )
    return check_folder(place)


def check_folder(place: Path) -> list[CheckResult]:
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
    certificate: dict[str, Any] | None = None
    files: ReleasedFiles | None = None

    def read(_: Findings) -> str:
        nonlocal certificate, files
        certificate = read_certificate(place)
        files = load_files(place, certificate)
        return ""

    reading = _guarded("files", read)
    sealed = _guarded("manifest", lambda check: _sealed(place, certificate, check))
    if files is None:
        return [sealed, reading]
    checks: dict[str, Callable[[ReleasedFiles, Findings], str]] = {
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


def is_simulation(place: Path) -> bool:
    """Tell whether a folder says of itself, anywhere, that it is a simulation."""
    if os.path.lexists(place / WARNING_FILE):
        return True
    for name in (CERTIFICATE, MANIFEST):
        try:
            document = read_document(place, name)
        except UnreadableError:
            continue
        if document.get("release") is False or document.get("stamp"):
            return True
    return False


def _sealed(place: Path, certificate: dict[str, Any] | None, check: Findings) -> str:
    """Compare the folder with its manifest, and the manifest with what follows from the certificate."""
    try:
        manifest = read_document(place, MANIFEST)
        check_form(manifest, Manifest)
    except (UnreadableError, ValueError, TypeError, RecursionError) as error:
        check.fail(f"{MANIFEST} cannot be used: {str(error)[:120]}")
        return ""
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
        if README in due and read_bytes(place, README, UNUSABLE).decode("utf-8", "replace") != _readme_due(
            certificate
        ):
            check.fail(f"{README} is not what the certificate says")
        for key in ("engine", "release", "stamp"):
            if manifest[key] != certificate[key]:
                check.fail(f"manifest and certificate state another {key}")
        if certificate["release"] != (not certificate["stamp"]) or certificate["release"] != (
            certificate["truth"] is None
        ):
            check.fail("the certificate does not say clearly whether this is a release")
    return f"{check.n_checked} files have the stated SHA-256"


def _readme_due(stated: dict[str, Any]) -> str:
    """Return the text that README.txt must have by the certificate, whose numbers other checks derive anew."""
    sizes, privacy, names, ledger = (
        stated["sizes"],
        stated["privacy"],
        stated.get("names", {}),
        stated["everything_released"],
    )
    lines = []
    for row in privacy["secrets"]:
        if row["status"] == "disclosed":
            lines.append(f"Not protected: {row['name']}, {row['sentence']}.")
            continue
        for delta, ends in row["epsilon"].items():
            where = "" if delta == "0" else f" at delta {delta}"
            lines += [row["sentence"], f"Epsilon is at most {ends[1]}{where} ({row['name']})."]
    lines += persons_said(ledger["attestations"], ledger["limits"], ledger["refunds"])
    return README_FORM.format(
        title=names.get("title") or "Numbers of groups by size",
        groups=stated["total"],
        regions=len(stated["regions"]),
        smallest=sizes["smallest"],
        largest=f"{sizes['n_sizes'] - 1 + sizes['smallest']}{' or more' * (sizes['too_large'] == 'top-code')}",
        agency=names.get("agency") or "agency not stated",
        contact=names.get("contact") or "not stated",
        licence=names.get("licence") or "not stated; ask who gave you the data",
        date=ledger["up_to"]["date"],
        plan=stated["plan_hash"][:8],
        unit=privacy["unit"],
        said="".join(f"{fill(line, 112)}\n" for line in lines),
        exact=fill(f"Published without noise: {', '.join(privacy['conditional_on'])}.", 112),
        intervals=fill(f"An interval is {stated['intervals']['meaning']}.", 112),
    )


def _compare_names(check: Findings, place: Path, files: set[str], folders: set[str]) -> None:
    """Fail for everything in the folder that does not follow from the release: files, links, empty folders."""
    for top, inner, names in os.walk(place):
        for name in (*inner, *names):
            path = Path(top, name)
            inside = path.relative_to(place).as_posix()
            if path.is_symlink():
                check.fail(f"{inside!a} is a link; a release holds plain files only")
            elif inside not in (folders if name in inner else files):
                check.fail(f"{inside!a} is not in the manifest of such a release")


def _guarded(name: str, run: Callable[[Findings], str]) -> CheckResult:
    """Run one check, which returns what it says; whatever a hostile file makes it stumble over fails it."""
    start, found = perf_counter(), Findings()
    try:
        text = run(found)
    except DataError:  # of a release of another version
        raise
    except UnreadableError as error:
        text, found = str(error), Findings(n_checked=1)
        found.add(error.finding)
    except Exception as error:
        text = f"the release is not what its format says ({type(error).__name__})"
        found = Findings(n_checked=1)
        found.fail(text)
    return found.close(name, text, perf_counter() - start)


def _region_name(files: ReleasedFiles, node: int) -> str:
    code, level, _ = files.certificate["regions"][node]
    return f"{level} {code}"


def _whole_numbers(files: ReleasedFiles, check: Findings) -> str:
    check.n_checked = files.counts.size
    if files.certificate["mechanism"]["consistent"]:
        for size, node in np.argwhere(files.counts < 0).tolist():
            check.fail(f"{_region_name(files, node)}, size row {size}: {files.counts[size, node]} is below 0")
    return f"{files.counts.size:,} counts, none below 0"


def _hierarchy(files: ReleasedFiles, check: Findings) -> str:
    sums = np.zeros_like(files.counts)
    inner = np.zeros(len(files.parent), dtype=np.bool_)
    inner[files.parent[files.parent >= 0]] = True
    for node in range(len(files.parent) - 1, 0, -1):
        sums[:, files.parent[node]] += files.counts[:, node]
    wrong = np.flatnonzero(inner & np.any(sums != files.counts, axis=0))
    check.n_checked = int(inner.sum())
    if files.certificate["mechanism"]["consistent"]:
        for node in wrong.tolist():
            check.fail(f"{_region_name(files, node)} is not the sum of its children")
        return f"{check.n_checked:,} of {check.n_checked:,} regions add up"
    return f"not promised; {len(wrong):,} of {check.n_checked:,} regions do not add up"


def _total(files: ReleasedFiles, check: Findings) -> str:
    expected = int(files.certificate["total"])
    if not files.certificate["mechanism"]["consistent"]:
        return "not promised"
    for level in range(int(files.level.max()) + 1):
        check.n_checked += 1
        found = int(files.counts[:, files.level == level].sum())
        if found != expected:
            check.fail(f"level {level} has {found} groups, not {expected}")
    public, held = files.certificate["public_totals"], files.counts.sum(axis=0)
    if public and MECHANISMS[files.certificate["mechanism"]["name"]].keeps_totals:
        codes = {code: node for node, (code, _, _) in enumerate(files.certificate["regions"])}
        for region, number in public.items():
            check.n_checked += 1
            if held[codes[region]] != number:
                check.fail(
                    f"{_region_name(files, codes[region])} has {held[codes[region]]} groups, not the public {number}"
                )
        return f"every level has {expected:,} groups, and {len(public):,} regions have their public numbers"
    return f"every level has {expected:,} groups"


def _optimality(files: ReleasedFiles, check: Findings) -> str:
    """Repeat the exchange certificate where Model 1 was solved on the published measurements."""
    proof, mechanism = files.certificate["optimality"], files.certificate["mechanism"]
    known = MECHANISMS.get(mechanism["name"])
    if known is None or (known.claim, known.consistent) != (mechanism["claim"], mechanism["consistent"]):
        check.fail("the certificate claims something else of its mechanism than is known of it")
    if (mechanism["name"] == "M_H^dp") != bool(proof and proof["of_measurements"]):
        check.fail("the exchange certificate is missing, or is stated of another mechanism")
    if proof is None or not proof["of_measurements"]:
        return f"{mechanism['claim']} (not checkable from the files)"
    gain, check.n_checked = exchange_gain_plain(files.parent, files.answers, files.counts)
    if proof["largest_gain"] != gain or proof["optimal"] != (gain <= 0):
        check.fail(f"the certificate states a largest gain of {proof['largest_gain']}, found {gain}")
    if gain > 0:
        check.fail(f"moving one group would lower the cost by {gain}")
    return str(mechanism["claim"])


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
