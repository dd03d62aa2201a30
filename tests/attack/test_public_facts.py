"""Public facts that fix a count tell as much as an exact statistic: rows must not print a number for what they tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import attacked
from tests.helpers.attacked import BASIS, TOY, TOY_BLOCKS, body_of, shipped, topdown, without_exact
from tests.helpers.attacked_land import PEOPLE, release
from tests.helpers.attacker_judge import beaten

HOME, DORMITORY, BARRACKS = ('dwelling = ["' + name + '"]' for name in ("home", "dormitory", "barracks"))


def bound(kind: str, name: str, cells: str, column: str, per: int = 1) -> str:
    """Return a bound as it stands in an invariants file."""
    return f'\n[[{kind}]]\nname = "{name}"\ncells = {{ {cells} }}\ncolumn = "{column}"\nper = {per}\n{BASIS}'


FIXED = (  # with the shipped lower bounds every dwelling's count at every block is a public fact
    without_exact(shipped("invariants", "toy"))
    + bound("at_most", "beds in barracks", BARRACKS, "barracks")
    + bound("at_most", "beds in dormitories", DORMITORY, "dormitories", 2)
    + bound("at_least", "somebody in every home", HOME, "homes")
    + bound("at_most", "one in every home", HOME, "homes")
)
NOTHING = 'type = "topdown.invariants"\nversion = 1\nname = "none"\ntitle = "none"\nschema = "toy"\n'
NO_MEN = NOTHING + bound("at_most", "no men", 'sex = ["male"]', "none")


def toy(folder: Path, invariants: str, relation: str) -> Path:
    """Write the toy land under other invariants."""
    facts = {"homes": (2,), "dormitories": (1,), "barracks": (1, 0), "none": (0,)}
    attacked.write_leaves(folder / "leaves.csv", TOY_BLOCKS, facts)
    return attacked.write_run(
        folder,
        "plain",
        schema="toy",
        invariants=invariants,
        body=body_of("toy"),
        tree=TOY,
        neighbours=relation,
    )


@pytest.mark.parametrize("relation", ["bounded", "add_remove"])
def test_bounds_that_meet_are_exact(tmp_path: Path, relation: str) -> None:
    """Where the least and the most are one number, nobody can come, go or move: no number may be printed for that."""
    run = toy(tmp_path, FIXED, relation)
    if relation == "add_remove" and topdown("plan", run).code == 2:
        return  # refused: no two neighbours fit the public facts
    attacker, said = attacked.attacker_of(run)
    assert [f for f in beaten(attacker, said) if "disclosed, stated" in f] == []


def test_an_upper_bound_of_nobody_closes_cells(tmp_path: Path) -> None:
    """If nobody can be a man there is no secret of sex to protect."""
    attacker, said = attacked.attacker_of(toy(tmp_path, NO_MEN, "bounded"))
    assert [f for f in beaten(attacker, said) if f.startswith("sex only: disclosed, stated")] == []


def test_an_extension_knows_the_public_facts_of_its_base(tmp_path: Path) -> None:
    """What a base release discloses by its facts and exact counts together must stay disclosed when it is extended."""
    facts = {"homes": (2,), "dormitories": (1, 0), "barracks": (0, 1, 0)}
    attacked.write_leaves(tmp_path / "leaves.csv", TOY_BLOCKS, facts)
    people = [line for line in PEOPLE if "home" in line or line.startswith("geocode")]
    rows = [*people, "111,dormitory,female,18_64,9", "112,barracks,male,65_plus,9"]
    (tmp_path / "plain.csv").write_text("\n".join(rows) + "\n")
    run = attacked.write_run(
        tmp_path,
        "plain",
        schema="toy",
        invariants=without_exact(shipped("invariants", "toy"))
        + attacked.exact("homes", "block", "home_or_not"),
        body=body_of("toy"),
        tree=TOY,
    )
    attacker, said = attacked.attacker_of(run)
    dwelling = next(row for row in said["secrets"] if row["name"] == "dwelling only")
    assert dwelling["status"] == "disclosed"  # no block has dormitories and barracks
    assert [f for f in beaten(attacker, said) if "stated" in f] == []
    base = release(run, tmp_path / "base")
    schema = shipped("schemas", "toy").replace('name = "toy"', 'name = "jobs"', 1)
    more = attacked.write_run(
        tmp_path,
        "more",
        schema=schema + '\n[[attribute]]\nname = "job"\nlabels = ["none", "some"]\n',
        invariants=NOTHING.replace('"toy"', '"jobs"'),
        body=body_of("toy", "1") + "\n[base]\n",
        tree=TOY,
    )
    attacker, said = attacked.attacker_of(more, base)
    assert [f for f in beaten(attacker, said) if "stated" in f] == []
