"""Run mechanisms side by side on known counts: errors per level, violations, time, the true epsilon, a picture.

The method of Kuo, Cho, Kifer and Machanavajjhala (2018) is a peer that no release has. Every region's number of groups
is public there. A level measures cumulative counts ("cumulative") or the sorted sizes of its groups ("sizes"); from the
root down the groups of a parent are matched to those of its children in order of size, and matched groups take the mean
of both sizes by inverse variance. The leaves are summed up.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import convert

from pgsr.estimators import (
    COVERAGES,
    Groups,
    RowsDesign,
    all_answers,
    count_bounds,
    estimate,
    half_width,
    match_groups,
    mechanism_named,
    median_isotonic,
    vector_kind,
)
from pgsr.estimators.cumulative import Tell
from pgsr.estimators.kernels_isotonic import isotonic_rows_real
from pgsr.formats import Compare, ComparedMechanism, Held, Truth, coverage_name
from pgsr.group_tables import origin_of_groups
from pgsr.hierarchy import Sizes, Tree
from pgsr.level_noise import Budget, Calibration, NoiseSource, calibrate
from pgsr.run_settings import Source
from pgsr.synthetic_groups import synthesize
from pgsr.vectors import ADAPTIVE, measure_exactly
from topdown import __version__
from topdown.arrays import Ints
from topdown.formats.report_parts import svg_picture
from topdown.made_up import Origin
from topdown.notebook import card
from topdown.privacy.exact_values import positive
from topdown.progress import Event, Report, silent

if TYPE_CHECKING:
    import pandas as pd

    from topdown.privacy.exact_values import Exact


def l1_by_level(tree: Tree, counts: Ints, truth: Ints) -> list[int]:
    """Return sum |count - truth| over regions and sizes of each level (the paper's L1 error)."""
    gap = np.abs(counts - truth).sum(axis=0)
    return [int(gap[tree.columns(level)].sum()) for level in range(tree.n_levels)]


def emd_by_level(tree: Tree, counts: Ints, truth: Ints, smallest: int = 1) -> list[int]:
    """Return the earth mover's distance of each level in persons: sum over s >= 1 of |d_s - true d_s|.

    d_s is the number of groups of size s or more. A person is one cell of a region's Young diagram (its groups
    sorted by size), so this counts the persons to add or take away; a wrong number of groups of size 1 counts once.

    Args:
        counts, truth: [size][node].
        smallest: first size, 0 or 1; groups of size 0 hold no person.
    """
    tails = np.cumsum((counts - truth)[::-1], axis=0)[::-1]
    gap = np.abs(tails[1 - smallest :]).sum(axis=0)
    return [int(gap[tree.columns(level)].sum()) for level in range(tree.n_levels)]


def coverage_by_level(tree: Tree, bounds: tuple[Ints, Ints], truth: Ints) -> list[tuple[float, float]]:
    """Return, per level, which part of the cells that hold groups lies within its bounds, and their mean difference.

    Empty cells are left out: there are many, and nearly every interval holds them. Without any, 1 and 0.
    """
    lower, upper = bounds
    found = []
    for level in range(tree.n_levels):
        here = tree.columns(level)
        some = truth[:, here] > 0
        low, high, true = (of[:, here][some] for of in (lower, upper, truth))
        held, width = ((low <= true) & (true <= high)), high - low
        found.append((float(held.mean()), float(width.mean())) if some.any() else (1.0, 0.0))
    return found


def constraint_violations(tree: Tree, counts: Ints) -> int:
    """Return the number of (size, region) whose count is not the sum of its children's (the paper's CV)."""
    sums = tree.sums(counts[:, tree.n_inner :])
    return int((sums[:, : tree.n_inner] != counts[:, : tree.n_inner]).sum())


KUO = {"Kuo counts": "cumulative", "Kuo sizes": "sizes"}
"""Peers by name, with what Kuo et al. (2018) measure; no release has them."""
MOST_GROUPS = 3_000_000
"""Sorted sizes need one answer a group and level; past this many they are not compared."""
Draw = Callable[[int, tuple[int, ...]], Ints]


def kuo_counts(tree: Tree, truth: Ints, forms: Sequence[str], scales: Sequence[float], draw: Draw) -> Ints:
    """Return simulated counts [size][node]: reads the truth, which must be made up or public.

    Args:
        truth: true counts [size][node]; only the numbers of groups are taken to be public.
        forms: of `KUO`, one a level, root first.
        scales: of the noise of every level.
        draw: returns noise of a level in a shape.
    """
    found: list[Groups] = []
    for level, form in enumerate(forms):
        here = tree.columns(level)
        measured = _kuo_cumulative if form == "cumulative" else _kuo_sorted_sizes
        found += measured(truth[:, here], scales[level], partial(draw, level))
    for g in range(tree.n_inner):
        b, e = int(tree.first_child[g]), int(tree.first_child[g + 1])
        found[b:e] = match_groups(found[g], found[b:e], len(truth))
    leaves = np.zeros((len(truth), tree.n_leaves), dtype=np.int64)
    for i, groups in enumerate(found[tree.n_inner :]):
        np.add.at(leaves[:, i], groups.size, groups.count)
    return tree.sums(leaves)


def _kuo_cumulative(truth: Ints, scale: float, draw: Callable[[tuple[int, ...]], Ints]) -> list[Groups]:
    """Return groups from noisy cumulative counts: isotonic medians within 0..G; variance of a size 4 b^2 / count."""
    totals = truth.sum(axis=0)
    noisy = np.cumsum(truth, axis=0) + draw(truth.shape)
    found = []
    for i, total in enumerate(totals.tolist()):
        rising = np.clip(np.floor(median_isotonic(noisy[:, i].astype(np.float64)) + 0.5), 0, total)
        rising[-1] = total
        counts = np.diff(rising, prepend=0.0).astype(np.int64)
        size = np.flatnonzero(counts)
        found.append(Groups(size, 4.0 * scale * scale / counts[size], counts[size]))
    return found


def _kuo_sorted_sizes(truth: Ints, scale: float, draw: Callable[[tuple[int, ...]], Ints]) -> list[Groups]:
    """Return groups from the noisy sizes of all groups in order, made ascending; variance 2 b^2 / block."""
    found = []
    rows = np.arange(len(truth))
    for i in range(truth.shape[1]):
        true = np.repeat(rows, truth[:, i])
        if len(true) == 0:
            found.append(Groups(true, np.empty(0), true))
            continue
        fitted = np.empty((1, len(true)))
        noisy = (true + draw(true.shape)).astype(np.float64)[None, :]
        isotonic_rows_real(noisy, np.full(1, -np.inf), np.full(1, np.inf), fitted)
        _, start, block = np.unique(fitted[0], return_index=True, return_counts=True)
        size = np.clip(np.floor(fitted[0, start] + 0.5), 0, len(truth) - 1).astype(np.int64)
        found.append(Groups(size, 2.0 * scale * scale / block, block.astype(np.int64)))
    return found


@dataclass(frozen=True, eq=False)
class KnownCounts:
    """True counts that may be compared on, because they are made up or public.

    Args:
        name: of the shape or file.
        counts: true counts [size][node].
        level_names: root first.
        origin: why a file may be used; None of a shape.
    """

    name: str
    tree: Tree
    counts: Ints
    level_names: tuple[str, ...]
    origin: Origin | None = None

    @property
    def total(self) -> int:
        """Number of groups G."""
        return int(self.counts[:, 0].sum())


def shape_counts(shape: str, seed: int = 0, n_sizes: int | None = None) -> KnownCounts:
    """Return made-up counts of a shape; see `synthesize`."""
    made = synthesize(shape, seed, n_sizes)
    return KnownCounts(shape, made.hierarchy.tree, made.counts, made.hierarchy.level_names)


def file_counts(source: Source, n_sizes: int, reason: str = "") -> KnownCounts:
    """Return the counts of groups, sizes from 1, larger groups counted as the last size.

    Args:
        source: the groups and their regions.
        reason: why a file without the mark of made-up data is public.

    Raises:
        ConfigError: the groups are not known to be made up or public (C121).
        DataError: see `Source`.
    """
    origin = origin_of_groups(source.table, reason)
    hierarchy = source.regions()
    counts = hierarchy.tree.sums(source.leaves(hierarchy, Sizes(n_sizes, 1, "top-code")))
    name = "groups in memory" if source.file is None else str(source.groups)
    return KnownCounts(name, hierarchy.tree, counts, hierarchy.level_names, origin)


@dataclass(frozen=True)
class Run:
    """One mechanism as it is run.

    Args:
        mechanism: see `mechanism.MECHANISMS`, or a name of `KUO`.
        calibration: "correct" or "published".
        public: whether every region's number of groups is public; always so of a peer.
    """

    mechanism: str
    calibration: str = "correct"
    public: bool = False

    @property
    def label(self) -> str:
        """How the run is called in tables and pictures."""
        name = self.mechanism
        if name == "M_c^ch":
            name += " as published" if self.calibration == "published" else " corrected"
        return f"{name}, totals public" if self.public else name


DEFAULT_RUNS = (
    *(Run(name) for name in ("M_H^r", "M_H^dp", "TopDown", "M_c^r", "M_c^dp", "tracking", "posterior")),
    Run("M_c^ch", "published"),
    Run("M_c^ch"),
    *(Run(name, public=True) for name in ("tracking", "posterior", *KUO)),
)


@dataclass(frozen=True)
class MechanismRow:
    """One mechanism at one claimed epsilon.

    Args:
        claimed: epsilon it was calibrated for.
        true_epsilon: what its noise guarantees.
        l1, emd: mean error per level, root first, in groups and in persons.
        intervals: per stated coverage and level, part of the cells with groups whose interval holds the true count,
            and mean difference of its bounds; None of peers.
        violations: mean number of violated sums.
        seconds: median CPU time of post-processing.
        repeats: runs averaged.
    """

    run: Run
    claimed: Fraction
    true_epsilon: Fraction
    l1: tuple[float, ...]
    emd: tuple[float, ...]
    intervals: tuple[tuple[tuple[float, float], ...], ...] | None
    violations: float
    seconds: float
    repeats: int

    @property
    def private(self) -> bool:
        """Whether the claim holds."""
        return self.true_epsilon <= self.claimed


def compare_runs(
    tree: Tree,
    truth: Ints,
    epsilons: Sequence[Fraction],
    *,
    runs: Sequence[Run] = DEFAULT_RUNS,
    direction: str = "cumulative",
    repeats: int = 3,
    seed: int = 0,
    report: Report = silent,
) -> list[MechanismRow]:
    """Return one row per epsilon and run, by simulation: reads the truth, which must be made up or public.

    Every mechanism of one family sees the same noisy answers in one repetition. The paper's setting: moves,
    equal budget a level.

    Args:
        truth: true counts [size][node].
        epsilons: claimed budgets.
        runs: what is run.
        direction: running sums from the smallest size as in the paper ("cumulative") or from the largest ("tail").
        seed: of the simulated noise.
    """
    rows, done = [], 0
    for epsilon in epsilons:
        for run in runs:
            plan = _calibration(run, tree, len(truth), epsilon, direction)
            l1, emd, held, violations, seconds = [], [], [], [], []
            for repeat in range(repeats):
                here = Event("compare", done, len(epsilons) * len(runs) * repeats, run.label)
                source = NoiseSource(seed * 1_000_003 + repeat)

                def tell(step: str, here: Event = here) -> None:
                    report(replace(here, text=f"{here.text}, {step}"))

                counts, bounds, spent = _simulated_counts(run, tree, truth, plan, source, direction, tell)
                tell("errors")
                seconds.append(spent)
                l1.append(l1_by_level(tree, counts, truth))
                emd.append(emd_by_level(tree, counts, truth))
                held += [] if bounds is None else [[coverage_by_level(tree, b, truth) for b in bounds]]
                violations.append(constraint_violations(tree, counts))
                done += 1
            rows.append(
                MechanismRow(
                    run,
                    epsilon,
                    plan.loss,
                    tuple(np.mean(l1, axis=0).tolist()),
                    tuple(np.mean(emd, axis=0).tolist()),
                    np.mean(held, axis=0).tolist() if held else None,
                    float(np.mean(violations)),
                    float(np.median(seconds)),
                    repeats,
                )
            )
    report(Event("compare", done, done))
    return rows


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Mechanisms beside each other on known counts. `pgsr.compare` makes it.

    >>> import pgsr
    >>> regions = {"region": ["land", "N", "S"], "parent": ["", "land", "land"], "level": ["land", "part", "part"]}
    >>> source = pgsr.Source({"region": ["N", "S"], "size": [1, 2], "count": [9, 4]}, regions)
    >>> pgsr.compare(source, [1], 4, mechanisms=["TopDown"], truth_is_public="made up for this example")
    Comparison(1 runs on groups in memory)

    Args:
        known: what they were compared on.
        rows: one for each epsilon and run.
    """

    known: KnownCounts
    rows: tuple[MechanismRow, ...]

    def frame(self) -> pd.DataFrame:
        """Return a row for each epsilon, run and level: errors in groups (l1) and persons (emd), and whether private.

        Returns: claimed (epsilon as typed), mechanism, private, true_epsilon, level, l1, emd, seconds.
        """
        listed = [
            {
                "claimed": str(row.claimed),
                "mechanism": row.run.label,
                "private": row.private,
                "true_epsilon": float(row.true_epsilon),
                "level": level,
                "l1": l1,
                "emd": emd,
                "seconds": row.seconds,
            }
            for row in self.rows
            for level, l1, emd in zip(self.known.level_names, row.l1, row.emd, strict=True)
        ]
        return pa.Table.from_pylist(listed).to_pandas()

    def __repr__(self) -> str:
        return f"Comparison({len(self.rows)} runs on {self.known.name})"

    def _repr_html_(self) -> str:
        rows = [
            (str(row.claimed), row.run.label, "yes" if row.private else "no", *(f"{x:.4g}" for x in row.l1))
            for row in self.rows
        ]
        head = ("epsilon", "mechanism", "private as claimed", *self.known.level_names)
        return card(f"L1 error by level, {self.known.name}", rows, head=head)


def compare(
    source: Source,
    epsilons: Sequence[Exact],
    sizes: int,
    *,
    mechanisms: Sequence[str] = (),
    truth_is_public: str = "",
    direction: str = "cumulative",
    repeats: int = 3,
    seed: int = 0,
    report: Report = silent,
) -> Comparison:
    """Run mechanisms side by side on made-up or public groups; nothing is charged, and nothing of it is a release.

    >>> import pgsr
    >>> regions = {"region": ["land", "N", "S"], "parent": ["", "land", "land"], "level": ["land", "part", "part"]}
    >>> source = pgsr.Source({"region": ["N", "S"], "size": [1, 2], "count": [9, 4]}, regions)
    >>> public = "made up for this example"
    >>> beside = pgsr.compare(source, [1], 4, mechanisms=["TopDown", "posterior"], truth_is_public=public)
    >>> beside.frame()["mechanism"].unique().tolist()
    ['TopDown', 'posterior', 'posterior, totals public']

    Args:
        source: groups and their regions: files, data frames or mappings.
        epsilons: claimed budgets, exact.
        sizes: number of sizes, from 1; larger groups count as the last.
        mechanisms: by name, see `pgsr explain`; the usual ones if none.
        truth_is_public: why groups without the mark of made-up data are public.
        direction, repeats, seed, report: see `compare_runs`.

    Raises:
        ConfigError: C121 the groups are not known to be made up or public, C153 an unknown mechanism, C250.
        DataError: the groups or their regions break a rule. TypeError: a float as epsilon.
    """
    known = file_counts(source, sizes, truth_is_public)
    runs = possible_runs(chosen_runs(mechanisms), known.total)
    claims = [positive(epsilon, "epsilon") for epsilon in epsilons]
    rows = compare_runs(
        known.tree,
        known.counts,
        claims,
        runs=runs,
        direction=direction,
        repeats=repeats,
        seed=seed,
        report=report,
    )
    return Comparison(known, tuple(rows))


def chosen_runs(names: Sequence[str]) -> list[Run]:
    """Return the default runs, or all ways of running the named mechanisms (ConfigError C153: unknown)."""
    for name in names:
        if name not in KUO:
            mechanism_named(name)
    known = {run.mechanism for run in DEFAULT_RUNS}
    return [
        *(run for run in DEFAULT_RUNS if not names or run.mechanism in names),
        *(Run(name) for name in names if name not in known),
    ]


def possible_runs(runs: Sequence[Run], total: int) -> list[Run]:
    """Return the runs that a number of groups allows: sorted sizes are one answer a group and level."""
    return [run for run in runs if KUO.get(run.mechanism) != "sizes" or total <= MOST_GROUPS]


def published_loss(known: KnownCounts, claimed: Fraction) -> Fraction:
    """Return the true epsilon of the published chain at a claim."""
    budget = Budget(claimed, calibration="published")
    return calibrate("chain", known.tree, Sizes(len(known.counts)), budget).loss


def compare_document(known: KnownCounts, rows: Sequence[MechanismRow]) -> Compare:
    """Return the result of `compare` as a document."""
    origin = known.origin
    return Compare(
        engine=__version__,
        truth=None if origin is None else convert(origin.to_document(), Truth),
        shape=known.name,
        levels=list(known.level_names),
        rows=[
            ComparedMechanism(
                mechanism=row.run.mechanism,
                calibration="published" if row.run.calibration == "published" else "correct",
                totals="public" if row.run.public else "not public",
                claimed=str(row.claimed),
                true_epsilon=str(row.true_epsilon),
                private_as_claimed=row.private,
                l1=list(row.l1),
                emd=list(row.emd),
                intervals=None
                if row.intervals is None
                else {
                    coverage_name(coverage): Held(held=[h for h, _ in levels], width=[w for _, w in levels])
                    for coverage, levels in zip(COVERAGES, row.intervals, strict=True)
                },
                violations=row.violations,
                seconds=row.seconds,
                repeats=row.repeats,
            )
            for row in rows
        ],
    )


def _calibration(run: Run, tree: Tree, n_sizes: int, epsilon: Fraction, direction: str) -> Calibration:
    # One person changes one cumulative count and one sorted size of a level by one, so that peers have its noise.
    kind = "cumulative" if run.mechanism in KUO else vector_kind(mechanism_named(run.mechanism), direction)
    return calibrate(kind, tree, Sizes(n_sizes), Budget(epsilon, calibration=run.calibration))


def _simulated_counts(
    run: Run,
    tree: Tree,
    truth: Ints,
    plan: Calibration,
    source: NoiseSource,
    direction: str,
    tell: Tell,
) -> tuple[Ints, list[tuple[Ints, Ints]] | None, float]:
    """Return simulated counts, bounds if any, CPU seconds: of post-processing, and of a peer's noise too."""
    tell("noise")
    if run.mechanism in KUO:
        started = time.process_time()
        scales = [float(p) for p in plan.parameters]
        forms = [KUO[run.mechanism]] * tree.n_levels
        counts = kuo_counts(tree, truth, forms, scales, partial(source.noise, plan))
        return counts, None, time.process_time() - started
    mechanism = mechanism_named(run.mechanism)
    kind = vector_kind(mechanism, direction)
    total, known = int(truth[:, 0].sum()), truth.sum(axis=0) if run.public else None
    spreads = tuple(map(float, plan.relative_variance))
    totals = truth.sum(axis=0) if run.public else np.full(tree.n_nodes, -1)
    public = RowsDesign(tree, totals, spreads) if kind == ADAPTIVE else None
    noisy = all_answers(source, measure_exactly(kind, tree, truth), plan, tree, public)
    tell("estimate")
    started = time.process_time()
    found = estimate(mechanism, tree, noisy, total, kind, plan, known, tell)
    spent = time.process_time() - started
    bounds = []
    for coverage in COVERAGES:
        tell(f"{float(coverage):.0%} intervals")
        if found.posterior is not None:
            bounds.append(found.posterior.bounds(found.counts, coverage))
            continue
        accumulates = kind != "histogram"
        by_level = [
            half_width(plan.noise, p, accumulates=accumulates, coverage=coverage) for p in plan.parameters
        ]
        widths = np.array(by_level)[tree.level_of]
        bounds.append(count_bounds(found.counts, widths, total, valid=mechanism.consistent))
    return found.counts, bounds, spent


MEASURES = ("L1 error, groups", "EMD, persons")
LEAST = 0.5


COLOURS = ("#1f4e79", "#b35806", "#2a7f3f", "#7b3294", "#8a6d00", "#b2182b", "#4d4d4d", "#0e7c86")
_PANEL, _HIGH, _GAP, _LEGEND = 230, 190, 70, 260


def errors_svg(rows: Sequence[MechanismRow], level_names: Sequence[str], stamp: str) -> str:
    """Draw one panel a level and measure; mechanisms that are not private as claimed are dashed, and said to be.

    Args:
        rows: of `compare_runs`.
        level_names: names of the levels, root first.
        stamp: what the data are, written above the panels.
    """
    runs = list(dict.fromkeys(row.run for row in rows))
    width = (_PANEL + _GAP) * len(level_names) + _LEGEND
    drawn = [f'<text x="8" y="16">{escape(stamp)}</text>']
    for measure, words in enumerate(MEASURES):
        for level, name in enumerate(level_names):
            place = _GAP + level * (_PANEL + _GAP), 40 + measure * (_HIGH + _GAP)
            lines = {
                run: [
                    (float(r.claimed), max((r.l1, r.emd)[measure][level], LEAST))
                    for r in rows
                    if r.run == run
                ]
                for run in runs
            }
            drawn += _panel(place, f"{words}, {name}", lines, {r.run for r in rows if not r.private})
    left = width - _LEGEND + 10
    for i, run in enumerate(runs):
        y = 48 + 18 * i
        not_private = any(row.run == run and not row.private for row in rows)
        label = run.label + (" (not private)" if not_private else "")
        drawn.append(
            f'<path d="M{left} {y}h24" {_stroke(i, dashed=not_private)}/>'
            f'<text x="{left + 30}" y="{y + 4}">{i + 1} {escape(label)}</text>'
        )
    size = (width, max(40 + len(MEASURES) * (_HIGH + _GAP), 60 + 18 * len(runs)))
    return svg_picture("errors", size, ("Errors of mechanisms by claimed epsilon", stamp), "".join(drawn))


def _stroke(number: int, *, dashed: bool) -> str:
    dash = ' stroke-dasharray="5 3"' if dashed else ""
    return f'fill="none" stroke="{COLOURS[number % len(COLOURS)]}"{dash}'


def _panel(
    place: tuple[int, int], title: str, lines: Mapping[Run, Sequence[tuple[float, float]]], leaky: set[Run]
) -> list[str]:
    """Draw lines on logarithmic axes, with the number of each mechanism at its last point."""
    left, top = place
    xs, ys = zip(*(point for points in lines.values() for point in points), strict=True)

    def at(value: float, among: Sequence[float], length: int) -> float:
        low, high = math.log(min(among)), math.log(max(among))
        return length * ((math.log(value) - low) / (high - low) if high > low else 0.5)

    frame = f'<rect x="{left}" y="{top}" width="{_PANEL}" height="{_HIGH}" fill="none" stroke="#8a94a0"/>'
    drawn = [frame, f'<text x="{left}" y="{top - 6}">{escape(title)}</text>']
    for value in sorted({min(ys), max(ys)}):
        y = top + _HIGH - at(value, ys, _HIGH)
        drawn.append(f'<text x="{left - 4}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>')
    for value in sorted(set(xs)):
        x = left + at(value, xs, _PANEL)
        drawn.append(f'<text x="{x:.1f}" y="{top + _HIGH + 14}" text-anchor="middle">{value:.3g}</text>')
    for number, (run, points) in enumerate(lines.items()):
        spots = [(left + at(x, xs, _PANEL), top + _HIGH - at(y, ys, _HIGH)) for x, y in points]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        drawn.append(f'<polyline points="{joined}" {_stroke(number, dashed=run in leaky)}/>')
        drawn += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" {_stroke(number, dashed=False)}/>' for x, y in spots
        ]
        x, y = spots[-1]
        drawn.append(f'<text x="{x + 4:.1f}" y="{y + 4:.1f}" font-size="10">{number + 1}</text>')
    return drawn
