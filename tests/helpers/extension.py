"""A toy land with a base release of schema toy and everything needed to extend it by kinds, ages and jobs."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.helpers.ledgers import with_ledger
from tests.helpers.rule_texts import rule
from tests.helpers.runs import run_text
from topdown.app import generate_release
from topdown.measure import read_microdata
from topdown.model import Histogram
from topdown.plan import load_context, prepare

SCHEMA = """\
type = "topdown.schema"
version = 1
name = "toy_more"
title = "Toy persons in more detail"
unit = "person"
source = "made up for tests"

[[attribute]]
name = "kind"
labels = ["alone", "with_others", "college", "nurses", "army", "navy"]
[attribute.recodes.dwelling]
dormitory = ["college", "nurses"]
home = ["alone", "with_others"]
barracks = ["army", "navy"]

[[attribute]]
name = "job"
labels = ["none", "some"]

[[attribute]]
name = "sex"
labels = ["female", "male"]

[[attribute]]
name = "years"
labels = ["0_9", "10_17", "18_29", "30_64", "65_79", "80_plus"]
[attribute.recodes.age]
0_17 = ["0_9", "10_17"]
18_64 = ["18_29", "30_64"]
65_plus = ["65_79", "80_plus"]
[attribute.recodes.working]
no = ["0_9", "10_17", "80_plus"]
yes = ["18_29", "30_64", "65_79"]
"""

TYPES = {"college": "colleges", "nurses": "nurse_homes", "army": "armies", "navy": "navies"}
INVARIANTS = """\
type = "topdown.invariants"
version = 1
name = "toy_more"
title = "Toy invariants in more detail"
schema = "toy_more"
""" + (
    rule("none_where_zero", "homes", 'kind = ["alone", "with_others"]', columns=["homes"])
    + rule("never", "no small child alone", 'kind = ["alone"], years = ["0_9"]')
    + rule("never", "no worker below ten", 'job = ["some"], years = ["0_9"]')
    + rule("never", "nobody old in the navy", 'kind = ["navy"], years = ["80_plus"]')
    + "".join(
        rule("none_where_zero", kind, f'kind = ["{kind}"]', columns=[column])
        + rule("at_least", f"some in {kind}", f'kind = ["{kind}"]', column=column, per=1)
        for kind, column in TYPES.items()
    )
)

JOBS = ("none", "some")
BY_JOB = "".join(
    rule("none_where_zero", f"{job} in {kind}", cells, columns=[f"{column}_{job}", f"{column}_both"])
    + rule("at_least", f"one with job {job} in {kind}", cells, column=f"{column}_{job}", per=1)
    for kind, column in TYPES.items()
    for job, cells in ((job, f'kind = ["{kind}"], job = ["{job}"]') for job in JOBS)
)

LEVEL = """
[[level]]
name = "{name}"
share = "{share}"
passes = [
  {{ queries = ["sex * working", "job * kind", "kind * job * sex"], table = "kind * job * sex" }},
  {{ queries = ["sex * working", "detailed"], table = "detailed" }},
]
rounding = [
  {{ table = "job", weight = 2 }},
  {{ table = "kind * job", weight = 1 }},
  {{ table = "detailed", weight = 1 }},
]

[level.queries]
"sex * working" = "1/4"
"job * kind" = "1/4"
"kind * job * sex" = "1/4"
"detailed" = "1/4"
"""


@dataclass(frozen=True)
class Land:
    """Folders of a toy land: input of both runs and the base release."""

    folder: Path
    base: Path
    run: Path


def make_land(folder: Path, seed: int, **settings: Any) -> Land:
    """Write a land, see `write_land`, and release its records by schema toy."""
    land = write_land(folder, seed, **settings)
    with_ledger(folder / "base.toml")
    with_ledger(land.run)
    generate_release(prepare(folder / "base.toml"), land.base)
    return land


def write_land(folder: Path, seed: int, *, n_blocks: int = 14, by_job: bool = False, rho: str = "2") -> Land:
    """Draw records of the detailed schema, write run files of their release by schema toy and of its extension.

    Args:
        by_job: count facilities for people with and without a job apart, with bounds inside those of their kind.
        rho: in the thousands the base release has no noise but once in about 10^10 times: for golden screens.
    """
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    codes = [f"{c}{i:02d}" for i, c in enumerate(np.sort(rng.integers(1, 4, n_blocks)))]
    homes = rng.poisson(3, n_blocks) * (rng.random(n_blocks) < 0.8)
    homes[0] = max(homes[0], 1)
    numbers = {column: rng.poisson(0.5, n_blocks) for column in TYPES.values()}
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "invariants.toml").write_text(INVARIANTS + BY_JOB * by_job)
    parts = _by_job(rng, numbers) if by_job else {}
    names = ["geocode", "homes", "dormitories", "barracks", *numbers, *parts]
    columns = [
        homes,
        numbers["colleges"] + numbers["nurse_homes"],
        numbers["armies"] + numbers["navies"],
        *numbers.values(),
        *parts.values(),
    ]
    rows = [
        ",".join([code, *map(str, row)]) for code, row in zip(codes, np.stack(columns, axis=1), strict=True)
    ]
    (folder / "leaves.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    people = _people(rng, codes, homes, numbers, parts)
    coarse = {"alone": "home", "with_others": "home", "college": "dormitory", "nurses": "dormitory"}
    ages = {"0_9": "0_17", "10_17": "0_17", "18_29": "18_64", "30_64": "18_64"}
    plain = [
        f"{code},{coarse.get(kind, 'barracks')},{sex},{ages.get(years, '65_plus')}"
        for code, kind, _, sex, years in people
    ]
    (folder / "plain.csv").write_text("\n".join(["geocode,dwelling,sex,age", *plain]) + "\n")
    (folder / "full.csv").write_text(
        "\n".join(["geocode,kind,job,sex,years", *(",".join(person) for person in people)]) + "\n"
    )
    toy = (Path(__file__).resolve().parents[2] / "settings" / "toy.toml").read_text(encoding="utf-8")
    body = toy[toy.index("[budget]") :].replace('rho = "2"', f'rho = "{rho}"')
    (folder / "base.toml").write_text(_run("toy", "toy", "plain.csv", body, rho, _unread(names, "")))
    shares = {"land": "1/4", "county": "1/4", "block": "1/2"}
    body = '[budget]\nrho = "1"\n\n[base.map]\nsex = "sex"\n' + "".join(
        LEVEL.format(name=name, share=share) for name, share in shares.items()
    )
    unread = _unread(names, INVARIANTS + BY_JOB * by_job)
    (folder / "more.toml").write_text(_run("schema.toml", "invariants.toml", "full.csv", body, rho, unread))
    return Land(folder, folder / "base", folder / "more.toml")


def records_kept(base: Path, release: Path) -> Histogram:
    """Return the records of an extension; fail unless base table, zeros and lower bounds are kept."""
    context = load_context(release)
    more = read_microdata(release / "microdata" / "persons.parquet", context)
    plain = read_microdata(base / "microdata" / "persons.parquet", load_context(base))
    again = Histogram.build(
        plain.n_nodes, plain.n_cells, more.node, context.support.of_cell[more.cell], more.count
    )
    for name in ("node", "cell", "count"):  # the base table, at every leaf
        np.testing.assert_array_equal(getattr(plain, name), getattr(again, name))
    assert context.rules.open[-1][more.node, context.rules.class_of_cell[more.cell]].all()
    for cells, lower in zip(context.rules.bound_cells, context.rules.lower[-1].T, strict=True):
        held = np.bincount(more.node[cells[more.cell]], more.count[cells[more.cell]], more.n_nodes)
        assert (held >= lower).all()
    return more


def _by_job(rng, numbers):
    """Split the facilities of every kind into those without jobs, with jobs, and for both."""
    out = {}
    for column, number in numbers.items():
        split = np.array([rng.multinomial(n, (0.3, 0.3, 0.4)) for n in number])
        out |= {f"{column}_{part}": split[:, i] for i, part in enumerate((*JOBS, "both"))}
    return out


def _people(rng, codes, homes, numbers, parts):
    people = []
    for i, code in enumerate(codes):
        if homes[i]:
            for _ in range(int(rng.poisson(6))):
                years = str(rng.choice(["0_9", "10_17", "18_29", "30_64", "65_79", "80_plus"]))
                kind = "with_others" if years == "0_9" else str(rng.choice(["alone", "with_others"]))
                job = "none" if years == "0_9" else str(rng.choice(["none", "some"]))
                people.append((code, kind, job, str(rng.choice(["female", "male"])), years))
        for kind, column in TYPES.items():
            n = numbers[column][i]
            spare = int(n + rng.poisson(2) * (n > 0))
            if not parts:
                houses = [JOBS] * (int(n) + spare)
            else:  # one person a facility, then more in any of them
                houses = [(job,) for job in JOBS for _ in range(parts[f"{column}_{job}"][i])]
                houses += [JOBS] * int(parts[f"{column}_both"][i])
                houses += [houses[int(rng.integers(len(houses)))] for _ in range(spare if houses else 0)]
            for jobs in houses:
                years = str(rng.choice(["18_29", "30_64"]))
                job = str(rng.choice(jobs))
                people.append((code, kind, job, str(rng.choice(["female", "male"])), years))
    return people


def _unread(names: list[str], invariants: str) -> list[str]:
    """Return the leaf columns that the invariants (those of toy if empty) do not read."""
    tables = [t for kind in tomllib.loads(invariants).values() if isinstance(kind, list) for t in kind]
    read = {c for t in tables for c in (t.get("column"), *t.get("columns", ()))}
    return [
        name for name in names[1:] if name not in (read if tables else ("homes", "dormitories", "barracks"))
    ]


def _run(schema: str, invariants: str, records: str, body: str, rho: str, ignore: list[str]) -> str:
    return run_text(
        body,
        {"schema": schema, "invariants": invariants},
        release={"id": records.split(".")[0], "data_set": "toy land"},
        input={"records": records, "count": False, "ignore": ignore},
        ledger={"rho_limit": f"{10 * int(rho)}"},
    )
