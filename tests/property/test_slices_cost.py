"""What it costs to solve from slices, beside the solving."""

import pickle
import sys
from collections import Counter
from collections.abc import Callable
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

SHARE = 0.05  # of the function calls below the cut


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return how many parts are opened and row groups read; both count again from nothing when cleared."""
    counted = Counter[str]()
    for name in ("_part", "_read"):
        monkeypatch.setattr(MeasurementParts, name, _counting(getattr(MeasurementParts, name), counted, name))
    return counted


def _counting(function: Callable[..., Any], counted: Counter[str], name: str) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        counted[name] += 1
        return function(*args)

    return called


def _calls(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return what some work returns, and how many functions it called: its cost, the same on every machine."""
    n = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal n
        n += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        found = work()
    finally:
        sys.setprofile(None)
    return found, n


@pytest.mark.slow
def test_slices_cost_little(tmp_path: Path, read: Counter[str]) -> None:
    """A worker that opens every file for every slice, or derives again what all share, spends its time on that."""
    prepared = prepare(with_ledger(synth(tmp_path, people=200_000, seed=5).run_file))
    release = tmp_path / "release"
    measure_release(prepared, release)
    walk = open_release(release, load_context(release))
    cutter, geography = make_partitioner(walk), walk.context.geography
    cut, run_leaves = solve.choose_cut(geography, 1)
    rows = solve._solve_above(cutter, LocalWorker(cutter.state), cut, 1, lambda _: None).rows
    read.clear()
    walk.below(cut, unpack_nodes(rows), Tally())
    at_once = dict(read)
    read.clear()
    opener, own, solving, n_runs = pickle.loads(pickle.dumps(cutter.state)), 0, 0, 0  # noqa: S301 -- our own
    for run in node_runs(geography, checkpoint_spans(geography, cut)[0], run_leaves, rows):

        def opened(run: Any = run) -> tuple[Any, Any]:
            part, firsts = cutter.cut(cut, run.span.first, run.span.last)
            sent = pickle.loads(pickle.dumps((part, solve.renumbered(unpack_nodes(run.rows), -firsts[cut]))))  # noqa: S301
            return opener.open(sent[0])[0], sent[1]

        (alone, nodes), n_opening = _calls(opened)
        _, n_solving = _calls(lambda alone=alone, nodes=nodes: alone.below(cut, nodes, Tally()))
        own, solving, n_runs = own + n_opening, solving + n_solving, n_runs + 1
    assert n_runs > 2
    assert dict(read) == at_once
    assert own <= SHARE * (own + solving), (own, solving, n_runs)
