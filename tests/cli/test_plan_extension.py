"""`topdown plan --base`: the plan of an extension, its screen, its JSON, and what it refuses."""

import csv
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.extension import Land, make_land
from topdown.plan import prepare
from topdown.solve.extend import extension_verdicts, find_patterns, make_extension_solver, split_sizes

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def land(tmp_path_factory: pytest.TempPathFactory) -> Land:
    """Make a base release without noise to speak of, and the run file of its extension."""
    return make_land(tmp_path_factory.mktemp("extension"), 3, rho="4000")


def stable(text: str, land: Land) -> str:
    """Hide what differs from release to release, hashes and folders, and digits that differ between processors."""
    text = re.sub(r"([0-9]{4}\.[0-9]{6})[0-9]{3}\b", r"\g<1>...", text.replace(str(land.folder), "LAND"))
    return re.sub(r"(Plan |plan +)[0-9a-f]{8}", r"\g<1>01234567", text)


@pytest.mark.parametrize(("width", "name"), [(80, "plan-extension-80"), (46, "plan-extension-46")])
def test_golden_transcripts(topdown, land, width, name):
    """The base, its patterns and why it always splits must stay on the screen."""
    said = topdown(
        "plan", land.run, "--base", land.base, "--out", land.folder / "plan.json", width=width
    ).ok()
    path = GOLDEN / f"{name}.txt"
    text = stable(said.out, land)
    text, _, rest = text.partition(
        "Nothing is spent yet."
    )  # where a test's long folder breaks is not the point
    assert "topdown extend LAND/more.toml --base LAND/base --out more/" in rest
    if os.environ.get("TOPDOWN_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_the_document_names_base_and_verdict(topdown, check, land):
    """A program that approves plans must see which release is extended and what is promised."""
    said = topdown("plan", land.run, "--base", land.base, "--out", land.folder / "plan.json", "--json").ok()
    check(said.document)
    context = prepare(land.run, land.base).context
    patterns = find_patterns(context)
    base = said.document["base"]
    assert base["plan_hash"] == context.plan.base.plan_hash
    assert (base["schema"], base["release_id"]) == ("toy", "plain")
    assert base["n_records"] == len((land.folder / "plain.csv").read_text().splitlines()) - 1
    assert (base["n_patterns"], base["n_reserved"]) == (patterns.n_patterns, patterns.reserves[0].n_records)
    assert base["n_reserved"] > 0
    assert {v["kind"] for v in said.document["feasible"]["verdicts"]} == {"always_splits"}
    assert [w["code"] for w in said.document["warnings"]] == []
    numbers = [level["n_numbers"] for level in said.document["levels"]]
    assert numbers == list(context.plan.base.n_numbers)


def test_sizes_are_those_of_the_descent(land):
    """A bound that the solver exceeds would be no bound; one of the plain solver would be of other cells."""
    context = prepare(land.run, land.base).context
    patterns = find_patterns(context)
    extension = make_extension_solver(context, None, patterns)
    for depth in range(1, 3):
        table, most, solves = patterns.tables[depth - 1], 0, 0
        for node in range(table.n_nodes):
            here = table.node == node
            rows = len(extension._rows(table.cell[here]))
            below = context.geography.levels[depth].parent == node
            children = int((below & context.support.inhabited[depth]).sum())
            most = max(most, children * min(rows, int(table.count[here].sum())))
            solves += children > 0
        sizes = split_sizes(context, patterns, depth)
        assert (sizes["most_unknowns"], sizes["n_solves"]) == (most, solves)
    root = split_sizes(context, patterns, 0)
    assert root["most_unknowns"] == len(extension._rows(patterns.tables[0].cell))


def test_without_reserves_it_is_complete(land):
    """Only people set aside for lower bounds narrow the choice; without them the flows say everything."""
    context = prepare(land.run, land.base).context
    patterns = find_patterns(context)
    assert {v.kind for v in extension_verdicts(context, patterns)} == {"always_splits"}
    none = [np.zeros_like(table.count) for table in patterns.reserves]
    empty = replace(
        patterns,
        reserves=tuple(replace(t, count=zero) for t, zero in zip(patterns.reserves, none, strict=True)),
    )
    assert {v.kind for v in extension_verdicts(context, empty)} == {"complete_integral"}


def test_a_leaf_that_cannot_be_extended_is_named_by_the_plan(topdown, land):
    """I020 follows from public files; an office must hear it before it asks for approval."""
    with (land.folder / "leaves.csv").open() as file:
        rows = list(csv.DictReader(file))
    row = next(row for row in rows if int(row["homes"]) > 0)
    row["homes"] = "0"
    changed = land.folder / "changed.csv"
    with changed.open("w") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerows(rows)
    run = land.folder / "changed.toml"
    run.write_text(land.run.read_text().replace('"leaves.csv"', '"changed.csv"'))
    said = topdown("plan", run, "--base", land.base, "--out", land.folder / "no.json", "--json")
    assert (said.code, said.document["code"], said.document["node"]) == (3, "I020", row["geocode"])
    assert not (land.folder / "no.json").exists()


def test_another_ledger_is_a_warning(topdown, check, land):
    """`extend` refuses a ledger that did not pay for the base; the plan says so first."""
    run = land.folder / "other.toml"
    run.write_text(land.run.read_text().replace('"ledger.jsonl"', '"other.jsonl"'))
    document = topdown("plan", run, "--base", land.base, "--out", land.folder / "o.json", "--json").document
    check(document)
    assert "B020" in [w["code"] for w in document["warnings"]]


def test_a_base_is_asked_for_and_only_where_it_belongs(topdown, land):
    """Each mistake leads to the right command."""
    said = topdown("plan", land.run)
    assert (said.code, "error[C097]" in said.err, "topdown plan" in said.err) == (2, True, True)
    assert topdown("plan", land.folder / "base.toml", "--base", land.base).refusal == "C091"
