"""What every kind of hard rule on leaves must do, from its TOML table to what verify says of a damaged release.

Kinds, examples and plain arithmetic are those of `tests/helpers/rule_twins.py`.
"""

import csv
import gzip
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import mkdtemp
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import policies
from tests.helpers.commands import topdown
from tests.helpers.failing import fails_with
from tests.helpers.ledgers import with_ledger
from tests.helpers.rule_twins import CLOSING, NO_END, TWINS, example
from tests.helpers.schemas import check_release
from tests.helpers.small_release import edit_table, reseal
from topdown.app import RunOptions, generate_release
from topdown.errors import ConfigError, DataError
from topdown.model import KINDS, LeafRule
from topdown.plan import prepare
from topdown.practice.synth import synth
from topdown.verify import RULE_KINDS, verify

Rows = list[dict[str, Any]]
BROKEN = {True: ("zeros", "V106"), False: ("bounds", "V107")}


@dataclass(frozen=True)
class Made:
    """A release of the toy land with one rule of a kind beside the land's own, and the rule as plan.json states it."""

    folder: Path
    rule: dict[str, Any]

    @property
    def leaves(self) -> dict[str, dict[str, int]]:
        """Public columns of every leaf."""
        rows = pq.read_table(self.folder / "release" / "public" / "leaves.parquet").to_pylist()
        return {row.pop("geocode"): row for row in rows}

    def is_in(self, row: dict[str, Any]) -> bool:
        """Tell whether a record is in the cells of the rule."""
        return all(row[name] in labels for name, labels in self.rule["cells"])


@cache
def made(kind: str) -> Made:
    """Make the release of a kind, once."""
    folder = Path(mkdtemp())
    census = policies.make_census(folder, 4, example(kind), n_blocks=20)
    policies.write_records(folder, census)
    assert generate_release(
        prepare(with_ledger(folder / "run.toml")), folder / "release", RunOptions()
    ).checks.ok
    check_release(folder / "release")
    stated = json.loads((folder / "release" / "plan.json").read_text())["invariants"][kind]
    return Made(folder, next(rule for rule in stated if rule["name"] == f"one of {kind}"))


def broken_by(found: Made, kind: str, rows: Rows) -> list[str]:
    """Return the leaves whose records break the rule, by plain arithmetic."""
    out = []
    for code, facts in found.leaves.items():
        held = sum(int(row["count"]) for row in rows if row["geocode"] == code and found.is_in(row))
        least, most = TWINS[kind].ends(found.rule, facts)
        if not least <= held <= most:
            out.append(code)
    return out


def test_every_kind_has_an_example_and_a_twin() -> None:
    """A kind that is not here is held to nothing by the tests below."""
    assert set(TWINS) == {kind.kind for kind in KINDS if issubclass(kind, LeafRule)}
    assert {kind.kind for kind in KINDS if kind.closes} == CLOSING


@pytest.mark.parametrize("kind", TWINS)
def test_a_release_keeps_it(kind: str) -> None:
    """Whatever the noise, the microdata keep the rule at every leaf, and plan and `implied` speak of it."""
    found = made(kind)
    rows = pq.read_table(found.folder / "release" / "microdata" / "persons.parquet").to_pylist()
    assert rows
    assert broken_by(found, kind, rows) == []
    for words in (("plan", "run.toml", "--details"), ("implied", "own.toml", "--schema", "toy", "--json")):
        said = topdown(*(found.folder / w if w.endswith(".toml") else w for w in words)).ok()
        assert f"one of {kind}" in " ".join(said.out.split())


@pytest.mark.parametrize("kind", TWINS)
def test_verify_finds_records_that_break_it(kind: str, tmp_path: Path) -> None:
    """A release that breaks the rule would pass for one that keeps it."""
    found = made(kind)
    copytree(found.folder / "release", tmp_path / "release")
    damaged: Rows = []

    def damage(rows: Rows) -> None:
        damaged.extend(break_rule(found, kind, rows))
        rows[:] = damaged

    edit_table(tmp_path / "release" / "microdata" / "persons.parquet", damage)
    reseal(tmp_path / "release")
    check, code = BROKEN[kind in CLOSING]
    result = verify(tmp_path / "release").check(check)
    assert broken_by(found, kind, damaged)
    assert not result.ok
    assert {finding.code for finding in result.findings} == {code}
    assert any(f"one of {kind}" in finding.text for finding in result.findings)


@pytest.mark.parametrize("kind", TWINS)
def test_records_that_break_it_are_refused(kind: str, tmp_path: Path) -> None:
    """Nothing may be charged for records that contradict public knowledge; the rule is named, no leaf and no number."""
    found = made(kind)
    policies.make_census(tmp_path, 4, example(kind), n_blocks=20)
    with (found.folder / "records.csv").open(newline="") as file:
        rows = break_rule(found, kind, list(csv.DictReader(file)))
    assert broken_by(found, kind, rows)
    with (tmp_path / "records.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(rows)
    limited = any(TWINS[kind].ends(found.rule, facts)[1] < NO_END for facts in found.leaves.values())
    code = "D035" if kind in CLOSING else "D038" if limited else "D036"
    with fails_with(code, DataError, match=f'"one of {kind}"'):
        generate_release(prepare(with_ledger(tmp_path / "run.toml")), tmp_path / "release", RunOptions())
    assert not list(tmp_path.glob("release/measurements/*/*.parquet"))


@pytest.mark.parametrize("kind", TWINS)
def test_a_kind_that_verify_does_not_know_is_refused(kind: str, tmp_path: Path) -> None:
    """The preflight must find before the charge that nobody will check the rule."""
    census = policies.make_census(tmp_path, 4, example(kind))
    policies.write_records(tmp_path, census)
    prepared = prepare(with_ledger(tmp_path / "run.toml"))
    before = (tmp_path / "ledger.jsonl").read_bytes()
    every = dict(RULE_KINDS)
    try:
        del RULE_KINDS[kind]
        with pytest.raises(ConfigError, match=f"'{kind}', which is not checked") as caught:
            generate_release(prepared, tmp_path / "release", RunOptions())
    finally:  # in their order, which that of columns follows
        RULE_KINDS.clear()
        RULE_KINDS.update(every)
    assert caught.value.code == "C077"
    assert before == (tmp_path / "ledger.jsonl").read_bytes()


def break_rule(found: Made, kind: str, rows: Rows) -> Rows:
    """Return records of which those of some leaf break the rule: one too many if it limits them, else too few."""
    for code, facts in found.leaves.items():
        least, most = TWINS[kind].ends(found.rule, facts)
        mine = [row for row in rows if row["geocode"] == code and found.is_in(row)]
        if most < NO_END:
            like = next(row for row in rows if row["geocode"] == code) if mine == [] else mine[0]
            chosen = {name: labels[0] for name, labels in found.rule["cells"]}
            more = like | chosen | {"count": type(like["count"])(int(most) + 1)}
            keys = [name for name in like if name != "count"]
            kept = [row for row in rows if row not in mine and any(row[key] != more[key] for key in keys)]
            return sorted([*kept, more], key=lambda row: row["geocode"])
        if least > 0:
            return [row for row in rows if row not in mine]
    raise AssertionError("no leaf can break the rule")


@pytest.mark.parametrize("kind", TWINS)
def test_made_up_people_keep_it(kind: str, tmp_path: Path) -> None:
    """A rehearsal with made-up people would be refused by the engine it is to rehearse."""
    found = made(kind)
    census = synth(
        tmp_path,
        people=3_000,
        schema="toy",
        invariants=str(found.folder / "own.toml"),
        levels=("land", "county", "block"),
        seed=7,
    )
    rows, places = (
        list(csv.DictReader(gzip.decompress(path.read_bytes()).decode().splitlines()))
        for path in (census.records, census.leaves)
    )
    leaves = {row["geocode"]: row for row in places}
    assert any(found.is_in(row) for row in rows) or kind == "never"
    for code, leaf in leaves.items():
        facts = {name: int(value) for name, value in leaf.items() if name != "geocode"}
        held = sum(int(row["count"]) for row in rows if row["geocode"] == code and found.is_in(row))
        least, most = TWINS[kind].ends(found.rule, facts)
        assert least <= held <= most
