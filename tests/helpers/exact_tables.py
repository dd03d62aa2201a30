"""Small random trees with exact tables at any level, and everything they allow by enumeration."""

from itertools import product

import numpy as np

from topdown.errors import ConfigError
from topdown.model import (
    ConstraintSystem,
    ExactArrangement,
    ExactMargins,
    ExactTable,
    Geography,
    MergedTable,
    NodeAnswers,
    SplitConstraints,
    arrange_exact_tables,
    from_prefixes,
    split_constraints,
)

N_CELLS = 4
LEVELS = ("land", "pair", "leaf")
Vectors = set[tuple[int, ...]]
TABLES = (  # answer of each of four cells
    (0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 1), (0, 0, 1, 2), (0, 1, 2, 3), (0, 1, 1, 2),
)  # fmt: skip
GROUPS = ((1, 0, 0, 0), (0, 1, 1, 0), (1, 1, 0, 0), (0, 0, 1, 1), (1, 1, 1, 0))


class Case:
    """A tree of four leaves in pairs, records that meet random bounds, and random exact tables of them."""

    def __init__(self, seed: int, *, n_leaves: int = 4, together: bool = False) -> None:
        rng = np.random.default_rng(seed)
        self.tree: Geography = from_prefixes(
            LEVELS, (0, 1, 2), tuple(f"{i // 2}{i}" for i in range(n_leaves))
        )
        n_classes = 2 if together else N_CELLS
        class_of = rng.integers(0, 2, N_CELLS) if together else np.arange(N_CELLS)
        class_of = np.unique(class_of, return_inverse=True)[1].reshape(-1)
        n_classes = int(class_of.max()) + 1
        leaf_open = rng.random((n_leaves, n_classes)) < 0.7
        people = rng.integers(0, 2, (n_leaves, N_CELLS)) * leaf_open[:, class_of]
        chosen: list[np.ndarray] = []
        for group in (np.array(g, dtype=bool) for g in rng.permutation(GROUPS)[: rng.integers(0, 3)]):
            if all(not (c & group).any() or (c & ~group).sum() * (group & ~c).sum() == 0 for c in chosen):
                chosen.append(group)
        held = np.stack([people[:, g].sum(axis=1) for g in chosen] or [np.zeros(n_leaves, int)], axis=1)
        low = (held * rng.integers(0, 2, held.shape))[:, : len(chosen)]
        high = (held + rng.integers(0, 2, held.shape))[:, : len(chosen)]
        caps = rng.random() < 0.4
        self.rules = ConstraintSystem(
            class_of_cell=class_of.astype(np.int64),
            open=tuple(np.asarray(self.up(leaf_open, d) > 0) for d in range(3)),
            bound_cells=tuple(chosen),
            lower=tuple(self.up(low, d) for d in range(3)),
            cap_cells=tuple(chosen) if caps else (),
            caps=high if caps else np.zeros((n_leaves, 0), dtype=np.int64),
            bound_names=tuple(f"b{i}" for i in range(len(chosen))),
            cap_names=tuple(f"c{i}" for i in range(len(chosen) * caps)),
        )
        picks = [
            (int(rng.integers(0, 2)), TABLES[rng.integers(len(TABLES))]) for _ in range(rng.integers(1, 3))
        ]
        if rng.random() < 0.3:
            picks.append((2, TABLES[0]))
        self.tables = [
            ExactTable(f"t{i}", depth, np.array(labels, dtype=np.int64))
            for i, (depth, labels) in enumerate(picks)
        ]
        self.values = [self.answers(people, t) for t in self.tables]
        self.people = people

    def up(self, leaf: np.ndarray, depth: int) -> np.ndarray:
        """Add rows of leaves up to a level."""
        out = np.zeros((len(self.tree.levels[depth]), leaf.shape[1]), dtype=np.int64)
        np.add.at(out, self.tree.ancestors_of_leaves[depth], leaf.astype(np.int64))
        return out

    def answers(self, cells: np.ndarray, table: ExactTable) -> np.ndarray:
        """Answer a table from cells of the leaves, (n_nodes, n_answers)."""
        select = np.eye(int(table.labels.max()) + 1, dtype=np.int64)[table.labels]
        return self.up(cells @ select, table.depth)

    def arrangement(self) -> ExactArrangement | None:
        """Return how the tables are kept, None if they are refused."""
        try:
            return arrange_exact_tables(self.tables, self.rules, LEVELS)
        except ConfigError as error:
            if error.code != "C033":
                raise
            return None

    def answers_of(self, merged: MergedTable, n_nodes: int) -> np.ndarray:
        """Return the answers of a merged table."""
        none = np.zeros(n_nodes, dtype=np.int64)
        return np.stack([none if s is None else self.values[s[0]][:, s[1]] for s in merged.sources], axis=1)

    def polytopes(self, kept: ExactArrangement) -> SplitConstraints:
        """Return the limits the solver uses."""
        kinds = self.rules.partition(kept.split.labels)
        everybody = self.people.sum(axis=1)[:, None]
        totals = {d: self.up(everybody, d)[:, 0] for d in range(kept.depth + 1)}
        margins = None
        if kept.split.tells_more:
            answers = self.answers_of(kept.split, len(self.tree.levels[kept.depth]))
            margins = ExactMargins(NodeAnswers(kept.split.labels, answers), NodeAnswers.none(N_CELLS, 1))
        return split_constraints(kinds, self.rules, self.tree, totals, margins)

    def node_tables(self, depth: int, node: int, most: int) -> Vectors:
        """Write out every table of a node, up to `most` people a cell, that splits down to the leaves."""
        if depth == 2:
            found = self._leaf_tables(node, most)
        else:
            first, last = self.tree.child_pointers[depth][node : node + 2]
            found = {(0,) * N_CELLS}
            for child in range(first, last):
                below = self.node_tables(depth + 1, child, most)
                found = {tuple(a + b for a, b in zip(x, y, strict=True)) for x in found for y in below}
                found = {v for v in found if max(v) <= most}
        for table, values in zip(self.tables, self.values, strict=True):
            if table.depth == depth:
                found = {v for v in found if _add(v, table, values.shape[1]) == values[node].tolist()}
        return found

    def _leaf_tables(self, leaf: int, most: int) -> Vectors:
        is_open = self.rules.open[-1][leaf, self.rules.class_of_cell]
        found = set()
        for cells in product(*(range(most + 1) if o else (0,) for o in is_open)):
            here = np.array(cells)
            low = zip(self.rules.bound_cells, self.rules.lower[-1][leaf], strict=True)
            high = zip(self.rules.cap_cells, self.rules.caps[leaf], strict=True)
            if all(here[g].sum() >= n for g, n in low) and all(here[g].sum() <= n for g, n in high):
                found.add(cells)
        return found


def _add(cells: tuple[int, ...], table: ExactTable, n_answers: int) -> list[int]:
    out = [0] * n_answers
    for value, answer in zip(cells, table.labels.tolist(), strict=True):
        out[answer] += value
    return out
