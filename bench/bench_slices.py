"""What slices cost and hold: bytes of tree and facts, of shape and slices; CPU to cut, send and open; a worker's peak.

Run: `python -m bench.bench_slices [--millions 1 3 10] [--runs 6]`. A worker here is a process of its own that gets
shape and slices as bytes, as a machine of a cluster would, and inherits nothing; its peak is the resident size that it
adds to what the program itself takes, below the cut.
"""

from __future__ import annotations

import argparse
import multiprocessing
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bench.bench_scale import made_up
from topdown.model import Codes, NarrowColumns
from topdown.plan import PublicContext, load_context
from topdown.solve import (
    Tally,
    WorkerState,
    checkpoint_spans,
    make_partitioner,
    node_runs,
    open_release,
    unpack_nodes,
)
from topdown.solve import solve_stage as solve

Result = TypeVar("Result")
Told = Any  # multiprocessing.SimpleQueue of (MB, CPU seconds by name)


def tree_bytes(context: PublicContext) -> float:
    """Return the bytes a leaf that geocodes, parents and facts of all levels take."""
    codes = sum(at.codes.coded.nbytes for at in context.geography.levels if isinstance(at.codes, Codes))
    parents = sum(at.parent.nbytes for at in context.geography.levels)
    facts = context.facts.columns
    return (codes + parents + (facts.n_bytes if isinstance(facts, NarrowColumns) else 0)) / len(
        context.geography.leaves
    )


def peak_mb() -> float:
    """Return the largest resident size of this program so far; what it was forked from does not count."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def timed(spent: dict[str, float], name: str, work: Callable[[], Result]) -> Result:
    """Do something and add the CPU seconds."""
    start = time.process_time()
    result = work()
    spent[name] = spent.get(name, 0.0) + time.process_time() - start
    return result


def worker(opener: bytes, tasks: list[bytes], told: Told) -> None:
    """Solve slices in a process that inherited nothing."""
    before, spent = peak_mb(), dict[str, float]()
    held: WorkerState = timed(spent, "send", lambda: pickle.loads(opener))  # noqa: S301 -- our own bytes
    for task in tasks:
        part, depth, nodes = timed(spent, "send", lambda task=task: pickle.loads(task))  # noqa: S301
        own, _ = timed(spent, "open", lambda part=part: held.open(part))
        timed(spent, "solve", lambda own=own, d=depth, n=nodes: own.below(d, n, Tally()))
    told.put((peak_mb() - before, spent))


def measured(folder: Path, n_runs: int) -> None:
    """Measure one release that is drawn and not solved."""
    context = load_context(folder)
    walk = open_release(folder, context)
    cutter, geography = make_partitioner(walk), context.geography
    cut, run_leaves = solve.choose_cut(geography, 1)
    with solve.workers_with(cutter.state, 1) as pool:
        above = solve._solve_above(cutter, pool, cut, 1, lambda _: None)
    span = checkpoint_spans(geography, cut)[0]
    runs = list(node_runs(geography, span, run_leaves, above.rows))[:n_runs]
    spent: dict[str, float] = {}
    tasks = []
    for run in runs:
        part = timed(spent, "cut", lambda run=run: cutter.cut(cut, run.span.first, run.span.last)[0])
        local = solve.renumbered(unpack_nodes(run.rows), -part.firsts[cut])
        tasks.append(timed(spent, "send", lambda p=part, n=local: pickle.dumps((p, cut, n))))
    shape = timed(spent, "send", lambda: pickle.dumps(cutter.state))
    spawn = multiprocessing.get_context("spawn")
    told = spawn.SimpleQueue()
    process = spawn.Process(target=worker, args=(shape, tasks, told))
    process.start()
    peak, there = told.get()
    process.join()
    for name, seconds in there.items():
        spent[name] = spent.get(name, 0.0) + seconds
    own = sum(spent[name] for name in ("cut", "send", "open"))
    leaves = sum(
        int(geography.first_leaves(cut)[run.span.last] - geography.first_leaves(cut)[run.span.first])
        for run in runs
    )
    print(
        f"{len(geography.leaves):>9,} leaves: {tree_bytes(context):5.1f} bytes each; shape {len(shape) / 1e6:.2f} MB; "
        f"{len(runs)} slices of {leaves // len(runs):,} leaves, {sum(map(len, tasks)) / leaves:.0f} bytes a leaf; "
        f"cut, send, open {own:.3f} s of {own + spent['solve']:.2f} s ({own / (own + spent['solve']):.1%}); "
        f"worker's peak {peak:.0f} MB more than the program",
        flush=True,
    )


def main() -> None:
    """Measure every size."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--millions", type=float, nargs="+", default=[1, 3, 10])
    ask.add_argument("--runs", type=int, default=6)
    ask.add_argument(
        "--folder", type=Path, nargs="*", default=[], help="measured releases, instead of made-up ones"
    )
    given = ask.parse_args()
    for folder in given.folder:
        measured(folder, given.runs)
    for millions in [] if given.folder else given.millions:
        with tempfile.TemporaryDirectory() as name:
            made_up(Path(name), round(millions * 1e6), rows=False)
            topdown = str(Path(sys.executable).parent / "topdown")
            command = [topdown, "measure", f"{name}/run.toml", "--out", f"{name}/release", "--yes"]
            subprocess.run(command, check=True, capture_output=True)
            measured(Path(name) / "release", given.runs)


if __name__ == "__main__":
    main()
