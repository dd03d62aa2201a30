"""Shape of a census in a few numbers, and a third schema that no file of the project knows."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from tests.helpers.rule_texts import rule
from topdown.practice.synth import synth

SHOP_SCHEMA = """\
type = "topdown.schema"
version = 1
name = "shop"
title = "People and where they sleep"
unit = "person"
source = "made up"
[[attribute]]
name = "colour"
labels = ["red", "green", "blue", "grey"]
[[attribute]]
name = "bed"
labels = ["house", "boat", "hostel", "ward"]
[[attribute]]
name = "old"
labels = ["no", "yes"]
"""

SHOP_INVARIANTS = """\
type = "topdown.invariants"
version = 1
name = "shop"
title = "Beds"
schema = "shop"
""" + (
    rule(
        "none_where_zero",
        "no residents without houses or moorings",
        'bed = ["house", "boat"]',
        columns=["houses", "moorings"],
    )
    + rule("none_where_zero", "boats need moorings", 'bed = ["boat"]', columns=["moorings"])
    + rule("none_where_zero", "hostels", 'bed = ["hostel"]', columns=["hostels"])
    + rule("none_where_zero", "wards", 'bed = ["ward"]', columns=["wards"])
    + rule("at_least", "three in a hostel", 'bed = ["hostel"]', column="hostels", per=3)
    + rule("at_least", "one old person in a ward", 'bed = ["ward"], old = ["yes"]', column="wards")
    + rule("at_least", "two in a ward", 'bed = ["ward"]', column="wards", per=2)
    + rule("never", "no red person in a ward", 'bed = ["ward"], colour = ["red"]')
)

SHOP_SETTINGS = """\
type = "topdown.settings"
version = 1
name = "shop"
title = "Shop"
schema = "shop"
invariants = "shop"
neighbours = "bounded"
mechanism = "discrete_gaussian"
[budget]
rho = "1"
[[level]]
name = "nation"
share = "1/2"
queries = { detailed = "1" }
passes = [{ table = "detailed" }]
rounding = [{ table = "total", weight = 10 }, { table = "detailed", weight = 1 }]
[[level]]
name = "village"
share = "1/2"
queries = { detailed = "1" }
passes = [{ table = "detailed" }]
rounding = [{ table = "total", weight = 10 }, { table = "detailed", weight = 1 }]
"""


@pytest.fixture
def shop(tmp_path: Path) -> dict[str, str]:
    """Write the third schema, its invariants and settings; return the arguments that name them."""
    texts = {"schema": SHOP_SCHEMA, "invariants": SHOP_INVARIANTS, "settings": SHOP_SETTINGS}
    for kind, text in texts.items():
        (tmp_path / f"shop_{kind}.toml").write_text(text, encoding="utf-8")
    return {kind: str(tmp_path / f"shop_{kind}.toml") for kind in texts}


@pytest.fixture(scope="session")
def census(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make up 400,000 people of schema pl94, once."""
    folder = tmp_path_factory.mktemp("census")
    synth(folder, people=400_000, seed=3)
    return folder


@pytest.fixture(scope="session")
def shape_of() -> Callable[[Path], dict[str, float]]:
    """Return the function that describes a folder of pl94 tables."""
    return _shape


def _shape(folder: Path) -> dict[str, float]:
    text = pa_csv.ConvertOptions(
        column_types=dict.fromkeys(("geocode", "hhgq", "votingage", "hispanic", "cenrace"), pa.string())
    )
    persons = pa_csv.read_csv(folder / "persons.csv.gz", convert_options=text)
    blocks = pa_csv.read_csv(folder / "blocks.csv.gz", convert_options=text)
    count = persons.column("count").to_numpy()
    column = {name: np.asarray(persons.column(name).to_pylist()) for name in persons.column_names[:5]}
    _, block = np.unique(column["geocode"], return_inverse=True)
    n_blocks = int(block.max()) + 1
    race = column["cenrace"].astype(np.int64)
    group = np.where(column["hispanic"] == "hispanic", 0, np.minimum(race, 7))
    adult = column["votingage"] == "18_plus"
    by_group = np.zeros((n_blocks, 8))
    np.add.at(by_group, (block, group), count)
    size = by_group.sum(axis=1)
    _, home = np.unique([code[:12] for code in column["geocode"].tolist()], return_inverse=True)
    of_home = np.zeros((int(home.max()) + 1, 8))
    np.add.at(of_home, (home, group), count)
    apart = np.abs(of_home / of_home.sum(axis=1, keepdims=True) - of_home.sum(axis=0) / of_home.sum())
    people = size.sum()
    p50, p90, p99 = np.quantile(size, [0.5, 0.9, 0.99])
    return {
        "people per populated block": people / n_blocks,
        "share of empty blocks": 1 - n_blocks / blocks.num_rows,
        "largest group share": float((by_group.max(axis=1) / size).mean()),
        "nonzero of 16 coarse cells": len(np.unique(block * 16 + group * 2 + adult)) / n_blocks,
        "cells per block": persons.num_rows / n_blocks,
        "dissimilarity of block groups": float((apart.sum(axis=1) / 2 * of_home.sum(axis=1)).sum() / people),
        "median block": p50,
        "90th percentile of blocks": p90,
        "99th percentile of blocks": p99,
        "household": count[column["hhgq"] == "household"].sum() / people,
        "voting age": count[adult].sum() / people,
        "hispanic": by_group[:, 0].sum() / people,
        "white alone": count[race == 1].sum() / people,
        "people per housing unit": count[column["hhgq"] == "household"].sum()
        / blocks.column("housing_units").to_numpy().sum(),
    }
