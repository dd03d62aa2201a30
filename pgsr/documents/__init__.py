"""How every JSON document of pgsr begins, and the JSON Schemas of all of them, one file a document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

VERSION = 1
VERSIONS = {"certificate": 3, "ledger": 2, "manifest": 2, "release": 3}
"""Documents that were changed since the first version."""
DOCUMENTS = {"explain": "Explain", "schemas": "Schemas"}
"""Struct by name of the document."""
_HERE = Path(__file__).parent


def head(kind: str) -> dict[str, object]:
    """Return type, version and engine of a document.

    Args:
        kind: name after "pgsr.".
    """
    from topdown import __version__

    return {"type": f"pgsr.{kind}", "version": VERSIONS.get(kind, VERSION), "engine": __version__}


def all_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas of pgsr's documents by the name after "pgsr.", and that of an error, which is topdown's."""
    from topdown.documents import document_names, document_schema

    names = [*document_names(_HERE), *DOCUMENTS]
    own = {name: document_schema(name, _HERE, __name__, DOCUMENTS) for name in names}
    return dict(sorted((own | {"error": document_schema("error")}).items()))
