"""Areas that are checked together: all of a release, one of its sections, or the levels above all sections."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from topdown.model.query import Query
from topdown.publish.verify.arithmetic import Whole, fits
from topdown.publish.verify.cuts import Cuts, part
from topdown.publish.verify.once import Once
from topdown.publish.verify.plan_file import PlanFile, table_path
from topdown.publish.verify.population import PERSONS, Population, Table, load_population, load_table
from topdown.publish.verify.possible_answers import PossibleAnswers
from topdown.publish.verify.reader import UnreadableError
from topdown.publish.verify.result import Finding
from topdown.publish.verify.tree import Facts, Tree

KEPT_ROWS = 1 << 21  # of published tables, 16 bytes each
Sums = dict[str, tuple[Whole, Whole]]  # keys and counts by name of a query


@dataclass(eq=False)
class Areas:
    """Levels of the tree with the records below them and their tables, in numbers of their own.

    Args:
        root: the release.
        plan: of it.
        tree: of these areas; its leaves are those of the release, or the lowest level above the cut.
        top: index in the release of the first level here.
        first: per level here, the release's number of node 0.
        number: of the section whose files these are; None where they are whole files.
        possible: which answers are open in the release, where the plan asks for intervals.
        given: records by node of the lowest level, where they are added up from sections.
        below: tables of the cut by node of the lowest level here, added up from sections.
        up: of a section, the node of the level above the cut, by node of level 0.
        passed: of a section, its tables of level 0 by that node; filled as they are looked at.
    """

    root: Path
    plan: PlanFile
    tree: Tree
    top: int
    first: tuple[int, ...]
    number: int | None = None
    possible: PossibleAnswers | None = None
    given: Population | None = None
    below: Sums | None = None
    up: Whole | None = None
    passed: Sums = field(default_factory=dict)
    once: Once = field(default_factory=Once)
    _rows: dict[str, int] = field(default_factory=dict)

    @property
    def has_leaves(self) -> bool:
        """Whether the records are those of leaves."""
        return self.given is None

    @property
    def n_levels(self) -> int:
        """Number of levels here."""
        return len(self.tree.names)

    def path(self, whole: str) -> str:
        """Return where the part of a file is that these areas have."""
        return whole if self.number is None else part(whole, self.number)

    @property
    def persons(self) -> str:
        """The microdata of these areas."""
        return self.path(PERSONS) if self.has_leaves else PERSONS.removesuffix(".parquet")

    @property
    def raw_population(self) -> Population:
        """The microdata as written, right or wrong."""
        if self.given is not None:
            return self.given
        return self.once(
            "raw population",
            "whole numbers",
            lambda: load_population(self.root, self.plan, self.tree, self.persons),
        )

    @property
    def population(self) -> Population:
        """The microdata, if every row names a known leaf and cell and the counts can be added up."""
        raw = self.raw_population

        def load() -> Population:
            if (raw.leaf < 0).any() or (raw.cell < 0).any() or not fits(raw.count):
                text = "the microdata have rows that cannot be counted"
                raise UnreadableError(Finding("V102", text, file=self.persons))
            return raw

        return self.once("population", "whole numbers", load)

    def table(self, query: Query, level: int) -> Table:
        """Return one published table; those that are too many to keep are read again when asked for again."""
        name = f"table {query.name} {level}"
        path = self.path(table_path(query, self.tree.names[level]))
        table = self.once(
            name,
            "tables",
            lambda: load_table(
                self.root, self.plan, self.tree, query, level, path, self._listed(query, level)
            ),
        )
        self._rows[name] = 0  # of all others that are kept
        if sum(self._rows.values()) + len(table.key) > KEPT_ROWS:
            self.once.forget(name)
            del self._rows[name]
        else:
            self._rows[name] = len(table.key)
        return table

    def _listed(self, query: Query, level: int) -> Literal["all", "nonzero"] | None:
        return None if self.possible is None else self.possible.listed(query, self.top + level)


def tree_of_section(tree: Tree, cuts: Cuts, number: int) -> tuple[Tree, tuple[int, ...]]:
    """Return the levels of a section from the cut down, and the release's number of the first node of each."""
    levels = range(cuts.level, len(tree.names))
    spans = [cuts.span(number, level) for level in levels]
    parents = [np.zeros(spans[0][1] - spans[0][0], dtype=np.int64)]
    for level, (p, q), (above, _) in zip(levels[1:], spans[1:], spans, strict=False):
        parents.append(tree.parent[level][p:q] - above)
    here = Tree(
        tree.names[cuts.level :],
        tuple(tree.geocodes[level].slice(p, q - p) for level, (p, q) in zip(levels, spans, strict=True)),
        tuple(parents),
        tree.facts.at(slice(*spans[-1])),
    )
    return here, tuple(p for p, _ in spans)


def tree_above(tree: Tree, level: int) -> Tree:
    """Return the levels above one, with public facts added up to the lowest of them."""
    facts = {name: tree.sums(column)[level - 1] for name, column in tree.facts.items()}
    return Tree(tree.names[:level], tree.geocodes[:level], tree.parent[:level], Facts(facts))
