"""Small censuses under every shipped policy, to be attacked: public files, run files, and the product's own screens."""

import csv
import re
import tomllib
from pathlib import Path
from typing import Any

from tests.helpers import rule_twins
from tests.helpers.attacker import Attacker
from tests.helpers.commands import topdown
from tests.helpers.published import read_plan, read_step
from tests.helpers.runs import run_text

TOP = Path(__file__).resolve().parents[2]
CENSUS = ("state", "county", "tract", "block_group", "block"), (2, 5, 11, 12, 15)
TOY = ("land", "county", "block"), (1, 2, 3)
# Every level splits somewhere: two blocks of a group, a second group, a second tract, a second county.
BLOCKS = tuple(
    "44" + code
    for code in ("0010001001001", "0010001001002", "0010001002001", "0010002001001", "0030001001001")
)
TOY_BLOCKS = ("111", "112", "113", "121")


def shipped(kind: str, name: str) -> str:
    """Return the text of a shipped file."""
    return (TOP / kind / f"{name}.toml").read_text(encoding="utf-8")


def columns_of(text: str) -> list[str]:
    """Return the public columns that invariants read, those of the file they add to first."""
    found = tomllib.loads(text)
    first = columns_of(shipped("invariants", found["adds_to"])) if "adds_to" in found else []
    return list(dict.fromkeys([*first, *rule_twins.columns_of(text)]))


def without_exact(text: str) -> str:
    """Return invariants without their exact statistics, which whoever adds and removes records cannot keep."""
    parts = text.split("\n[[")
    return "\n[[".join(part for part in parts if not part.startswith("exact]]"))


def write_leaves(path: Path, codes: tuple[str, ...], facts: dict[str, tuple[int, ...]]) -> None:
    """Write the public table of leaves: one value a leaf in each column, the last one repeated."""
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["geocode", *facts])
        for i, code in enumerate(codes):
            out.writerow([code, *(v[min(i, len(v) - 1)] for v in facts.values())])


def write_run(
    folder: Path,
    name: str,
    *,
    schema: str = "toy",
    invariants: str,
    body: str = "",
    tree: tuple[tuple[str, ...], tuple[int, ...]] = TOY,
    neighbours: str = "bounded",
    mechanism: str = "discrete_gaussian",
) -> Path:
    """Write a run file.

    Args:
        schema: name of a shipped schema, or the text of another. invariants: text of an invariants file.
        folder: holds leaves.csv already.
        body: budget and levels, as they stand in settings; those of the toy settings if empty.
        tree: level names, characters that name them.
    """
    body = body or body_of("toy")
    (folder / f"{name}.invariants.toml").write_text(invariants)
    if "\n" in schema:
        (folder / f"{name}.schema.toml").write_text(schema)
        schema = f"{name}.schema.toml"
    if mechanism == "geometric":
        body = body.replace("rho =", "epsilon =")
    if mechanism == "optimal":
        body = re.sub(r"rho = (.*)", r'epsilon = \1\ndelta = "1/100000"', body)
    read, held = columns_of(invariants), (folder / "leaves.csv").read_text().splitlines()[0].split(",")[1:]
    run = folder / f"{name}.toml"
    top = {"schema": schema, "invariants": f"{name}.invariants.toml"}
    text = run_text(
        body,
        top | {"neighbours": neighbours, "mechanism": mechanism},
        release={
            "id": name,
            "title": "Attacked",
            "data_set": "people",
            "agency": "tests",
            "contact": "tests",
        },
        input={"records": f"{name}.csv", "ignore": [column for column in held if column not in read]},
        geography={"levels": tree[0], "prefix_lengths": tree[1]},
        ledger={"rho_limit": None, "epsilon_limit": "100", "delta_limit": "1/1000"}
        if mechanism == "optimal"
        else {"rho_limit": "100"},
    )
    run.write_text(text)
    return run


def body_of(settings: str, rho: str = "") -> str:
    """Return what shipped settings say of budget and levels, with another budget if one is given."""
    text = shipped("settings", settings)
    text = text[text.index("[budget]") :]
    if rho:
        first = text.index('rho = "')
        text = text[:first] + f'rho = "{rho}"' + text[text.index("\n", first) :]
    return text


def attacker_of(
    run: Path,
    base: Path | None = None,
    deltas: tuple[str, ...] = ("1e-10", "1e-5"),
    **labels: tuple[str, ...],
) -> tuple[Attacker, dict[str, Any]]:
    """Let the product state a plan; return the attacker who reads it, and what was stated.

    Args:
        base: the release that the run extends; its own bases are not followed.
        deltas: where epsilon is attacked.
        labels: see `Attacker`.
    """
    more = () if base is None else ("--base", base)
    plan = run.with_suffix(".plan.json")
    plan.unlink(missing_ok=True)
    topdown("plan", run, *more, "--out", plan).ok()
    asked = (word for delta in deltas for word in ("--delta", delta))
    audit = topdown("audit", run, *more, "--json", *asked).ok()
    leaves = run.parent / "leaves.csv"
    steps = [read_plan(plan, leaves)]
    if base is not None:
        steps.insert(0, read_step(base))
    text = tomllib.loads(run.read_text())
    codes = sorted(row["geocode"] for row in csv.DictReader(leaves.read_text().splitlines()))
    return Attacker(steps, codes, text["geography"]["prefix_lengths"], labels), audit.document
