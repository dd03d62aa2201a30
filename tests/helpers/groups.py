"""A small release of group sizes, and how somebody who owns the folder would change it and seal it again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pgsr import hierarchy_of, ledger_place, new_ledger
from pgsr.write import json_bytes

REGIONS = hierarchy_of([("US", "", "nation"), ("GA", "US", "state"), ("NY", "US", "state")])
GROUPS = {"unit": list("ABCDEF"), "region": ["GA", "GA", "GA", "NY", "NY", "NY"], "size": [1, 2, 3, 1, 2, 2]}
WHY = "made up for these tests"


def book(folder: Path, **bound: Any) -> dict[str, Any]:
    """Make the ledger of groups in memory; return the options of a release that name it."""
    place = ledger_place(None, ledger=folder / "groups.ledger.jsonl", **bound)
    return {"ledger": place.path, "ledger_id": new_ledger(place)}


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
