"""An attacker who knows everybody else does not beat a printed number: all pairs of records of small censuses.

Toy policies, plain and extended, are attacked whole. P.L. 94-171 records are enumerated over four of the 63 races in
the default suite (no query groups races, so two would do) and over all 2,016 cells in the slow one, at five blocks of
which public facts close most kinds of quarters. DHC persons are enumerated over six relationships and quarters, six
ages, two races and everything else: their extremes, and both sides of every group that a query or rule knows.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers import attacked
from tests.helpers.attacked import BLOCKS, CENSUS, body_of, columns_of, shipped, without_exact
from tests.helpers.attacked_land import make_extended, release, toy_run
from tests.helpers.attacker import Attacker
from tests.helpers.attacker_judge import beaten
from tests.helpers.commands import topdown
from tests.helpers.published import Document
from tests.helpers.rule_texts import exact

RELATIONS = ("bounded", "add_remove")
FEW_RACES = ("01", "02", "07", "63")
DHC_LABELS = {
    "relgq": (
        "householder_alone",
        "spouse_opposite_sex",
        "child_biological",
        "gq_101_federal_detention",
        "gq_301_nursing",
        "gq_501_college_housing",
    ),
    "age": ("0", "17", "18", "64", "65", "115"),
    "cenrace": ("01", "63"),
}
ROOT_TOTAL = frozenset({"one person, everything"})  # see check_slack


@pytest.mark.parametrize("mechanism", ["discrete_gaussian", "geometric"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_toy_plain_and_extended(tmp_path: Path, relation: str, mechanism: str) -> None:
    """A status or number that some pair of the toy land contradicts, alone or together with its extension."""
    made = make_extended(tmp_path, relation, mechanism)
    attacker, said = attacked.attacker_of(made.run)
    assert beaten(attacker, said) == []
    attacker, said = attacked.attacker_of(made.more, made.base)
    assert len(attacker.noisy) == 8 + 12
    assert beaten(attacker, said) == []


@pytest.mark.parametrize(
    "more",
    [
        exact("blocks", "block", "total"),
        exact("homes", "block", "home_or_not"),
        exact("dwellings", "county", "dwelling") + exact("people", "land", "adult * sex"),
        exact("all", "land", "detailed"),
    ],
    ids=["totals", "homes", "dwellings and adults", "whole table"],
)
def test_other_exact_statistics(tmp_path: Path, more: str) -> None:
    """Disclosed, conditional and protected are what all pairs say, whatever is exact at which level."""
    run = toy_run(tmp_path, "plain", "bounded", "discrete_gaussian", shipped("invariants", "toy") + more)
    attacker, said = attacked.attacker_of(run)
    every = frozenset(row["name"] for row in said["secrets"])  # with more exact, fewer counts differ than may
    assert beaten(attacker, said, slack=every) == []
    assert {row["status"] for row in said["secrets"]} != {"protected"}


def test_exact_statistics_leave_no_presence_to_protect(tmp_path: Path) -> None:
    """With records added and removed every pair shows in an exact count: whatever was printed would be beaten."""
    check_refused(
        attacked.attacker_of(toy_run(tmp_path, "plain", "bounded", "discrete_gaussian"))[0], tmp_path
    )


def check_refused(attacker: Attacker, folder: Path) -> None:
    """Fail unless the policy of plain.toml is refused for added and removed records, which the attacker tells apart."""
    run = folder / "other.toml"
    run.write_text((folder / "plain.toml").read_text().replace('"bounded"', '"add_remove"'))
    for command in ("plan", "audit"):
        assert topdown(command, run).refusal == "C120"
    one, _ = attacker.pairs("presence", "")
    assert len(one) > 0
    assert all(marks.all() for marks in attacker.altered(one, None).values())


def pl94_run(folder: Path, policy: str, settings: str, relation: str) -> Path:
    """Write five blocks: all kinds of quarters in the first, homes everywhere, one kind of quarters in each other."""
    text = shipped("invariants", policy)
    facts = {
        column: (1, *(int(column == "housing_units" or k == i) for k in range(4)))
        for i, column in enumerate(columns_of(text))
    }
    attacked.write_leaves(folder / "leaves.csv", BLOCKS, facts)
    text = text if relation == "bounded" else without_exact(text)
    of = {"schema": "pl94", "body": body_of(settings), "tree": CENSUS}
    return attacked.write_run(folder, "plain", invariants=text, neighbours=relation, **of)


@pytest.mark.parametrize(
    ("policy", "settings", "relation"),
    [("pl94_2020", "pl94_2020", "bounded"), ("pl94_block_population", "pl94_2020_marginal_first", "bounded")],
)
def test_redistricting(tmp_path: Path, policy: str, settings: str, relation: str) -> None:
    """A status or number of the 2020 redistricting policies that some pair of records contradicts."""
    run = pl94_run(tmp_path, policy, settings, relation)
    attacker, said = attacked.attacker_of(run, deltas=("1e-10",), cenrace=FEW_RACES)
    assert beaten(attacker, said, slack=ROOT_TOTAL) == []
    if relation == "bounded":
        check_refused(attacker, tmp_path)
    if policy == "pl94_2020":
        check_slack(attacker, said)


def check_slack(attacker: Attacker, said: Document) -> None:
    """Fail unless the total of the root, which a replaced record leaves alone, is all that no pair reaches."""
    (row,) = (row for row in said["secrets"] if row["kind"] == "everything")
    (largest,) = attacker.moved(*attacker.pairs("everything", ""))
    (total,) = (m for m in attacker.plan["levels"][0]["measurements"] if m["query"] == "total")
    assert Fraction(row["rho"]) == largest.rho + 1 / Fraction(total["parameter"])
    assert row["n_counts_moved"] == largest.n + 2


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        ("pl94_2020", "pl94_2020"),
        ("pl94_block_population", "pl94_2020"),
        ("pl94_2020", "pl94_2020_marginal_first"),
    ],
)
def test_redistricting_with_every_cell(tmp_path: Path, policy: str, settings: str, relation: str) -> None:
    """All pairs of the whole schema: a race, or a kind of quarters, that behaves unlike those looked at above."""
    run = pl94_run(tmp_path, policy, settings, relation)
    facts = dict.fromkeys(columns_of(shipped("invariants", policy)), (0,))
    facts |= {
        "housing_units": (1,),
        "gq_college": (1, 0),
        "gq_nursing": (0, 1, 0),
        "gq_juvenile": (0, 0, 1, 0),
    }
    attacked.write_leaves(tmp_path / "leaves.csv", BLOCKS, facts)
    attacker, said = attacked.attacker_of(run, deltas=("1e-10",))
    assert len(attacker.records[0]) == 5 * 252 + 2 * 252 + 126
    assert beaten(attacker, said, slack=ROOT_TOTAL) == []


PLACES = {  # settings: the levels that both releases have budget for
    "dhc_persons_2022_tracts": CENSUS,
    "dhc_persons_2022": (("state", "county", "block_group", "block"), (2, 5, 12, 15)),
}


@pytest.fixture(scope="module")
def redistricting(tmp_path_factory: pytest.TempPathFactory):
    """Return a maker of base releases, one for each tree and relation, with people of every kind that is attacked."""
    made: dict[tuple[str, str], Path] = {}

    def make(settings: str, relation: str) -> Path:
        if (settings, relation) in made:
            return made[settings, relation]
        folder = tmp_path_factory.mktemp("pl94")
        text = shipped("invariants", "pl94_2020")
        facts = dict.fromkeys(
            columns_of(text) + columns_of(shipped("invariants", "dhc_persons_relationships")), (0,)
        )
        facts |= dict.fromkeys(("housing_units", "gq_college", "gq_501", "gq_501_coed"), (1,))
        facts |= dict.fromkeys(("gq_nursing", "gq_301", "gq_301_male"), (1, 0))
        facts |= dict.fromkeys(("gq_correctional_adult", "gq_101", "gq_101_coed"), (1, 0))
        attacked.write_leaves(folder / "leaves.csv", BLOCKS, facts)
        text = text if relation == "bounded" else without_exact(text)
        of = {"schema": "pl94", "body": body_of("pl94_2020"), "tree": PLACES[settings]}
        run = attacked.write_run(folder, "base", invariants=text, neighbours=relation, **of)
        kinds = (
            "household,18_plus,not_hispanic,01",
            "household,under_18,hispanic,02",
            "college,18_plus,hispanic,63",
        )
        rows = [f"{code},{kind},40" for code in BLOCKS for kind in kinds]
        rows += [
            f"{BLOCKS[0]},{kind},18_plus,not_hispanic,01,40" for kind in ("nursing", "correctional_adult")
        ]
        (folder / "base.csv").write_text(
            "\n".join(["geocode,hhgq,votingage,hispanic,cenrace,count", *rows]) + "\n"
        )
        made[settings, relation] = release(run, folder / "base")
        return made[settings, relation]

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "settings", "relation"),
    [
        ("dhc_persons_2020", "dhc_persons_2022_tracts", "bounded"),
        ("dhc_persons_by_sex", "dhc_persons_2022", "bounded"),
        ("dhc_persons_relationships", "dhc_persons_2022_tracts", "bounded"),
        ("dhc_persons_2020", "dhc_persons_2022", "add_remove"),
        ("dhc_persons_by_sex", "dhc_persons_2022", "add_remove"),
        ("dhc_persons_relationships", "dhc_persons_2022", "add_remove"),
    ],
)
def test_dhc_persons(redistricting, policy: str, settings: str, relation: str) -> None:
    """A status or number of a DHC extension, stated with its base, that some pair of records contradicts."""
    base = redistricting(settings, relation)
    name, text = f"{policy}-{relation}", shipped("invariants", policy)
    of = {"schema": "dhc_persons", "body": body_of(settings) + "\n[base]\n", "tree": PLACES[settings]}
    run = attacked.write_run(base.parent, name, invariants=text, neighbours=relation, **of)
    attacker, said = attacked.attacker_of(run, base, deltas=("1e-10",), **DHC_LABELS)
    assert beaten(attacker, said, slack=ROOT_TOTAL) == []
