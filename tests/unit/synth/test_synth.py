"""Made-up censuses are accepted as input, for every schema, and are the same every time."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from topdown.errors import ConfigError
from topdown.measure import load_records
from topdown.plan import prepare
from topdown.practice.synth import SynthResult, synth


def tables(folder: Path) -> list[str]:
    return [
        gzip.decompress((folder / f"{name}.csv.gz").read_bytes()).decode() for name in ("persons", "blocks")
    ]


def accept(made: SynthResult) -> None:
    """Run the reader of confidential records, which refuses whatever contradicts schema or invariants."""
    assert made.run_file is not None
    context = prepare(made.run_file).context
    assert made.n_people == load_records(made.records, context).open_counts().whole().n_records
    assert made.nodes == tuple((level.name, len(level)) for level in context.geography.levels)


@pytest.mark.parametrize(("schema", "people"), [("pl94", 1), ("pl94", 30_000), ("toy", 7), ("toy", 3_000)])
def test_bundled_schemas_are_accepted(schema: str, people: int, tmp_path: Path) -> None:
    """`topdown generate` would refuse the census that `topdown synth` wrote."""
    made = synth(tmp_path, people=people, schema=schema, seed=5)
    assert people == made.n_people
    accept(made)


@pytest.mark.parametrize("people", [1, 12, 2_000])
def test_a_third_schema_is_accepted(people: int, shop: dict[str, str], tmp_path: Path) -> None:
    """A schema file of one's own (two bounds on a column, shared columns, paths) would not work."""
    made = synth(tmp_path / "out", people=people, **shop)
    assert people == made.n_people
    accept(made)


def test_facilities_and_dwellings_of_a_third_schema_occur(shop: dict[str, str], tmp_path: Path) -> None:
    """The constraints would hold only because nothing they speak of exists."""
    made = synth(tmp_path / "out", people=20_000, **shop)
    assert made.run_file is not None
    facts = prepare(made.run_file).context.facts.columns
    assert {"houses", "moorings", "hostels", "wards"} == {
        name for name, values in facts.items() if values.any()
    }


def test_without_settings_some_are_drafted(tmp_path: Path, shop: dict[str, str]) -> None:
    """A schema that has no settings yet could not be tried."""
    made = synth(tmp_path / "out", people=500, schema=shop["schema"], levels=("world", "place"))
    assert tuple(name for name, _ in made.nodes) == ("world", "place")
    assert prepare(made.run_file).context.geography.level_names == ("world", "place")
    assert (tmp_path / "out" / "settings.toml").is_file()


def test_same_arguments_same_bytes(tmp_path: Path) -> None:
    """Checksums of the sample data would change from run to run."""
    for name in ("a", "b"):
        synth(tmp_path / name, people=5_000, seed=9)
    for file in ("persons.csv.gz", "blocks.csv.gz", "run.toml"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert (tmp_path / "a" / "persons.csv.gz").read_bytes()[4:8] == bytes(4)  # no time of writing


def test_another_seed_another_census(tmp_path: Path) -> None:
    """The seed would be ignored."""
    for seed in (1, 2):
        synth(tmp_path / str(seed), people=2_000, seed=seed)
    assert tables(tmp_path / "1")[0] != tables(tmp_path / "2")[0]


def test_geocodes_are_census_like_and_fictitious(tmp_path: Path) -> None:
    """Somebody could take a made-up block for a real one, or lose its digits."""
    synth(tmp_path, people=20_000)
    codes = [line.split(",")[0] for line in tables(tmp_path)[1].splitlines()[1:]]
    assert {(15, "99", "001")} == {(len(code), code[:2], code[2:5]) for code in codes}
    assert sorted(set(codes)) == codes


def test_facilities_of_one_site_share_a_block(census: Path) -> None:
    """Dormitories would never stand together, and lower bounds would never exceed 1."""
    facts = prepare(census / "run.toml").context.facts.columns
    assert facts["gq_college"].max() >= 2
    assert np.all([facts[name].any() for name in facts])


def test_age_rules_of_facilities(census: Path) -> None:
    """People under 18 would live in nursing homes, or grown-ups fill juvenile quarters."""
    rows = [line.split(",") for line in tables(census)[0].splitlines()[1:]]
    young = {kind: [0, 0] for kind in ("nursing", "juvenile", "college")}
    for _, kind, age, _, _, count in rows:
        if kind in young:
            young[kind][age == "under_18"] += int(count)
    assert young["nursing"][1] == 0 < young["nursing"][0]
    assert young["juvenile"][1] > young["juvenile"][0]
    assert young["college"][1] < 0.05 * young["college"][0]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"people": 0}, "C065"),
        ({"people": 2**31}, "C065"),
        ({"seed": -1}, "C065"),
        ({"levels": ("state",)}, "C066"),
        ({"levels": ("county", "county")}, "C066"),
        ({"levels": ("block", "tract")}, "C062"),
    ],
)
def test_impossible_arguments_are_refused(wrong: dict[str, object], code: str, tmp_path: Path) -> None:
    """A user would see a traceback, or half a census would be written."""
    with pytest.raises(ConfigError) as error:
        synth(tmp_path / "out", **wrong)  # type: ignore[arg-type]
    assert code == error.value.code
    assert not (tmp_path / "out").exists()
