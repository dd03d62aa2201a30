"""The JSON documents that the engine writes: by name, as bytes in one way only, and the JSON Schema of each.

A schema is generated from the struct that states the form of the document. Structs are imported when a document is
wanted, so that no command starts slower for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct, UnsetType

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def either(*kinds: type[Struct] | None) -> Meta:
    """Say that a value has one of several forms; msgspec can tell structs apart by a tag only."""
    forms = [{"type": "null"} if kind is None else {"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds]
    return Meta(extra_json_schema={"anyOf": forms}, extra={"either": tuple(filter(None, kinds))})


def schema_of(document: type[Struct]) -> dict[str, Any]:
    """Return the schema of a document.

    Every key is required except those that may be UNSET, and no other key is allowed. The docstring is the title.

    Args:
        document: struct with a tag field `type` and a field `version`; its parts have names of their own.
    """
    forms = list(_forms(document, set()))
    _, parts = msgspec.json.schema_components(forms, ref_template="#/$defs/{name}")
    parts = {form.__name__: _closed(form, parts[form.__name__]) for form in forms}
    root = parts.pop(document.__name__)
    kind, version = (root["properties"][key]["const"] for key in ("type", "version"))
    head = {"$schema": DRAFT, "$id": f"{kind}.{version}", "title": root.pop("description").rstrip(".")}
    schema: dict[str, Any] = head | root | ({"$defs": parts} if parts else {})
    return schema


def _forms(hint: Any, seen: set[type]) -> Iterator[type[Struct]]:
    """Yield every struct that a type speaks of, a document before its parts."""
    if isinstance(hint, Meta):
        for kind in (hint.extra or {}).get("either", ()):
            yield from _forms(kind, seen)
    elif isinstance(hint, type) and issubclass(hint, Struct):
        if hint not in seen:
            seen.add(hint)
            yield hint
            for inner in get_type_hints(hint, include_extras=True).values():
                yield from _forms(inner, seen)
    else:
        for inner in get_args(hint):
            yield from _forms(inner, seen)


def _closed(form: type[Struct], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one struct as it is printed."""
    fields = msgspec.structs.fields(form)
    tag = [form.__struct_config__.tag_field] if form.__struct_config__.tag_field else []
    return {
        "description": schema["description"],
        "type": "object",
        "properties": {key: _plain(value) for key, value in schema["properties"].items()},
        "required": tag + [f.encode_name for f in fields if UnsetType not in get_args(f.type)],
        "additionalProperties": False,
    }


def _plain(schema: Any) -> Any:
    """Write a single allowed value as a constant; leave out defaults, which are for the writer."""
    if isinstance(schema, list | tuple):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _plain(value) for key, value in schema.items() if key not in ("default", "enum")}
    values = list(schema.get("enum", ()))
    return kept | ({} if not values else {"const": values[0]} if len(values) == 1 else {"enum": values})


DOCUMENTS = {
    "account": "topdown.formats.privacy_documents:Account",
    "account.dhc2020": "topdown.formats.privacy_documents:AccountDhc2020",
    "audit.ledger": "topdown.formats.privacy_documents:AuditLedger",
    "audit.runs": "topdown.formats.privacy_documents:AuditRuns",
    "audit.static": "topdown.formats.privacy_documents:AuditStatic",
    "certificate": "topdown.formats.release_documents:Certificate",
    "error": "topdown.formats.command_documents:Error",
    "evaluation": "topdown.formats.accuracy_documents:Evaluation",
    "explain": "topdown.formats.command_documents:Explain",
    "generate": "topdown.formats.command_documents:GenerateResult",
    "implied": "topdown.formats.plan_documents:Implied",
    "init": "topdown.formats.command_documents:Init",
    "interval": "topdown.formats.accuracy_documents:Intervals",
    "ledger": "topdown.formats.command_documents:LedgerState",
    "made_up": "topdown.formats.command_documents:MadeUp",
    "manifest": "topdown.formats.release_documents:Manifest",
    "measure": "topdown.formats.command_documents:Measure",
    "noise": "topdown.formats.noise_documents:Noise",
    "noise.continuous": "topdown.formats.noise_documents:NoiseContinuous",
    "noise.dependent": "topdown.formats.noise_documents:NoiseDependent",
    "noise_law": "topdown.formats.noise_documents:NoiseLaw",
    "plan": "topdown.formats.release_documents:Plan",
    "plan_summary": "topdown.formats.plan_documents:PlanSummary",
    "reference": "topdown.formats.command_documents:Reference",
    "export": "topdown.formats.command_documents:Exported",
    "report": "topdown.formats.command_documents:ReportWritten",
    "report.check": "topdown.formats.command_documents:ReportChecked",
    "schemas": "topdown.formats.command_documents:Schemas",
    "selection": "topdown.formats.choice_documents:Selection",
    "selection.certificate": "topdown.formats.choice_documents:SelectionCertificate",
    "selection.check": "topdown.formats.choice_documents:SelectionCheck",
    "selection.result": "topdown.formats.choice_documents:SelectionResult",
    "simulation": "topdown.formats.accuracy_documents:SimulationErrors",
    "solve": "topdown.formats.release_documents:Solve",
    "synth": "topdown.formats.command_documents:Synth",
    "tables": "topdown.formats.accuracy_documents:Tables",
    "tune": "topdown.formats.accuracy_documents:Tune",
    "verify": "topdown.formats.verify_documents:VerifyResult",
}
"""Module and struct by name of the document."""


def document_names() -> list[str]:
    """List the documents by name, without the prefix `topdown.`."""
    return list(DOCUMENTS)


def document_schema(name: str, documents: Mapping[str, str] = DOCUMENTS) -> dict[str, Any]:
    """Return the JSON Schema of one document; KeyError if there is none."""
    module, _, struct = documents[name].partition(":")
    return schema_of(getattr(import_module(module), struct))


def json_bytes(document: Struct | dict[str, Any]) -> bytes:
    """Return the only bytes a document of a release may have: sorted keys, two spaces, a last newline."""
    text = json.dumps(
        msgspec.to_builtins(document), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False
    )
    return (text + "\n").encode()
