"""Simulation: CPU seconds of 100 replicates of the toy, set-up included.

Run: `pytest bench/bench_simulate.py -s`.
"""

from __future__ import annotations

import time
from pathlib import Path

from topdown.plan import prepare
from topdown.practice import ErrorSums, open_simulation
from topdown.practice.synth import synth

REPLICATES, MOST_SECONDS = 100, 60


def test_a_hundred_replicates_of_the_toy(tmp_path: Path) -> None:
    """Planning asks for spreads, and spreads for many replicates: they must cost minutes at most."""
    synth(tmp_path, people=2_000, schema="toy", seed=7)
    start = time.process_time()
    simulation = open_simulation(prepare(tmp_path / "run.toml"), tmp_path / "persons.csv.gz")
    errors = ErrorSums(simulation)
    ready = time.process_time() - start
    for replicate in simulation.run(REPLICATES):
        errors.add(replicate)
    total = time.process_time() - start
    each = 1000 * (total - ready) / REPLICATES
    print(f"\n{REPLICATES} replicates: {total:.1f} CPU s; set-up {ready:.2f} s, each {each:.0f} ms")
    assert total <= MOST_SECONDS
