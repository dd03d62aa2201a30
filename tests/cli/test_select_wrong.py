"""Wrong questions and candidates of `topdown select`: refused with one error, and nothing spent."""

from pathlib import Path

import pytest

from tests.helpers.choices import LEDGER, SITES, write_candidates
from topdown.privacy.ledger import read_ledger


@pytest.fixture
def run(topdown, toy) -> Path:
    """Write the toy census with candidates beside it; return the run file."""
    write_candidates()
    return toy(Path("toy"))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--k", 0), "C193"),
        (("--k", 5), "C193"),
        (("--epsilon", "0"), "C191"),
        (("--epsilon", "11"), "C191"),
        (("--epsilon", "nan"), "A001"),
        (("--epsilon", "1_0/20"), "A001"),
        (("--epsilon", "+1"), "A001"),
        (("--epsilon", "１"), "A001"),
        (("--k", "+1"), "C005"),
        (("--k", "1_0"), "C005"),
        (("--k", "１"), "C005"),
        (("--epsilon", "1/" + "3" * 60), "C191"),
        (("--per", "nowhere"), "C195"),
        (("--per", "block"), "C195"),
        (("--most", 0), "C193"),
        (("--radius", 3), "C194"),
        (("--radius", 3, "--centres", "centres.csv"), "C194"),
        (("--candidates", "places.csv"), "C194"),
        (("--candidates", "nowhere.csv"), "D001"),
        (("--most-records", 9), "C005"),
        (("--out", "toy"), "C132"),
    ],
)
def test_wrong_questions_spend_nothing(topdown, run, options, code):
    """What is accepted silently would be paid for and answer something else."""
    said = topdown("select", "sites", run, *SITES, "--out", "x", *options, "--json")
    assert (said.code, said.document["code"]) == (2, code)
    assert not read_ledger(LEDGER).intents
    assert not Path("x").exists()


@pytest.mark.parametrize(
    ("table", "code"),
    [
        ("candidate,geocode\nNorth,9999\n", "D062"),
        ("candidate,geocode,side\nNorth,1101,a\nNorth,1102,b\n", "D062"),
        ("candidate,geocode\n", "D003"),
        ("name,geocode\nNorth,1101\n", "D004"),
        ("candidate,geocode,note\nNorth,1101,x\n", "D040"),
        ("candidate,latitude,longitude\nNorth,141,-71\n", "D062"),
        ("candidate,latitude,longitude\nNorth,41,-71\nNorth,42,-71\n", "D062"),
        ("candidate,latitude,longitude\nNorth,0,0\n", "C192"),
    ],
)
def test_wrong_candidates_are_refused(topdown, run, table, code):
    """A geocode with a lost zero that is skipped leaves people without a site that covers them."""
    Path("bad.csv").write_text(table)
    more = ("--radius", 3, "--centres", "centres.csv") if "latitude" in table else ()
    more += ("--per", "side") if "side" in table else ()
    said = topdown(
        "select", "sites", run, *SITES, "--k", 1, "--out", "x", "--candidates", "bad.csv", *more, "--json"
    )
    assert (said.code, said.document["code"]) == (2, code)
    assert not read_ledger(LEDGER).intents
