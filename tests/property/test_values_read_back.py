"""Values that a program makes are written as the run file that reads back as them."""

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topdown
from tests.helpers.failing import fails_with
from topdown.errors import ConfigError, DataError
from topdown.formats import toml_text
from topdown.model import KINDS
from topdown.plan import load_invariants, load_run_file, load_settings

SCHEMA = topdown.Schema.from_lists(
    {"sex": ["f", "m"], "age": ["0-17", "18-64", "65+"]},
    {"age": {"grown": {"child": ["0-17"], "adult": ["18-64", "65+"]}}},
)
TREE = topdown.Geography.from_table(
    {"region": ["N", "N", "S"], "town": ["1", "2", "3"]}, ["land", "region", "town"]
)
FACTS = pd.DataFrame({"geocode": ["3", "1", "2"], "beds": [1, 0, 5], "homes": [7, 2, 0], "note": list("abc")})
CELLS = st.sampled_from([{}, {"sex": ["f"]}, {"age": ["65+", "0-17"]}, {"grown": ["adult"], "sex": ["m"]}])
TEXTS = st.text("aé\"'\\ #=[]\u2028", max_size=6)
SHARES = st.sampled_from(["1/4", "1/3", "1/2", "2/3"])
BUDGETS = st.sampled_from(
    [{"rho": "1/3"}, {"rho": 2}, {"epsilon": "50 %"}, {"epsilon": Fraction(1, 7), "delta": "1e-6"}]
)


@st.composite
def tables(draw: Any) -> dict[str, list[dict[str, object]]]:
    """Return tables of invariants of any kinds."""
    values = {
        "level": st.sampled_from(["land", "region"]),
        "query": st.sampled_from(["total", "sex", "grown * sex"]),
        "cells": CELLS,
        "than": CELLS,
        "column": st.sampled_from(["beds", "homes"]),
        "columns": st.sampled_from([["beds"], ["homes", "beds"]]),
        "per": st.integers(1, 3),
        "times": st.integers(1, 3),
    }
    made: dict[str, list[dict[str, object]]] = {}
    for kind in draw(st.lists(st.sampled_from(KINDS), max_size=4)):
        table = {key: draw(values[key]) for key in kind.table_keys()}
        more = {"legal_basis": draw(TEXTS), "decided_by": draw(TEXTS)} if draw(st.booleans()) else {}
        made.setdefault(kind.kind, []).append(table | more)
    return made


@given(tables(), TEXTS)
@settings(deadline=None, max_examples=60)
def test_invariants_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, given_: Any, title: str
) -> None:
    """Invariants that change when they are written promise something else than what was approved."""
    made = topdown.Invariants.from_tables(SCHEMA, title=title, **given_)
    path = tmp_path_factory.mktemp("made") / "invariants.toml"
    path.write_text(toml_text(made.file), encoding="utf-8")
    assert made == load_invariants(path, SCHEMA)
    assert sum(map(len, given_.values())) == len(made.rules)


@given(tables(), BUDGETS, SHARES, SHARES, st.sampled_from([None, "bounded", "add_remove"]))
@settings(deadline=None, max_examples=12)
def test_a_plan_of_values_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory,
    given_: Any,
    amounts: Any,
    share: str,
    part: str,
    neighbours: Any,
) -> None:
    """A ledger charges by plan hash: a plan that changes when it is written would be charged twice."""
    left = Fraction(1) - Fraction(share)
    queries = {"total": part, "sex * age": 1 - Fraction(part)}
    shares = topdown.Settings.from_shares(
        SCHEMA, {"land": share, "region": left / 2, "town": left / 2}, queries
    )
    budget = topdown.Budget(**amounts)
    try:
        planned = topdown.plan(
            schema=SCHEMA,
            geography=TREE,
            invariants=topdown.Invariants.from_tables(SCHEMA, **given_),
            settings=shares,
            budget=budget,
            neighbours=neighbours,
            leaves=FACTS,
        )
    except topdown.TopdownError as error:
        if error.code[0] in "IC":  # what contradicts itself, or has too many kinds, is no plan
            return
        raise
    folder = tmp_path_factory.mktemp("made") / "office"
    written = planned.write(folder)
    assert planned.plan_hash == written.plan_hash
    assert planned.plan.invariants == written.plan.invariants
    run = load_run_file(folder / "run.toml")
    assert (shares.level, budget) == (run.level, run.budget)


def test_settings_of_a_file_and_of_a_program_are_one_struct(tmp_path: Path) -> None:
    """A second form of settings would forget a key of the first."""
    made = topdown.Settings.load("toy").with_budget(topdown.Budget(epsilon=1, delta="1e-6"))
    made = made.with_shares({level.name: Fraction(1, len(made.level)) for level in made.level})
    (tmp_path / "settings.toml").write_text(toml_text(made), encoding="utf-8")
    assert made == load_settings(tmp_path / "settings.toml")
    assert made == topdown.Settings.load(tmp_path / "settings.toml")
    drafted = topdown.plan(
        schema=SCHEMA, geography=TREE, settings=topdown.Settings.from_shares(SCHEMA, TREE.level_names)
    )
    assert drafted.plan.budget == 1
    with fails_with("C344", ConfigError):
        made.with_shares({"land": 1})


def test_values_say_what_is_wrong() -> None:
    """A wrong table in a program must end in the message that a file would get, not in a traceback of ours."""
    made = topdown.Invariants.from_tables
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("C343", {"exactly": [{}]}),
        ("C343", {"exact": [{"level": 3, "query": "total"}]}),
        ("C031", {"exact": [{"level": "land"}]}),
        ("C025", {"never": [{"cells": {"sex": ["x"]}}]}),
        ("C034", {"never": [{"name": "a", "cells": {"sex": ["f"]}}, {"name": "a", "cells": {"sex": ["m"]}}]}),
    ]
    for code, given_ in wrong:
        with fails_with(code, ConfigError):
            made(SCHEMA, **given_)
    read = made(SCHEMA, at_least=[{"cells": {"sex": ["f"]}, "column": "beds"}])
    both = read + made(SCHEMA, never=[{"cells": {"sex": ["m"], "age": ["65+"]}}])
    assert [rule.kind for rule in both.rules] == ["at_least", "never"]
    with pytest.raises(ConfigError, match="there twice"):
        read + read
    other = topdown.Schema.from_lists({"sex": ["f", "m"]}, name="other")
    for code, more in (
        ("C342", {"invariants": read}),
        ("C030", {"settings": topdown.Settings.load("toy")}),
        ("C030", {"invariants": made(other, never=[{"cells": {"sex": ["m"]}}])}),
        ("C341", {"budget": topdown.Budget(rho=1, epsilon=1)}),
        ("C341", {"budget": topdown.Budget(rho=1), "epsilon": 1}),
    ):
        with fails_with(code, ConfigError):
            topdown.plan(**{"schema": SCHEMA, "geography": TREE, "budget": topdown.Budget(rho=1)} | more)
    with fails_with("D018", DataError):
        topdown.plan(schema=SCHEMA, geography=TREE, rho=1, invariants=read, leaves=FACTS.iloc[:2])
    with pytest.raises(TypeError, match="float"):
        topdown.Budget(rho=0.5)  # type: ignore[arg-type]


def test_values_that_keep_something_are_released(tmp_path: Path) -> None:
    """What stays exact must be what the records say, in a release of values as in one of files."""
    draw = random.Random(2)
    rows = [(draw.choice("123"), draw.choice("fm"), draw.choice(["0-17", "18-64"])) for _ in range(200)]
    people = pd.DataFrame(rows, columns=["geocode", "sex", "age"])
    keeps = topdown.Invariants.from_tables(
        SCHEMA,
        exact=[{"level": "land", "query": "total"}],
        never=[{"cells": {"age": ["65+"]}}],
        at_least=[{"cells": {}, "column": "beds"}],
    )
    planned = topdown.plan(
        schema=SCHEMA,
        geography=TREE,
        records=people,
        leaves=FACTS,
        invariants=keeps,
        rho="1/2",
        data_set="town",
    )
    made = topdown.generate(planned.write(tmp_path / "office"), tmp_path / "release")
    assert made.checks.ok
    table = topdown.Release(tmp_path / "release").table("age", "land")
    assert len(people) == int(table["count"].sum())
    assert "65+" not in set(table["age"])
