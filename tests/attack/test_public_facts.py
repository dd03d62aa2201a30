"""Public facts that fix a count tell as much as an exact statistic: rows must not print a number for what they tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers import attacked
from tests.helpers.attacked import TOY_BLOCKS, body_of, shipped, without_exact
from tests.helpers.attacked_land import PEOPLE, release
from tests.helpers.attacker_judge import beaten
from tests.helpers.commands import topdown
from tests.helpers.published import Document
from tests.helpers.rule_texts import exact, rule

HOME, DORMITORY, BARRACKS = ('dwelling = ["' + name + '"]' for name in ("home", "dormitory", "barracks"))


FIXED = (  # with the shipped lower bounds every dwelling's count at every block is a public fact
    without_exact(shipped("invariants", "toy"))
    + rule("at_most", "beds in barracks", BARRACKS, column="barracks", per=1)
    + rule("at_most", "beds in dormitories", DORMITORY, column="dormitories", per=2)
    + rule("at_least", "somebody in every home", HOME, column="homes", per=1)
    + rule("at_most", "one in every home", HOME, column="homes", per=1)
)
NOTHING = 'type = "topdown.invariants"\nversion = 1\nname = "none"\ntitle = "none"\nschema = "toy"\n'
NO_MEN = NOTHING + rule("at_most", "no men", 'sex = ["male"]', column="none", per=1)


SOME = without_exact(shipped("invariants", "toy")) + rule(
    "at_most", "beds in barracks", BARRACKS, column="beds", per=1
)
IN_SOME = {"homes": (2,), "dormitories": (0,), "barracks": (1, 2), "beds": (1, 4)}
ALL_FIXED = {"homes": (2,), "dormitories": (1,), "barracks": (1, 0), "none": (0,)}
BOUNDS = ["at least one person per barracks", "beds in barracks"]


def toy(folder: Path, invariants: str, relation: str, facts: dict[str, tuple[int, ...]] = ALL_FIXED) -> Path:
    """Write the toy land under other invariants."""
    attacked.write_leaves(folder / "leaves.csv", TOY_BLOCKS, facts)
    return attacked.write_run(folder, "plain", invariants=invariants, neighbours=relation)


def jobs(folder: Path, relation: str) -> Path:
    """Write an extension of the toy land by jobs, without rules of its own."""
    schema = shipped("schemas", "toy").replace('name = "toy"', 'name = "jobs"', 1)
    return attacked.write_run(
        folder,
        "more",
        schema=schema + '\n[[attribute]]\nname = "job"\nlabels = ["none", "some"]\n',
        invariants=NOTHING.replace('"toy"', '"jobs"'),
        body=body_of("toy", "1") + "\n[base]\n",
        neighbours=relation,
    )


def rows_of(said: Document) -> dict[str, Document]:
    """Return the rows of a statement by name."""
    return {row["name"]: row for row in said["secrets"]}


def every(said: Document) -> frozenset[str]:
    """Name every row: where records are fixed, the pairs that are left may move fewer counts than a row says."""
    return frozenset(rows_of(said))


def test_bounds_that_meet_are_exact(tmp_path: Path) -> None:
    """Where the least and the most are one number, nobody can come, go or move: no number may be printed for that."""
    attacker, said = attacked.attacker_of(toy(tmp_path, FIXED, "bounded"))
    assert beaten(attacker, said, slack=every(said)) == []
    rows = rows_of(said)
    assert {"dwelling only", "place within one land", "place within one county"} == {
        name for name, row in rows.items() if row["status"] == "disclosed"
    }
    assert {"one in every home", "beds in barracks"} <= set(rows["one person, everything"]["exact"])
    assert topdown("plan", toy(tmp_path, FIXED, "add_remove")).refusal == "C120"


@pytest.mark.parametrize("relation", ["bounded", "add_remove"])
def test_bounds_that_meet_at_some_places(tmp_path: Path, relation: str) -> None:
    """What is fixed in one block only leaves changes in others: the row must name the bounds that exclude the rest."""
    attacker, said = attacked.attacker_of(toy(tmp_path, SOME, relation, IN_SOME))
    assert beaten(attacker, said, slack=every(said)) == []
    for row in (said["secrets"][0], rows_of(said)["dwelling only"]):
        assert (row["status"], row["exact"]) == ("conditional", BOUNDS)
    assert rows_of(said)["sex only"]["status"] == "protected"  # no bound knows sex


@pytest.mark.parametrize("relation", ["bounded", "add_remove"])
def test_an_upper_bound_of_nobody_closes_cells(tmp_path: Path, relation: str) -> None:
    """If nobody can be a man there is no secret of sex to protect."""
    attacker, said = attacked.attacker_of(toy(tmp_path, NO_MEN, relation))
    assert beaten(attacker, said, slack=every(said)) == []
    row = rows_of(said)["sex only"]
    assert (row["status"], row["exact"]) == ("disclosed", ["no men"])


def test_bounds_of_a_base_hold_in_its_extension(tmp_path: Path) -> None:
    """Base and extension are sealed and verified with rows that bounds of the base alone exclude changes from."""
    homes = [line for line in PEOPLE if "home" in line or line.startswith("geocode")]
    quarters = [f"{code},barracks,male,18_64,{1 + (code != '111')}" for code in TOY_BLOCKS]
    (tmp_path / "plain.csv").write_text("\n".join([*homes, *quarters]) + "\n")
    base = release(toy(tmp_path, SOME, "add_remove", IN_SOME), tmp_path / "base")
    run = jobs(tmp_path, "add_remove")
    attacker, said = attacked.attacker_of(run, base)
    assert beaten(attacker, said, slack=every(said)) == []
    assert (rows_of(said)["dwelling only"]["status"], rows_of(said)["dwelling only"]["exact"]) == (
        "conditional",
        BOUNDS,
    )
    assert rows_of(said)["job only"]["status"] == "protected"
    detailed = [line.rpartition(",") for line in (*homes[1:], *quarters)]
    lines = ["geocode,dwelling,sex,age,job,count", *(f"{known},none,{n}" for known, _, n in detailed)]
    (tmp_path / "more.csv").write_text("\n".join(lines) + "\n")
    out = release(run, tmp_path / "more", "--base", base)
    assert topdown("verify", out).code == 0
    certified = json.loads((out / "certificate.json").read_text())["privacy"]["secrets"]
    assert [(r["name"], r["status"], r["exact"]) for r in said["secrets"]] == [
        (r["name"], r["status"], r["exact"]) for r in certified
    ]


def test_an_extension_knows_the_public_facts_of_its_base(tmp_path: Path) -> None:
    """What a base release discloses by its facts and exact counts together must stay disclosed when it is extended."""
    facts = {"homes": (2,), "dormitories": (1, 0), "barracks": (0, 1, 0)}
    attacked.write_leaves(tmp_path / "leaves.csv", TOY_BLOCKS, facts)
    people = [line for line in PEOPLE if "home" in line or line.startswith("geocode")]
    rows = [*people, "111,dormitory,female,18_64,9", "112,barracks,male,65_plus,9"]
    (tmp_path / "plain.csv").write_text("\n".join(rows) + "\n")
    rules = without_exact(shipped("invariants", "toy")) + exact("homes", "block", "home_or_not")
    run = attacked.write_run(tmp_path, "plain", invariants=rules)
    attacker, said = attacked.attacker_of(run)
    dwelling = next(row for row in said["secrets"] if row["name"] == "dwelling only")
    assert dwelling["status"] == "disclosed"  # no block has dormitories and barracks
    assert [f for f in beaten(attacker, said) if "stated" in f] == []
    base = release(run, tmp_path / "base")
    attacker, said = attacked.attacker_of(jobs(tmp_path, "bounded"), base)
    assert [f for f in beaten(attacker, said) if "stated" in f] == []
