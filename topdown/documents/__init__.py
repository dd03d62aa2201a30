"""JSON Schemas (draft 2020-12) of the documents the engine writes, one file a document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def document_names(folder: Path = _HERE) -> list[str]:
    """List the documents by name, without the prefix `topdown.`."""
    return sorted(path.name.removesuffix(".schema.json") for path in folder.glob("*.schema.json"))


def document_schema(name: str, folder: Path = _HERE) -> dict[str, Any]:
    """Return the schema of one document; FileNotFoundError if there is none."""
    found: dict[str, Any] = json.loads((folder / f"{name}.schema.json").read_text(encoding="utf-8"))
    return found
