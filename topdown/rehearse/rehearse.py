"""Everything that can fail without seeing noise, tried before the budget is touched.

A budget that was spent on a release that cannot be written is lost: the plan would have to change, and noise of one
plan is never used for another. So what verify reads of a plan and its public files is written, read back and checked,
with a copy of the ledger that holds the charge already; every statement about privacy, of the release and of that
ledger, is derived anew by the checks that verify runs; and a miniature of the release is made from made-up people; that
of an extension keeps the base release's published table at its areas.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from topdown.errors import ConfigError, TopdownError
from topdown.ledger.durable import Disk
from topdown.measure.public_side import write_public_side
from topdown.plan.prepare import Prepared, load_context
from topdown.publish.verify import CheckResult, verify_planned
from topdown.rehearse import FOLDER
from topdown.rehearse.charge import write_as_charged
from topdown.rehearse.miniature import make_miniature

UNCHARGED = "this run has charged nothing"  # an earlier one that is resumed may have


def rehearse(
    prepared: Prepared,
    out: Path,
    privacy: dict[str, Any],
    solve_and_publish: Callable[[Prepared, Path], None],
) -> None:
    """Write, read back and check what can be known of a release; leave nothing behind.

    Args:
        prepared: of the run.
        out: the release folder; created if missing.
        privacy: certified statements for the certificate (see `certified_privacy`).
        solve_and_publish: makes a release of a measured folder; called with the miniature's run and its folder.

    Raises:
        TopdownError: what would have failed later; nothing was charged by this run.
        OSError: the folder cannot be written.

    Cost: Rhode Island (2,016 cells, 25,181 blocks) about a second.
    """
    folder = out / FOLDER
    shutil.rmtree(folder, ignore_errors=True)  # of a rehearsal that was killed
    try:
        folder.mkdir(parents=True)
        _public_side(prepared, folder / "public side", privacy)
        _miniature(prepared, folder / "miniature", solve_and_publish)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _public_side(prepared: Prepared, folder: Path, privacy: dict[str, Any]) -> None:
    write_public_side(folder, prepared, Disk())
    plan_hash = prepared.context.plan.plan_hash
    try:
        same = load_context(folder).plan.plan_hash == plan_hash
    except TopdownError as error:
        raise _unusable(f"cannot be read back: {error}") from None
    if not same:
        raise _unusable("read as another plan")
    write_as_charged(prepared, privacy, folder)
    for check in verify_planned(folder).checks:
        if not check.ok and check.name == "plan":
            raise _unusable(f"do not pass the check '{check.name}': {check.findings[0].text}")
        if not check.ok:
            raise _not_certified(check)


def _miniature(prepared: Prepared, folder: Path, solve_and_publish: Callable[[Prepared, Path], None]) -> None:
    try:
        make_miniature(prepared, folder, solve_and_publish)
    except TopdownError as error:
        raise ConfigError(
            f"a few areas of this release, with made-up people, could not be released: {error}",
            code="C077",
            details=(("found", error.code),),
            fix=f"{error.fix or 'change the plan'}; {UNCHARGED}",
        ) from None


def _unusable(text: str) -> ConfigError:
    return ConfigError(
        f"the plan and public files of this release {text}",
        code="C077",
        fix=f"change what the message names; {UNCHARGED}",
    )


def _not_certified(check: CheckResult) -> ConfigError:
    found = check.findings[0]
    details = (("found", found.code), ("due", found.expected), ("stated", found.found))
    return ConfigError(
        f"verify would refuse what this run charges and says of it, in the check '{check.name}': {found.text}",
        code="C079",
        details=tuple((key, value) for key, value in details if value),
        fix=f"use another mechanism or budget, and report this with the plan; {UNCHARGED}",
    )
