"""The solver beside its peers on the same problems of a made-up census, in one run.

Run: `pytest bench/bench_solve.py -s`. CPU seconds of one thread, medians of three; ratios survive a busy machine.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests.oracles import networkx_flow
from tests.oracles import solver_twins as reference
from tests.oracles.quadratic_solvers import solve_with
from topdown.inputs import read_table, text_columns
from topdown.model import Histogram
from topdown.plan import PublicContext, prepare
from topdown.practice.synth import synth
from topdown.solve import Tally, gram, make_top_down_solver, minimum_cost_flow, project_segments
from topdown.solve.least_squares import Problem, solve
from topdown.solve.rounding import RoundingProblem, build_network, round_by_milp, rounding, whole_parts
from topdown.solve.rounding.flow_network import RoundingNetwork


class Answers:
    """True answers plus rounded normal noise (ordinary, seeded: nothing is released)."""

    def __init__(self, context: PublicContext, folder: Path) -> None:
        schema, tree = context.plan.schema, context.geography
        names = ("geocode", *(a.name for a in schema.attributes), "count")
        table = read_table(folder / "persons.csv.gz", text_columns(*names), ignored=None)
        place = {code: i for i, code in enumerate(tree.leaves.codes)}
        node = np.array([place[code] for code in table.texts("geocode")])
        values = [np.array([a.labels.index(v) for v in table.texts(a.name)]) for a in schema.attributes]
        count = np.array(table.texts("count"), dtype=np.int64)
        leaves = Histogram.build(len(tree.leaves), schema.n_cells, node, schema.cells(tuple(values)), count)
        self.context, self.tables = context, leaves.at_every_level(tree)
        self.rng = np.random.default_rng(1)
        self.noisy = [self._level(i) for i in range(len(tree.levels))]

    def _level(self, i: int) -> np.ndarray:
        level = self.context.plan.levels[i]
        parts = []
        for m, query in zip(level.measurements, self.context.queries(level.name), strict=True):
            answers = self.tables[i].answers(query)
            parts.append(answers + np.rint(self.rng.normal(size=answers.shape) * float(m.variance) ** 0.5))
        return np.concatenate(parts, axis=1)

    def answers(self, level_index: int, first_node: int, last_node: int) -> tuple[np.ndarray, np.ndarray]:
        """Return inhabited nodes and their answers."""
        inhabited = self.context.rules.inhabited[level_index]
        nodes = first_node + np.flatnonzero(inhabited[first_node:last_node])
        return nodes, self.noisy[level_index][nodes]


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Problem, RoundingProblem]]:
    """Collect the last least-squares problem and the rounding of one split a level."""
    folder = tmp_path_factory.mktemp("bench")
    made = synth(folder, people=60_000, seed=5)
    context = prepare(made.run_file).context
    targets = Answers(context, folder)
    found: dict[str, tuple[Problem, RoundingProblem]] = {}
    seen: list[object] = []
    round_table = rounding.round_table
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(limits=1):
        patch.setattr("topdown.solve.split_estimate.solve", lambda p: (seen.append(p), solve(p))[1])
        patch.setattr("topdown.solve.top_down.round_table", lambda r: (seen.append(r), round_table(r))[1])
        descent, tally = (
            make_top_down_solver(context, targets, {"state": targets.tables[0].totals()}),
            Tally(),
        )
        nodes = [descent.root(tally)]
        for depth, name in enumerate(["county", "tract", "block_group", "block"]):
            seen.clear()
            nodes = [child for node in nodes[:12] for child in descent.children(depth, node, tally)]
            pairs = [(a, b) for a, b in itertools.pairwise(seen) if isinstance(b, RoundingProblem)]
            if pairs:
                found[name] = max(pairs, key=lambda pair: pair[0].allowed.size)  # type: ignore[attr-defined, assignment]
    return found


def cpu_seconds(task: Callable[[], object]) -> float:
    """Median of three runs, CPU seconds of this process."""
    task()
    seconds = []
    for _ in range(3):
        start = time.process_time()
        task()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def test_least_squares_beside_generic_solvers(problems: dict[str, tuple[Problem, RoundingProblem]]) -> None:
    """The structured method must be faster than generic solvers on the same problem."""
    print()
    with threadpool_limits(limits=1):
        for level, (problem, _) in problems.items():
            ours = cpu_seconds(lambda p=problem: solve(p))
            line = f"  {level:<12} {problem.allowed.size:>7,} variables  admm {ours * 1e3:8.2f} ms"
            for name in ("piqp", "clarabel"):
                if problem.allowed.size <= 3000:
                    peer = cpu_seconds(lambda p=problem, n=name: solve_with(n, p))
                    line += f"   {name} {peer / ours:6.0f} x"
            print(line)


def test_rounding_beside_its_twins(problems: dict[str, tuple[Problem, RoundingProblem]]) -> None:
    """The flow must be faster than the integer program and the readable flow."""
    print()

    def ours(problem: RoundingProblem) -> RoundingNetwork:
        found = build_network(problem, *whole_parts(problem), every_cell=False)
        assert found is not None
        minimum_cost_flow(found.network, found.start)
        return found

    for level, (_, problem) in problems.items():
        network = ours(problem).network
        base = cpu_seconds(lambda p=problem: ours(p))
        milp = cpu_seconds(lambda p=problem: round_by_milp(p))
        slow = cpu_seconds(lambda n=network: networkx_flow.minimum_cost_flow(n))
        print(
            f"  {level:<12} {len(network.tails):>7,} arcs  flow {base * 1e3:8.2f} ms"
            f"   integer program {milp / base:6.0f} x   networkx {slow / base:6.0f} x"
        )


def test_kernels_beside_their_twins() -> None:
    """Each compiled kernel must beat its plain twin."""
    rng = np.random.default_rng(2)
    labels, weights = rng.integers(0, 30, size=(10, 300)), rng.random(10)
    fast, slow = (
        cpu_seconds(lambda: gram(labels, weights)),
        cpu_seconds(lambda: reference.gram(labels, weights)),
    )
    v, allowed, out = rng.normal(size=300 * 60), np.ones(300 * 60, dtype=bool), np.empty(300 * 60)
    pointers, sums = np.arange(0, 300 * 60 + 1, 60), rng.integers(1, 99, 300).astype(float)
    quick = cpu_seconds(lambda: project_segments(v, pointers, sums, allowed, out))
    plain = cpu_seconds(
        lambda: [reference.project(v[i * 60 : i * 60 + 60], sums[i], allowed[:60]) for i in range(300)]
    )
    print(f"\n  gram {slow / fast:6.1f} x its twin   projection {plain / quick:6.0f} x its twin")
