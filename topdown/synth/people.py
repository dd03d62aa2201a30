"""Draw people: a hierarchical logistic-normal model of every attribute, with alike people in one household.

At leaf i an attribute has the shares softmax(base + effect_county(i) + ... + effect_leaf(i)) with independent
normal effects of every node (Aitchison and Shen 1980 call one level of it logistic-normal). A Dirichlet would
empty the rare labels of whole tracts; the logistic-normal keeps them rare but present.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.model.query import parse_query
from topdown.model.schema import Schema
from topdown.synth.profile import DEFAULT_SPREAD, AttributeShape, Profile, log_weights, matches
from topdown.synth.stream import Stream, softmax
from topdown.synth.together import Crowd, DrawnPeople
from topdown.synth.tree import MadeUpTree

CHUNK = 2048  # leaves drawn at a time; fixed, because the numbers depend on it
_ROUNDS = 12  # of drawing forbidden people again, before an allowed cell is taken at random


@dataclass(frozen=True, eq=False)
class _Drawn:
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

    def _prepare(self, shape: AttributeShape) -> _Drawn:
        tree, attribute = self._tree, self._schema.attribute(shape.name)
        factor = parse_query(self._schema, shape.together or shape.name).factors[0]
        moves = np.array(factor.group_of)
        n_moves = len(factor.group_labels)
        effect = np.zeros((1, n_moves))
        for name, parent in zip(tree.names[1:-1], tree.parent[1:-1], strict=True):
            spread = shape.spread.get(name, DEFAULT_SPREAD) / 100
            own = Stream(self._seed, "effect", shape.name, name).normal(len(parent), n_moves)
            effect = effect[parent] + spread * own
        leaf_spread = shape.spread.get(tree.names[-1], DEFAULT_SPREAD) / 100
        # Effects move the average shares; shift the base until a sample of leaves has the shares asked for.
        lived = np.flatnonzero(tree.residents)
        sample = lived[:: max(1, len(lived) // 4096)]
        weight = tree.residents[sample] / max(1, tree.residents[sample].sum())
        effects = effect[tree.parent[-1][sample]]
        effects = effects + leaf_spread * Stream(self._seed, "sample", shape.name).normal(*effects.shape)
        base = tuple(_centre(log_weights(attribute, t), effects[:, moves], weight) for t in shape.table)
        when = tuple(matches(self._schema, t.when) for t in shape.table)
        return _Drawn(self._names.index(shape.name), shape, moves, effect, leaf_spread, base, when)

    def draw(self, group: Crowd) -> Iterator[DrawnPeople]:
        """Draw the people of a group, `CHUNK` leaves at a time; leaf and cell of every part are sorted."""
        stream, allowed = Stream(self._seed, "people", group.name), group.cells
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

    def _effects(self, drawn: _Drawn, leaves: NDArray[np.int64], stream: Stream) -> NDArray[np.float64]:
        above = drawn.above[self._tree.parent[-1][leaves]]
        out: NDArray[np.float64] = (above + drawn.leaf_spread * stream.normal(*above.shape))[:, drawn.moves]
        return out

    def _people(
        self,
        stream: Stream,
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


def _centre(
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
