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
    "microdata": "Microdata",
    "release": "Release",
    "schemas": "Schemas",
    "synth": "Synth",
    "verify": "Verify",
}
"""Struct by name of the document and of its module."""


def document_names() -> list[str]:
    """List the documents by name, without the prefix; an error is topdown's."""
    return sorted([*DOCUMENTS, "error"])


def document_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of one document; KeyError if there is none."""
    from topdown import documents

    if name == "error":
        return documents.document_schema(name)
    return documents.document_schema(name, __name__, DOCUMENTS)
