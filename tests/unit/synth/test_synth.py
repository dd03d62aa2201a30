"""Made-up censuses: accepted for every schema, the same every time, shaped like real blocks; the bundled sample."""

import gzip
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.made_up import Origin, origin_of
from topdown.measure import load_records
from topdown.plan import prepare
from topdown.practice.synth import RepeatableRandom, SynthResult, apportion, synth
from topdown.resources import bundled_root


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


@pytest.mark.parametrize(
    ("schema", "people"),
    [("pl94", 1), ("pl94", 30_000), ("toy", 7), ("toy", 3_000), ("shop", 1), ("shop", 12), ("shop", 2_000)],
)
def test_what_is_made_is_accepted(schema: str, people: int, shop: dict[str, str], tmp_path: Path) -> None:
    """`topdown generate` would refuse what `topdown synth` wrote, of a schema that ships or of one's own."""
    of: dict[str, object] = dict(shop) if schema == "shop" else {"schema": schema, "seed": 5}
    made = synth(tmp_path / "out", people=people, **of)
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
    with fails_with(code, ConfigError):
        synth(tmp_path / "out", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


RHODE_ISLAND = Path(__file__).resolve().parents[4] / "shared" / "data" / "rhode_island_2010"

# figure: (real Rhode Island 2010, least and most of a made-up census)
FIGURES = {
    "people per populated block": (59.66, 54, 66),
    "share of empty blocks": (0.299, 0.27, 0.32),
    "largest group share": (0.862, 0.79, 0.88),
    "nonzero of 16 coarse cells": (4.352, 4.0, 4.8),
    "cells per block": (6.015, 4.9, 7.0),
    "dissimilarity of block groups": (0.214, 0.16, 0.26),
    "median block": (36, 30, 42),
    "90th percentile of blocks": (126, 110, 155),
    "99th percentile of blocks": (410.9, 330, 520),
    "household": (0.9646, 0.955, 0.975),
    "voting age": (0.7872, 0.76, 0.81),
    "hispanic": (0.1241, 0.10, 0.15),
    "white alone": (0.8220, 0.79, 0.85),
    "people per housing unit": (2.337, 2.2, 2.5),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_made_up_blocks_look_real(
    figure: str, census: Path, shape_of: Callable[[Path], dict[str, float]]
) -> None:
    """A demo or benchmark on made-up data would be easier or harder than a real census."""
    _, least, most = FIGURES[figure]
    assert least <= shape_of(census)[figure] <= most


@pytest.mark.skipif(
    not RHODE_ISLAND.is_dir(), reason="the real blocks of Rhode Island are not beside the project"
)
def test_stated_figures_are_the_real_ones(shape_of: Callable[[Path], dict[str, float]]) -> None:
    """The bands above would be drawn around wrong numbers."""
    real = shape_of(RHODE_ISLAND)
    assert {name: pytest.approx(stated, rel=2e-3) for name, (stated, _, _) in FIGURES.items()} == real


SAMPLE = bundled_root() / "sample_data"


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("again")
    synth(folder, people=50_000, schema="pl94", seed=2, release_id="demo")
    return folder


@pytest.mark.parametrize("name", ["persons.csv.gz", "blocks.csv.gz", "run.toml"])
def test_the_sample_is_regenerated(name: str, again: Path) -> None:
    """The generator would have changed without new sample data, or the sample or its settings been edited by hand."""
    made, bundled = ((folder / name).read_bytes() for folder in (again, SAMPLE))
    assert made == bundled or gzip.decompress(made) == gzip.decompress(bundled)


def test_checksums() -> None:
    """A damaged download would go unnoticed."""
    lines = (SAMPLE / "checksums.txt").read_text(encoding="utf-8").splitlines()
    stated = {name: digest for digest, name in (line.split("  ") for line in lines)}
    found = {name: hashlib.sha256((SAMPLE / name).read_bytes()).hexdigest() for name in stated}
    assert stated == found
    assert {"persons.csv.gz", "persons.csv.gz.made-up.json", "blocks.csv.gz", "run.toml"} == set(stated)


def test_the_sample_is_marked_as_made_up() -> None:
    """A sample that no simulation takes leaves newcomers without anything to simulate on."""
    digest = hashlib.sha256((SAMPLE / "persons.csv.gz").read_bytes()).hexdigest()
    expected = Origin("made_up", "persons.csv.gz", digest, generator="topdown synth", seed=2)
    assert expected == origin_of(SAMPLE / "persons.csv.gz")


def test_sample_is_valid_small_and_as_described() -> None:
    """The demo would be refused, take too long, or the package grow."""
    prepared = prepare(SAMPLE / "run.toml")
    records = load_records(prepared.records_path, prepared.context).open_counts().whole()
    sizes = {level.name: len(level) for level in prepared.context.geography.levels}
    assert (records.n_records, sizes["state"], sizes["county"], sizes["block"]) == (50_000, 1, 1, 1139)
    assert sum(level.n_numbers for level in prepared.plan.levels) < 3_000_000
    assert sum(file.stat().st_size for file in SAMPLE.iterdir()) < 200_000
    assert prepared.plan.release.id == "demo"


def test_first_numbers_are_frozen() -> None:
    """Sample data would change with a library, and every checksum with them."""
    stream = RepeatableRandom(1, "test")
    expected = [0.17112918500, 0.45403000784, 0.67438409278]
    assert pytest.approx(stream.uniform(3).tolist(), abs=1e-10) == expected


def test_names_and_seeds_separate_streams() -> None:
    """Two parts of the generator would draw the same numbers."""
    first = [RepeatableRandom(seed, name).uniform(1)[0] for seed in (0, 1, 2) for name in ("a", "b", "")]
    assert len(first) == len(set(first))


def test_normals_are_standard() -> None:
    """Spreads in profiles would not mean what they say."""
    z = RepeatableRandom(1, "normal").normal(100_000)
    assert pytest.approx([z.mean(), z.std()], abs=0.015) == [0, 1]
    assert pytest.approx(float((np.abs(z) < 2).mean()), abs=0.004) == 0.9545


def test_choose_follows_weights_and_never_takes_the_impossible() -> None:
    """Shares of labels would be off, or a structural zero be drawn."""
    with np.errstate(divide="ignore"):
        weights = np.log(np.array([[1.0, 0.0, 3.0, 0.0], [0.0, 1.0, 0.0, 0.0]]))
    row = np.repeat([0, 1], 40_000)
    value = RepeatableRandom(1, "choose").choose(weights, row)
    shares = [np.bincount(value[row == r], minlength=4) / 40_000 for r in (0, 1)]
    assert pytest.approx(shares[0].tolist(), abs=0.01) == [0.25, 0, 0.75, 0]
    assert shares[1].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [(10, [1.0, 1.0, 2.0], [3, 2, 5]), (0, [1.0], [0]), (3, [0.0, 1.0], [0, 3]), (2, [1.0] * 3, [1, 1, 0])],
)
def test_apportion_by_hand(total: int, weights: list[float], parts: list[int]) -> None:
    """People would be lost or invented when they are spread over places."""
    assert parts == apportion(total, np.array(weights)).tolist()
