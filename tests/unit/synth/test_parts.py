"""The generator's parts where a whole census would hide a fault: tight bounds, rare cells, facilities by sex."""

import csv
import gzip
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.model import AtLeast, Attribute, Histogram, Invariants, Never, NoneWhereZero, Schema, Selection
from topdown.plan import load_invariants, load_schema
from topdown.practice.synth import (
    Crowd,
    DrawnPeople,
    FacilityShape,
    LevelShape,
    Population,
    Profile,
    SynthResult,
    facility_sizes,
    grow_tree,
    housing_of_schema,
    load_profile,
    people_together,
    settle_facilities,
    synth,
    tree_capacity,
)
from topdown.resources import bundled_root, find

PAIR = Schema("pair", "pair", "person", (Attribute("a", tuple("xy")), Attribute("b", tuple("pqr"))))
SHAPES = (LevelShape(name="top", people=500), LevelShape(name="leaf", people=10))


def bound(per: int, **cells: str) -> AtLeast:
    return AtLeast("bound", tuple((name, (label,)) for name, label in cells.items()), "k", per)


def test_small_facilities_still_meet_their_bound() -> None:
    """A facility of one person would stand where at least four are promised."""
    profile = Profile(facility=(FacilityShape(column="k", per_million=20_000, size=1),))
    who = housing_of_schema(PAIR, Invariants("i", "i", "pair", at_least=(bound(4, a="x"),)), profile)
    size = facility_sizes(profile, who, 5_000, seed=1)["k"]
    assert (len(size), size.min()) == (100, 4)


def test_facilities_leave_most_people_at_home() -> None:
    """Facilities would hold more people than there are."""
    profile = Profile(facility=(FacilityShape(column="k", per_million=100_000, size=1_000),))
    who = housing_of_schema(PAIR, Invariants("i", "i", "pair", at_least=(bound(2, a="x"),)), profile)
    size = facility_sizes(profile, who, 1_000, seed=1)["k"]
    assert len(size) == 100
    assert 2 <= size.min() <= size.sum() / 100 <= 2


def test_everybody_in_facilities() -> None:
    """Where no cell is open without a facility, people would be put where nobody may be."""
    closed = NoneWhereZero("z", (("a", ("x", "y")),), ("k",))
    rules = Invariants("i", "i", "pair", at_least=(bound(1, a="x"),), none_where_zero=(closed,))
    who = housing_of_schema(PAIR, rules, Profile())
    assert not who.residents.any()
    assert facility_sizes(Profile(), who, 777, seed=1)["k"].sum() == 777


def test_a_bound_nobody_can_meet_is_refused() -> None:
    """The generator would loop, or write a census that breaks the bound."""
    never = Never("n", (("a", ("x",)),))
    with fails_with("C063", ConfigError):
        housing_of_schema(
            PAIR, Invariants("i", "i", "pair", at_least=(bound(1, a="x"),), never=(never,)), Profile()
        )


def test_every_facility_and_person_is_kept() -> None:
    """Facilities of one site would overwrite each other."""
    profile = Profile(facility=(FacilityShape(column="k", per_million=1, size=1, per_site=3),))
    who = housing_of_schema(PAIR, Invariants("i", "i", "pair", at_least=(bound(1, a="x"),)), profile)
    facilities, (group,) = settle_facilities(profile, who, {"k": np.array([5, 1, 2, 9])}, 4, seed=1)
    assert (group.name, facilities["k"].sum(), group.people.sum()) == ("bound", 4, 17)
    assert facilities["k"].max() >= 3
    assert (facilities["k"][group.leaves] > 0).all()


def kinds(*at_least: AtLeast) -> tuple[Profile, Invariants]:
    """Facilities k: those of x only count in kx, of y only in ky, of both in kb."""
    shape = FacilityShape(column="k", per_million=20_000, size=3, kinds={"kx": 30, "ky": 20, "kb": 50})
    zeros = tuple(NoneWhereZero(z, (("a", (z,)), ("b", ("p",))), (f"k{z}", "kb")) for z in "xy")
    return Profile(facility=(shape,)), Invariants("i", "i", "pair", at_least=at_least, none_where_zero=zeros)


def test_kinds_of_facilities_take_their_own_people_only() -> None:
    """A man would live in a facility for women only, or a facility would stand empty."""
    own = tuple(AtLeast(f"k{z}", (("a", (z,)), ("b", ("p",))), f"k{z}") for z in "xy")
    profile, rules = kinds(AtLeast("k", (("b", ("p",)),), "k"), *own)
    who = housing_of_schema(PAIR, rules, profile)
    assert [lodging.columns for lodging in who.lodgings["k"]] == [("k", "kx"), ("k", "ky"), ("k", "kb")]
    assert [lodging.need for lodging in who.lodgings["k"]] == [1, 1, 1]
    size = facility_sizes(profile, who, 20_000, seed=1)
    facilities, groups = settle_facilities(profile, who, size, 50, seed=1)
    np.testing.assert_array_equal(facilities["k"], facilities["kx"] + facilities["ky"] + facilities["kb"])
    assert len(size["k"]) == facilities["k"].sum() == 400
    assert [sum(facilities[c]) for c in ("kx", "ky", "kb")] == pytest.approx([120, 80, 200], abs=40)
    for group, column, labels in zip(groups, ("kx", "ky", "kb"), ("x", "y", "xy"), strict=True):
        np.testing.assert_array_equal(PAIR.select({"a": tuple(labels), "b": ("p",)}), group.cells)
        np.testing.assert_array_equal(np.flatnonzero(facilities[column]), group.leaves)
        assert (group.people >= facilities[column][group.leaves]).all()
    assert size["k"].sum() == sum(int(group.people.sum()) for group in groups)
    assert who.residents.tolist() == [False, True, True, False, True, True]


def test_a_kind_without_a_bound_keeps_its_people() -> None:
    """People drawn for co-ed facilities would be lost where only the single-sex ones have a bound."""
    own = tuple(AtLeast(f"k{z}", (("a", (z,)), ("b", ("p",))), f"k{z}", 2) for z in "xy")
    profile, rules = kinds(*own)
    who = housing_of_schema(PAIR, rules, profile)
    size = facility_sizes(profile, who, 20_000, seed=2)
    _, groups = settle_facilities(profile, who, size, 50, seed=2)
    assert size["k"].sum() == sum(int(group.people.sum()) for group in groups)
    np.testing.assert_array_equal(PAIR.select({"b": ("p",)}), groups[-1].cells)


def test_people_stay_in_their_cells_even_if_these_are_rare() -> None:
    """After many refused draws a person would be left in a forbidden cell."""
    labels = tuple(f"v{i}" for i in range(25))
    schema = Schema("wide", "wide", "person", (Attribute("a", labels), Attribute("b", labels)))
    tree = grow_tree(SHAPES, 2_000, 30, seed=1)
    diagonal = np.eye(25, dtype=bool).reshape(-1)
    population = Population(schema, load_profile(schema), tree, seed=1)
    lived = np.flatnonzero(tree.residents)
    parts = list(population.draw(Crowd("r", lived, tree.residents[lived], diagonal, households=True)))
    leaf, cell, count = (np.concatenate([getattr(p, c) for p in parts]) for c in ("leaf", "cell", "count"))
    assert diagonal[cell].all()
    assert tree.residents.tolist() == np.bincount(leaf, weights=count, minlength=tree.n_leaves).tolist()


@pytest.mark.parametrize("people", [0, 1, 7, 5_000])
def test_tree_houses_everybody_once(people: int) -> None:
    """People would be lost where all leaves of a parent are empty."""
    tree = grow_tree((*SHAPES[:1], LevelShape(name="mid", people=100), *SHAPES[1:]), people, 90, seed=2)
    assert people == tree.residents.sum()
    assert len(set(tree.codes)) == tree.n_leaves == len(tree.parent[-1])
    assert {tree.prefix_lengths[-1]} == {len(code) for code in tree.codes}


def test_census_geocodes_never_overflow() -> None:
    """Eleven block groups in a tract would need two digits where the census has one."""
    names = (("state", 10**6), ("county", 10**6), ("tract", 10**6), ("block_group", 10), ("block", 5))
    tree = grow_tree(tuple(LevelShape(name=name, people=people) for name, people in names), 2_000, 30, seed=1)
    assert tree_capacity("tract", "block_group") == len(tree.parent[3])
    assert {15} == {len(code) for code in tree.codes}
    assert len(tree.codes) == len(set(tree.codes))


@given(st.data())
def test_people_put_together_as_they_come_are_those_put_together_at_once(data: st.DataObject) -> None:
    """A part that is cut at the wrong leaf would lose people, or write a leaf twice."""
    groups = []
    for _ in range(data.draw(st.integers(1, 3))):
        leaves = np.array(data.draw(st.lists(st.integers(0, 9), unique=True).map(sorted)), dtype=np.int64)
        cuts = data.draw(st.lists(st.integers(0, len(leaves)), max_size=3).map(sorted))
        pieces = [piece for piece in np.split(leaves, cuts) if len(piece)]
        groups.append([DrawnPeople(int(p[-1]), p, p % 2, np.arange(1, len(p) + 1)) for p in pieces])
    found = list(people_together(10, 2, [iter(group) for group in groups]))
    leaf, cell, count = (
        np.concatenate([np.zeros(0, dtype=np.int64), *(getattr(p, c) for group in groups for p in group)])
        for c in ("leaf", "cell", "count")
    )
    whole = Histogram.build(10, 2, leaf, cell, count)
    for column in ("node", "cell", "count"):
        joined = np.concatenate([np.zeros(0, dtype=np.int64), *(getattr(part, column) for part in found)])
        np.testing.assert_array_equal(getattr(whole, column), joined)


def test_one_county_as_large_as_asked_for() -> None:
    """The widest split of a nation could not be tried: made-up counties are alike."""
    shapes = (LevelShape(name="top", people=5_000), LevelShape(name="mid", people=500), *SHAPES[1:])
    tree = grow_tree(shapes, 5_000, 30, seed=2, largest={"mid": 3_000})
    of_mid = np.bincount(tree.parent[2], weights=tree.residents)
    assert of_mid[0] == pytest.approx(3_000, abs=2)
    assert of_mid.sum() == 5_000
    with fails_with("C065", ConfigError, match="of 5,000 residents"):
        grow_tree(shapes, 5_000, 30, seed=2, largest={"mid": 5_000})


@pytest.mark.parametrize("levels", [("land:5", "block"), ("land", "block:0"), ("land", "block:many")])
def test_a_size_that_is_none_is_refused(levels: tuple[str, ...], tmp_path: Path) -> None:
    """A misspelt size would be taken for a name of a level, or be ignored."""
    with fails_with("C066", ConfigError):
        synth(tmp_path, people=100, schema="toy", levels=levels)


SCHEMA = load_schema(find("schemas", "dhc_persons", bundled_root()))
TYPES = [label[3:6] for label in SCHEMA.attribute("relgq").labels if label.startswith("gq_")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SynthResult:
    """Make up 60,000 people with facilities of most types."""
    return synth(tmp_path_factory.mktemp("dhc"), people=60_000, schema="dhc_persons", seed=4)


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(gzip.decompress(path.read_bytes()).decode().splitlines()))


def inside(row: dict[str, str], cells: Selection) -> bool:
    return all(row[name] in labels for name, labels in cells)


def test_facilities_add_up_over_their_sexes(made: SynthResult) -> None:
    """The total of a type would contradict its parts, or the base release its detailed types."""
    for leaf in rows(made.leaves):
        for number in TYPES:
            parts = (int(leaf[f"gq_{number}_{kind}"]) for kind in ("male", "female", "coed"))
            assert int(leaf[f"gq_{number}"]) == sum(parts)
        assert int(leaf["gq_college"]) == int(leaf["gq_501"])


def test_people_fit_the_facilities(made: SynthResult) -> None:
    """A man would live where there are facilities for women only, or a facility would be empty."""
    rules = load_invariants(find("invariants", "dhc_persons_by_sex", bundled_root()), SCHEMA)
    leaves = {row["geocode"]: row for row in rows(made.leaves)}
    of_leaf: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows(made.records):
        if row["relgq"].startswith("gq_"):
            of_leaf[row["geocode"]].append(row)
    n_checked = 0
    for code, here in of_leaf.items():
        leaf = leaves[code]
        for zero in rules.none_where_zero:
            if not any(int(leaf[column]) for column in zero.columns):
                assert not [row for row in here if inside(row, zero.cells)], zero.name
    for bound in rules.at_least:
        for code, leaf in leaves.items():
            if int(leaf[bound.column]):
                n_checked += 1
                held = sum(int(row["count"]) for row in of_leaf[code] if inside(row, bound.cells))
                assert held >= int(leaf[bound.column]), bound.name
    assert n_checked > 80


def test_prisons_are_mostly_for_men_and_nursing_homes_for_both(made: SynthResult) -> None:
    """Shares of a profile that nobody reads would show in a demo as nonsense."""
    n: Counter[str] = Counter()
    for leaf in rows(made.leaves):
        n.update({name: int(value) for name, value in leaf.items() if name != "geocode"})
    assert n["gq_301_coed"] > 0.8 * n["gq_301"] > 8
    single = sum(n[f"gq_{t}_{sex}"] for t in TYPES for sex in ("male", "female"))
    assert 0.2 < single / sum(n[f"gq_{t}"] for t in TYPES) < 0.6


def test_other_invariants_get_their_columns_only(tmp_path: Path) -> None:
    """Invariants chosen by the user must win, and totals by type are enough for them."""
    other = synth(tmp_path, people=2_000, schema="dhc_persons", invariants="dhc_persons_2020")
    assert not [name for name in rows(other.leaves)[0] if name.endswith(("_male", "_female", "_coed"))]
    named = synth(tmp_path, people=2_000, schema="dhc_persons", settings="dhc_persons_2022_tracts")
    assert "gq_501_coed" not in rows(named.leaves)[0]
