"""plan.json: save it, find the run file it came from, say what changed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topdown.caps import PLAN_BYTES, read_json
from topdown.errors import ConfigError
from topdown.frames import HeldTable
from topdown.outputs import refuse_needed, refuse_release, write_new
from topdown.plan.bases import read_plan_document
from topdown.plan.prepare import Prepared, prepare

_WEIGHTS = ".weights"  # of a noise law: thousands of numbers, shown as their hash
_NAMES = ("name", "query", "table", "level")
_DERIVED = (
    ".loss",
    ".parameter",
    ".n_answers",
    ".delta",
    ".weights",
)  # follow from budget, shares and schema


@dataclass(frozen=True)
class PlanChange:
    """One value of a plan that differs: old is None if it is new, new is None if it is gone."""

    key: str
    old: str | None
    new: str | None


def save_plan(prepared: Prepared, path: Path) -> None:
    """Write a plan with its hash and the name of its run file; refuse to replace a file that is no plan."""
    if path.exists() and _kind(path) != "topdown.plan":
        raise ConfigError(
            f"{path} exists and is not a plan",
            code="C080",
            fix="give another file with --out, or move it away",
        )
    refuse_needed(path, "--out", prepared.needed)
    refuse_release(path, "--out")
    plan = prepared.context.plan
    run_file = os.path.relpath(prepared.path.resolve(), path.resolve().parent)
    document = plan.to_document() | {"plan_hash": plan.plan_hash, "run_file": run_file}
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    write_new(path, text.encode("utf-8"), force=True)


def open_plan(path: Path, leaves: HeldTable | None = None) -> Prepared:
    """Prepare a run from a run file, or from a plan.json that must still be the plan of its run file.

    Args:
        leaves: see `prepare`.

    Raises:
        ConfigError: C081 if plan.json names no run file, C082 if the run file now gives another plan.
    """
    if path.suffix != ".json":
        return prepare(path, leaves=leaves)
    saved = read_plan_document(path)
    name = read_json(path, PLAN_BYTES).get("run_file")
    if not isinstance(name, str):
        raise ConfigError(
            f"{path} does not name its run file", code="C081", fix="make it with: topdown plan RUN.toml"
        )
    prepared = prepare(Path(os.path.normpath(path.parent / name)), leaves=leaves)
    found = changes(saved, prepared.context.plan.to_document())
    if found:
        more = [] if len(found) <= 6 else [("", f"and {len(found) - 6} more: topdown plan --diff {path}")]
        raise ConfigError(
            f"{prepared.path} no longer gives the plan saved in {path}",
            code="C082",
            details=(*(("changed", change_text(change)) for change in found[:6]), *more),
            fix=f"undo the changes, or make the plan again: topdown plan {prepared.path}",
        )
    return prepared


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[PlanChange]:
    """Compare two plan documents, value by value; lists of named things are compared by name."""
    before, after = (dict(_flat("", json.loads(json.dumps(document)))) for document in (old, new))
    keys = sorted(dict.fromkeys([*before, *after]), key=lambda k: k.endswith(_DERIVED))  # causes first
    return [PlanChange(k, before.get(k), after.get(k)) for k in keys if before.get(k) != after.get(k)]


def change_text(change: PlanChange) -> str:
    """Write one change in a line."""
    old, new = ("-" if value is None else value for value in (change.old, change.new))
    return f"{change.key} {old} -> {new}"


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{path}.{key}" if path else str(key), inner)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        names = [next((str(item[n]) for n in _NAMES if n in item), str(i)) for i, item in enumerate(value)]
        for i, (name, item) in enumerate(zip(names, value, strict=True)):
            yield from _flat(f"{path}.{name}" if names.count(name) == 1 else f"{path}.{i + 1}", item)
    elif path.endswith(_WEIGHTS) and isinstance(value, list):
        digest = hashlib.sha256("\n".join(map(str, value)).encode()).hexdigest()
        yield path, f"{len(value):,} weights, {digest[:8]}"
    elif isinstance(value, list):
        plain = all(isinstance(item, str | int) for item in value)
        yield path, ", ".join(map(str, value)) if plain else json.dumps(value, ensure_ascii=False)
    else:
        yield path, str(value)


def _kind(path: Path) -> object:
    try:
        document = read_json(path, PLAN_BYTES)
    except (OSError, ValueError):
        return None
    return document.get("type") if isinstance(document, dict) else None
