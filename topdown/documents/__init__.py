"""The form of every JSON document the engine writes: one struct a document, from which its JSON Schema is made.

Structs are imported when a document is wanted, so that no command starts slower for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

DOCUMENTS = {
    "error": "Error",
    "explain": "Explain",
    "generate": "Generate",
    "init": "Init",
    "ledger": "LedgerState",
    "made_up": "MadeUp",
    "manifest": "Manifest",
    "schemas": "Schemas",
    "simulation": "SimulationErrors",
    "synth": "Synth",
    "verify": "Verify",
}
"""Struct by name of the document; its module has that name too, with _ for a point."""
_HERE = Path(__file__).parent


def document_names(folder: Path = _HERE) -> list[str]:
    """List the documents by name, without the prefix `topdown.`."""
    old = [path.name.removesuffix(".schema.json") for path in folder.glob("*.schema.json")]
    return sorted(old + list(DOCUMENTS if folder == _HERE else ()))


def document_schema(
    name: str, folder: Path = _HERE, package: str = __name__, documents: Mapping[str, str] = DOCUMENTS
) -> dict[str, Any]:
    """Return the JSON Schema of one document; KeyError if there is none."""
    from topdown.documents.json_schema import schema_of

    file = folder / f"{name}.schema.json"
    if file.exists():
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found
    module = import_module(f"{package}.{name.replace('.', '_')}")
    return schema_of(getattr(module, documents[name]))
