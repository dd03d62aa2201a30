"""Releases that keep exact tables above the leaves, and one that needs the failsafe, from the plan to verify."""

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers import rule_texts
from tests.helpers.ledgers import with_ledger
from tests.helpers.many_kinds import COUNTIES, write_crowded_land
from tests.helpers.small_release import write_canonical
from topdown.model import MAX_KINDS
from topdown.plan import prepare

TOP = Path(__file__).resolve().parents[2]
exact = partial(rule_texts.exact, basis="a reason of its own")  # the plan groups constraints by their reason


def add(folder: Path, bundled: str, more: str) -> None:
    """Give the run of a folder the bundled invariants and more."""
    (folder / "own.toml").write_text((TOP / "invariants" / f"{bundled}.toml").read_text() + more)
    run = folder / "run.toml"
    run.write_text(run.read_text().replace(f'invariants = "{bundled}"', 'invariants = "own.toml"'))


def answers_of(release: Path, run: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return an exact table as stated, and as counted from the microdata, without the verifier's code."""
    context = prepare(run).context
    e = next(e for e in context.plan.invariants.exact if e.name == name)
    stated = next(
        v
        for v in json.loads((release / "measurements" / "exact.json").read_text())["values"]
        if v["name"] == name
    )
    rows = pq.read_table(release / "microdata" / "persons.parquet").to_pylist()
    query, schema = context.plan.query(e.query), context.plan.schema
    depth = context.geography.index(e.level)
    leaf = {code: i for i, code in enumerate(context.geography.leaves.codes)}
    place = {a.name: {label: i for i, label in enumerate(a.labels)} for a in schema.attributes}
    found = np.zeros((len(context.geography.levels[depth]), query.n_answers), dtype=np.int64)
    for row in rows:
        cell = np.ravel_multi_index([place[a.name][row[a.name]] for a in schema.attributes], schema.shape)
        node = context.geography.ancestors_of_leaves[depth][leaf[row["geocode"]]]
        found[node, query.labels[cell]] += row["count"]
    assert list(context.geography.levels[depth].codes) == stated["nodes"]
    return np.array(stated["answers"]), found


@pytest.mark.parametrize(
    ("level", "query"), [("county", "dwelling"), ("county", "dwelling * sex"), ("land", "sex * adult")]
)
def test_toy_release_with_an_exact_table(topdown, toy, tmp_path, level, query):
    """Plan, measurement, solve and verify must all know a table above the leaves."""
    run = toy(tmp_path / "toy")
    add(run.parent, "toy", exact("the table", level, query))
    assert "the table" in topdown("plan", run).out
    topdown("generate", run, "--out", "release", "--yes", "--workers", "1").ok()
    assert topdown("verify", "release").code == 0
    stated, found = answers_of(Path("release"), run, "the table")
    np.testing.assert_array_equal(stated, found)
    assert json.loads(Path("release/solve.json").read_text())["failsafe"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "query", "route"),
    [("state", "votingage", "milp"), pytest.param("county", "hhgq", "flow", marks=pytest.mark.slow)],
)
def test_sample_county_with_an_exact_table(topdown, tmp_path, level, query, route):
    """The production plan on the sample county: every answer exact, everything optimal, by the documented route."""
    folder = tmp_path / "sample"
    shutil.copytree(TOP / "sample_data", folder)
    add(folder, "pl94_2020", exact("the table", level, query))
    run = with_ledger(folder / "run.toml")
    topdown("generate", run, "--out", "release", "--yes", "--workers", "1").ok()
    assert topdown("verify", "release").code == 0
    stated, found = answers_of(Path("release"), run, "the table")
    np.testing.assert_array_equal(stated, found)
    for solved in json.loads(Path("release/solve.json").read_text())["levels"]:
        assert solved["n_unconverged"] == 0
        assert solved["n_roundings_optimal"] == solved["n_roundings"]
        assert solved["n_milp"] == (1 if route == "milp" and solved["level"] == level else 0)


def test_a_changed_table_is_found(topdown, toy, tmp_path):
    """Verify must look at every answer of a table of an inner level, not at totals only."""
    run = toy(tmp_path / "toy")
    add(run.parent, "toy", exact("the table", "county", "dwelling"))
    topdown("generate", run, "--out", "release", "--yes", "--workers", "1")
    path = Path("release/measurements/exact.json")
    document = json.loads(path.read_text())
    (value,) = [v for v in document["values"] if v["name"] == "the table"]
    value["answers"][0][0] += 1
    value["answers"][0][1] -= 1
    write_canonical(path, document)
    said = topdown("verify", "release")
    assert said.code == 1
    assert "'the table' is not reproduced" in said.out + said.err


def test_a_table_without_complete_split_is_refused_before_anything_is_read(topdown, toy, tmp_path):
    """The plan must say which two constraints cannot be kept together, and what to change."""
    run = toy(tmp_path / "toy")
    add(run.parent, "toy", exact("sexes", "county", "sex") + exact("blocks", "block", "total"))
    said = topdown("plan", run)
    assert said.refusal == "C033"
    assert "'sexes'" in said.err
    assert "'blocks'" in said.err
    assert topdown("explain", "C033").code == 0


def test_a_release_that_needs_the_failsafe_is_made_reported_and_verified(topdown, tmp_path):
    """What no theorem covers must end in a release all the same: exact, adding up, and honest about what was done."""
    run = with_ledger(write_crowded_land(tmp_path / "land"))
    planned = topdown("plan", run, "--json").document
    assert {v["kind"] for v in planned["feasible"]["verdicts"] if v["level"] != "block"} == {"not_guaranteed"}
    release = tmp_path / "release"
    made = topdown("generate", run, "--out", release, "--yes", "--json").ok()
    assert (
        made.document["n_failsafe"] > 0
    )  # about four counties in ten need it: none of thirty, once in 10^6 runs
    uses = json.loads((release / "solve.json").read_text())["failsafe"]
    assert len(uses) == made.document["n_failsafe"]
    for use in uses:
        assert use["level"] in ("land", "county")
        assert use["distance"] % 2 == 0
        assert use["marginals_kept"]
        assert use["smallest"]
        assert "at least two people per dormitory" in use["constraints"]
    checked = topdown("verify", release, "--all").ok()
    said = " ".join((checked.out + checked.err).split())
    first = max(uses, key=lambda use: use["distance"])
    assert f"failsafe at {first['level']} {first['node']}" in said
    assert "at least two people per dormitory" in said
    people = pq.read_table(release / "microdata" / "persons.parquet").to_pylist()
    assert sum(row["count"] for row in people) == 36 * len(COUNTIES)
    assert _populations(release, "county") == _added_up(people, 2)
    context = prepare(run).context
    rules = context.rules
    assert rules.partition().n_kinds > MAX_KINDS
    for leaf, code in enumerate(context.geography.leaves.codes):
        rows = [row for row in people if row["geocode"] == code]
        assert sum(r["count"] for r in rows if r["dwelling"] == "dormitory") >= rules.lower[-1][leaf, 0]
        if code.endswith(("01", "02")):
            assert all((r["dwelling"], r["sex"]) == ("dormitory", "male") for r in rows)


def _populations(release, level):
    """Return the published population of every area of a level."""
    table = pq.read_table(release / "tables" / "total" / f"{level}.parquet").to_pylist()
    return {row["geocode"]: row["count"] for row in table}


def _added_up(people, length):
    """Add microdata up by the first characters of their geocode."""
    out = dict.fromkeys(COUNTIES, 0)
    for row in people:
        out[row["geocode"][:length]] += row["count"]
    return out
