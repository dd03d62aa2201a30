"""A release that is decided and not yet charged: everything that is public about it, checked and rehearsed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pgsr.estimators import Estimate, Mechanism, RowsDesign, add_up_known, all_answers, count_bounds, estimate
from pgsr.formats import Stamp
from pgsr.hierarchy import Hierarchy, Sizes
from pgsr.level_noise import NOT_A_RELEASE, Calibration, NoiseSource
from pgsr.run_settings import Plan
from pgsr.vectors import ADAPTIVE, Kind, measure_exactly
from topdown.arrays import Ints
from topdown.errors import ConfigError, InternalError
from topdown.file_names import checked_name, refuse_same_file
from topdown.made_up import Origin


def refuse_unkept_totals(plan: Plan, regions: Hierarchy) -> None:
    """Refuse public numbers that the mechanism would contradict (ConfigError C182)."""
    if plan.post_processing.keeps_totals or set(plan.public) <= {regions.regions[0]}:
        return
    raise ConfigError(
        f"{plan.mechanism} does not keep public numbers of groups: it would publish others beside them",
        code="C182",
        fix="use posterior or tracking, or leave the public numbers out; nothing was spent",
    )


def with_listed_units(plan: Plan, regions: Hierarchy, leaves: Ints) -> Plan:
    """Return the plan with the number of groups of every leaf where all units are listed, empty ones as size 0.

    If the noise covers moves alone, no neighbour changes these numbers, so that no noise protects them; the
    certificate lists them as exact.

    Args:
        leaves: counts [size][leaf].
    """
    if (
        plan.sizes.smallest != 0
        or plan.steps not in (("move",), ("household",))
        or not plan.post_processing.keeps_totals
    ):
        return plan
    found = dict(zip(regions.geography.leaves.codes, leaves.sum(axis=0).tolist(), strict=True))
    return replace(plan, public={**plan.public, **found})


MOST_CELLS = 2**26


@dataclass(frozen=True, eq=False)
class Prepared:
    """What will be released.

    Args:
        total: public number of groups G.
        mechanism, kind: what is run, and what it measures.
        calibration: noise and exact loss.
        sections: of the certificate that are decided before noise is drawn.
        plan_hash: SHA-256 of them.
    """

    hierarchy: Hierarchy
    sizes: Sizes
    total: int
    mechanism: Mechanism
    kind: Kind
    calibration: Calibration
    sections: dict[str, Any]
    plan_hash: str

    @property
    def known(self) -> Ints:
        """Public number of groups of every node, -1 where there is none."""
        found = np.full(self.hierarchy.tree.n_nodes, -1, dtype=np.int64)
        for region, number in self.sections["public_totals"].items():
            found[self.hierarchy.node_index[region]] = number
        return found

    @property
    def rows_design(self) -> RowsDesign | None:
        """What columns and rows are chosen from, beside noisy answers; None where only sums over sizes are measured."""
        if self.kind != ADAPTIVE:
            return None
        known = self.known
        known[0] = self.total
        tree, by_level = self.hierarchy.tree, self.calibration.relative_variance
        return RowsDesign(tree, add_up_known(tree, known), tuple(map(float, by_level)))

    def truth(self, leaves: Ints) -> Ints:
        """Return the exact answers [size][node] of the counts [size][leaf], tail counts before rows; confidential."""
        return measure_exactly(self.kind, self.hierarchy.tree, self.hierarchy.tree.sums(leaves))

    def release_from(
        self, noisy: Ints, *, seed: int | None = None, journal: str = "", origin: Origin | None = None
    ) -> Release:
        """Return the release that noisy answers give, the same each time.

        Args:
            noisy: [size][node].
            seed, origin: of a simulation, and why its groups may be simulated on.

        Raises:
            InternalError: X145 the mechanism broke its promise.
        """
        tree, known = self.hierarchy.tree, self.known if self.mechanism.keeps_totals else None
        found = estimate(self.mechanism, tree, noisy, self.total, self.kind, self.calibration, known)
        made = Release(self, found, noisy, seed, journal, origin)
        _check_promises(made)
        return made

    def rehearsal(self) -> Release:
        """Return a release of made-up answers of the same shape: what it refuses is refused before a charge."""
        leaves = np.zeros((self.sizes.n_sizes, self.hierarchy.tree.n_leaves), dtype=np.int64)
        leaves[0, 0] = self.total
        noisy = all_answers(
            NoiseSource(0), self.truth(leaves), self.calibration, self.hierarchy.tree, self.rows_design
        )
        return self.release_from(noisy, journal="0" * 32)


@dataclass(frozen=True, eq=False)
class Release:
    """A release in memory.

    >>> import pgsr
    >>> regions = {"region": ["land", "N", "S"], "parent": ["", "land", "land"], "level": ["land", "part", "part"]}
    >>> source = pgsr.Source({"region": ["N", "S"], "size": [1, 2], "count": [9, 4]}, regions)
    >>> made = pgsr.simulate(pgsr.plan(sizes=3, epsilon=1), source, 1, truth_is_public="made up for this example")
    >>> made.counts.shape, made.is_release
    ((3, 3), False)

    Args:
        prepared: what was decided.
        estimate: counts with their certificate.
        noisy: noisy answers [size][node]; public once the ledger holds the commit.
        seed: of a simulation; None for a release.
        journal: id under which the ledger holds the charge; empty in a simulation.
        origin: of a simulation: why its groups may be simulated on; None for a release.
        folder: where it was written, if it was.
        charged: what the ledger was charged for it, parts that were lost and drawn again included.
        n_attempts: intents of the ledger; 0 for a simulation, 1 for a release without such parts.
    """

    prepared: Prepared
    estimate: Estimate
    noisy: Ints
    seed: int | None
    journal: str
    origin: Origin | None = None
    folder: Path | None = None
    charged: Fraction = Fraction(0)
    n_attempts: int = 0

    @property
    def counts(self) -> Ints:
        """Released counts [size][node]."""
        return self.estimate.counts

    @cached_property
    def bounds(self) -> tuple[tuple[Ints, Ints], ...]:
        """Lower and upper bounds beside every count, [size][node], of every coverage of the plan; see `intervals`."""
        plan, posterior = self.prepared, self.estimate.posterior
        most, found = np.where(plan.known < 0, plan.total, plan.known), []
        for i, coverage in enumerate(plan.sections["coverage"]):
            if posterior is None:
                by_level = np.array([level["half_widths"][i] for level in plan.sections["levels"]])
                widths = np.broadcast_to(by_level[plan.hierarchy.tree.level_of], self.counts.shape)
                found.append(count_bounds(self.counts, widths, most, valid=plan.mechanism.consistent))
            else:
                lower, upper = posterior.bounds(self.counts, Fraction(coverage))
                found.append((lower, np.minimum(upper, most)))
        return tuple(found)

    @property
    def calibration(self) -> Calibration:
        """Noise and exact loss."""
        return self.prepared.calibration

    @property
    def is_release(self) -> bool:
        """Whether the counts may leave the house as a private release."""
        return self.seed is None and self.calibration.private

    @property
    def stamp(self) -> Stamp:
        """NOT-A-RELEASE, or empty."""
        return "" if self.is_release else NOT_A_RELEASE


def check_shape(hierarchy: Hierarchy, sizes: Sizes) -> None:
    """Refuse levels that are no names of folders (C130, C131), and more counts than memory is made for (C158)."""
    n_cells = sizes.n_sizes * hierarchy.tree.n_nodes
    if n_cells > MOST_CELLS:
        raise ConfigError(
            f"{sizes.n_sizes:,} sizes in {hierarchy.tree.n_nodes:,} regions are more than {MOST_CELLS:,} counts",
            code="C158",
            fix="lower the number of sizes (--sizes), with --too-large top-code if groups are larger",
        )
    for name in hierarchy.level_names:
        checked_name(name, "level")
    refuse_same_file(hierarchy.level_names, "level")


def _check_promises(made: Release) -> None:
    """Stop before anything is published if a promised property fails."""
    plan, counts = made.prepared, made.counts
    if not plan.mechanism.consistent:
        return
    tree = plan.hierarchy.tree
    consistent = np.array_equal(counts, tree.sums(counts[:, tree.n_inner :]))
    kept = (plan.known < 0) | (counts.sum(axis=0) == plan.known)
    if not consistent or counts.min() < 0 or int(counts[:, 0].sum()) != plan.total or not kept.all():
        raise InternalError(
            f"{plan.mechanism.name} broke its promise; no count was written",
            code="X145",
            fix="report it; the noise is kept",
        )
