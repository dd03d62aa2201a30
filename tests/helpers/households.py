"""A toy census of households of at most three persons, as an office would write it."""

import random
from pathlib import Path

from tests.helpers.rule_texts import exact, rule
from tests.helpers.runs import run_text, write_rows

TOP = Path(__file__).resolve().parents[2]
UNIT = "household of at most 3 persons"
BLOCKS = ("111", "112", "121", "211", "212")
EXACT = exact("population", "land", "total")
MOST = rule("at_most", "nine to a home", 'dwelling = ["home"]', column="homes", per=9)


def write_households(
    folder: Path,
    neighbours: str = "bounded",
    *,
    unit: str = UNIT,
    mechanism: str = "geometric",
    rules: str = "",
    count: bool = False,
) -> Path:
    """Write schema, invariants, leaves, records with a column `household`, and the run file; return it.

    Args:
        rules: more invariants. count: whether the records have a column `count`, 1 in every row.
    """
    folder.mkdir(parents=True, exist_ok=True)
    schema = (TOP / "schemas" / "toy.toml").read_text(encoding="utf-8")
    schema = schema.replace('unit = "person"', f'unit = "{unit}"').replace('name = "toy"', 'name = "homes"')
    (folder / "homes.toml").write_text(schema, encoding="utf-8")
    policy = (TOP / "invariants" / "toy.toml").read_text(encoding="utf-8").replace('"toy"', '"homes"')
    head, zeros = policy[: policy.index("[[exact]]")], policy[policy.index("[[none_where_zero]]") :]
    (folder / "policy.toml").write_text(head + zeros + rules, encoding="utf-8")
    body = (TOP / "settings" / "toy.toml").read_text(encoding="utf-8")
    body = body[body.index("[budget]") :]
    top = {"schema": "homes.toml", "invariants": "policy.toml", "mechanism": mechanism}
    text = run_text(
        body.replace("rho =", "epsilon =") if mechanism == "geometric" else body,
        top | {"neighbours": neighbours},
        input={"count": count},
        ledger={"rho_limit": None, "epsilon_limit": "20", "delta_limit": "1/100"},
    )
    (folder / "run.toml").write_text(text, encoding="utf-8")
    rows = [(code, 9, 9, 0) for code in BLOCKS]
    write_rows(folder / "leaves.csv", [("geocode", "homes", "dormitories", "barracks"), *rows])
    write_records(folder / "records.csv", people(), count=count)
    return folder / "run.toml"


def people(n_households: int = 60) -> list[tuple[str, ...]]:
    """Return records of made-up households of one to three persons: geocode, dwelling, sex, age, household."""
    draw = random.Random(1)
    ages = ("0_17", "18_64", "65_plus")
    found: list[tuple[str, ...]] = []
    for number in range(n_households):
        block, kind = draw.choice(BLOCKS), draw.choice(("home", "dormitory"))
        found += [
            (block, kind, draw.choice(("female", "male")), draw.choice(ages), f"h{number}")
            for _ in range(1 + number % 3)
        ]
    return found + [
        (block, "dormitory", "male", "18_64", f"d{block}{i}") for block in BLOCKS for i in range(18)
    ]


def write_records(path: Path, records: list[tuple[str, ...]], *, count: bool = False) -> None:
    """Write records of persons, with the household of each."""
    more = (("count",), (1,)) if count else ((), ())
    head = ("geocode", "dwelling", "sex", "age", "household", *more[0])
    write_rows(path, [head, *((*row, *more[1]) for row in records)])
