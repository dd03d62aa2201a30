"""What exact statistics say of each kind of change of one record, decided by counting.

Two records agree on every exact statistic if and only if they lie in the same node of the deepest level of any of
them and give the same answers. So some two agree if and only if there are more places for a record than pairs of
(node, answers): the pigeonhole principle. A count that limits hold still parts the records of its leaf: those outside
change as before, those inside only among themselves. Nothing here is shared with the modules that write certificates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from topdown.model.schema import Schema
from topdown.publish.verify.privacy.board import Board, Closing, Limit, Marks, lay_out
from topdown.publish.verify.privacy.labels import Groups
from topdown.publish.verify.tree import Tree

NOTHING = ("nothing",)  # stands for what excludes a change until it is named


@dataclass(frozen=True)
class Statistic:
    """An exact statistic: its level (index from the root) and what its query tells apart."""

    name: str
    depth: int
    groups: Groups


@dataclass(frozen=True)
class OwnChange:
    """One kind of change: `of` names the attribute or level; `status` and `exact` as a certificate states them."""

    kind: str
    of: str
    status: str
    exact: tuple[str, ...]


def own_changes(
    schema: Schema,
    tree: Tree,
    closings: Sequence[Closing],
    limits: Sequence[Limit],
    statistics: Sequence[Statistic],
    neighbours: str,
) -> tuple[OwnChange, ...]:
    """Return every kind of change in the order of a certificate: the neighbours' own, attributes, levels."""
    board = lay_out(schema, tree, closings, limits)
    last = len(tree.names) - 1
    out = [_presence(board, statistics)] if neighbours == "add_remove" else []
    out.append(_everything(board, statistics))
    out += [_attribute(board, statistics, name) for name in board.sizes]
    out += [_within(board, tree, statistics, depth) for depth in range(last)]
    return tuple(replace(c, exact=_excluding(c, board, tree)) if c.exact is NOTHING else c for c in out)


def _excluding(change: OwnChange, board: Board, tree: Tree) -> tuple[str, ...]:
    """Name what leaves no change of a kind: too few places or values, or else the rules."""
    rules = board.rules
    if change.kind == "within_level":
        few = len(tree.geocodes[tree.names.index(change.of)]) == tree.n_leaves
        return rules if rules and not few else ("the geography",)
    if change.kind == "attribute":
        few = board.sizes[change.of] == 1
    else:
        few = prod(board.sizes.values()) == 1 and tree.n_leaves == 1
    return rules if rules and not few else ("the schema",)


def _judge(
    kind: str, of: str, *, possible: bool, agree: bool, altered: list[str], still: list[str]
) -> OwnChange:
    """Return the verdict; a change that is not possible is disclosed by what excludes it."""
    if not possible:
        return OwnChange(kind, of, "disclosed", NOTHING)
    names = tuple(dict.fromkeys([*altered, *still]))
    return OwnChange(kind, of, "disclosed" if not agree else "conditional" if names else "protected", names)


def _presence(board: Board, statistics: Sequence[Statistic]) -> OwnChange:
    """Every statistic counts every record, and every count that is held still."""
    names = [s.name for s in statistics]
    still = [h.name for h in board.held if board.cells[np.ix_(h.met | h.still, h.kinds)].any()]
    possible = bool(board.opened[-1].any())
    return _judge("presence", "", possible=possible, agree=not names, altered=names, still=still)


def _everything(board: Board, statistics: Sequence[Statistic]) -> OwnChange:
    outside = [name for name in board.sizes if name not in board.axes]
    places = int(board.n_cells @ board.n_nodes[-1])
    deepest = max((s.depth for s in statistics), default=0)
    answers = _combined(statistics, board.sizes)
    beyond = prod(max(answers[name]) + 1 for name in outside)
    agree = places > _distinct(board, answers, deepest) * beyond
    rooms = [(circle, int(board.n_cells[circle].sum())) for circle in board.circles]
    wide = [circle for circle, n in rooms if n > 1]
    combination = board.spread(answers)
    agree |= any(n > len(np.unique(combination[circle[board.kind]])) * beyond for circle, n in rooms)
    free = board.opened[-1].any(axis=0)
    altered = [
        s.name
        for s in statistics
        if int(board.opened[s.depth].any(axis=1).sum()) > 1
        or any(
            len({groups[v] for v in board.values(name, kinds)}) > 1
            for kinds in (free, *wide)
            for name, groups in s.groups.items()
        )
    ]
    possible = places > 1 or bool(wide)
    still = _still_in_everything(board)
    return _judge("everything", "", possible=possible, agree=agree, altered=altered, still=still)


def _still_in_everything(board: Board) -> list[str]:
    """Return the limits whose count some record leaves for another, or that hold one of two records by itself."""
    if not board.held:
        return []
    at = board.cells.astype(np.int64) * board.n_cells
    every, out = int(at.sum()), []
    for h in board.held:
        inside = at[:, h.kinds].sum(axis=1)
        left = (h.met & (inside > 0) & (inside < every)) | (h.still & (inside > 0) & (every > 1))
        out += [h.name] if left.any() else []
    return out


def _combined(statistics: Sequence[Statistic], sizes: dict[str, int]) -> Groups:
    """Return numbers of the values of every attribute, equal where no statistic tells them apart."""
    out = {}
    for name, n in sizes.items():
        answers = list(zip(*(s.groups.get(name, (0,) * n) for s in statistics), strict=True)) or [()] * n
        number = {answer: i for i, answer in enumerate(dict.fromkeys(answers))}
        out[name] = tuple(number[answer] for answer in answers)
    return out


def _distinct(board: Board, answers: Groups, depth: int) -> int:
    """Count the pairs of a node of a level and a combination of answers over the axes that some record can have."""
    combination = board.spread(answers).reshape(-1)
    holds: Marks = np.zeros((int(combination.max()) + 1, len(board.n_nodes[-1])), dtype=bool)
    holds[combination, board.kind.reshape(-1)] = True
    signature, times = np.unique(holds, axis=0, return_counts=True)
    pattern, nodes = np.unique(board.opened[depth], axis=0, return_counts=True)
    met = (pattern.astype(np.float32) @ signature.T.astype(np.float32)) > 0
    return sum(int(n) * int(row @ times) for n, row in zip(nodes, met.astype(np.int64), strict=True))


def _attribute(board: Board, statistics: Sequence[Statistic], name: str) -> OwnChange:
    n = board.sizes[name]
    pairs: Marks = np.zeros((n, n), dtype=bool)
    if name in board.axes:
        for line in board.lines(name):
            pairs |= board.together[np.ix_(line, line)]
    else:
        pairs |= bool(board.together.any())
    pairs &= ~np.eye(n, dtype=bool)
    apart = {s.name: _apart(s.groups[name]) for s in statistics if name in s.groups}
    left = pairs.copy()
    for told in apart.values():
        left &= ~told
    altered = [other for other, told in apart.items() if bool((pairs & told).any())]
    possible, agree = bool(pairs.any()), bool(left.any())
    still = _still_along(board, name)
    return _judge("attribute", name, possible=possible, agree=agree, altered=altered, still=still)


def _still_along(board: Board, name: str) -> list[str]:
    """Return the limits whose count a record leaves, or that hold it by itself, when one attribute is replaced."""
    out = []
    kinds = np.arange(board.cells.shape[1])
    lines = board.lines(name) if name in board.axes else list(np.repeat(kinds[:, None], board.sizes[name], 1))
    for h, (met, still) in zip(board.held, board.held_rows, strict=True):
        for line in lines:
            inside = h.kinds[line]
            crossed = met[:, line[inside]].any(axis=1) & met[:, line[~inside]].any(axis=1)
            touched = still[:, line[inside]].any(axis=1) & (still[:, line].sum(axis=1) > 1)
            if crossed.any() or touched.any():
                out.append(h.name)
                break
    return out


def _apart(groups: tuple[int, ...]) -> Marks:
    of = np.array(groups)
    return np.asarray(of[:, None] != of[None, :], dtype=bool)


def _within(board: Board, tree: Tree, statistics: Sequence[Statistic], depth: int) -> OwnChange:
    def two_in_one(level: int, above: int) -> bool:
        # more nodes than nodes above them: two lie in the same one
        return bool((board.n_nodes[level] > board.n_nodes[above]).any())

    last = len(tree.names) - 1
    deepest = max([depth, *(s.depth for s in statistics)])
    altered = [s.name for s in statistics if s.depth > depth and two_in_one(s.depth, depth)]
    still = []
    if board.held:
        above, open_leaf = tree.ancestors[depth], board.cells
        n_open = np.stack([np.bincount(above, column) for column in open_leaf.T], axis=1)
        movable = open_leaf & (n_open[above] > 1)
        still = [h.name for h in board.held if movable[np.ix_(h.met | h.still, h.kinds)].any()]
    return _judge(
        "within_level",
        tree.names[depth],
        possible=two_in_one(last, depth),
        agree=two_in_one(last, deepest),
        altered=altered,
        still=still,
    )
