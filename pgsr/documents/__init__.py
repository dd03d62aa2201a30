"""The form of every JSON document of pgsr, as in `topdown.documents`."""

from __future__ import annotations

from typing import Any

DOCUMENTS = {
    "audit": "Audit",
    "certificate": "Certificate",
    "compare": "Compare",
    "explain": "Explain",
    "ledger": "LedgerState",
    "manifest": "Manifest",
    "release": "Release",
    "schemas": "Schemas",
    "synth": "Synth",
    "verify": "Verify",
}
"""Struct by name of the document and of its module."""


def all_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas of pgsr's documents by the name after "pgsr.", and that of an error, which is topdown's."""
    from topdown.documents import document_schema

    own = {name: document_schema(name, __name__, DOCUMENTS) for name in DOCUMENTS}
    return dict(sorted((own | {"error": document_schema("error")}).items()))
