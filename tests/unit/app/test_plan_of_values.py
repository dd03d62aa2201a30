"""Plans that a program makes of values: the same plans as those of files, and releases from data frames."""

import random
from fractions import Fraction

import pandas as pd
import pytest

import topdown
from tests.helpers.failing import fails_with
from topdown.errors import ConfigError

SCHEMA = topdown.Schema.from_lists(
    {"sex": ["f", "m"], "age": ["0-17", "18-64", "65+"]},
    {"age": {"grown": {"child": ["0-17"], "adult": ["18-64", "65+"]}}},
)
PLACES = pd.DataFrame({"region": ["N", "N", "S"], "town": ["1", "2", "3"]})
TREE = topdown.Geography.from_table(PLACES, ["land", "region", "town"])


def people(n: int) -> pd.DataFrame:
    """Return made-up records."""
    draw = random.Random(1)
    rows = [(draw.choice("123"), draw.choice("fm"), draw.choice(["0-17", "18-64"]), i) for i in range(n)]
    return pd.DataFrame(rows, columns=["geocode", "sex", "age", "id"])


@pytest.mark.parametrize("budget", [{"rho": "1/2"}, {"epsilon": 1}, {"epsilon": "1", "delta": "1e-6"}])
def test_files_and_values_are_one_plan(tmp_path, budget):
    """A ledger charges by plan hash: a plan that changes when it is written would be charged twice."""
    planned = topdown.plan(schema=SCHEMA, geography=TREE, records=people(5), **budget)
    written = planned.write(tmp_path / "office")
    assert planned.plan_hash == written.plan_hash
    assert planned.to_toml() == (tmp_path / "office" / "run.toml").read_text().replace(_id(written), "")
    assert 'ignore = ["id"]' in planned.to_toml()
    with fails_with("C080", ConfigError):
        planned.write(tmp_path / "office")


def _id(written: topdown.Planned) -> str:
    lines = written.prepared.path.read_text().splitlines(keepends=True)
    (line,) = [line for line in lines if line.startswith("id = ") and "ledger" in line]
    return line


def test_a_release_is_made_of_a_data_frame(tmp_path):
    """Records that must be a file first are one more copy of what is confidential."""
    planned = topdown.plan(schema=SCHEMA, geography=TREE, records=people(300), epsilon=1, data_set="town")
    with fails_with("C340", ConfigError):
        topdown.generate(planned, tmp_path / "release")
    made = topdown.generate(planned.write(tmp_path / "office"), tmp_path / "release")
    assert made.checks.ok
    assert not [path for path in (tmp_path / "office").rglob("*") if b"300" in path.name.encode()]


def test_columns_of_a_frame_may_be_called_otherwise(tmp_path):
    """An office calls its places by their kind; the first message about it came after the files were written."""
    office = people(200).rename(columns={"geocode": "town_code", "age": "ages"})
    values = {"schema": SCHEMA, "geography": TREE, "rho": 1}
    called = {"geocode": "town_code", "age": "ages"}
    planned = topdown.plan(records=office, columns=called, **values)
    assert planned.plan_hash == topdown.plan(records=people(200), **values).plan_hash
    made = topdown.generate(planned.write(tmp_path / "office"), tmp_path / "release")
    assert made.checks.ok
    for given, code in (
        ({"records": office}, "C370"),
        ({"records": office, "columns": {"geocode": "place", "age": "ages"}}, "C370"),
        ({"records": office, "columns": called | {"income": "id"}}, "C138"),
    ):
        with fails_with(code, ConfigError):
            topdown.plan(**values, **given)
    with fails_with("C341", ConfigError):
        topdown.plan(planned.write(tmp_path / "more").prepared.path, columns=called)


def test_two_settings_stand_side_by_side():
    """Five lines must be enough to see what twice the budget buys."""
    one, two = (topdown.plan(schema=SCHEMA, geography=TREE, rho=rho) for rho in ("1/2", 1))
    frame = one.compare(two).frame()
    assert {"noise", "estimate"} == set(frame["what"])
    assert (frame["here"] > frame["there"]).all()
    assert one.errors()["noise"].tolist() == frame[frame["what"] == "noise"]["here"].tolist()
    grid = one.budget_grid([1, 2.5])
    assert sorted(set(grid["epsilon"])) == [1.0, 2.5]
    assert all(Fraction(text) > 0 for text in grid["budget"])
    asked = (one.budget_for(3), one.compare_noise("1e-6"))
    assert [len(repr(of)) < 200 and "Fraction" not in repr(of) for of in asked] == [True, True]
    assert "rho 1/2 beside rho 1" in one.compare(two)._repr_html_()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, "C341"),
        ({"rho": 1, "epsilon": 1}, "C341"),
        ({"delta": "1e-6"}, "C341"),
        ({"rho": 0.5}, "float"),
        ({"run": "run.toml", "rho": 1}, "C341"),
    ],
)
def test_a_budget_is_whole_and_exact(given, error):
    """A float that noise is set by is a number that nobody typed."""
    with pytest.raises((ConfigError, TypeError)) as refused:
        topdown.plan(**{"schema": SCHEMA, "geography": TREE} | given)
    assert error in f"{getattr(refused.value, 'code', '')} {refused.value}"


def test_mechanisms_of_different_kinds_are_composed_exactly():
    """Kinds that are added up by hand cost more than they spend, or less."""
    gaussian = topdown.Composition.of([(Fraction(v), 1, 1) for v in (100, 225, 400)])
    alone = topdown.account(gaussian=[100, 225, 400]).delta(1)
    assert alone.lower <= gaussian.delta(1).upper
    assert gaussian.delta(1).lower <= alone.upper
    ten = topdown.account(
        gaussian=[100, 225, 400, 900], geometric=["1/10", "1/5"], pure=["1/20"] * 2 + ["1/8", "1/4"]
    )
    assert ten.delta(1).lower > alone.upper
    pure = topdown.account(pure=["1/2"])
    assert (pure.delta("1/2").upper < Fraction(1, 10**9), pure.delta("1/4").lower > 0) == (True, True)
    with pytest.raises(TypeError, match="float"):
        topdown.account(geometric=[0.1])


def test_two_attributes_of_two_labels_are_released(tmp_path):
    """Losses of its noise have a common divisor: what verify's lattice adds there halves with its step, no faster."""
    schema = topdown.Schema.from_lists({"sex": ["f", "m"], "age": ["0-17", "18+"]})
    planned = topdown.plan(
        schema=schema, geography=TREE, records=people(60).replace("18-64", "18+"), rho="1/3"
    )
    made = topdown.generate(planned.write(tmp_path / "office"), tmp_path / "release")
    assert made.checks.ok
