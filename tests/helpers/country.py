"""A made-up country as an office has it: codes that do not nest, a key of its own, one row a person, listed labels."""

from pathlib import Path

import numpy as np

NATIONALITIES = ("Arvandian", "Belmarine", "Corvan", "Dalish", "Estane", "Farran", "Gothlin", "Hesperian",
                 "Istran", "Jorvik", "Kelmar", "other")  # fmt: skip
MARITAL = ("single", "married", "widowed", "divorced")
LEVELS = ("country", "region", "district", "municipality", "settlement")


def write_country(
    folder: Path, people: int, settlements: int, *, ages: int = 100, nationalities: int = 12, seed: int = 1
) -> None:
    """Write people.csv, places.csv and codes.csv; the same arguments give the same bytes.

    Args:
        folder: made if absent. people: rows of people.csv. settlements: rows of places.csv, at least 4.
        ages: single years. nationalities: at most 12.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    folder.mkdir(parents=True, exist_ok=True)
    named = NATIONALITIES[:nationalities]
    municipality = np.sort(random.integers(0, max(settlements // 5, 3), settlements))
    district, region = municipality // 6, municipality // 6 // 5
    code = random.permutation(10 * settlements)[:settlements] + 1
    rows = [
        f"{code[i]},Settlement {i},Region {region[i]},D{district[i]},{1000 + 7 * municipality[i]}"
        for i in range(settlements)
    ]
    (folder / "places.csv").write_text(
        "settlement,name,region,district,municipality\n" + "\n".join(rows) + "\n"
    )
    labels = [("sex", s, "", "") for s in ("female", "male")]
    labels += [
        ("age", f"{a}", "age_group", "child" if a < 18 else "adult" if a < 65 else "old") for a in range(ages)
    ]
    labels += [("marital", m, "", "") for m in MARITAL] + [("nationality", n, "", "") for n in named]
    text = "".join(",".join(row) + "\n" for row in labels)
    (folder / "codes.csv").write_text("attribute,label,recode,group\n" + text)
    size = random.lognormal(0, 1.2, settlements)
    where = random.choice(settlements, people, p=size / size.sum())
    sex = random.integers(0, 2, people)
    age = np.minimum(random.triangular(0, 15, 100, people).astype(int), ages - 1)
    married = np.where(age < 18, 0, random.choice(4, people, p=(0.3, 0.5, 0.1, 0.1)))
    weights = 0.3 ** np.arange(nationalities) + 0.002
    nation = random.choice(nationalities, people, p=weights / weights.sum())
    lines = (
        f"{code[w]},{'female' if s else 'male'},{a},{MARITAL[m]},{named[n]}"
        for w, s, a, m, n in zip(where, sex, age, married, nation, strict=True)
    )
    (folder / "people.csv").write_text("settlement,sex,age,marital,nationality\n" + "\n".join(lines) + "\n")
