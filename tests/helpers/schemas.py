"""Whether a document fits a JSON Schema, judged by a library that knows nothing of the programs."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, TypeChecker
from jsonschema.validators import extend

from topdown.formats import document_schema


def _is_whole(checker: TypeChecker, value: object) -> bool:
    """Tell whether a value was written as a whole number; 1.0 is one to the standard, not to us."""
    del checker
    return isinstance(value, int) and not isinstance(value, bool)


_Validator = extend(
    Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_whole)
)


def problems(document: Any, schema: dict[str, Any]) -> list[str]:
    """Say where a document breaks a schema."""
    return [f"{error.json_path}: {error.message[:200]}" for error in _Validator(schema).iter_errors(document)]


def check_release(folder: Path) -> None:
    """Fail unless the documents of a release fit their schemas."""
    for name in ("plan", "solve", "certificate", "manifest"):
        document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert problems(document, document_schema(name)) == []
