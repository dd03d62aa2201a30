"""Many releases that might have been: real laws of noise, seeded bits, one plan, one truth, nothing charged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topdown.errors import ConfigError
from topdown.frames import HeldTable
from topdown.made_up import Origin
from topdown.measure.draw import PartPlan, level_drawer, plan_parts
from topdown.measure.records import form_of
from topdown.model.histogram import Histogram
from topdown.noise import SimulationBits
from topdown.plan.prepare import Context, Prepared
from topdown.progress import silent
from topdown.simulate.truth import open_truth
from topdown.solve.answers import HeldAnswers
from topdown.solve.descend import Descent
from topdown.solve.digest import records_sha256
from topdown.solve.exact import exact_tables, exact_totals
from topdown.solve.solve import descend
from topdown.workers import workers_with

DEFAULT_SEED = 1
WAITING_PER_WORKER = 2  # finished replicates kept until they are asked for


@dataclass(frozen=True, eq=False)
class Replicate:
    """One release that might have been.

    Args:
        number: 0, 1, ...; with the seed it decides the noise.
        leaves: records of every leaf and cell.
        noisy: per level, int32 (inhabited nodes, answers_per_node), queries of the plan side by side.
        n_failsafe: nodes that needed the failsafe.
    """

    number: int
    leaves: Histogram
    noisy: tuple[NDArray[np.int32], ...]
    n_failsafe: int

    def __repr__(self) -> str:
        return f"Replicate({self.number}, NOT-A-RELEASE, {self.leaves.n_records:,} records)"


@dataclass(frozen=True, eq=False)
class Simulation:
    """A plan and a truth with everything that replicates share; see `open_simulation`.

    Args:
        context: plan and public facts.
        origin: why its truth may be simulated on.
        seed: of all replicates.
        truth: true counts of every level, root first.
        parts: how the levels are cut; each part has bits of its own.
        descent: the solver, set up once.
    """

    context: Context
    origin: Origin
    seed: int
    truth: tuple[Histogram, ...]
    parts: tuple[PartPlan, ...]
    descent: Descent

    def run(self, replicates: int, *, workers: int = 1) -> Iterator[Replicate]:
        """Yield replicates 0 to `replicates` - 1 in order; the same ones with any number of workers.

        Raises:
            ConfigError: C005 fewer than one replicate or worker.
        """
        if replicates < 1 or workers < 1:
            raise ConfigError(
                f"cannot make {replicates} replicates with {workers} workers",
                code="C005",
                fix="give 1 or more",
            )
        self.descent.prepare()
        if min(workers, replicates) > 1:
            return _in_parallel(self, replicates, min(workers, replicates))
        return (self.replicate(number, workers=workers) for number in range(replicates))

    def replicate(self, number: int, *, workers: int = 1) -> Replicate:
        """Return one replicate; its noise depends on seed, number, level and part only."""
        noisy = self._draw(number)
        nodes = tuple(np.flatnonzero(inside).astype(np.int64) for inside in self.context.inhabited)
        descent = self.descent.again(HeldAnswers(nodes, noisy))
        leaves, tally = descend(descent, self.context, workers, silent)
        return Replicate(number, leaves.whole(), noisy, len(tally.failsafe))

    def _draw(self, number: int) -> tuple[NDArray[np.int32], ...]:
        out = []
        for depth, plans in groupby(self.parts, lambda plan: plan.depth):
            width = self.context.plan.levels[depth].answers_per_node
            drawn = [self._part(number, plan).reshape(-1, width) for plan in plans]
            out.append(drawn[0] if len(drawn) == 1 else np.concatenate(drawn))
        return tuple(out)

    def _part(self, number: int, plan: PartPlan) -> NDArray[np.int32]:
        bits = SimulationBits(self.seed, ("replicate", number, plan.part.level, plan.part.name))
        return level_drawer(self.context, plan.depth, self.truth[plan.depth], bits).draw(plan.nodes).answers


def simulate(
    prepared: Prepared,
    truth: Path | HeldTable,
    *,
    seed: int = DEFAULT_SEED,
    replicates: int = 1,
    workers: int = 1,
    truth_is_public: str = "",
) -> Iterator[Replicate]:
    """Draw the noise of a plan on made-up or public records and solve, `replicates` times.

    Guarantees: nothing confidential is opened and nothing charged, because the truth is shown to be made up or
    public first; the same seed gives the same replicates on the same library versions, in order, with any
    number of workers; nothing is written.

    Args:
        prepared: run file, plan and public facts; its own records are not read.
        truth: a table marked by `topdown synth`, the folder of a published release, or a public table or one in memory.
        seed: any integer.
        replicates, workers: 1 or more.
        truth_is_public: why an unmarked table is public, at least three words.

    Raises:
        ConfigError: C121 the truth is not known to be made up or public, C097 the plan extends a release.
        DataError, InfeasibleError: as `open_truth`.

    Cost: after the set-up, the draws and the solve of one release a replicate.
    """
    simulation = open_simulation(prepared, truth, seed=seed, truth_is_public=truth_is_public)
    return simulation.run(replicates, workers=workers)


def open_simulation(
    prepared: Prepared, truth: Path | HeldTable, *, seed: int = DEFAULT_SEED, truth_is_public: str = ""
) -> Simulation:
    """Check and read the truth, set up the solver; arguments and errors as `simulate`."""
    context = prepared.context
    if context.support is not None:
        raise ConfigError(
            "a plan that extends a release cannot be simulated yet",
            code="C097",
            fix="simulate the plan of its base release",
        )
    SimulationBits(seed)  # refuses what is no seed before anything is read
    origin, read = open_truth(truth, context, truth_is_public, form_of(prepared.run))
    leaves = read.leaves.whole()
    if isinstance(truth, HeldTable):  # no file to name it by
        origin = replace(origin, sha256=records_sha256(leaves))
    totals, tables = exact_totals(context, read.exact), exact_tables(context, read.exact)
    parts = plan_parts(context)
    return Simulation(
        context,
        origin,
        seed,
        leaves.at_every_level(context.geography),
        parts,
        Descent(context, HeldAnswers((), ()), totals, tables=tables),
    )


def _in_parallel(simulation: Simulation, replicates: int, workers: int) -> Iterator[Replicate]:
    with workers_with(simulation, workers) as pool:
        yield from pool.map(Simulation.replicate, range(replicates), WAITING_PER_WORKER * workers)
