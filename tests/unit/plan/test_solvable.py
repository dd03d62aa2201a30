"""Numbers that solver and files cannot carry out are refused with the plan, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers.small_release import make_context
from topdown.errors import ConfigError
from topdown.model.geography import Geography, from_prefixes
from topdown.plan.plan import Plan
from topdown.plan.solvable import MOST_COST, MOST_WEIGHT, check_solvable


def flat(n_blocks: int) -> Geography:
    """Return one county with so many blocks."""
    return from_prefixes(("land", "county", "block"), (1, 2, 6), tuple(f"11{i:04d}" for i in range(n_blocks)))


@pytest.fixture
def plan(tmp_path) -> Plan:
    """Return a plan of three levels whose blocks are rounded with the largest weight."""
    made = make_context(tmp_path).plan
    levels = list(made.levels)
    levels[2] = replace(
        levels[2], rounding=tuple(replace(step, weight=MOST_WEIGHT) for step in levels[2].rounding)
    )
    return replace(made, levels=tuple(levels))


def test_costs_of_many_children_must_stay_exact(plan):
    """A network whose costs do not fit whole numbers would fail after the charge; one that fits must not be refused."""
    answers = sum(plan.query(step.table).n_answers for step in plan.levels[2].rounding)
    most = (MOST_COST // MOST_WEIGHT - plan.schema.n_cells) // answers
    check_solvable(plan, flat(most), is_extension=False)
    with pytest.raises(ConfigError, match="areas below one parent") as caught:
        check_solvable(plan, flat(most + 1), is_extension=False)
    assert (caught.value.code, caught.value.key) == ("C055", ("level", "2"))


def test_an_extension_is_not_bound_by_networks_it_does_not_have(plan):
    """A schema of a million cells has more answers than any weight fits: its tables are rounded stage by stage."""
    check_solvable(plan, flat(5_000), is_extension=True)
