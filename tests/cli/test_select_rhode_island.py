"""Sites for a million people on real blocks: chosen in seconds, nearly as good as by looking at everybody."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from examples.rhode_island_offices import choose, covers_of, people_of_tracts, share

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "rhode_island_2010"


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
        "--registry",
        ".",
        "--out",
        "run.toml",
    )
    assert topdown(*made).code == 0
    private, best = choose(Path("run.toml"), DATA / "persons.csv.gz", Path())
    people = people_of_tracts(DATA / "persons.csv.gz")
    covers = covers_of(sorted(people))
    assert share(private, covers, people) > 0.95 * share(best, covers, people)
    assert topdown("verify", "offices").code == 0
    drawn = Path("offices.svg").read_text()
    ElementTree.fromstring(drawn)  # noqa: S314 our own
    assert drawn.count("#0b6e99") - drawn.count('fill="#0b6e99" fill-opacity') == len(private)
