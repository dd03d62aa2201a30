"""Answers that a base release leaves open: all nodes at once, beside node by node."""

import numpy as np
import pytest

from tests.helpers.audited import without_noise
from tests.helpers.tiny_extension import draw_world
from topdown.measure import level_drawer
from topdown.model import Histogram
from topdown.plan import PublicContext
from topdown.privacy import AesBits


def slowly(
    context: PublicContext, depth: int, histogram: Histogram, nodes: list[int]
) -> tuple[list[int], list[int]]:
    """Return answers and sizes node by node, query by query, answer by answer."""
    answers, sizes = [], []
    people = list(
        zip(histogram.node.tolist(), histogram.cell.tolist(), histogram.count.tolist(), strict=True)
    )
    for node in nodes:
        cells = context.support.cells(depth, node)
        for query in context.queries(context.plan.levels[depth].name):
            listed = sorted({int(query.labels[cell]) for cell in cells})
            sizes.append(len(listed))
            answers += [
                sum(n for i, cell, n in people if i == node and query.labels[cell] == answer)
                for answer in listed
            ]
    return answers, sizes


@pytest.mark.parametrize("seed", range(12))
def test_all_nodes_at_once_are_as_one_by_one(seed):
    """A record counted at another answer, or one where the base release has nobody, would move a published number."""
    world, random = draw_world(seed, n_leaves=4), np.random.default_rng(seed)
    context = world.context()
    for depth, level in enumerate(context.plan.levels):
        n_nodes, n_cells = len(context.geography.levels[depth]), context.plan.schema.n_cells
        node, cell = np.nonzero(random.random((n_nodes, n_cells)) < 0.6)  # also where nothing is open
        histogram = Histogram.build(n_nodes, n_cells, node, cell, random.integers(1, 9, len(node)))
        nodes = np.flatnonzero(context.inhabited[depth])
        for some in (nodes, nodes[1:], nodes[::2]):
            if not len(some):
                continue
            with without_noise():
                drawn = level_drawer(context, depth, histogram, AesBits()).draw(some)
            answers, sizes = slowly(context, depth, histogram, some.tolist())
            assert (answers, sizes) == (drawn.answers.tolist(), drawn.sizes.tolist()), level.name
