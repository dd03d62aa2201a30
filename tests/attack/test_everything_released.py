"""Who reads every release of a data set does not beat what its ledger states, and beats what leaves one out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.attacked_land import MORE, make_extended, release, toy_run
from tests.helpers.attacker import Attacker
from tests.helpers.attacker_judge import against
from tests.helpers.commands import topdown
from tests.helpers.published import Document, read_step


def fitting(attacker: Attacker, kind: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the pairs of a kind that agree on everything exact."""
    one, other = attacker.pairs(kind, "")
    apart = np.zeros(len(one), dtype=bool)
    for marks in attacker.altered(one, other).values():
        apart |= marks
    return one[~apart], None if other is None else other[~apart]


def findings(attacker: Attacker, row: Document) -> tuple[list[str], bool]:
    """Return what beats a row about everything or presence, and whether some pair reaches it."""
    found: list[str] = []
    close = False
    for moved in attacker.moved(*fitting(attacker, row["kind"])):
        worse, near = against(moved, row)
        found += worse
        close |= near
    return found, close


@pytest.mark.parametrize(
    ("relation", "mechanism"),
    [
        ("bounded", "discrete_gaussian"),
        ("add_remove", "geometric"),
        pytest.param("bounded", "geometric", marks=pytest.mark.slow),
        pytest.param("add_remove", "discrete_gaussian", marks=pytest.mark.slow),
    ],
)
def test_three_releases_are_one_attack(tmp_path: Path, relation: str, mechanism: str) -> None:
    """Two releases and an extension of the first, read together, must not tell more than the ledger says they do."""
    made = make_extended(tmp_path, relation, mechanism)
    more = release(made.more, tmp_path / "extended", "--base", made.base)
    run = toy_run(tmp_path, "second", relation, mechanism)
    second = release(run, tmp_path / "again")
    said = topdown("audit", "--ledger", tmp_path / "ledger.jsonl", "--json").document
    steps = [read_step(made.base), read_step(second), read_step(more)]
    attacker = Attacker(steps, ["111", "112", "113", "121"], [1, 2, 3], bases=(None, None, 0))
    assert [r["release"] for r in said["releases"]] == ["plain", MORE, "second"]
    assert {name.split(" (")[0] for name in attacker.exact} == set(said["conditional_on"])
    kinds = ["presence", "everything"] if relation == "add_remove" else ["everything"]
    assert [row["kind"] for row in said["secrets"]] == kinds
    for row in said["secrets"]:
        assert findings(attacker, row) == ([], True)
    stated = [json.loads((folder / "certificate.json").read_text())["privacy"] for folder in (more, second)]
    assert stated[1]["everything_released"]["secrets"] == said["secrets"]
    for privacy in stated:  # of one release, or a chain: it does not speak of the others
        assert findings(attacker, privacy["secrets"][0])[0] != []
    earlier = Attacker([steps[0], steps[2]], attacker.codes, attacker.lengths)
    for row in stated[0]["everything_released"]["secrets"]:
        assert findings(earlier, row) == ([], True)


def test_two_extensions_of_one_base(tmp_path: Path) -> None:
    """Each of two extensions states itself with its base; together they tell more, and only the ledger says so."""
    made = make_extended(tmp_path, "bounded")
    first = release(made.more, tmp_path / "extended", "--base", made.base)
    other = tmp_path / "other.toml"
    other.write_text(made.more.read_text().replace(f'id = "{MORE}"', 'id = "other"', 1))
    second = release(other, tmp_path / "other", "--base", made.base)
    said = topdown("audit", "--ledger", tmp_path / "ledger.jsonl", "--json").document
    steps = [read_step(folder) for folder in (made.base, first, second)]
    attacker = Attacker(steps, ["111", "112", "113", "121"], [1, 2, 3], bases=(None, 0, 0))
    (row,) = said["secrets"]
    assert findings(attacker, row) == ([], True)
    for folder in (first, second):
        alone = json.loads((folder / "certificate.json").read_text())["privacy"]["secrets"][0]
        assert findings(attacker, alone)[0] != []
