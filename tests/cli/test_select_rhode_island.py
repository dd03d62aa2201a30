"""Sites for a million people on real blocks: chosen in seconds, nearly as good as by looking at everybody."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "rhode_island_2010"


def neighbours_of(tracts: list[str]) -> dict[str, list[str]]:
    """Return for each tract those of its county that are two numbers away at most."""
    near = {tract: tracts[max(0, i - 2) : i + 3] for i, tract in enumerate(tracts)}
    return {tract: [other for other in others if other[:5] == tract[:5]] for tract, others in near.items()}


@pytest.mark.skipif(
    not DATA.is_dir(), reason="the blocks of Rhode Island lie outside the project, in ../shared"
)
def test_twelve_of_all_tracts_for_a_million_people(topdown):
    """A choice that is private and far from the best, or takes minutes, helps nobody."""
    files = ("--records", DATA / "persons.csv.gz", "--leaves", DATA / "blocks.csv.gz")
    made = (
        "init",
        "--schema",
        "pl94",
        "--settings",
        "pl94_2020",
        *files,
        "--witness",
        ".",
        "--out",
        "run.toml",
    )
    assert topdown(*made).code == 0
    people: Counter[str] = Counter()
    with gzip.open(DATA / "persons.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            people[row["geocode"][:11]] += int(row["count"])
    covers = neighbours_of(sorted(people))
    rows = "".join(f"{tract},{other}\n" for tract, others in covers.items() for other in others)
    Path("tracts.csv").write_text(f"candidate,geocode\n{rows}")
    chosen = ("select", "sites", "run.toml", "--candidates", "tracts.csv", "--k", 12, "--epsilon", "1/10")
    said = topdown(*chosen, "--out", "offices", "--yes")
    assert said.code == 0, said.err
    private = json.loads(Path("offices/result.json").read_text())["chosen"]
    best: list[str] = []
    for _ in range(12):
        met = {other for tract in best for other in covers[tract]}
        best.append(max(covers, key=lambda tract: sum(people[o] for o in covers[tract] if o not in met)))

    def reached(tracts: list[str]) -> int:
        return sum(people[other] for other in {o for tract in tracts for o in covers[tract]})

    assert reached(private) > 0.95 * reached(best)
    assert topdown("verify", "offices").code == 0
