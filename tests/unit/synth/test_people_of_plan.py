"""`topdown synth RUN.toml`: people for an office's own areas, whom its own rules allow."""

import csv
import gzip
from pathlib import Path

import pytest

import topdown
from tests.helpers import policies
from tests.helpers.failing import fails_with
from topdown.errors import TopdownError

FAST = ("blocks, mixed", "caps", "tables, nested, caps inside")


@pytest.mark.parametrize(
    "policy",
    [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in policies.POLICIES],
)
def test_people_keep_the_rules_of_every_policy(tmp_path: Path, policy: str) -> None:
    """A simulation of a plan would be refused if people lived where a rule lets nobody live."""
    census = policies.make_census(tmp_path, 4, policies.POLICIES[policy], n_blocks=20)
    policies.write_records(tmp_path, census)
    made = topdown.synth(tmp_path / "made", run=tmp_path / "run.toml", people=300)
    assert made.nodes[-1] == ("block", 20)
    assert 150 < made.n_people < 600  # bounds of a policy may ask for more people, or leave room for fewer
    assert topdown.simulate(tmp_path / "run.toml", made.records).replicates == 1


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the run file of a made-up town."""
    return topdown.synth(tmp_path / "town", schema="toy", people=500).run_file


def rows_of(path: Path) -> list[list[str]]:
    """Return the rows of a packed CSV, names first."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_the_seed_decides_and_larger_places_get_more_people(tmp_path: Path, run: Path) -> None:
    """Another machine must make the same people; people drawn alike everywhere would say nothing about large areas."""
    one, same, other = (
        topdown.synth(tmp_path / name, run=run, people=5000, seed=seed)
        for name, seed in (("one", 1), ("same", 1), ("other", 2))
    )
    assert one.records.read_bytes() == same.records.read_bytes() != other.records.read_bytes()
    people: dict[str, int] = {}
    for geocode, *_, count in rows_of(one.records)[1:]:
        people[geocode] = people.get(geocode, 0) + int(count)
    assert sum(people.values()) == one.n_people
    homes = {row[0]: sum(map(int, row[1:])) for row in rows_of(one.leaves)[1:]}
    largest = sorted(homes, key=lambda code: -homes[code])
    half = len(largest) // 2
    assert sum(people.get(c, 0) for c in largest[:half]) > sum(people.get(c, 0) for c in largest[half:])


def test_the_table_has_the_form_of_the_records(tmp_path: Path, run: Path) -> None:
    """An office whose columns are called otherwise would have to rename them before it can simulate."""
    old, new = "count = true", 'columns = { geocode = "place" }\ncount = false'
    text = run.read_text()
    assert old in text
    run.write_text(text.replace(old, new))
    made = topdown.synth(tmp_path / "made", run=run, people=40)
    head, *rows = rows_of(made.records)
    assert head == ["place", "dwelling", "sex", "age"]
    assert len(rows) == made.n_rows == made.n_people
    assert topdown.simulate(run, made.records).replicates == 1


def test_the_records_of_the_run_are_never_replaced(run: Path) -> None:
    """With --force beside the run file, confidential records would be overwritten by made-up ones."""
    before = (run.parent / "persons.csv.gz").read_bytes()
    with fails_with("C132"):
        topdown.synth(run.parent, run=run, people=40, force=True)
    assert (run.parent / "persons.csv.gz").read_bytes() == before


def test_what_the_run_file_says_is_not_said_again(tmp_path: Path, run: Path) -> None:
    """Two schemas in one call would leave open which one the people have."""
    with fails_with("C005"):
        topdown.synth(tmp_path / "made", run=run, schema="toy")


def test_a_plan_that_extends_a_release_is_refused(tmp_path: Path) -> None:
    """Its people are those of the base release, which nobody can make up."""
    topdown.synth(tmp_path / "land", schema="dhc_persons", people=400)
    with pytest.raises(TopdownError) as refused:
        topdown.synth(tmp_path / "made", run=tmp_path / "land" / "run.toml", people=40)
    assert refused.value.code in {"C065", "C090", "C091", "C097"}
