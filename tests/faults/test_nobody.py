"""A release that holds nobody, and what extends it."""

from pathlib import Path

import pytest

from tests.helpers.attacked import shipped, write_leaves, write_run
from tests.helpers.commands import topdown
from tests.helpers.ledgers import n_intents
from tests.helpers.policies import exact

FACTS = {"homes": (3, 2), "dormitories": (0,), "barracks": (0,)}


def test_a_release_of_nobody_is_published_and_not_extended(tmp_path: Path) -> None:
    """A table without rows was charged and failed its own verification; there is nothing in it to extend."""
    write_leaves(tmp_path / "leaves.csv", ("111", "121"), FACTS)
    (tmp_path / "nobody.csv").write_text("geocode,dwelling,sex,age,count\n111,home,male,18_64,0\n")
    invariants = shipped("invariants", "toy") + exact("sexes of nobody", "land", "sex")
    run = write_run(tmp_path, "nobody", invariants=invariants)
    assert topdown("ledger", "new", run).code == 0
    made = topdown("generate", run, "--out", tmp_path / "release", "--yes", "--json", "--workers", "1")
    assert (made.code, made.document.get("n_records")) == (0, 0), made.err
    more = tmp_path / "more.toml"
    text = run.read_text().replace('id = "nobody"', 'id = "more"').replace("[ledger]", "[base]\n[ledger]")
    more.write_text(text.replace("nobody.invariants.toml", "more.invariants.toml"))
    rules = shipped("invariants", "toy").split("\n[[")
    (tmp_path / "more.invariants.toml").write_text(
        "\n[[".join(r for r in rules if not r.startswith(("exact", "at_le")))
    )
    said = topdown(
        "extend", more, "--base", tmp_path / "release", "--out", tmp_path / "more", "--yes", "--json"
    )
    assert (said.code, said.document["code"]) == (2, "C099"), said.out
    assert n_intents(tmp_path / "ledger.jsonl") == 1


@pytest.mark.parametrize("neighbours", ["bounded", "add_remove"])
def test_records_of_nobody_are_released_where_that_is_confirmed(tmp_path: Path, neighbours: str) -> None:
    """A run that is refused for want of rows tells the last person's presence with certainty, whatever the noise."""
    write_leaves(tmp_path / "leaves.csv", ("111", "121"), FACTS)
    (tmp_path / "none.csv").write_text("geocode,dwelling,sex,age,count\n")
    rules = shipped("invariants", "toy").split("\n[[")
    inexact = "\n[[".join(rule for rule in rules if not rule.startswith("exact"))
    run = write_run(tmp_path, "none", invariants=inexact, neighbours=neighbours)
    assert topdown("ledger", "new", run).code == 0
    make = ("generate", run, "--out", tmp_path / "release", "--yes", "--json", "--workers", "1")
    refused = topdown(*make).document
    assert (refused["code"], "rows = 0" in refused["fix"]) == ("D022", True)
    assert n_intents(tmp_path / "ledger.jsonl") == 0
    run.write_text(run.read_text().replace("[input]\n", "[input]\nrows = 0\n"))
    made = topdown(*make)
    assert (made.code, topdown("verify", tmp_path / "release").code) == (0, 0), made.err
