"""The form of every JSON document the engine writes: one struct a document, from which its JSON Schema is made.

Structs are imported when a document is wanted, so that no command starts slower for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

DOCUMENTS = {
    "account": "Account",
    "account.dhc2020": "AccountDhc2020",
    "audit.ledger": "AuditLedger",
    "audit.runs": "AuditRuns",
    "audit.static": "AuditStatic",
    "certificate": "Certificate",
    "error": "Error",
    "evaluation": "Evaluation",
    "explain": "Explain",
    "generate": "Generate",
    "implied": "Implied",
    "init": "Init",
    "interval": "Intervals",
    "ledger": "LedgerState",
    "made_up": "MadeUp",
    "manifest": "Manifest",
    "measure": "Measure",
    "noise": "Noise",
    "noise.continuous": "NoiseContinuous",
    "noise.dependent": "NoiseDependent",
    "noise_law": "NoiseLaw",
    "plan": "Plan",
    "plan_summary": "PlanSummary",
    "reference": "Reference",
    "schemas": "Schemas",
    "selection": "Selection",
    "selection.certificate": "SelectionCertificate",
    "selection.check": "SelectionCheck",
    "selection.result": "SelectionResult",
    "simulation": "SimulationErrors",
    "solve": "Solve",
    "synth": "Synth",
    "tables": "Tables",
    "tune": "Tune",
    "verify": "Verify",
}
"""Struct by name of the document, which is that of its module too, with _ for a point."""


def document_names() -> list[str]:
    """List the documents by name, without the prefix `topdown.`."""
    return list(DOCUMENTS)


def document_schema(
    name: str, package: str = __name__, documents: Mapping[str, str] = DOCUMENTS
) -> dict[str, Any]:
    """Return the JSON Schema of one document; KeyError if there is none."""
    from topdown.documents.json_schema import schema_of

    return schema_of(getattr(import_module(f"{package}.{name.replace('.', '_')}"), documents[name]))
