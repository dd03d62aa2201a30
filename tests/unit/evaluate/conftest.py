"""Releases written by hand: a plan, its public facts, and any microdata."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from topdown.plan import prepare, run_file_text, write_public

Rows = list[tuple[str, ...]]


@pytest.fixture
def release_of(tmp_path: Path) -> Callable[..., Path]:
    """Write a release folder for a run file; its microdata are the given rows (geocode, labels, count)."""

    def build(run: Path, rows: Rows) -> Path:
        context = prepare(run).context
        folder = tmp_path / "release"
        write_public(folder / "public", context.geography, context.facts)
        document = context.plan.to_document() | {"plan_hash": context.plan.plan_hash}
        (folder / "plan.json").write_text(json.dumps(document), encoding="utf-8")
        (folder / "microdata").mkdir()
        names = ["geocode", *(a.name for a in context.plan.schema.attributes)]
        columns = {
            name: pa.array([row[i] for row in rows]).dictionary_encode() for i, name in enumerate(names)
        }
        columns["count"] = pa.array([int(row[-1]) for row in rows], pa.int64())
        pq.write_table(pa.table(columns), folder / "microdata" / "persons.parquet")
        return folder

    return build


TRUTH = [
    ("11", "home", "female", "18_64", "4"),
    ("11", "home", "male", "0_17", "2"),
    ("12", "home", "male", "18_64", "3"),
    ("21", "dormitory", "female", "18_64", "5"),
]


@pytest.fixture
def truth() -> Rows:
    """Return the records of three blocks in two counties."""
    return list(TRUTH)


@pytest.fixture
def run(tmp_path: Path, truth: Rows) -> Path:
    """Write records, public facts and run file of schema toy."""
    lines = ["geocode,dwelling,sex,age,count", *(",".join(row) for row in truth)]
    (tmp_path / "records.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    facts = "geocode,homes,dormitories,barracks\n11,3,0,0\n12,2,0,0\n21,0,1,0\n"
    (tmp_path / "leaves.csv").write_text(facts, encoding="utf-8")
    out = tmp_path / "run.toml"
    text = run_file_text("toy", "toy", tmp_path / "records.csv", tmp_path / "leaves.csv", out)
    out.write_text(text, encoding="utf-8")
    return out
