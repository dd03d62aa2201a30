"""A country unlike the tutorial's goes from its files to a release with district tables, typed on a terminal."""

import csv
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import on_terminal

LEVELS = ("country", "canton", "commune", "village")
STATUS = ("célibataire", "marié", "veuf", "")
NAMES = ("Saint-Étienne", "Bälzers", "Château-d'Oex", "Ñandú", "Lœwe", "Åmål", "Český", "Tønder")
INIT = ("init", "--ask-labels", "--schema", "kantonia", "--levels", ",".join(LEVELS),
        "--records", "sqlite:office.db?table=people", "--leaves", "places.csv", "--out", "run.toml")  # fmt: skip
ANSWERS = ("", "M = male", "F = female", "", "public", "0 18 65", "public", "(blank) = inconnu", "", "public")


def write_cantons(
    folder: Path, people: int, villages: int = 640, communes: int = 62, cantons: int = 8
) -> None:
    """Write places.csv, office.db with a view `people`, and districts.csv; the same arguments give the same bytes.

    Codes have unequal lengths and do not nest, communes of two cantons share a name, places are a CSV with semicolons,
    a byte order mark and accents, and the records carry columns of the geography.

    Args:
        folder: made if absent. people: rows of the view. villages: at least as many as communes, these as cantons.
    """
    random = np.random.Generator(np.random.PCG64(7))
    folder.mkdir(parents=True, exist_ok=True)
    commune_of = np.sort(np.append(np.arange(communes), random.integers(0, communes, villages - communes)))
    canton_of = np.arange(communes) * cantons // communes
    village_code = random.permutation(12 * villages)[:villages] + 1
    commune_code = random.permutation(2000)[:communes] + 3
    name = [NAMES[i % len(NAMES)] for i in range(communes)]  # of communes: several cantons have the same
    rows = [
        f"K{canton_of[c] + 1};Canton {NAMES[canton_of[c] % 8]};{commune_code[c]};{name[c]};{village_code[v]};"
        f"Village {v} ({name[c]});{400 + v % 900}"
        for v, c in enumerate(commune_of)
    ]
    header = "canton_code;canton;commune_code;commune;village_code;village;altitude"
    (folder / "places.csv").write_text("\ufeff" + "\n".join([header, *rows]) + "\n", encoding="utf-8")
    lake = [f"{commune_code[c]};commune;Lac" for c in range(communes) if canton_of[c] == 1]
    listed = "\n".join(["geocode;level;area", "K1;canton;Ouest", *lake]) + "\n"
    (folder / "districts.csv").write_text("\ufeff" + listed, encoding="utf-8")
    at = random.choice(villages, people, p=random.dirichlet(np.full(villages, 0.7)))
    age = np.minimum(random.triangular(0, 20, 104, people).astype(int), 103)
    sex, status = random.integers(0, 2, people), random.choice(4, people, p=(0.4, 0.4, 0.15, 0.05))
    with closing(sqlite3.connect(folder / "office.db")) as to, to:
        to.execute("CREATE TABLE places (village INT, commune INT, canton TEXT)")
        to.executemany(
            "INSERT INTO places VALUES (?, ?, ?)",
            [
                (int(village_code[v]), int(commune_code[c]), f"K{canton_of[c] + 1}")
                for v, c in enumerate(commune_of)
            ],
        )
        to.execute("CREATE TABLE register (id INT, village INT, sex TEXT, age INT, status TEXT)")
        columns = (at, sex, age, status)
        to.executemany(
            "INSERT INTO register VALUES (?, ?, ?, ?, ?)",
            [
                (i, int(village_code[v]), "MF"[s], int(a), STATUS[m] or None)
                for i, (v, s, a, m) in enumerate(zip(*(c.tolist() for c in columns), strict=True))
            ],
        )
        to.execute(
            "CREATE VIEW people AS SELECT id AS person_no, p.village AS village_code, commune AS commune_code, "
            "canton AS canton_code, sex, age, status FROM register r JOIN places p ON p.village = r.village"
        )


def rows(path: Path) -> list[dict[str, str]]:
    """Read a table of the release."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def typed(folder: Path, *words: str, answers: tuple[str, ...] = ()) -> str:
    """Type a command and its answers; return what it showed, which must have refused nothing."""
    command = [sys.executable, "-m", "topdown.cli", *words]
    code, text = on_terminal(command, *(f"{answer}\n".encode() for answer in answers), folder=folder)
    assert code == 0, text
    assert "error" not in text
    return text


@pytest.mark.slow
def test_every_step_is_typed_without_a_refusal(tmp_path):
    """An office with its own codes, ages in single years and a view met five refusals on the way."""
    write_cantons(tmp_path, 180_000)
    assert "commune: column commune_code, 62 areas" in typed(tmp_path, *INIT, answers=ANSWERS)
    typed(tmp_path, "plan", "run.toml")
    typed(tmp_path, "generate", "run.toml", "--out", "release", "--yes")
    typed(tmp_path, "verify", "release")
    typed(tmp_path, "tables", "release", "--names", "places.csv", "--out", "tables")
    areas = ("--areas", "districts.csv", "--by", "sex,age", "--out", "districts")
    typed(tmp_path, "tables", "release", *areas)
    for level, n in (("canton", 8), ("commune", 62), ("village", 640)):
        found = rows(tmp_path / "tables" / "tables" / "sex" / f"{level}.csv")
        assert n == len({row["geocode"] for row in found})
        assert all(row["name"] for row in found)
    districts = rows(tmp_path / "districts" / "areas" / "sex_by_age.csv")
    assert {"Ouest", "Lac"} == {row["area"] for row in districts}
    assert all(int(row["low"]) <= int(row["count"]) <= int(row["high"]) for row in districts)
    assert {"0-17", "18-64", "65+"} == {row["age"] for row in districts}
