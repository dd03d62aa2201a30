"""Odd but well-formed runs: every number, spelling, name and shape a run file allows, far from what anybody writes."""

from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from tests.helpers.attacked import shipped, without_exact, write_leaves
from tests.helpers.rule_texts import exact, rule
from tests.helpers.runs import run_text

LEVELS = ("land", "county", "block")
ONE_ATTRIBUTE = """\
type = "topdown.schema"
version = 1
name = "odd"
title = "Odd"
unit = "{unit}"
source = "made up"

[[attribute]]
name = "{name}"
labels = [{labels}]
"""
TOY_QUERIES = (
    "total", "detailed", "sex", "age", "dwelling", "home_or_not", "adult", "sex * age", "age * sex", "sex*age",
    "dwelling * sex * age", "age * dwelling", "home_or_not * adult", " sex  *  adult", "sex * age * dwelling",
)  # fmt: skip
BUDGETS = (
    *["1"] * 8, "1/3", "22/7", "1000", "1/1000000000000", "100000", "10000000", "1000000000000",
    "1/1152921504606846976", "123456789123456789/987654321987654321",
)  # fmt: skip
PAIR_BUDGETS = ("1", "4", "10", "30", "22/7", "1/3", "1000")
MOST_SHARE = 10**5
WEIGHTS = (*[1] * 20, 3, 7, 1000, 1000, 10**5, 10**6, 2**62)


def write_odd_run(folder: Path, seed: int, *, wings: bool = False) -> Path:
    """Write records, leaves, invariants and a run file that are odd in a few ways; the same ones for a seed.

    Args:
        wings: whether it may ask for the estimate of the whole tree, for intervals, or for the best noise.
    """
    random = Random(seed)
    folder.mkdir()
    toy = random.random() < 0.8
    schema, queries, invariants, cells = _toy(random) if toy else _one_attribute(random)
    codes = _codes(random)
    facts = {
        name: tuple(random.choice((1, 1, 2, 0, 9)) for _ in codes)
        for name in ("homes", "dormitories", "barracks")
    }
    if toy:
        (folder / "invariants.toml").write_text(invariants)
    else:
        (folder / "schema.toml").write_text(schema)
        (folder / "invariants.toml").write_text(invariants)
        facts = {}
    write_leaves(folder / "leaves.csv", codes, facts)
    (folder / "people.csv").write_text(_people(random, codes, facts, cells))
    run = folder / "run.toml"
    relation = random.choice(("bounded", "bounded", "bounded", "add_remove"))
    mechanism = random.choice(("discrete_gaussian", "discrete_gaussian", "geometric"))
    estimates, pair = "", ""
    if wings:
        mechanism, estimates, pair = _wings(random)
    if relation == "add_remove":
        (folder / "invariants.toml").write_text(without_exact(invariants))
    name = random.choice(("odd", "Odd release 7", "o" * 60))
    title = f"Odd, «quoted» and long {'x' * random.choice((0, 1500))}"
    geography = _geography(folder, random, codes)
    loss = "rho" if mechanism == "discrete_gaussian" else "epsilon"
    body = (
        f'{estimates}[budget]\n{loss} = "{random.choice(PAIR_BUDGETS if pair else BUDGETS)}"\n{pair}'
        + "".join(
            odd_level(random, level, share, queries, most=20 if pair else MOST_SHARE)
            for level, share in zip(LEVELS, odd_shares(random, 3, 20 if pair else MOST_SHARE), strict=True)
        )
    )
    top = {"schema": "toy" if toy else "schema.toml", "invariants": "invariants.toml"}
    text = run_text(
        body,
        top | {"neighbours": relation, "mechanism": mechanism},
        release={"id": name, "title": title, "data_set": "odd", "agency": "nobody", "contact": "nobody"},
        input={"records": "people.csv", "count": True, "ignore": [c for c in facts if c not in invariants]},
        geography=geography,
        ledger={"rho_limit": None, "epsilon_limit": "1000000000000000000", "delta_limit": "1/2"}
        if pair
        else {"rho_limit": "1000000000000000000"},
    )
    run.write_text(text)
    return run


def _wings(random: Random) -> tuple[str, str, str]:
    """Draw a mechanism, a table [estimates] and the delta of a pair."""
    if random.random() < 0.4:
        delta = random.choice(("1/1000", "1/1000000", "1/10000000000", "1/10", "1/3"))
        large = "large_delta = true\n" if Fraction(delta) > Fraction(1, 1000) else ""
        return "optimal", "", f'delta = "{delta}"\n{large}'
    coverage = random.choice((None, "19/20", "9999/10000", "1/2", "2/3"))
    asked = "" if coverage is None else f'coverage = "{coverage}"\n'
    return "discrete_gaussian", f'[estimates]\ntargets = "tree"\n{asked}\n', ""


def _toy(random: Random) -> tuple[str, tuple[str, ...], str, tuple[str, ...]]:
    text = shipped("invariants", "toy")
    if random.random() < 0.3:
        text = without_exact(text)
    if random.random() < 0.4:
        level, query = random.choice(LEVELS), random.choice(("total", "total", *TOY_QUERIES))
        text += exact(f"odd {query}", level, query)
    if random.random() < 0.2:
        per = random.choice((1, 7, 10**6, 2**40))
        text += rule("at_most", "few", 'dwelling = ["barracks"]', column="barracks", per=per)
    cells = tuple(f"home,{sex},{age}" for sex in ("female", "male") for age in ("0_17", "18_64", "65_plus"))
    return "", TOY_QUERIES, text, ("dwelling,sex,age", *cells)


def _one_attribute(random: Random) -> tuple[str, tuple[str, ...], str, tuple[str, ...]]:
    n = random.choice((1, 2, 3, 40, 300))
    name = random.choice(("a", "odd_name", "x" * 60, "größe"))
    labels = [f"v{i}" for i in range(n)]
    schema = ONE_ATTRIBUTE.format(
        name=name,
        unit=random.choice(("person", "household", "Betrieb")),
        labels=", ".join(f'"{v}"' for v in labels),
    )
    invariants = 'type = "topdown.invariants"\nversion = 1\nname = "none"\ntitle = "none"\nschema = "odd"\n'
    if random.random() < 0.3:
        level, query = random.choice(LEVELS), random.choice(("total", "total", name))
        invariants += exact("all", level, query)
    return schema, ("total", "detailed", name), invariants, (name, *labels)


def _codes(random: Random) -> tuple[str, ...]:
    tree = random.choice(
        (("111",), ("111", "112", "121"), ("000", "001", "011", "010"), ("1a1", "1a2", "1bé"))
    )
    return tuple(random.sample(tree, len(tree)))


def _geography(folder: Path, random: Random, codes: tuple[str, ...]) -> dict[str, Any]:
    if random.random() < 0.3:
        return {"prefix_lengths": [0, random.choice((1, 2)), 3]}
    if random.random() < 0.3:
        rows = ["geocode,parent,level", "everything,,land"]
        rows += [f"{c}.,everything,county" for c in sorted({c[:2] for c in codes})]
        rows += [f"{c},{c[:2]}.,block" for c in codes]
        (folder / "tree.csv").write_text("\n".join(rows) + "\n")
        return {"prefix_lengths": None, "table": "tree.csv"}
    return {"prefix_lengths": [1, 2, 3]}


def _people(
    random: Random, codes: tuple[str, ...], facts: dict[str, tuple[int, ...]], cells: tuple[str, ...]
) -> str:
    rows = [f"geocode,{cells[0]},count"]
    for i, code in enumerate(codes):
        if not facts or facts["homes"][i]:
            rows += [
                f"{code},{cell},{random.choice((1, 3, 200, 10**4))}"
                for cell in cells[1:]
                if random.random() < 0.5
            ]
        if facts:
            rows += [f"{code},dormitory,male,18_64,{2 * facts['dormitories'][i]}"] * bool(
                facts["dormitories"][i]
            )
            rows += [f"{code},barracks,male,18_64,{facts['barracks'][i]}"] * bool(facts["barracks"][i])
    return "\n".join(rows) + "\n"


def odd_shares(random: Random, n: int, most: int = MOST_SHARE) -> list[str]:
    """Draw shares that add up to one, some `most` times others."""
    parts = [random.choice((1, 1, 1, 5, most)) for _ in range(n)]
    return [f"{part}/{sum(parts)}" for part in parts]


def odd_level(
    random: Random,
    name: str,
    share: str,
    queries: tuple[str, ...],
    tables_of: tuple[str, ...] = TOY_QUERIES,
    most: int = MOST_SHARE,
) -> str:
    """Draw a level's table of the run file.

    Args:
        tables_of: queries that may be a table of a pass or of the rounding chain.
        most: how many times another's share a share may be.
    """
    chosen = list(
        dict.fromkeys([*random.sample(queries, random.randint(0, min(3, len(queries)))), "detailed"])
    )
    shares = "\n".join(
        f'"{query}" = "{part}"'
        for query, part in zip(chosen, odd_shares(random, len(chosen), most), strict=True)
    )
    coarse = [q for q in chosen if q not in ("detailed", "total") and q.count("*") < 2 and q in tables_of]
    coarse = coarse[:1] if random.random() < 0.5 else []
    passes = [f'{{ table = "{q}" }}' for q in coarse] + ['{ table = "detailed" }']
    tables = ["total"] * (random.random() < 0.5) + coarse * (random.random() < 0.7) + ["detailed"]
    if random.random() < 0.05:
        random.shuffle(tables)
    chain = [f'{{ table = "{table}", weight = {random.choice(WEIGHTS)} }}' for table in tables]
    return f"""
[[level]]
name = "{name}"
share = "{share}"
passes = [{", ".join(passes)}]
rounding = [{", ".join(chain)}]
[level.queries]
{shares}
"""
