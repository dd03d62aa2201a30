"""An extension of a made-up county: what the command takes, and its solver beside peers on the same problems.

Run: `pytest bench/bench_extend.py -s`; TOPDOWN_BENCH_LARGE=1 adds a county of 200,000 people. Writes
bench/results/extend.json. Wall seconds are of one run with two workers; memory is the largest sum of resident sizes
over the process tree (shared pages counted once a process, so it overstates). Ratios are of CPU seconds of one
thread in one run, so they survive a busy machine.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bench.bench_rhode_island import tree_bytes
from bench.bench_solve import cpu_seconds
from bench.extend_peers import by_milp, explicit, loss
from tests.oracles.quadratic_solvers import by_clarabel, by_piqp
from tests.oracles.solver_twins import rounding_cost
from topdown.measure import evaluate
from topdown.plan import load_context
from topdown.practice.synth import synth
from topdown.solve import ListedAnswers, Tally
from topdown.solve.extend import extension_solver as descend
from topdown.solve.extend import find_patterns
from topdown.solve.least_squares import Problem, solve
from topdown.solve.rounding import RoundingProblem, round_table

ROOT = Path(__file__).resolve().parents[1]
LARGE = "TOPDOWN_BENCH_LARGE"
TABLES = {
    "ages": "age_38_groups * sex",
    "quarters": "sex * relgq_4_groups",
    "relationship": "popSehsdTargetsRelship",
}
MOST_ENTRIES, MOST_PIQP = 10_000, 60_000  # of a problem that peers are given; piqp can take more
SPLITS = 6  # of each level that are looked through for problems


@dataclass(frozen=True)
class Made:
    """An extension that the command made, and what that took."""

    folder: Path
    people: int
    numbers: dict[str, float]


@pytest.fixture(
    scope="module",
    params=[
        50_000,
        pytest.param(
            200_000, marks=pytest.mark.skipif(LARGE not in os.environ, reason=f"takes minutes; set {LARGE}=1")
        ),
    ],
)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Make up a county, release pl94 of it, extend that to dhc_persons as a user would."""
    folder = tmp_path_factory.mktemp("extend")
    synth(folder, people=request.param, schema="dhc_persons", seed=1)
    topdown = str(Path(sys.executable).parent / "topdown")
    base = [topdown, "generate", str(folder / "base.toml"), "--out", str(folder / "base"), "--yes"]
    subprocess.run(base, check=True, capture_output=True)
    command = [topdown, "extend", str(folder / "run.toml"), "--base", str(folder / "base")]
    command += ["--out", str(folder / "dhc"), "--yes", "--json", "--workers", "2"]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, tree_bytes(process.pid))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    said, errors = process.communicate()
    watcher.join()
    assert process.returncode == 0, errors.decode()
    document = json.loads(said)
    assert document["checks"]["ok"]
    numbers = {"wall_seconds": time.monotonic() - start, "solve_seconds": document["seconds"]["solve"]}
    return Made(folder, request.param, numbers | {"peak_bytes": peak})


def test_time_memory_and_error(made: Made) -> None:
    """The goals: five minutes and six gigabytes for 50,000 people, every rounding proved."""
    document: dict[str, Any] = evaluate(made.folder / "dhc", made.folder / "persons.csv.gz")
    levels = document["levels"]
    off = {table["query"]: table["l1"] for table in levels[-1]["tables"]}
    row = made.numbers | {f"total_variation_{n}": off[q] / (2 * made.people) for n, q in TABLES.items()}
    print(f"\n  {made.people:,} people, {levels[-1]['n_nodes']:,} {levels[-1]['level']}s")
    for key, value in row.items():
        print(f"    {key:<30}" + (f"{value / 1e9:8.2f} GB" if key == "peak_bytes" else f"{value:8.3f}"))
    out = ROOT / "bench" / "results" / "extend.json"
    known = json.loads(out.read_text())["rows"] if out.is_file() else {}
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    rows = known | {str(made.people): row}
    out.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    assert row["wall_seconds"] < 300 * made.people / 50_000
    assert row["peak_bytes"] < 6e9
    solved = json.loads((made.folder / "dhc" / "solve.json").read_text())
    assert all(level["n_roundings"] == level["n_roundings_optimal"] for level in solved["levels"])


@pytest.fixture(scope="module")
def problems(made: Made) -> dict[str, tuple[Problem, RoundingProblem]]:
    """Collect one problem a level, as large as its peers can take, or the smallest found."""
    context = load_context(made.folder / "dhc")
    extension = descend.make_extension_solver(
        context, ListedAnswers(made.folder / "dhc", context), find_patterns(context)
    )
    seen: list[Any] = []
    found: dict[str, tuple[Problem, RoundingProblem]] = {}
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(limits=1):
        patch.setattr(descend, "solve", lambda p: (seen.append(p), solve(p))[1])
        patch.setattr(descend, "round_table", lambda r: (seen.append(r), round_table(r))[1])
        nodes = [extension.root(Tally())]
        for depth, level in enumerate(context.geography.levels[1:]):
            seen.clear()
            nodes = [child for node in nodes[:SPLITS] for child in extension.children(depth, node, Tally())]
            pairs = [(p, r) for p, r in itertools.pairwise(seen) if isinstance(p, Problem)]
            fits = [pair for pair in pairs if pair[0].allowed.sum() <= MOST_ENTRIES]
            if fits or pairs:
                best = max(fits, key=_entries) if fits else min(pairs, key=_entries)
                found[level.name] = best
    return found


def _entries(pair: tuple[Problem, RoundingProblem]) -> int:
    return int(pair[0].allowed.sum())


def test_least_squares_beside_generic_solvers(
    problems: dict[str, tuple[Problem, RoundingProblem]],
) -> None:
    """The structured method must be faster than generic solvers of the explicit problem, and no worse."""
    print()
    compared = 0
    with threadpool_limits(limits=1):
        for level, (problem, _) in problems.items():
            ours = cpu_seconds(lambda p=problem: solve(p))
            entries = int(problem.allowed.sum())
            line = f"  {level:<12} {entries:>8,} entries  ours {ours * 1e3:9.1f} ms"
            standard = explicit(problem) if entries <= MOST_PIQP else None
            mine = loss(problem, solve(problem)[0].z)
            for name, peer, most in (("piqp", by_piqp, MOST_PIQP), ("clarabel", by_clarabel, MOST_ENTRIES)):
                if standard is not None and entries <= most:
                    start = time.process_time()
                    found = peer(standard)[0]
                    seconds = time.process_time() - start
                    x = np.zeros(problem.shape)
                    x[problem.allowed] = np.maximum((standard.base + found)[:entries], 0.0)
                    gap = (mine - loss(problem, x)) / max(mine, 1.0)
                    line += f"   {name} {seconds / ours:6.1f} x (loss of ours less theirs {gap:+.0e})"
                    assert gap < 1e-6
                    compared += 1
            print(line)
    assert compared


def test_rounding_beside_the_integer_program(problems: dict[str, tuple[Problem, RoundingProblem]]) -> None:
    """The flow must be faster than the integer program, and as close to the estimate."""
    print()
    compared = 0
    for level, (_, problem) in problems.items():
        ours = cpu_seconds(lambda r=problem: round_table(r))
        entries = int(problem.allowed.sum())
        line = f"  {level:<12} {entries:>8,} entries  flow {ours * 1e3:9.1f} ms"
        if entries <= MOST_ENTRIES:
            start = time.process_time()
            theirs = by_milp(problem)
            seconds = time.process_time() - start
            mine = rounding_cost(problem, round_table(problem).counts)
            line += f"   integer program {seconds / ours:6.1f} x (cost {mine:.4f}, theirs {theirs:.4f})"
            assert mine <= theirs + 1e-3
            compared += 1
        print(line)
    assert compared
