"""The made-up geography: a tree of nodes with geocodes, and how many people live at each leaf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.plan.drafts import CENSUS_PREFIXES
from topdown.practice.synth.profile import LevelShape
from topdown.practice.synth.repeatable_random import RepeatableRandom, apportion

FIRST_MADE_UP_STATE = 79  # FIPS state codes from 79 on are not in use


@dataclass(frozen=True, eq=False)
class MadeUpTree:
    """Levels from the root down.

    Args:
        prefix_lengths: characters of a leaf's geocode that name a node of each level.
        parent: for each level, the parent index of each node (all 0 at the root).
        codes: geocode of each leaf, ASCII bytes, increasing.
        residents: people of each leaf who do not live in facilities.
    """

    names: tuple[str, ...]
    prefix_lengths: tuple[int, ...]
    parent: tuple[NDArray[np.int64], ...]
    codes: NDArray[np.bytes_]
    residents: NDArray[np.int64]

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.codes)


def grow_tree(
    shapes: tuple[LevelShape, ...],
    people: int,
    empty: int,
    seed: int,
    largest: Mapping[str, int] | None = None,
) -> MadeUpTree:
    """Grow a tree that fits `people` residents.

    Args:
        shapes: one a level, root first.
        people: residents of the whole tree.
        empty: percent of leaves without residents.
        seed: see `Stream`.
        largest: residents of the first node of some levels below the root; those of the others make room.

    Raises:
        ConfigError: C065 nobody is left for the other nodes of such a level, or there are none; more nodes than the
            geocodes of a level can tell apart.
    """
    census = all(shape.name in CENSUS_PREFIXES for shape in shapes)
    here = np.array([float(people)])
    parents = [np.zeros(1, dtype=np.int64)]
    suffixes = [np.zeros(1, dtype=np.int64)]
    for depth, shape in enumerate(shapes[1:], start=1):
        stream = RepeatableRandom(seed, "tree", shape.name)
        n_up = len(here)
        n_nodes = max(n_up, round(people / shape.people))
        weights = np.exp(stream.normal(n_up) * shape.count_spread / 100)
        if shape.follows_people:
            weights = weights * np.maximum(here, 1e-9)
        children = 1 + apportion(n_nodes - n_up, weights)
        if census:
            children = np.minimum(children, tree_capacity(shapes[depth - 1].name, shape.name))
        parent = np.repeat(np.arange(n_up), children)
        first = np.repeat(np.cumsum(children) - children, children)
        share = np.exp(stream.normal(len(parent)) * shape.spread / 100)
        if depth == len(shapes) - 1:
            u = stream.uniform(len(parent))
            top = np.zeros(len(u))
            np.maximum.at(top, first, u)
            # Every parent keeps its fullest draw, so that no one is left without a leaf.
            share *= (u >= empty / 100) | (u == top[first])
        of_parent = np.zeros(n_up)
        np.add.at(of_parent, parent, share)
        here = here[parent] * share / of_parent[parent]
        if largest and shape.name in largest:
            here = _with_largest(here, largest[shape.name], shape.name)
        parents.append(parent)
        suffixes.append(np.arange(len(parent)) - first)
    lengths, codes = _geocodes(tuple(s.name for s in shapes), parents, suffixes, census)
    residents = apportion(people, here)
    return MadeUpTree(tuple(s.name for s in shapes), lengths, tuple(parents), codes, residents)


def _with_largest(here: NDArray[np.float64], most: int, level: str) -> NDArray[np.float64]:
    others = here[1:].sum()
    if not others or most >= here.sum():
        raise ConfigError(
            f"cannot give the first of {len(here):,} areas of level {level!r} {most:,} of {here.sum():,.0f} residents",
            code="C065",
            fix="make up more people, or fewer in that area",
        )
    out: NDArray[np.float64] = here * ((here.sum() - most) / others)
    out[0] = most
    return out


def tree_capacity(above: str, name: str) -> int:
    """Return how many children census geocodes can tell apart below one node."""
    if name == "state":
        return 100 - FIRST_MADE_UP_STATE
    digits: int = CENSUS_PREFIXES[name] - CENSUS_PREFIXES[above]
    if digits <= 0:
        raise ConfigError(
            f"level {name!r} cannot lie below {above!r}",
            code="C062",
            fix="give the levels from the root down",
        )
    # Counties are odd, tracts end in 00, block groups start at 1.
    return {"county": 500, "tract": 9999, "block_group": 9}.get(name, int(10**digits))


def _geocodes(
    names: tuple[str, ...], parents: list[NDArray[np.int64]], suffixes: list[NDArray[np.int64]], census: bool
) -> tuple[tuple[int, ...], NDArray[np.bytes_]]:
    codes, lengths = np.array([b""]), [0]
    if census and names[0] != "us":
        codes = np.array([b"99" + b"0" * (CENSUS_PREFIXES[names[0]] - 2)])
        lengths = [CENSUS_PREFIXES[names[0]]]
    for name, parent, suffix in zip(names[1:], parents[1:], suffixes[1:], strict=True):
        top = int(suffix.max()) + 1
        if census:
            width = CENSUS_PREFIXES[name] - lengths[-1]
            times, first = {
                "state": (1, 100 - top),
                "county": (2, 1),
                "tract": (100, 100),
                "block_group": (1, 1),
            }.get(name, (1, 0))
            shown = times * suffix + first
        else:
            width, shown = len(str(top)), suffix + 1
        texts = np.array([b"%0*d" % (width, i) for i in range(int(shown.max()) + 1)])
        codes = np.strings.add(codes[parent], texts[shown])
        lengths.append(lengths[-1] + width)
    return tuple(lengths), codes
