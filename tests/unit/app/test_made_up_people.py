"""People made up to try a run with: never nobody, and only where public facts allow somebody."""

from pathlib import Path

import numpy as np

from tests.helpers.odd_plans import write_odd_run
from topdown.app import made_up_people
from topdown.plan import prepare


def test_many_cells_and_a_small_total_do_not_round_to_nobody(tmp_path: Path) -> None:
    """A rehearsal without a record fails, and with it a plan that could be released."""
    context = prepare(write_odd_run(tmp_path / "odd", 8037, wings=True)).context
    found = made_up_people(context)
    assert found.count.sum() > 0
    is_open = context.rules.open[-1][:, context.rules.class_of_cell]
    assert is_open[found.node, found.cell].all()
    assert (np.bincount(found.node, found.count) <= 10).all()
