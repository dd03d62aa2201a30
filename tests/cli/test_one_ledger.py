"""Noise of three laws, a choice and group sizes of one data set: one ledger, one statement, verified everywhere."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.choices import LEDGER, SITES, write_candidates
from tests.helpers.commands import pgsr
from tests.helpers.compositions import loss_within
from topdown.privacy.ledger import read_ledger

GROUPS = "unit,region,size\n" + "".join(f"{n},1{1 + n % 3},{1 + n % 4}\n" for n in range(30))
REGIONS = "region,parent,level\n1,,land\n" + "".join(f"1{n},1,county\n" for n in (1, 2, 3))
TOP = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(topdown, toy) -> Path:
    """Write the toy census about persons who are there or not, with limits of epsilon at a delta."""
    text = (TOP / "invariants" / "toy.toml").read_text()
    own = "[[".join(part for part in text.split("[[") if not part.startswith("exact"))

    def edit(run: str) -> str:
        lines = [line for line in run.splitlines() if not line.startswith("rho_limit")]
        run = (
            "\n".join(lines)
            .replace('"bounded"', '"add_remove"')
            .replace('"toy"\nsettings', '"own.toml"\nsettings')
        )
        return run.replace("[ledger]\n", '[ledger]\nepsilon_limit = "30"\ndelta_limit = "1/1000"\n') + "\n"

    Path("toy").mkdir()
    Path("toy/own.toml").write_text(own)
    write_candidates()
    return toy(Path("toy"), edit)


def other(run: Path, name: str, *changes: tuple[str, str]) -> Path:
    """Write a run file of another release of the same data set."""
    text = run.read_text()
    for old, new in (("persons-r1", name), *changes):
        assert old in text, old
        text = text.replace(old, new, 1)
    path = run.with_name(f"{name}.toml")
    path.write_text(text)
    return path


@pytest.mark.slow  # tests/unit/privacy/test_one_ledger.py compares the same sums with all pairs
def test_everything_released_is_one_number(topdown, run, check):
    """Losses in several books would each be stated as everything; added up, most of the budget would be wasted."""
    budget = 'rho = "2"'
    geometric = other(run, "two", (budget, 'epsilon = "1"'), ("discrete_gaussian", "geometric"))
    pair = 'epsilon = "2"\ndelta = "1/100000"'
    optimal = other(run, "three", (budget, pair), ("discrete_gaussian", "optimal"))
    for path in (run, geometric, optimal):
        said = topdown("generate", path, "--out", path.stem, "--yes", "--workers", 1).ok()
    said = topdown("select", "sites", run, *SITES, "--out", "offices").ok()
    Path("toy/groups.csv").write_text(GROUPS)
    Path("toy/regions.csv").write_text(REGIONS)
    ledger = read_ledger(LEDGER).opened.ledger
    named = ("--data-set", "persons", "--ledger", LEDGER, "--ledger-id", ledger)
    sizes = ("--groups", "toy/groups.csv", "--hierarchy", "toy/regions.csv", "--sizes", 6, "--epsilon", "1/2")
    limits = ("--epsilon-limit", "30", "--delta-limit", "1/1000")
    released = ("release", *sizes, *named, *limits, "--yes", "--out", "sizes")
    pgsr(*released).ok()

    said = topdown("audit", "--ledger", LEDGER, "--json").ok()
    document = said.document
    check(document)
    kinds = {"rho": "2", "epsilon": "2", "epsilon_delta": "2"}  # of the choice 1/2, of group sizes 1/2
    assert (document["charged"], document["charged_delta"], document["newest"]) == (kinds, "1/100000", True)
    assert len(document["releases"]) == 5
    (row,) = document["secrets"]  # group sizes say nothing of a replaced person
    assert (row["kind"], "number of groups" in row["sentence"]) == ("presence", True)
    ((delta, box),) = row["epsilon"].items()
    assert Fraction(delta) == Fraction(1, 100_000) + Fraction(1, 10**10)
    own = loss_within([charge for _, charge in read_ledger(LEDGER).charges], delta, box)
    assert float(own.guess.lower) - 1e-3 <= float(row["best_guess"][1]) <= float(own.guess.upper) + 2e-3
    apart = topdown("audit", run.stem, "--json").document["secrets"][0]
    assert Fraction(box[1]) < Fraction(apart["epsilon"]["1e-10"][1]) + 1 + 2 + Fraction(1, 2) + Fraction(1, 2)
    text = topdown("audit", "--ledger", LEDGER)
    assert (text.code, "a bound" in text.out, "(choice)" in text.out) == (0, True, True)
    shown = topdown("ledger", "show", run)
    assert f"at most {row['right_in_100']} times in 100" in shown.out

    # the last certificate with a statement of everything, and every folder, by the verifiers
    for folder in (run.stem, "two", "three", "offices"):
        topdown("verify", folder).ok()
    pgsr("verify", "sizes").ok()
    stated = json.loads(Path("offices/certificate.json").read_text())["everything_released"]
    assert set(stated["charged"]) == {"rho", "epsilon", "epsilon_delta"}
    of_sizes = json.loads(Path("sizes/certificate.json").read_text())["everything_released"]
    assert (of_sizes["charged"], of_sizes["secrets"]) == (document["charged"], document["secrets"])

    # a limit below what all of it costs is refused before anything is charged
    less = ("--epsilon-limit", "3", "--delta-limit", "1/1000", "--by", "A. Person", "--reason", "less")
    groups = ("--groups", "toy/groups.csv")
    pgsr("ledger", "limit", *groups, *named, *less).ok()
    before = LEDGER.read_bytes()
    more = ("--epsilon-limit", "3", "--delta-limit", "1/1000", "--again", "--yes", "--out", "x")
    assert pgsr(*released[: -len(limits) - 3], *more).refusal == "B004"
    assert LEDGER.read_bytes() == before
