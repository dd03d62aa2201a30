"""Releases of every kind, made by the commands from made-up records: what `digests.json` holds the files of."""

import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from pgsr.cli import main as pgsr_main
from tests.helpers.attacked import write_run
from tests.helpers.commands import topdown
from tests.helpers.extension import write_land
from tests.helpers.odd_plans import write_odd_run
from tests.helpers.policies import FEW, FEWER_WOMEN, POLICIES, TOY, inexact_toy
from tests.pinned.seeded import in_sections, seeded

Edit = Callable[[str], str]
SEED = 26
ODD = (2000, 2001, 2002, 2004, 8000, 8003, 8005, 8007)  # some are refused
QUIET = ("--yes", "--quiet", "--workers", "1")
TREE = '[estimates]\ntargets = "tree"\ncoverage = "9/10"\n\n[budget]'
ESTIMATES = '[estimates]\ncoverage = "19/20"\n\n[budget]'
SOFT = {"no more women": FEWER_WOMEN, "few children": FEW}
MARGIN_FIRST = (
    '{ queries = ["sex * age", "detailed"], table = "detailed" }',
    '{ table = "sex * age" }, { table = "detailed" }',
)
GOALS = 'type = "topdown.goals"\nversion = 1\n\n[[goal]]\nlevel = "county"\nquery = "total"\ngoal = "1/2"\n'
LIST = "candidate,geocode\nNorth,110\nNorth,111\nSouth,12\nEast,131\nEast,132\nWest,113\n"
GROUP_SIZES = """\
groups = "groups.csv"
hierarchy = "regions.csv"
sizes = 4
epsilon = "1/2"
data_set = "groups"
rho_limit = "100"
limit_reason = "made up"
"""
MECHANISMS = (
    "M_H^r", "M_H^dp", "M_c^r", "M_c^dp", "M_c^ch", "TopDown", "tracking", "posterior", "posterior public",
)  # fmt: skip


def run(*arguments: object) -> None:
    """Run a command of topdown; it must succeed."""
    said = topdown(*arguments)
    assert said.code == 0, (arguments, said.out, said.err)


def pgsr(*arguments: object) -> None:
    """Run a command of pgsr; it must succeed."""
    assert pgsr_main([str(argument) for argument in arguments]) == 0, arguments


def write_census(folder: Path, more: str = "", edit: Edit = str, **settings: str) -> Path:
    """Write a toy census that meets every policy of the tests, its run file and its ledger.

    Args:
        more: invariants beside the bundled ones.
        edit: changes the run file.
        settings: `neighbours`, `mechanism`.
    """
    folder.mkdir(parents=True)
    draw = np.random.default_rng(SEED)
    leaves, people = ["geocode,homes,dormitories,barracks"], ["geocode,dwelling,sex,age"]
    for code in [f"1{county}{block}" for county in (1, 2, 3) for block in range(4)]:
        homes = 0 if code[2] == "3" else int(draw.integers(3, 9))
        dormitories, barracks = int(draw.integers(0, 2)) * (homes > 0), int(draw.integers(0, 2))
        leaves.append(f"{code},{homes},{dormitories},{barracks}")
        kinds = [("home", "male", "18_64")] * homes + [("home", "female", "18_64")] * (homes // 2)
        kinds += [("home", "male", "0_17")] * int(draw.integers(0, 4)) * (homes > 0)
        kinds += [("home", "female", "65_plus")] * (homes // 3)
        kinds += [("dormitory", "female", "18_64"), ("dormitory", "male", "18_64")] * dormitories
        kinds += [("barracks", "male", "18_64")] * (3 * barracks)
        people += [f"{code},{','.join(kind)}" for kind in kinds]
    (folder / "leaves.csv").write_text("\n".join(leaves) + "\n")
    (folder / "people.csv").write_text("\n".join(people) + "\n")
    inexact = settings.get("neighbours") == "add_remove"
    text = inexact_toy() if inexact else TOY.read_text()
    made = write_run(folder, "people", invariants=text + more, **settings)
    made.write_text(edit(made.read_text().replace("[input]\n", "[input]\ncount = false\n")))
    run("ledger", "new", made)
    return made


def generate(folder: Path, more: str = "", edit: Edit = str, **settings: str) -> Path:
    """Make a toy release; return its run file."""
    made = write_census(folder / "in", more, edit, **settings)
    run("generate", made, "--out", folder / "release", "--csv", *QUIET)
    return made


def plain(folder: Path) -> None:
    """Make releases of the toy census by each law of noise and both relations, and the tables of one."""
    generate(folder / "gaussian")
    generate(folder / "geometric", mechanism="geometric")
    generate(folder / "optimal", mechanism="optimal", edit=lambda t: t.replace("1/1000", "1/100"))
    generate(folder / "add_remove", neighbours="add_remove")
    run("tables", folder / "gaussian" / "release", "--out", folder / "tables", "--coverage", "9/10")


def policies(folder: Path) -> None:
    """Make a release under each policy of the tests."""
    for name, text in (POLICIES | SOFT).items():
        generate(folder / name.replace(" ", "_").replace(",", ""), text)


def estimates(folder: Path) -> None:
    """Make releases with the tree estimate, with intervals, and with coarse tables first; solve one in other ways."""
    generate(folder / "tree", edit=lambda text: text.replace("[budget]", TREE))
    generate(folder / "intervals", edit=lambda text: text.replace("[budget]", ESTIMATES))
    generate(folder / "margin_first", edit=lambda text: text.replace(*MARGIN_FIRST))
    base = folder / "margin_first" / "release"
    asked = ("--targets", "tree", "--coverage", "19/20", "--name", "tree")
    run("resolve", base, "--out", folder / "resolved", *asked, "--quiet", "--workers", "1")


def tuned(folder: Path) -> None:
    """Make the release of a run that was tuned for the tree estimate."""
    run("generate", tuned_run(folder), "--out", folder / "release", *QUIET)


def tuned_run(folder: Path) -> Path:
    """Write a toy census with the tree estimate and tune its run; return the run file."""
    made = write_census(folder / "tree", edit=lambda text: text.replace("[budget]", TREE))
    goals, other = folder / "tree" / "goals.toml", folder / "tree" / "tuned.toml"
    goals.write_text(GOALS)
    run("tune", made, "--out", other, "--goals", goals)
    return other


def sections(folder: Path) -> None:
    """Make releases of several sections, one with an extension."""
    with in_sections():
        generate(folder / "tables", POLICIES["tables, nested, caps inside"])
        extend(folder / "extended", 3)


def extend(folder: Path, seed: int, *, by_job: bool = False) -> None:
    """Make a release and extend it."""
    land = write_land(folder / "in", seed, n_blocks=8, by_job=by_job)
    run("ledger", "new", folder / "in" / "base.toml")
    run("ledger", "new", land.run)
    run("generate", folder / "in" / "base.toml", "--out", folder / "base", *QUIET)
    run("extend", land.run, "--base", folder / "base", "--out", folder / "more", "--csv", *QUIET)


def extensions(folder: Path) -> None:
    """Make releases of extensions, plain and with bounds inside bounds."""
    extend(folder / "kinds", 3)
    extend(folder / "jobs", 5, by_job=True)


def pl94(folder: Path) -> None:
    """Make a census of schema pl94 and its release under the bundled policy and settings."""
    run("synth", "--out", folder / "in", "--people", "150")
    run("ledger", "new", folder / "in" / "run.toml")
    run("generate", folder / "in" / "run.toml", "--out", folder / "release", *QUIET)


def practice(folder: Path) -> None:
    """Make two simulated replicates of the toy run, a tuned run file, and a noise law."""
    made = write_census(folder / "in")
    told = ("--truth-is-public", "nobody in it is real", "--replicates", "2", "--keep", "--workers", "1")
    run("simulate", made, "--truth", folder / "in" / "people.csv", *told, "--out", folder / "simulated")
    tuned_run(folder)
    run("noise", "--epsilon", "1", "--delta", "1/1000", "--out", folder / "law.json")


def odd(folder: Path) -> None:
    """Make releases of odd plans; a refused one leaves no folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in ODD:
        made = write_odd_run(folder / f"in_{seed}", seed, wings=seed >= 8000)
        if topdown("ledger", "new", made).code == 0:
            topdown("generate", made, "--out", folder / f"{seed}", *QUIET)


def choices(folder: Path) -> None:
    """Make one choice of each kind."""
    made = write_census(
        folder / "in", edit=lambda text: text.replace('rho_limit = "100"', 'rho_limit = "1000"')
    )
    offices = folder / "offices.csv"
    offices.write_text(LIST)
    listed = ("--candidates", offices, "--epsilon", "1/2", "--yes")
    run("select", "sites", made, *listed, "--k", 2, "--out", folder / "sites")
    run("select", "order", made, *listed, "--out", folder / "order")
    run("select", "order", made, *listed, "--most-records", "500", "--out", folder / "by_threshold")
    asked = ("--query", "sex * age", "--query", "dwelling", "--more-than", "3", "--epsilon", "1", "--yes")
    run("select", "frequent", made, *asked, "--out", folder / "frequent")


def group_sizes(folder: Path) -> None:
    """Release made-up group sizes by every mechanism, one with known totals of regions, and simulate one."""
    pgsr("synth", "--shape", "tiny", "--out", folder / "in", "--quiet")
    pgsr("ledger", "new", folder / "in" / "run.toml", "--quiet")
    draw = np.random.default_rng(SEED)
    rows = [f"{region},{size},{draw.integers(0, 5)}" for region in ("GA", "NY") for size in (1, 2, 3, 4)]
    (folder / "groups.csv").write_text("\n".join(["region,size,count", *rows]) + "\n")
    regions = "region,parent,level\nUS,,nation\nGA,US,state\nNY,US,state\n"
    (folder / "regions.csv").write_text(regions)
    (folder / "run.toml").write_text(GROUP_SIZES)
    pgsr("ledger", "new", folder / "run.toml", "--quiet")
    of_region = {
        region: sum(int(row.split(",")[2]) for row in rows if region in row) for region in ("GA", "NY")
    }
    totals = "".join(f"{region},{n}\n" for region, n in of_region.items())
    (folder / "totals.csv").write_text("region,groups\n" + totals)
    known = ("--mechanism", "posterior", "--public", folder / "totals.csv")
    asked = {name: ("--mechanism", name) for name in MECHANISMS} | {"posterior public": known}
    for name, mechanism in asked.items():
        out = folder / re.sub(r"\W", "_", name)
        pgsr("release", folder / "run.toml", *mechanism, "--again", "--yes", "--quiet", "--out", out)
    pgsr("release", folder / "in" / "run.toml", "--out", folder / "tiny", "--yes", "--quiet")
    pgsr("microdata", folder / "tiny", "--out", folder / "groups.parquet", "--quiet")
    pgsr("release", folder / "in" / "run.toml", "--simulate", "7", "--out", folder / "simulated", "--quiet")


SLOW = ("tuned", "pl94")  # most of a minute each: made when asked for by name, and by `make test-slow`
ALL = (plain, policies, estimates, tuned, sections, extensions, pl94, practice, odd, choices, group_sizes)
KINDS = {kind.__name__: kind for kind in ALL}


def make(kind: str, folder: Path) -> None:
    """Make the releases of a kind below an empty folder, the same ones each time."""
    with seeded(kind):
        KINDS[kind](folder)


@cache
def made_once(kind: str) -> Path:
    """Make the releases of a kind once for all tests of a process, which must not change them; return their folder."""
    folder = Path(tempfile.mkdtemp(prefix=f"{kind}-"))
    make(kind, folder)
    return folder
