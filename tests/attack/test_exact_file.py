"""What the attacker takes for exact is what exact.json holds, counted again for every neighbour of a census."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np

from tests.helpers.attacked import shipped
from tests.helpers.attacked_land import PEOPLE, release, toy_run
from tests.helpers.attacker import Attacker
from tests.helpers.published import read_step
from tests.helpers.rule_texts import exact

CODES, LENGTHS = ["111", "112", "113", "121"], {"land": 1, "county": 2, "block": 3}
HOME_OR_NOT = {"home": 0, "dormitory": 1, "barracks": 1}
Record = tuple[str, ...]


def count(people: Counter[Record]) -> dict[str, list[list[int]]]:
    """Count both exact statistics by hand."""
    totals: Counter[str] = Counter()
    homes: Counter[tuple[str, int]] = Counter()
    for (code, dwelling, *_), n in people.items():
        totals[code[:1]] += n
        homes[code[:2], HOME_OR_NOT[dwelling]] += n
    return {
        "population of the land": [[totals["1"]]],
        "homes": [[homes[county, answer] for answer in (0, 1)] for county in ("11", "12")],
    }


def test_exact_statistics_of_every_neighbour(tmp_path: Path) -> None:
    """A pair that is said to agree while exact.json would differ makes every number about it worthless."""
    text = shipped("invariants", "toy") + exact("homes", "county", "home_or_not")
    out = release(toy_run(tmp_path, "plain", "bounded", invariants=text), tmp_path / "out")
    people = Counter({tuple(line.split(",")[:-1]): int(line.split(",")[-1]) for line in PEOPLE[1:]})
    stated = json.loads((out / "measurements" / "exact.json").read_text())["values"]
    assert {v["name"]: v["answers"] for v in stated} == count(people)
    attacker = Attacker([read_step(out)], CODES, list(LENGTHS.values()))
    leaf, values = attacker.records
    labels = [a["labels"] for a in attacker.plan["schema"]["attributes"]]
    rows = [
        (CODES[k], *(labels[i][v] for i, v in enumerate(row))) for k, row in zip(leaf, values, strict=True)
    ]
    here = np.array([i for i, row in enumerate(rows) if people[row]])
    one, other = (grid.reshape(-1) for grid in np.meshgrid(here, np.arange(len(rows)), indexing="ij"))
    said = attacker.altered(one, other)
    before = count(people)
    for k, (a, b) in enumerate(zip(one, other, strict=True)):
        after = count(people - Counter([rows[a]]) + Counter([rows[b]]))
        assert {name: bool(marks[k]) for name, marks in said.items()} == {
            n: after[n] != before[n] for n in before
        }
