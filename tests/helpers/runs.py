"""Run files and small censuses of schema toy, as an office would write them."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from topdown.plan import run_file_text

RUN: dict[str, dict[str, Any]] = {
    "": {
        "type": "topdown.run",
        "version": 1,
        "schema": "toy",
        "invariants": "toy",
        "neighbours": "bounded",
        "mechanism": "discrete_gaussian",
    },
    "release": {
        "id": "toy-r1",
        "title": "Toy land",
        "data_set": "toy",
        "agency": "Office of Toys",
        "contact": "toys@example.org",
    },
    "input": {"records": "records.csv", "leaves": "leaves.csv"},
    "geography": {"levels": ["land", "county", "block"], "prefix_lengths": [0, 1, 3]},
    "ledger": {"path": "ledger.jsonl", "rho_limit": "20"},
}


def run_text(body: str, top: dict[str, Any] | None = None, **tables: dict[str, Any]) -> str:
    """Return a run file.

    Args:
        body: budget and levels, as they stand in settings.
        top, tables: what differs from `RUN`, keys before the tables first; None leaves a key out.
    """
    lines = []
    for name, pairs in RUN.items():
        lines += [f"[{name}]"] if name else []
        found = pairs | (tables.get(name, {}) if name else top or {})
        lines += [f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in found.items() if v is not None]
    return "\n".join([*lines, body])


def write_census(
    folder: Path, leaves: Iterable[Iterable[object]], people: Iterable[Iterable[object]], **changes: str
) -> Path:
    """Write leaves, records and the run file that `topdown init` makes of them; return the run file.

    Args:
        leaves: rows of geocode (four digits, three levels), homes, dormitories, barracks.
        people: rows of geocode, dwelling, sex, age, count.
        changes: see `init_run`.
    """
    write_rows(folder / "leaves.csv", [("geocode", "homes", "dormitories", "barracks"), *leaves])
    write_rows(folder / "records.csv", [("geocode", "dwelling", "sex", "age", "count"), *people])
    return init_run(folder / "records.csv", folder, **changes)


def init_run(records: Path, folder: Path, **changes: str) -> Path:
    """Write the run file that `topdown init` makes of records and folder/leaves.csv, with other values of some keys."""
    run = folder / "run.toml"
    text = run_file_text("toy", "toy", records, folder / "leaves.csv", run, ("land", "county", "block"))
    text = re.sub(r"prefix_lengths = \[.*\]", "prefix_lengths = [1, 2, 4]", text)
    for key, value in changes.items():
        text = re.sub(rf"(?m)^{key} = .*", f'{key} = "{value}"', text)
    run.write_text(text)
    return run


def write_rows(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write a table of values that need no quotation marks."""
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
