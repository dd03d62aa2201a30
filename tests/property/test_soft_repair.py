"""The repair of a leaf that breaks soft rules against every table of as many records."""

import tempfile
from functools import cache
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.helpers import policies
from tests.helpers.depth import repeats
from tests.helpers.rule_texts import rule
from topdown.formats import Broken, Repair
from topdown.model import Schema
from topdown.plan import PublicContext
from topdown.solve import Node, SoftRuleRepair, Tally

SHAPE, N_CELLS, MOST_RECORDS = (3, 2, 3), 18, 5
DWELLING, SEX, AGE = np.unravel_index(np.arange(N_CELLS), SHAPE)
HOMES = DWELLING == 0
RULES = {  # name: text of the cells, times, text of the others, and both as a row
    "children": ('age = ["0_17"]', 1, 'age = ["18_64", "65_plus"]', (AGE == 0) - 1 * (AGE > 0)),
    "few old": ('age = ["65_plus"]', 2, 'age = ["18_64"]', (AGE == 2) - 2 * (AGE == 1)),
    "an adult at home": (
        'dwelling = ["home"]', 99999, 'dwelling = ["home"], age = ["18_64"]',
        1 * HOMES - 99999 * (HOMES & (AGE == 1)),
    ),
    "women": ('sex = ["female"]', 1, 'sex = ["male"]', (SEX == 0) - 1 * (SEX == 1)),
    "old women": (
        'sex = ["female"], age = ["65_plus"]', 1, 'sex = ["male"], age = ["65_plus"]',
        ((SEX == 0) & (AGE == 2)) - 1 * ((SEX == 1) & (AGE == 2)),
    ),
    "home": ('dwelling = ["home"]', 1, 'dwelling = ["dormitory", "barracks"]', 1 * HOMES - 1 * ~HOMES),
}  # fmt: skip
POLICIES = {
    "plain": ("", ()),
    "nested": (policies.WOMEN, ()),
    "caps": (policies.OLD_AT_HOME + policies.FULL_BARRACKS, ()),
    "mixed": (policies.MIXED, ()),
    "dwellings": (policies.exact("dwellings", "county", "dwelling") + policies.OLD_AT_HOME, ([DWELLING],)),
    "ages": (policies.exact("ages", "land", "age"), ([AGE],)),
    "crossing": (policies.POLICIES["county and land cross"], ([DWELLING], [AGE, SEX])),
}
SPOKEN = {
    "children": "age", "few old": "age", "women": "sex", "home": "dwelling", "old women": "sex age",
    "an adult at home": "dwelling age",
}  # fmt: skip


def text_of(names: list[str]) -> str:
    """Return rules as they stand in an invariants file."""
    return "".join(rule("no_more_than", n, RULES[n][0], than=RULES[n][2], times=RULES[n][1]) for n in names)


@cache
def all_tables(total: int) -> np.ndarray:
    """Return every table of so many records, int64 (n_tables, 18)."""
    chosen = np.array(list(combinations_with_replacement(range(N_CELLS), total)), dtype=np.int64)
    out = np.zeros((len(chosen), N_CELLS), dtype=np.int64)
    np.add.at(out, (np.repeat(np.arange(len(chosen)), total), chosen.reshape(-1)), 1)
    return out


def promised(context: PublicContext, leaf: int, tables: np.ndarray) -> np.ndarray:
    """Return the tables that keep zeros, bounds and caps of a leaf."""
    rules = context.rules
    ok = ~tables[:, ~rules.open[-1][leaf][rules.class_of_cell]].any(axis=1)
    for cells, low in zip(rules.bound_cells, rules.lower[-1][leaf], strict=True):
        ok &= tables[:, cells].sum(axis=1) >= low
    for cells, most in zip(rules.cap_cells, rules.caps[leaf], strict=True):
        ok &= tables[:, cells].sum(axis=1) <= most
    return tables[ok]


def same_sums(tables: np.ndarray, table: np.ndarray, labels: list[np.ndarray]) -> np.ndarray:
    """Tell which tables have a table's number of records in every combination of labels."""
    if not labels:
        return np.ones(len(tables), dtype=bool)
    group = np.unique(np.stack(labels), axis=1, return_inverse=True)[1].reshape(-1)
    picker = (group[:, None] == np.arange(group.max() + 1)).astype(np.int64)
    return (tables @ picker == table @ picker).all(axis=1)


def distance_to_best(
    tables: np.ndarray, table: np.ndarray, names: list[str], exact: tuple[list[np.ndarray], ...]
) -> tuple[int, bool] | None:
    """Return the least L1 distance and whether other attributes stay; None if no table keeps the rules."""
    keeps = np.ones(len(tables), dtype=bool)
    for labels in exact:
        keeps &= same_sums(tables, table, labels)
    for name in names:
        keeps &= tables @ RULES[name][3] <= 0
    values = {"dwelling": DWELLING, "sex": SEX, "age": AGE}
    spoken = " ".join(SPOKEN[name] for name in names).split()
    others = [*(v for a, v in values.items() if a not in spoken)]
    for cautious in (True, False):
        inside = keeps & same_sums(tables, table, others) if cautious else keeps
        if inside.any():
            return int(np.abs(tables[inside] - table).sum(axis=1).min()), cautious
    return None


def repair(context: PublicContext, leaf: int, table: np.ndarray) -> tuple[np.ndarray, Tally]:
    """Finish one leaf."""
    tally = Tally()
    cells = np.flatnonzero(table)
    repairs = SoftRuleRepair.of_release(context)
    codes = context.geography.leaves.codes
    node = repairs.finish(Node(leaf, cells, table[cells]), context.rules, codes, tally)
    out = np.zeros(N_CELLS, dtype=np.int64)
    out[node.cells] = node.counts
    return out, tally


@pytest.mark.deep
@pytest.mark.parametrize("policy", POLICIES)
@given(seed=st.integers(0, 1_000_000), names=st.sets(st.sampled_from(sorted(RULES)), min_size=1, max_size=3))
@settings(max_examples=repeats(5, 24), deadline=None)
def test_a_repair_is_the_smallest_of_all(policy: str, seed: int, names: set[str]) -> None:
    """Whatever the leaf, no table that keeps everything is nearer, and a leaf is given up only if there is none."""
    rng, order = np.random.default_rng(seed), sorted(names)
    more, exact = POLICIES[policy]
    with tempfile.TemporaryDirectory() as folder:
        context = policies.make_census(Path(folder), seed, more + text_of(order)).context
    check_leaves(context, rng, order, exact)


def check_leaves(
    context: PublicContext, rng: np.random.Generator, order: list[str], exact: tuple[list[np.ndarray], ...]
) -> list[dict]:
    """Finish random tables of every leaf with few people and compare; return all that was repaired or broken."""
    found = []
    assert schema_shape(context.plan.schema) == SHAPE
    for leaf, code in enumerate(context.geography.leaves.codes):
        total = int(rng.integers(1, MOST_RECORDS + 1))
        tables = promised(context, leaf, all_tables(total))
        if not len(tables):
            continue
        before = tables[int(rng.integers(len(tables)))]
        after, tally = repair(context, leaf, before)
        broken = [name for name in order if before @ RULES[name][3] > 0]
        if not broken:
            assert np.array_equal(before, after)
            assert not tally.repairs + tally.broken
            continue
        expected = distance_to_best(tables, before, order, exact)
        if expected is None:
            assert tally.broken == [Broken(node=code, proved=True, constraints=in_order(context, broken))]
            assert not tally.repairs
            assert np.array_equal(before, after)
            found += [{"broken": True}]
            continue
        assert not tally.broken
        (told,) = tally.repairs
        assert told == Repair(
            node=code,
            distance=expected[0],
            marginals_kept=expected[1],
            proved=True,
            constraints=in_order(context, broken),
        )
        assert (tables == after).all(axis=1).any()
        assert all(after @ RULES[name][3] <= 0 for name in order)
        assert int(np.abs(after - before).sum()) == expected[0]
        for labels in exact:
            assert same_sums(after[None], before, labels).all()
        found += [structs.asdict(told)]
    return found


def in_order(context: PublicContext, names: list[str]) -> list[str]:
    """Return rules in the order of the plan."""
    return [rule.name for rule in context.plan.invariants.no_more_than if rule.name in names]


def schema_shape(schema: Schema) -> tuple[int, ...]:
    """Return the numbers of values of the attributes."""
    return tuple(schema.shape)


def test_all_ends_occur(tmp_path: Path) -> None:
    """Repairs and leaves given up must both be among the leaves, or the test above is empty."""
    seen = set()
    for seed in range(8):
        order = ["an adult at home", "children", "old women"] if seed % 2 else ["home", "women"]
        policy = ("mixed", "caps", "dwellings", "nested")[seed % 4]
        more, exact = POLICIES[policy]
        context = policies.make_census(tmp_path / str(seed), seed, more + text_of(order)).context
        found = check_leaves(context, np.random.default_rng(seed), order, exact)
        seen |= {"broken" if "broken" in f else f["marginals_kept"] for f in found}
    assert {"broken", True} <= seen


def test_a_wider_repair_is_tried_before_giving_up(tmp_path: Path) -> None:
    """Women alone in a dormitory closed to men: sex cannot change there, but some can move to homes as men."""
    closed = rule("never", "no men in dormitories", 'dwelling = ["dormitory"], sex = ["male"]')
    n_wider = 0
    for seed in range(6):
        context = policies.make_census(tmp_path / str(seed), seed, text_of(["women"]) + closed).context
        rules = context.rules
        for leaf in range(12):
            tables = promised(context, leaf, all_tables(4))
            tables = tables[
                (tables[:, SEX == 1].sum(axis=1) == 0) & (tables[:, DWELLING == 1].sum(axis=1) == 4)
            ]
            if not len(tables) or not rules.open[-1][leaf][rules.class_of_cell][HOMES].all():
                continue
            after, tally = repair(context, leaf, tables[0])
            expected = distance_to_best(promised(context, leaf, all_tables(4)), tables[0], ["women"], ())
            assert expected is None or expected[1] is False
            assert len(tally.repairs) == (expected is not None)
            assert bool(tally.broken) == (expected is None)
            if expected is not None:
                assert tally.repairs[0].marginals_kept is False
                assert int(np.abs(after - tables[0]).sum()) == expected[0]
                n_wider += 1
    assert n_wider > 0
