"""Numbers that solver and files cannot carry out are refused with the plan, and no others."""

from dataclasses import replace

import pytest

from tests.helpers.small_release import make_context
from topdown.errors import ConfigError
from topdown.model import Geography, from_prefixes
from topdown.plan import MOST_FLOW_COST, MOST_ROUNDING_WEIGHT, Plan, check_solvable, most_flow_nodes, prepare
from topdown.practice.synth import synth


def flat(n_blocks: int) -> Geography:
    """Return one county with so many blocks."""
    return from_prefixes(("land", "county", "block"), (1, 2, 7), tuple(f"11{i:05d}" for i in range(n_blocks)))


@pytest.fixture
def plan(tmp_path) -> Plan:
    """Return a plan of three levels whose blocks are rounded with the largest weight."""
    made = make_context(tmp_path).plan
    levels = list(made.levels)
    levels[2] = replace(
        levels[2], rounding=tuple(replace(step, weight=MOST_ROUNDING_WEIGHT) for step in levels[2].rounding)
    )
    return replace(made, levels=tuple(levels))


def test_costs_of_many_children_must_stay_exact(plan):
    """A network whose costs do not stay exact leaves roundings unproved; others must not be refused."""
    one, two = (
        most_flow_nodes(plan, flat(n), 2) for n in (1, 2)
    )  # one parent: as many more nodes for every block
    most = 1 + (MOST_FLOW_COST // MOST_ROUNDING_WEIGHT - one) // (two - one)
    check_solvable(plan, flat(most), is_extension=False)
    with pytest.raises(ConfigError, match="areas below one parent") as caught:
        check_solvable(plan, flat(most + 1), is_extension=False)
    assert (caught.value.code, caught.value.key) == ("C055", ("level", "2"))


def test_a_county_of_two_thousand_tracts_is_planned(tmp_path):
    """The production settings of 2020 meet counties of 2,205 tracts, and states of a hundred thousand blocks."""
    levels = ("state", "tract", "block_group")
    made = synth(tmp_path, people=2_000, levels=levels).run_file
    assert made is not None
    wide = from_prefixes(levels, (2, 7, 8), tuple(f"99{i // 9:05d}{i % 9}" for i in range(9 * 2_205)))
    check_solvable(prepare(made).context.plan, wide, is_extension=False)


def test_an_extension_is_not_bound_by_networks_it_does_not_have(plan):
    """A schema of a million cells has more answers than any weight fits: its tables are rounded stage by stage."""
    check_solvable(plan, flat(5_000), is_extension=True)
