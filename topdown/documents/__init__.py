"""The form of every JSON document the engine writes: one struct a document, from which its JSON Schema is made.

Structs are imported when a document is wanted, so that no command starts slower for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

DOCUMENTS = {
    "account": "topdown.documents.account:Account",
    "account.dhc2020": "topdown.documents.account_dhc2020:AccountDhc2020",
    "audit.ledger": "topdown.documents.audit_ledger:AuditLedger",
    "audit.runs": "topdown.documents.audit_runs:AuditRuns",
    "audit.static": "topdown.documents.audit_static:AuditStatic",
    "certificate": "topdown.documents.certificate:Certificate",
    "error": "topdown.documents.error:Error",
    "evaluation": "topdown.documents.evaluation:Evaluation",
    "explain": "topdown.documents.explain:Explain",
    "generate": "topdown.documents.generate:Generate",
    "implied": "topdown.documents.implied:Implied",
    "init": "topdown.documents.init:Init",
    "interval": "topdown.documents.interval:Intervals",
    "ledger": "topdown.documents.ledger:LedgerState",
    "made_up": "topdown.documents.made_up:MadeUp",
    "manifest": "topdown.documents.manifest:Manifest",
    "measure": "topdown.documents.measure:Measure",
    "noise": "topdown.documents.noise:Noise",
    "noise.continuous": "topdown.documents.noise_continuous:NoiseContinuous",
    "noise.dependent": "topdown.documents.noise_dependent:NoiseDependent",
    "noise_law": "topdown.documents.noise_law:NoiseLaw",
    "plan": "topdown.documents.plan:Plan",
    "plan_summary": "topdown.documents.plan_summary:PlanSummary",
    "reference": "topdown.documents.reference:Reference",
    "schemas": "topdown.documents.schemas:Schemas",
    "selection": "topdown.documents.selection:Selection",
    "selection.certificate": "topdown.documents.selection_certificate:SelectionCertificate",
    "selection.check": "topdown.documents.selection_check:SelectionCheck",
    "selection.result": "topdown.documents.selection_result:SelectionResult",
    "simulation": "topdown.documents.simulation:SimulationErrors",
    "solve": "topdown.documents.solve:Solve",
    "synth": "topdown.documents.synth:Synth",
    "tables": "topdown.documents.tables:Tables",
    "tune": "topdown.documents.tune:Tune",
    "verify": "topdown.documents.verify:Verify",
}
"""Module and struct by name of the document."""


def document_names() -> list[str]:
    """List the documents by name, without the prefix `topdown.`."""
    return list(DOCUMENTS)


def document_schema(name: str, documents: Mapping[str, str] = DOCUMENTS) -> dict[str, Any]:
    """Return the JSON Schema of one document; KeyError if there is none."""
    from topdown.documents.json_schema import schema_of

    module, _, struct = documents[name].partition(":")
    return schema_of(getattr(import_module(module), struct))
