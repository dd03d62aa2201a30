"""Synthetic counts shaped like the paper's two data sets (pgsr.md 3); no real household is in them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pgsr.formats import Synth
from pgsr.hierarchy import Hierarchy, hierarchy_of
from topdown import __version__
from topdown.arrays import Ints
from topdown.errors import ConfigError
from topdown.made_up import write_mark
from topdown.output_paths import new_folder

SHAPES = ("census", "taxi", "taxi-trips", "tiny")
CENSUS_TAIL = (1.2e-2, 3.0)
"""Weight and power of the tail of census sizes, the group quarters."""


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """True counts of a made-up population.

    Args:
        counts: groups of size s + 1 in every region, [size][node].
        name: shape they imitate.
    """

    hierarchy: Hierarchy
    counts: Ints
    name: str

    @property
    def total(self) -> int:
        """Number of groups G."""
        return int(self.counts[:, 0].sum())


def synthesize(
    shape: str, seed: int = 0, n_sizes: int | None = None, *, tail: tuple[float, float] = CENSUS_TAIL
) -> SyntheticData:
    """Return made-up counts of one shape.

    Args:
        shape: "census" (1/52/3,144 regions, 1,000 sizes, 117,630,445 groups), "taxi" (1/6/263 regions,
            13,282 groups and sizes), "taxi-trips" (the same tree, 24,489,743 trips as a contingency table),
            or "tiny" (1/3/9 regions, 8 sizes, 2,000 groups).
        seed: of the made-up data.
        n_sizes: fewer sizes than the shape's own; larger groups count as the last size.
        tail: weight and power of the law of census sizes past 7, weight * size^-power; other shapes ignore it.

    Raises:
        ConfigError: unknown shape.
    """
    rng = np.random.default_rng(seed)
    if shape == "census":
        hierarchy = _regions(("nation", "state", "county"), _spread(rng, 52, 3144))
        leaves = _census_leaves(rng, 3144, 1000, 117_630_445, tail)
    elif shape in ("taxi", "taxi-trips"):
        hierarchy = _regions(("city", "borough", "zone"), np.array([1, 43, 61, 69, 69, 20]))
        leaves = _taxi_leaves(rng, 263, 13_282, shape == "taxi-trips")
    elif shape == "tiny":
        hierarchy = _regions(("nation", "state", "county"), np.array([3, 3, 3]))
        leaves = _census_leaves(rng, 9, 8, 2_000, tail)
    else:
        raise ConfigError(
            f"unknown shape {shape!r}", code="C150", fix=f"use one of {', '.join(SHAPES)}, or a file"
        )
    if n_sizes is not None and n_sizes < len(leaves):
        leaves = np.vstack([leaves[: n_sizes - 1], leaves[n_sizes - 1 :].sum(axis=0, keepdims=True)])
    return SyntheticData(hierarchy, hierarchy.tree.sums(leaves), shape)


def _regions(names: tuple[str, str, str], children: NDArray[np.int64]) -> Hierarchy:
    rows = [("0", "", names[0])]
    for i, n in enumerate(children):
        rows.append((f"{i + 1:02d}", "0", names[1]))
        rows.extend((f"{i + 1:02d}{j + 1:03d}", f"{i + 1:02d}", names[2]) for j in range(n))
    return hierarchy_of(rows)


def _spread(rng: np.random.Generator, n_parents: int, n_children: int) -> NDArray[np.int64]:
    """Return children per parent, at least one each, uneven as states are."""
    share = rng.gamma(2.0, size=n_parents)
    extra = rng.multinomial(n_children - n_parents, share / share.sum())
    return (1 + extra).astype(np.int64)


def _census_leaves(
    rng: np.random.Generator, n_leaves: int, n_sizes: int, total: int, tail_law: tuple[float, float]
) -> Ints:
    """Return household sizes with a thin tail of group quarters; county populations are lognormal."""
    base = np.array([0.28, 0.335, 0.155, 0.13, 0.06, 0.024, 0.016])[:n_sizes]
    size = np.arange(1, n_sizes + 1, dtype=np.float64)
    tail = np.zeros(n_sizes)
    tail[len(base) :] = np.where(size < 12, 0.012 * 0.42 ** (size - 7), 0.0)[len(base) :]
    weight, power = tail_law
    tail[len(base) :] += weight * size[len(base) :] ** -power
    law = np.concatenate([base, np.zeros(n_sizes - len(base))]) + tail
    people = rng.lognormal(0.0, 1.45, size=n_leaves)
    per_leaf = rng.multinomial(total, people / people.sum())
    tilt = rng.normal(0.0, 0.08, size=n_leaves)
    laws = law[None, :] * np.exp(tilt[:, None] * np.minimum(size, 8)[None, :])
    counts = rng.multinomial(per_leaf, laws / laws.sum(axis=1, keepdims=True))
    return np.ascontiguousarray(counts.T).astype(np.int64)


def _taxi_leaves(rng: np.random.Generator, n_zones: int, n_taxis: int, trips: bool) -> Ints:
    """Return taxis by number of trips per zone, or with `trips` pickups of each taxi (rows) per zone."""
    zone = rng.lognormal(0.0, 2.0, size=n_zones)
    zone /= zone.sum()
    if trips:
        taxi = rng.gamma(4.0, size=n_taxis)
        rows = rng.multinomial(24_489_743, taxi / taxi.sum())
        return rng.multinomial(rows, zone).astype(np.int64)
    home = rng.choice(n_zones, size=n_taxis, p=zone)
    size = np.clip(rng.gamma(2.2, 840.0, size=n_taxis).astype(np.int64), 1, n_taxis)
    counts = np.zeros((n_taxis, n_zones), dtype=np.int64)
    np.add.at(counts, (size - 1, home), 1)
    return counts


def write_practice(shape: str, seed: int, out: Path) -> Synth:
    """Write made-up groups.csv with its mark, hierarchy.csv and run.toml.

    Args:
        shape, seed: see `synthesize`.
        out: new or empty folder.

    Raises:
        ConfigError: something is in the folder (C164), or an unknown shape (C150).
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists and is not an empty folder", code="C164", fix="give a new folder")
    made = synthesize(shape, seed)
    levels = made.hierarchy.geography.levels
    regions = [
        [code, "" if i == 0 else levels[i - 1].codes[up], level.name]
        for i, level in enumerate(levels)
        for code, up in zip(level.codes, level.parent.tolist(), strict=True)
    ]
    leaves = made.counts[:, made.hierarchy.tree.n_inner :]
    counts = (
        [levels[-1].codes[leaf], size + 1, int(leaves[size, leaf])]
        for size, leaf in np.argwhere(leaves > 0).tolist()
    )
    with new_folder(out) as part:
        _write_csv(part / "hierarchy.csv", ["region", "parent", "level"], regions)
        _write_csv(part / "groups.csv", ["region", "size", "count"], counts)
        write_mark(part / "groups.csv", f"pgsr synth --shape {shape}", seed)
        (part / "run.toml").write_text(
            f'groups = "groups.csv"\nhierarchy = "hierarchy.csv"\nsizes = {len(leaves)}\nmechanism = "posterior"\n'
            f'epsilon = "1/2"\ntotal = {made.total}\ndata_set = "made-up-{shape}"\nout = "release"\n',
            encoding="utf-8",
        )
    return Synth(engine=__version__, shape=shape, folder=str(out), groups=made.total)


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
