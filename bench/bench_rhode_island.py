"""The whole release of real Rhode Island blocks: time, memory and error, for both root strategies.

Run: `pytest bench/bench_rhode_island.py -s`. Needs ../shared beside the checkout. Writes
bench/results/rhode_island.json. Wall seconds are medians of three runs of the installed command; memory is the
largest sum of resident sizes over the process tree (shared pages counted once a process, so it overstates).
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from topdown.measure import evaluate

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "rhode_island_2010"
RUNS = 3
TARGETS = {"county": 3.0, "tract": 2.3, "block_group": 1.6, "block": 5.0}


def tree_bytes(root: int) -> int:
    """Sum the resident sizes of a process and everything below it."""
    children: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            sizes[int(entry.name)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        total += sizes.get(pid, 0)
        todo += children.get(pid, [])
    return total


def generate(folder: Path, settings: str, workers: int) -> dict[str, float]:
    """Run init and generate as a user would; return wall seconds and peak bytes."""
    topdown = str(Path(sys.executable).parent / "topdown")
    run = folder / "run.toml"
    made = [topdown, "init", "--schema", "pl94", "--settings", settings, "--out", str(run)]
    made += ["--records", str(DATA / "persons.csv.gz"), "--leaves", str(DATA / "blocks.csv.gz")]
    made += ["--registry", str(folder)]  # the data are only read
    subprocess.run(made, check=True, capture_output=True)
    log = folder / "log.jsonl"
    command = [topdown, "generate", str(run), "--out", str(folder / "release"), "--yes"]
    start = time.monotonic()
    process = subprocess.Popen(
        [*command, "--workers", str(workers), "--log-json", str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.poll() is None:
            peak = max(peak, tree_bytes(process.pid))
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, errors = process.communicate()
    watcher.join()
    assert process.returncode == 0, errors.decode()
    seconds = time.monotonic() - start
    start = time.monotonic()
    subprocess.run([topdown, "verify", str(folder / "release")], check=True, capture_output=True)
    return {"generate_seconds": seconds, "verify_seconds": time.monotonic() - start, "peak_bytes": peak}


def errors_of(folder: Path) -> dict[str, float]:
    """Mean absolute errors of total population by level, and of seven race groups at the state."""
    document = evaluate(folder / "release", DATA / "persons.csv.gz")
    found = {}
    for level in document["levels"]:
        for table in level["tables"]:
            if table["query"] == "total":
                found[level["level"]] = table["mae"]
            if table["query"] == "race7" and level["level"] == "state":
                found["state race7"] = table["mae"]
    return found


@pytest.mark.skipif(
    not DATA.is_dir(), reason="../shared with the Rhode Island blocks is not beside the checkout"
)
def test_rhode_island(tmp_path: Path) -> None:
    """The promised numbers: 45 s, 1.5 GB, and errors by level, each an average of three releases."""
    rows = {}
    for settings in ("pl94_2020_marginal_first", "pl94_2020"):
        runs = []
        for i in range(RUNS):
            folder = tmp_path / settings / str(i)
            folder.mkdir(parents=True)
            numbers = generate(folder, settings, workers=2)
            solve = json.loads((folder / "release" / "solve.json").read_text())
            numbers["unconverged"] = sum(level["n_unconverged"] for level in solve["levels"])
            numbers["kkt_persons"] = max(level["max_kkt_residual_persons"] for level in solve["levels"])
            runs.append(numbers | errors_of(folder))
        keys = runs[0].keys()
        rows[settings] = {key: statistics.median(run[key] for run in runs) for key in keys}
        rows[settings] |= {key: statistics.fmean(run[key] for run in runs) for key in errors_of(folder)}
        print(f"\n{settings}, {RUNS} runs")
        for key, value in rows[settings].items():
            shown = f"{value / 1e9:.2f} GB" if key == "peak_bytes" else f"{value:.3g}"
            print(f"  {key:<20} {shown:>10}" + (f"   target {TARGETS[key]}" if key in TARGETS else ""))
    out = ROOT / "bench" / "results" / "rhode_island.json"
    out.parent.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    out.write_text(json.dumps({"machine": machine, "runs": RUNS, "rows": rows}, indent=1) + "\n")
    first = rows["pl94_2020_marginal_first"]
    assert first["generate_seconds"] <= 45
    assert first["peak_bytes"] <= 1.5e9
    assert all(first[level] <= target for level, target in TARGETS.items())
    assert first["state race7"] <= 16
    assert first["unconverged"] == 0
