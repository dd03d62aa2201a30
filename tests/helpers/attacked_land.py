"""The toy land that is attacked: four blocks in two counties, its release, and an extension of that."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path

from tests.helpers import attacked
from tests.helpers.attacked import TOY_BLOCKS, shipped, without_exact
from tests.helpers.commands import topdown
from tests.helpers.extension import INVARIANTS, LEVEL, SCHEMA

MORE = "more"
FACTS = {
    "homes": (2,),
    "dormitories": (1, 1, 0),
    "barracks": (1, 0),
    "colleges": (1, 0),
    "nurse_homes": (0, 1, 0),
    "armies": (1, 0),
    "navies": (0,),
}
SEXES = ("female", "male")
PEOPLE = (
    "geocode,dwelling,sex,age,count",
    *(f"{c},home,{s},{a},6" for c, s, a in product(TOY_BLOCKS, SEXES, ("0_17", "18_64", "65_plus"))),
    "111,dormitory,female,18_64,9",
    "112,dormitory,male,65_plus,9",
    "111,barracks,male,18_64,9",
)
YEARS = ("10_17", "30_64", "65_79")
IN_DETAIL = (
    "geocode,kind,job,sex,years,count",
    *(f"{c},with_others,none,{s},{a},6" for c, s, a in product(TOY_BLOCKS, SEXES, YEARS)),
    "111,college,none,female,18_29,9",
    "112,nurses,none,male,80_plus,9",
    "111,army,none,male,18_29,9",
)
BODY = '[budget]\nrho = "1"\n\n[base.map]\nsex = "sex"\n' + "".join(
    LEVEL.format(name=name, share=share)
    for name, share in (("land", "1/4"), ("county", "1/4"), ("block", "1/2"))
)


@dataclass(frozen=True)
class Extended:
    """Run file and folder of a base release, and the run file of its extension."""

    run: Path
    base: Path
    more: Path


def toy_run(
    folder: Path, name: str, relation: str, mechanism: str = "discrete_gaussian", invariants: str = ""
) -> Path:
    """Write the toy land under the shipped invariants, or others, as far as the relation allows."""
    attacked.write_leaves(folder / "leaves.csv", TOY_BLOCKS, FACTS)
    (folder / f"{name}.csv").write_text("\n".join(PEOPLE) + "\n")
    text = invariants or shipped("invariants", "toy")
    text = text if relation == "bounded" else without_exact(text)
    return attacked.write_run(folder, name, invariants=text, neighbours=relation, mechanism=mechanism)


def release(run: Path, out: Path, *more: object) -> Path:
    """Join or make the ledger, then make a release, or with `--base` an extension."""
    assert topdown("ledger", "new", run).code == 0
    said = topdown("extend" if more else "generate", run, *more, "--out", out, "--yes", "--workers", 1)
    assert said.code == 0, said.err
    return out


def make_extended(folder: Path, relation: str, mechanism: str = "discrete_gaussian") -> Extended:
    """Release the toy land and write the run file of an extension by kinds, jobs and years."""
    run = toy_run(folder, "plain", relation, mechanism)
    base = release(run, folder / "base")
    (folder / f"{MORE}.csv").write_text("\n".join(IN_DETAIL) + "\n")
    law = {"neighbours": relation, "mechanism": mechanism}
    more = attacked.write_run(folder, MORE, schema=SCHEMA, invariants=INVARIANTS, body=BODY, **law)
    return Extended(run, base, more)
