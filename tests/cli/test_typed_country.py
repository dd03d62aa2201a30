"""A country unlike the tutorial's goes from its files to a release with district tables, typed on a terminal."""

import csv
from pathlib import Path

import pytest

from tests.helpers.cantons import LEVELS, write_cantons
from tests.helpers.terminal import Session, typed

INIT = ("init", "--ask-labels", "--schema", "kantonia", "--levels", ",".join(LEVELS),
        "--records", "sqlite:office.db?table=people", "--leaves", "places.csv", "--out", "run.toml")  # fmt: skip
ANSWERS = ("", "M = male", "F = female", "", "public", "0 18 65", "public", "(blank) = inconnu", "", "public")


def rows(path: Path) -> list[dict[str, str]]:
    """Read a table of the release."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def done(said: Session) -> Session:
    """Return what a command showed, which must have refused nothing."""
    assert said.code == 0, said.text
    assert "error" not in said.text
    return said


@pytest.mark.slow
def test_every_step_is_typed_without_a_refusal(tmp_path):
    """An office with its own codes, ages in single years and a view met five refusals on the way."""
    write_cantons(tmp_path, 180_000)
    said = done(typed(tmp_path, *INIT, answers=ANSWERS))
    assert "commune: column commune_code, 62 areas" in said.text
    done(typed(tmp_path, "plan", "run.toml"))
    done(typed(tmp_path, "generate", "run.toml", "--out", "release", "--yes"))
    done(typed(tmp_path, "verify", "release"))
    done(typed(tmp_path, "tables", "release", "--names", "places.csv", "--out", "tables"))
    areas = ("--areas", "districts.csv", "--by", "sex,age", "--out", "districts")
    done(typed(tmp_path, "tables", "release", *areas))
    for level, n in (("canton", 8), ("commune", 62), ("village", 640)):
        found = rows(tmp_path / "tables" / "tables" / "sex" / f"{level}.csv")
        assert n == len({row["geocode"] for row in found})
        assert all(row["name"] for row in found)
    districts = rows(tmp_path / "districts" / "areas" / "sex_by_age.csv")
    assert {"Ouest", "Lac"} == {row["area"] for row in districts}
    assert all(int(row["low"]) <= int(row["count"]) <= int(row["high"]) for row in districts)
    assert {"0-17", "18-64", "65+"} == {row["age"] for row in districts}
