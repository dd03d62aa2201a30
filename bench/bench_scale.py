"""A release of 1, 3 and 10 million made-up people by stage: CPU, wall, peak memory, and how they grow.

Run: `python -m bench.bench_scale [--millions 1 3 10] [--huge] [--workers 1] [--rows]`; `--huge` adds 30 million,
`--rows` writes the records as one row a person. Memory is the largest sum of proportional set sizes over the process
tree (pages that processes share are counted once), sampled ten times a second. Exponents are slopes of a straight line
through logarithms. CPU seconds survive a busy machine, wall seconds do not.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

STAGES = ("prepare", "preflight", "measure", "solve", "publish", "certify")


def tree_pss(root: int) -> int:
    """Return the proportional set size in bytes of a process and everything below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                above = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            parents.setdefault(above, []).append(int(entry.name))
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        todo += parents.get(pid, [])
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def release(folder: Path, workers: int) -> None:
    """Make one release in this process; print for each stage when it began and the CPU seconds until then."""
    from topdown.app import RunOptions, generate_release
    from topdown.plan import prepare
    from topdown.process import use_system_allocator
    from topdown.progress import Event

    use_system_allocator()  # as the command does
    seen: list[str] = []

    def report(event: Event) -> None:
        committed = event.stage == "ledger" and event.done == event.total
        stage = "solve" if committed else event.stage  # the solver speaks only once the root is done
        if stage in STAGES and stage not in seen:
            seen.append(stage)
            own, below = _cpu()
            print(json.dumps([stage, time.monotonic(), own + below]), flush=True)

    report(Event("prepare", 0, 1, ""))
    generate_release(
        prepare(folder / "run.toml"), folder / "release", RunOptions(workers=workers, report=report)
    )
    own, below = _cpu()
    print(json.dumps(["end", time.monotonic(), own + below]), flush=True)


def _cpu() -> tuple[float, float]:
    import resource

    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, below.ru_utime + below.ru_stime


def made_up(folder: Path, people: int, *, rows: bool) -> None:
    """Make up a census with its ledger, in a process of its own."""
    topdown = str(Path(sys.executable).parent / "topdown")
    subprocess.run(
        [topdown, "synth", "--out", str(folder), "--people", str(people), "--seed", "5"],
        check=True,
        capture_output=True,
    )
    run = folder / "run.toml"
    if rows:
        one_a_row(folder / "persons.csv.gz")
        text = run.read_text()
        run.write_text(text.replace("count = true", "count = false"))
    subprocess.run([topdown, "ledger", "new", str(run)], check=True, capture_output=True)


def one_a_row(path: Path) -> None:
    """Write every row of a table as often as its last column says, without that column."""
    with gzip.open(path, "rt") as file:
        header, *lines = file.read().splitlines()
    cut = [line.rpartition(",") for line in lines]
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write(header.rpartition(",")[0] + "\n")
        file.writelines(f"{row}\n" * int(count) for row, _, count in cut)


def measured(millions: float, workers: int, *, rows: bool) -> dict[str, tuple[float, float, float]]:
    """Make a release of so many people; return (CPU s, wall s, peak MB) of every stage, and of `all`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_up(folder, round(millions * 1e6), rows=rows)
        command = [sys.executable, "-m", "bench.bench_scale", "--release", name, "--workers", str(workers)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        sizes: list[tuple[float, int]] = []
        watcher = threading.Thread(target=_watch, args=(process.pid, process.poll, sizes))
        watcher.start()
        lines = process.communicate()[0].splitlines()
        watcher.join()
        if process.returncode:
            raise SystemExit(f"the release of {millions} million people failed")
    marks = [json.loads(line) for line in lines if line.startswith("[")]
    found = {}
    for (stage, start, cpu), (_, end, cpu_end) in itertools.pairwise(marks):
        peak = max((size for at, size in sizes if start <= at < end), default=0)
        found[stage] = (cpu_end - cpu, end - start, peak / 1e6)
    columns = list(zip(*found.values(), strict=True))
    found["all"] = (sum(columns[0]), sum(columns[1]), max(columns[2]))
    return found


def _watch(pid: int, ended: Callable[[], int | None], sizes: list[tuple[float, int]]) -> None:
    while ended() is None:
        sizes.append((time.monotonic(), tree_pss(pid)))
        time.sleep(0.1)


def exponent(millions: list[float], seconds: list[float]) -> float:
    """Return the slope of log(seconds) over log(millions)."""
    return float(np.polyfit(np.log(millions), np.log(np.maximum(seconds, 1e-3)), 1)[0])


def main() -> None:
    """Measure every size and print a table."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--millions", type=float, nargs="+", default=[1, 3, 10])
    ask.add_argument("--huge", action="store_true")
    ask.add_argument("--rows", action="store_true")
    ask.add_argument("--workers", type=int, default=1)
    ask.add_argument("--release", type=Path, default=None)
    given = ask.parse_args()
    if given.release is not None:
        release(given.release, given.workers)
        return
    sizes = given.millions + [30.0] * given.huge
    found: list[dict[str, tuple[float, float, float]]] = []
    for size in sizes:
        found.append(measured(size, given.workers, rows=given.rows))
        print(f"{size:g} million people, {given.workers} workers: stage, CPU s, wall s, peak MB")
        for stage, (cpu, wall, peak) in found[-1].items():
            print(f"  {stage:<10} {cpu:8.2f} {wall:8.2f} {peak:8.0f}", flush=True)
    if len(sizes) > 1:
        print("exponents of CPU seconds, of peak MB")
        for stage in found[0]:
            cpu, peak = (exponent(sizes, [one[stage][i] for one in found]) for i in (0, 2))
            print(f"  {stage:<10} {cpu:8.2f} {peak:8.2f}")


if __name__ == "__main__":
    main()
