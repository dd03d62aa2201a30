"""The form of every JSON document of pgsr, as in `topdown.documents`."""

from __future__ import annotations

from typing import Any

DOCUMENTS = {
    "audit": "pgsr.documents.audit:Audit",
    "certificate": "pgsr.documents.certificate:Certificate",
    "compare": "pgsr.documents.compare:Compare",
    "explain": "pgsr.documents.explain:Explain",
    "ledger": "pgsr.documents.ledger:LedgerState",
    "manifest": "pgsr.documents.manifest:Manifest",
    "microdata": "pgsr.documents.microdata:Microdata",
    "release": "pgsr.documents.release:Release",
    "schemas": "pgsr.documents.schemas:Schemas",
    "synth": "pgsr.documents.synth:Synth",
    "verify": "pgsr.documents.verify:Verify",
}
"""Module and struct by name of the document."""


def document_names() -> list[str]:
    """List the documents by name, without the prefix; an error is topdown's."""
    return sorted([*DOCUMENTS, "error"])


def document_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of one document; KeyError if there is none."""
    from topdown import documents

    if name == "error":
        return documents.document_schema(name)
    return documents.document_schema(name, DOCUMENTS)
