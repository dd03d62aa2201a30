"""Make the files of one section: its part of the microdata, and of every table from the cut down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topdown.model.histogram import Histogram
from topdown.model.leaf_table import LeafTable
from topdown.model.sections import Sections, part_path
from topdown.plan.prepare import Context
from topdown.publish.microdata import PERSONS, microdata_bytes
from topdown.publish.tables import tables_up


@dataclass(frozen=True, eq=False)
class SectionSource:
    """What the files of all sections are made from.

    Args:
        context: plan and public facts.
        leaves: records of every leaf and cell.
        sections: of the tree.
    """

    context: Context
    leaves: LeafTable
    sections: Sections


@dataclass(frozen=True, eq=False)
class SectionFiles:
    """The files of one section.

    Args:
        files: their bytes, by path inside the release.
        above: its records by node and cell of the level above the cut; None where there is one section.
    """

    files: dict[str, bytes]
    above: Histogram | None


def section_files(source: SectionSource, number: int) -> SectionFiles:
    """Make the files of a section; those of a plan with intervals have no tables."""
    context, sections, levels = source.context, source.sections, source.context.geography.levels
    bottom, cut, alone = len(levels) - 1, sections.cut, len(sections) == 1
    nodes = [sections.nodes(number, depth) for depth in range(cut, bottom + 1)]
    here = source.leaves.between(nodes[-1].start, nodes[-1].stop)
    files = {PERSONS: microdata_bytes(context, here, nodes[-1])}
    if context.plan.coverage is None:
        files.update(tables_up(context, here, nodes, bottom))
    if alone:
        return SectionFiles(files, None)
    above = here
    for depth in range(bottom, cut - 1, -1):
        above = above.aggregate(levels[depth].parent, len(levels[depth - 1]))
    return SectionFiles({part_path(path, number): data for path, data in files.items()}, above)


def added(tables: list[Histogram]) -> Histogram:
    """Add up tables of one level."""
    node, cell, count = (np.concatenate([getattr(t, c) for t in tables]) for c in ("node", "cell", "count"))
    return Histogram.build(tables[0].n_nodes, tables[0].n_cells, node, cell, count)
