"""Random small censuses in memory: records that satisfy their invariants, and noisy answers for the solver."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.helpers.runs import run_text
from topdown.formats import Solve, json_bytes
from topdown.model import Histogram
from topdown.plan import PublicContext, load_context, prepare
from topdown.progress import Report, silent
from topdown.solve import (
    AnswersInMemory,
    MemorySource,
    Solved,
    make_top_down_solver,
    solve_document,
    solve_folder,
    solve_tree,
)
from topdown.workers import Executor

TOY_COLUMNS = "homes", "dormitories", "barracks"
TOP = Path(__file__).resolve().parents[2]


def solve_release(release: Path, *, workers: int = 1) -> tuple[Histogram, Solve]:
    """Solve a measured release from its files alone and write solve.json; return the leaf table and that document."""
    solved = solve_folder(release, load_context(release), workers=workers)
    (release / "solve.json").write_bytes(json_bytes(solved.document))
    return solved.leaves.whole(), solved.document


def solve_answers(
    context: PublicContext,
    answers: Any,
    exact: dict[str, NDArray[np.int64]],
    *,
    workers: Executor = 1,
    tables: dict[str, NDArray[np.int64]] | None = None,
    report: Report = silent,
) -> Solved:
    """Solve the whole tree from answers, exact totals by level, and exact tables of the leaves by query."""
    solver = make_top_down_solver(context, answers, exact, tables)
    leaves, tally = solve_tree(solver, context, workers, report)
    return Solved(leaves, solve_document(solver, tally))


def check_same(one: Solved, other: Solved) -> None:
    """Fail unless two solves found the same, to the last bit and in the same way."""
    assert one.document == other.document
    for column in ("node", "cell", "count"):
        found = [getattr(of.leaves.whole(), column) for of in (one, other)]
        np.testing.assert_array_equal(*found)


@dataclass(frozen=True)
class Census:
    """A context with the true tables of every level, root first."""

    context: PublicContext
    truth: tuple[Histogram, ...]

    @property
    def exact(self) -> dict[str, NDArray[np.int64]]:
        """The land's total population."""
        return {"land": self.truth[0].totals()}


@dataclass(frozen=True)
class NoisyAnswers:
    """Targets with ordinary seeded noise; for solver tests only, nothing is released."""

    context: PublicContext
    values: tuple[NDArray[np.int64], ...]

    def answers(
        self, level_index: int, first_node: int, last_node: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return inhabited nodes and their answers."""
        inhabited = self.context.rules.inhabited[level_index]
        nodes = first_node + np.flatnonzero(inhabited[first_node:last_node])
        return nodes, self.values[level_index][nodes]

    def source(self) -> MemorySource:
        """Return what opens the answers of parts."""
        return MemorySource()

    def part(self, ranges: tuple[slice, ...]) -> AnswersInMemory:
        """Return the answers of some nodes, by numbers of their own."""
        found = [self.answers(depth, here.start, here.stop) for depth, here in enumerate(ranges)]
        nodes = tuple(at - here.start for (at, _), here in zip(found, ranges, strict=True))
        return AnswersInMemory(nodes, tuple(values for _, values in found))


def make_census(
    folder: Path, seed: int, *, n_blocks: int = 12, run: str | None = None, columns: Sequence[str] = ()
) -> Census:
    """Write a random toy land and return it with records drawn within its invariants.

    Args:
        columns: further public columns, of leaves with homes.
    """
    rng = np.random.default_rng(seed)
    counties = np.sort(rng.integers(1, 4, n_blocks))
    codes = [f"{c}{i:02d}" for i, c in enumerate(counties)]
    homes = rng.poisson(3, n_blocks) * (rng.random(n_blocks) < 0.8)
    dormitories = rng.poisson(0.4, n_blocks)
    barracks = rng.poisson(0.3, n_blocks)
    homes[0] = max(homes[0], 1)
    more = np.random.default_rng(seed).integers(0, 5, (len(columns), n_blocks)) * (homes > 0)
    numbers = zip(codes, homes, dormitories, barracks, *more, strict=True)
    rows = [",".join(map(str, row)) for row in numbers]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "leaves.csv").write_text(
        ",".join(["geocode", *TOY_COLUMNS, *columns]) + "\n" + "\n".join(rows) + "\n"
    )
    (folder / "run.toml").write_text(run or toy_run())
    context = prepare(folder / "run.toml").context
    shape = context.plan.schema.shape
    table = np.zeros((n_blocks, *shape), dtype=np.int64)
    size = shape[1:]
    table[:, 0] = rng.poisson(2.5, (n_blocks, *size)) * (homes > 0)[:, None, None]
    table[:, 1] = rng.poisson(1.0, (n_blocks, *size)) * (dormitories > 0)[:, None, None]
    table[:, 2] = rng.poisson(0.7, (n_blocks, *size)) * (barracks > 0)[:, None, None]
    table[:, 2, :, 0] = 0
    table[:, 1, 0, 1] += 2 * dormitories
    table[:, 2, 1, 1] += barracks
    flat = table.reshape(n_blocks, -1)
    node, cell = np.nonzero(flat)
    truth = Histogram.build(n_blocks, flat.shape[1], node, cell, flat[node, cell])
    return Census(context, truth.at_every_level(context.geography))


def noisy(census: Census, seed: int, *, size: float = 1.0) -> NoisyAnswers:
    """Add rounded normal noise of the planned variances, times `size`."""
    rng = np.random.default_rng(seed)
    values = []
    for level, table in zip(census.context.plan.levels, census.truth, strict=True):
        parts = []
        for measurement, query in zip(level.measurements, census.context.queries(level.name), strict=True):
            answers = table.answers(query)
            noise = rng.normal(size=answers.shape) * float(measurement.variance) ** 0.5 * size
            parts.append(answers + np.rint(noise).astype(np.int64))
        values.append(np.concatenate(parts, axis=1))
    return NoisyAnswers(census.context, tuple(values))


def toy_run(*, levels: str = "", rho: str = "2") -> str:
    """Return the text of a toy run file; `levels` replaces the [[level]] tables."""
    settings = (TOP / "settings" / "toy.toml").read_text(encoding="utf-8")
    body = levels or settings[settings.index("[[level]]") :]
    unsaid = {"agency": None, "contact": None}
    return run_text(f'[budget]\nrho = "{rho}"\n\n{body}', {"settings": "toy"}, release=unsaid)


def check_proved(document: Solve) -> None:
    """Fail unless every least-squares problem converged and every rounding is proved."""
    for level in document.levels:
        assert (level.n_unconverged, level.n_roundings_optimal) == (0, level.n_roundings)
        assert level.max_kkt_residual_persons <= 1e-5
