"""A made-up country unlike the tutorial's: cantons, communes and villages, a view in a database, single years of age.

Codes have unequal lengths and do not nest, communes of two cantons share a name, places are a CSV with semicolons, a
byte order mark and accents, and the records carry columns of the geography.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

LEVELS = ("country", "canton", "commune", "village")
STATUS = ("célibataire", "marié", "veuf", "")
NAMES = ("Saint-Étienne", "Bälzers", "Château-d'Oex", "Ñandú", "Lœwe", "Åmål", "Český", "Tønder")


def write_cantons(
    folder: Path, people: int, villages: int = 640, communes: int = 62, cantons: int = 8
) -> None:
    """Write places.csv, office.db with a view `people`, and districts.csv; the same arguments give the same bytes.

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
