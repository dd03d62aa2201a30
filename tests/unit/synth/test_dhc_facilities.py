"""Made-up DHC people and facilities by single-sex status: every promise checked row by row."""

import csv
import gzip
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from topdown.model import Selection
from topdown.plan import load_invariants, load_schema
from topdown.practice.synth import SynthResult, synth
from topdown.resources import bundled_root, find

SCHEMA = load_schema(find("schemas", "dhc_persons", bundled_root()))
TYPES = [label[3:6] for label in SCHEMA.attribute("relgq").labels if label.startswith("gq_")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SynthResult:
    """Make up 60,000 people with facilities of most types."""
    return synth(tmp_path_factory.mktemp("dhc"), people=60_000, schema="dhc_persons", seed=4)


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(gzip.decompress(path.read_bytes()).decode().splitlines()))


def inside(row: dict[str, str], cells: Selection) -> bool:
    return all(row[name] in labels for name, labels in cells)


def test_facilities_add_up_over_their_sexes(made: SynthResult) -> None:
    """The total of a type would contradict its parts, or the base release its detailed types."""
    for leaf in rows(made.leaves):
        for number in TYPES:
            parts = (int(leaf[f"gq_{number}_{kind}"]) for kind in ("male", "female", "coed"))
            assert int(leaf[f"gq_{number}"]) == sum(parts)
        assert int(leaf["gq_college"]) == int(leaf["gq_501"])


def test_people_fit_the_facilities(made: SynthResult) -> None:
    """A man would live where there are facilities for women only, or a facility would be empty."""
    rules = load_invariants(find("invariants", "dhc_persons_by_sex", bundled_root()), SCHEMA)
    leaves = {row["geocode"]: row for row in rows(made.leaves)}
    of_leaf: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows(made.records):
        if row["relgq"].startswith("gq_"):
            of_leaf[row["geocode"]].append(row)
    n_checked = 0
    for code, here in of_leaf.items():
        leaf = leaves[code]
        for zero in rules.none_where_zero:
            if not any(int(leaf[column]) for column in zero.columns):
                assert not [row for row in here if inside(row, zero.cells)], zero.name
    for bound in rules.at_least:
        for code, leaf in leaves.items():
            if int(leaf[bound.column]):
                n_checked += 1
                held = sum(int(row["count"]) for row in of_leaf[code] if inside(row, bound.cells))
                assert held >= int(leaf[bound.column]), bound.name
    assert n_checked > 80


def test_prisons_are_mostly_for_men_and_nursing_homes_for_both(made: SynthResult) -> None:
    """Shares of a profile that nobody reads would show in a demo as nonsense."""
    n: Counter[str] = Counter()
    for leaf in rows(made.leaves):
        n.update({name: int(value) for name, value in leaf.items() if name != "geocode"})
    assert n["gq_301_coed"] > 0.8 * n["gq_301"] > 8
    single = sum(n[f"gq_{t}_{sex}"] for t in TYPES for sex in ("male", "female"))
    assert 0.2 < single / sum(n[f"gq_{t}"] for t in TYPES) < 0.6


def test_other_invariants_get_their_columns_only(tmp_path: Path) -> None:
    """Invariants chosen by the user must win, and totals by type are enough for them."""
    other = synth(tmp_path, people=2_000, schema="dhc_persons", invariants="dhc_persons_2020")
    assert not [name for name in rows(other.leaves)[0] if name.endswith(("_male", "_female", "_coed"))]
    named = synth(tmp_path, people=2_000, schema="dhc_persons", settings="dhc_persons_2022_tracts")
    assert "gq_501_coed" not in rows(named.leaves)[0]
