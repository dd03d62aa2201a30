"""What it costs to solve from slices, beside the solving."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ledgers import with_ledger
from topdown.app.pipeline import measure_release
from topdown.plan import load_context, prepare
from topdown.practice.synth import synth
from topdown.solve import (
    MeasurementParts,
    Tally,
    checkpoint_spans,
    make_partitioner,
    node_runs,
    open_release,
    unpack_nodes,
)
from topdown.solve import solve_stage as solve
from topdown.workers import LocalWorker

SHARE = 0.05  # of the CPU below the cut


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list that gets the CPU seconds of each look at noisy answers."""
    answers, seconds = MeasurementParts.answers, list[float]()

    def timed(*args: Any) -> Any:
        start = time.process_time()
        found = answers(*args)
        seconds.append(time.process_time() - start)
        return found

    monkeypatch.setattr(MeasurementParts, "answers", timed)
    return seconds


@pytest.mark.slow
def test_slices_cost_little(tmp_path: Path, reading: list[float]) -> None:
    """A worker that opens every file for every slice, or derives again what all share, spends its time on that."""
    prepared = prepare(with_ledger(synth(tmp_path, people=200_000, seed=5).run_file))
    release = tmp_path / "release"
    measure_release(prepared, release)
    walk = open_release(release, load_context(release))
    cutter, geography = make_partitioner(walk), walk.context.geography
    cut, run_leaves = solve.choose_cut(geography, 1)
    rows = solve._solve_above(cutter, LocalWorker(cutter.state), cut, 1, lambda _: None).rows
    reading.clear()
    walk.below(cut, unpack_nodes(rows), Tally())
    at_once = sum(reading)
    reading.clear()
    opener, own, solving, n_runs = pickle.loads(pickle.dumps(cutter.state)), 0.0, 0.0, 0  # noqa: S301 -- our own
    for run in node_runs(geography, checkpoint_spans(geography, cut)[0], run_leaves, rows):
        start = time.process_time()
        part, firsts = cutter.cut(cut, run.span.first, run.span.last)
        sent = pickle.loads(pickle.dumps((part, solve.renumbered(unpack_nodes(run.rows), -firsts[cut]))))  # noqa: S301
        alone, _ = opener.open(sent[0])
        opened = time.process_time()
        alone.below(cut, sent[1], Tally())
        own, solving, n_runs = own + opened - start, solving + time.process_time() - opened, n_runs + 1
    assert n_runs > 2
    more = own + sum(reading) - at_once
    assert more <= SHARE * (own + solving), (own, sum(reading), at_once, solving, n_runs)
