"""A small release of group sizes, and how somebody who owns the folder would change it and seal it again."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgsr import LedgerFile, Release, binding_of, hierarchy_of, ledger_place, new_ledger, release, simulate
from pgsr.run_settings import RunFile
from topdown.formats import json_bytes
from topdown.privacy.ledger import LedgerLocation, Limits, open_ledger
from topdown.verify import CheckResult

REGIONS = hierarchy_of([("US", "", "nation"), ("GA", "US", "state"), ("NY", "US", "state")])
GROUPS = {"unit": list("ABCDEF"), "region": ["GA", "GA", "GA", "NY", "NY", "NY"], "size": [1, 2, 3, 1, 2, 2]}
WHY = "made up for these tests"
PEOPLE = {
    "user": ["01", "02", "03", "04"],
    "unit": ["A", "B", "A", "C"],
    "region": ["GA", "GA", "GA", "NY"],
    "quantity": [1, 1, 1, 0],
}


def changed(**columns: list[Any]) -> dict[str, Any]:
    """Return the groups with other columns."""
    return GROUPS | columns


def codes(checks: Sequence[CheckResult]) -> set[str]:
    """Return the names of the checks that failed."""
    return {check.name for check in checks if not check.ok}


def place_of(path: Path, **bound: Any) -> LedgerLocation:
    """Return the place of a ledger of groups in memory; see `binding_of` for what it is bound to."""
    return ledger_place(None, binding_of(**bound), LedgerFile(path))


def book(folder: Path, name: str = "groups.ledger.jsonl", **bound: Any) -> dict[str, Any]:
    """Make the ledger of groups in memory, without a limit; return the settings of a release that name it."""
    place = place_of(folder / name, **bound)
    return {"ledger": place.path, "ledger_id": new_ledger(place)}


def change_limits(named: dict[str, Any], limits: Limits, **bound: Any) -> None:
    """Change the limits of a ledger that `book` made."""
    place = replace(place_of(named["ledger"], **bound), id=named["ledger_id"])
    with open_ledger(place) as ledger:
        ledger.change_limits(limits, "A. Person", "for a test")


def released(groups: Any, hierarchy: Any, mechanism: str, epsilon: object, **settings: Any) -> Release:
    """Release, or simulate, with the keys of a run file.

    Args:
        groups, hierarchy, mechanism, epsilon: as the keys.
        settings: more keys; `sizes` is needed; `public` is a mapping; and again, resume, report and disk.
    """
    again, resume = settings.pop("again", False), settings.pop("resume", False)
    seams = {key: settings.pop(key) for key in ("report", "disk") if key in settings}
    settings |= {"groups": groups, "hierarchy": hierarchy, "mechanism": mechanism, "epsilon": epsilon}
    public = settings.pop("public", None) or {}
    asked = RunFile(**{key: value for key, value in settings.items() if value is not None})
    plan, source = replace(asked.plan(), public=public), asked.source()
    if asked.simulate is not None:
        why = asked.truth_is_public
        return simulate(plan, source, asked.simulate, asked.out, truth_is_public=why, **seams)
    return release(
        plan, source, asked.out, asked.ledger_file(), asked.policy(again=again, resume=resume), **seams
    )


def simulated(groups: Any, hierarchy: Any, mechanism: str, epsilon: object, **settings: Any) -> Release:
    """Simulate a release of groups that are public, with seed 1 unless settings say otherwise."""
    settings = {"simulate": 1, "truth_is_public": WHY} | settings
    return released(groups, hierarchy, mechanism, epsilon, **settings)


def seal(folder: Path) -> None:
    """Write the manifest anew over the files it lists, as the publisher would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name, entry in manifest["files"].items():
        data = (folder / name).read_bytes()
        entry.update(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))
    (folder / "manifest.json").write_bytes(json_bytes(manifest))


def edit_document(folder: Path, name: str, edit: Callable[[dict[str, Any]], object]) -> None:
    """Change a document, write it canonically, and seal the folder again."""
    document = json.loads((folder / name).read_text())
    edit(document)
    (folder / name).write_bytes(json_bytes(document))
    if name != "manifest.json":
        seal(folder)
