"""Draw people: a hierarchical logistic-normal model of every attribute, with alike people in one household.

Groups of people at the same leaves are put together a range of leaves at a time, so that no more are ever in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.model import Histogram, Schema, parse_query
from topdown.practice.synth.made_up_tree import MadeUpTree
from topdown.practice.synth.profile import (
    DEFAULT_SPREAD,
    AttributeShape,
    Profile,
    log_weights,
    matching_values,
)
from topdown.practice.synth.repeatable_random import RepeatableRandom, softmax


@dataclass(frozen=True, eq=False)
class Crowd:
    """People to draw.

    Args:
        name: of their stream.
        leaves: int64, increasing, where there are any. people: int64, positive, how many at each of them.
        cells: bool (n_cells,), those they may be in.
        households: whether they live in households of alike people.
    """

    name: str
    leaves: Ints
    people: Ints
    cells: NDArray[np.bool_]
    households: bool = False


@dataclass(frozen=True, eq=False)
class DrawnPeople:
    """Drawn people of one group at some leaves: everybody up to leaf `last`, behind an earlier part.

    Args:
        last: of the leaves. leaf, cell, count: int64, each pair once.
    """

    last: int
    leaf: Ints
    cell: Ints
    count: Ints


def people_together(
    n_leaves: int, n_cells: int, groups: Sequence[Iterator[DrawnPeople]]
) -> Iterator[Histogram]:
    """Yield the people of all groups by ranges of leaves, in leaf order; each numbers leaves as the tree does.

    Args:
        n_leaves, n_cells: of all.
        groups: parts of each group in leaf order.

    Cost: holds two parts a group at most.
    """
    waiting = [next(group, None) for group in groups]
    while any(part is not None for part in waiting):
        last = min(part.last for part in waiting if part is not None)
        here = [_cut_crowd(part, last + 1) for part in waiting if part is not None]
        yield Histogram.build(
            n_leaves, n_cells, *(np.concatenate(c) for c in zip(*(ready for ready, _ in here), strict=True))
        )
        rest = iter(here)
        for g, part in enumerate(waiting):
            if part is not None:
                left = next(rest)[1]
                waiting[g] = next(groups[g], None) if part.last == last else left


def _cut_crowd(part: DrawnPeople, end: int) -> tuple[tuple[Ints, Ints, Ints], DrawnPeople]:
    """Return the people of a part at leaves before `end`, and the part without them."""
    at = int(np.searchsorted(part.leaf, end))
    ready = part.leaf[:at], part.cell[:at], part.count[:at]
    return ready, DrawnPeople(part.last, part.leaf[at:], part.cell[at:], part.count[at:])


CHUNK = 2048  # leaves drawn at a time; fixed, because the numbers depend on it
_ROUNDS = 12  # of drawing forbidden people again, before an allowed cell is taken at random


@dataclass(frozen=True, eq=False)
class _DrawnAttribute:
    """One attribute, ready to draw.

    Args:
        axis: position in the schema.
        moves: which effect moves each label.
        above: effects of the nodes above the leaves, summed, shape (n_parents of leaves, n_effects).
        leaf_spread: standard deviation of the effects at a leaf.
        base, when: log weights and condition of each table.
    """

    axis: int
    shape: AttributeShape
    moves: NDArray[np.int64]
    above: NDArray[np.float64]
    leaf_spread: float
    base: tuple[NDArray[np.float64], ...]
    when: tuple[dict[str, NDArray[np.bool_]], ...]


class Population:
    """The people of one tree, drawn group by group.

    Args:
        schema, profile, tree: what people can say, how often, and where they live.
        seed: see `Stream`.
    """

    def __init__(self, schema: Schema, profile: Profile, tree: MadeUpTree, seed: int) -> None:
        self._schema, self._profile, self._tree, self._seed = schema, profile, tree, seed
        self._names = [a.name for a in schema.attributes]
        self._attributes = [self._prepare(shape) for shape in profile.attribute]

    def _prepare(self, shape: AttributeShape) -> _DrawnAttribute:
        tree, attribute = self._tree, self._schema.attribute(shape.name)
        factor = parse_query(self._schema, shape.together or shape.name).factors[0]
        moves = np.array(factor.group_of)
        n_moves = len(factor.group_labels)
        effect = np.zeros((1, n_moves))
        for name, parent in zip(tree.names[1:-1], tree.parent[1:-1], strict=True):
            spread = shape.spread.get(name, DEFAULT_SPREAD) / 100
            own = RepeatableRandom(self._seed, "effect", shape.name, name).normal(len(parent), n_moves)
            effect = effect[parent] + spread * own
        leaf_spread = shape.spread.get(tree.names[-1], DEFAULT_SPREAD) / 100
        # Effects move the average shares; shift the base until a sample of leaves has the shares asked for.
        lived = np.flatnonzero(tree.residents)
        sample = lived[:: max(1, len(lived) // 4096)]
        weight = tree.residents[sample] / max(1, tree.residents[sample].sum())
        effects = effect[tree.parent[-1][sample]]
        effects = effects + leaf_spread * RepeatableRandom(self._seed, "sample", shape.name).normal(
            *effects.shape
        )
        base = tuple(
            _centred_weights(log_weights(attribute, t), effects[:, moves], weight) for t in shape.table
        )
        when = tuple(matching_values(self._schema, t.when) for t in shape.table)
        return _DrawnAttribute(self._names.index(shape.name), shape, moves, effect, leaf_spread, base, when)

    def draw(self, group: Crowd) -> Iterator[DrawnPeople]:
        """Draw the people of a group, `CHUNK` leaves at a time; leaf and cell of every part are sorted."""
        stream, allowed = RepeatableRandom(self._seed, "people", group.name), group.cells
        grid = allowed.reshape(self._schema.shape)
        axes = range(grid.ndim)
        labels = [np.asarray(grid.any(axis=tuple(a for a in axes if a != axis))) for axis in axes]
        for start in range(0, len(group.leaves), CHUNK):
            here = group.leaves[start : start + CHUNK]
            row = np.repeat(np.arange(len(here)), group.people[start : start + CHUNK])
            effects = [self._effects(d, here, stream) for d in self._attributes]
            cells = self._people(stream, row, effects, labels, group.households)
            for _ in range(_ROUNDS):
                again = np.flatnonzero(~allowed[cells])
                if len(again) == 0:
                    break
                cells[again] = self._people(stream, row[again], effects, labels, households=False)
            again = np.flatnonzero(~allowed[cells])
            open_cells = np.flatnonzero(allowed)
            cells[again] = open_cells[stream.below(len(open_cells), len(again))]
            key, count = np.unique(here[row] * self._schema.n_cells + cells, return_counts=True)
            yield DrawnPeople(int(here[-1]), key // self._schema.n_cells, key % self._schema.n_cells, count)

    def _effects(
        self, drawn: _DrawnAttribute, leaves: NDArray[np.int64], stream: RepeatableRandom
    ) -> NDArray[np.float64]:
        above = drawn.above[self._tree.parent[-1][leaves]]
        out: NDArray[np.float64] = (above + drawn.leaf_spread * stream.normal(*above.shape))[:, drawn.moves]
        return out

    def _people(
        self,
        stream: RepeatableRandom,
        row: NDArray[np.int64],
        effects: list[NDArray[np.float64]],
        labels: list[NDArray[np.bool_]],
        households: bool,
    ) -> NDArray[np.int64]:
        n = len(row)
        head, alike = np.arange(n), np.zeros(n, dtype=bool)
        if households:
            coins = stream.uniform(n, 2)
            starts = coins[:, 0] < 100 / self._profile.household_size
            starts |= np.concatenate(([True], row[1:] != row[:-1]))
            head = np.maximum.accumulate(np.where(starts, head, 0))
            alike = ~starts & (coins[:, 1] < self._profile.shared / 100)
        values = [np.zeros(n, dtype=np.int64) for _ in self._names]
        for drawn, effect in zip(self._attributes, effects, strict=True):
            value = np.zeros(n, dtype=np.int64)
            todo = np.ones(n, dtype=bool)
            for k, (base, when) in enumerate(zip(drawn.base, drawn.when, strict=True)):
                fits = todo.copy() if k < len(drawn.base) - 1 else todo
                for name, mask in when.items() if k < len(drawn.base) - 1 else ():
                    fits &= mask[values[self._names.index(name)]]
                chosen = np.flatnonzero(fits)
                todo = todo & ~fits
                value[chosen] = stream.choose(_restrict(base, labels[drawn.axis]) + effect, row[chosen])
            if drawn.shape.shared:
                value = np.where(alike, value[head], value)
            values[drawn.axis] = value
        return self._schema.cells(tuple(values))


def _restrict(base: NDArray[np.float64], labels: NDArray[np.bool_]) -> NDArray[np.float64]:
    out = np.where(labels, base, -np.inf)
    return out if np.isfinite(out).any() else np.where(labels, 0.0, -np.inf)


def _centred_weights(
    base: NDArray[np.float64], effects: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    if len(weight) == 0:
        return base
    target = np.exp(base - base.max())
    target /= target.sum()
    used = target > 0
    out = base.copy()
    for _ in range(12):
        average = weight @ softmax(out + effects)
        out[used] += np.log(target[used] / average[used])
    return out
