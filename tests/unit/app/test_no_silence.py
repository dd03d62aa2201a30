"""A run says where it is: no stretch of work goes by without an event.

How long a whole command is silent where people watch it: `python -m bench.bench_silence`.
"""

import itertools
import time
from pathlib import Path

import pytest

import topdown

MOST_SECONDS = 10.0  # of this process's own work; such a stretch takes .5 s where nothing else runs


def test_no_stretch_of_a_run_is_silent(tmp_path: Path) -> None:
    """Who watches a log that stands still stops a run that has spent its budget."""
    made = topdown.synth(tmp_path / "town", schema="toy", people=8000, seed=1)
    planned = topdown.plan(made.run_file)
    seen = [(time.process_time(), topdown.Event("start", 0, 1))]
    topdown.generate(
        planned, tmp_path / "release", report=lambda event: seen.append((time.process_time(), event))
    )
    seen.append((time.process_time(), topdown.Event("end", 1, 1)))
    gaps = [(b[0] - a[0], a[1], b[1]) for a, b in itertools.pairwise(seen)]
    assert [gap for gap in gaps if gap[0] > MOST_SECONDS] == []
    stages = {event.stage for _, event in seen}
    assert {"preflight", "ledger", "measure", "solve", "certify", "publish"} <= stages
    areas = [event for _, event in seen if event.stage == "solve" and event.total > 1]
    steps = [b.done - a.done for a, b in itertools.pairwise(areas)]
    assert areas
    assert (
        max(steps) <= areas[0].total / 4
    )  # a loop over areas that reports at its end only is silent on a nation


def test_commands_that_take_long_say_where_they_are(tmp_path: Path) -> None:
    """Verifying, tuning, simulating and auditing a nation take minutes: each has an event for every part of it."""
    made = topdown.synth(tmp_path / "town", schema="toy", people=300, seed=1)
    tree = '[estimates]\ntargets = "tree"\ncoverage = "9/10"\n\n[budget]'
    made.run_file.write_text(made.run_file.read_text().replace("[budget]", tree))
    seen: dict[str, set[str]] = {}

    def note(event: topdown.Event) -> None:
        seen.setdefault(event.stage, set()).add(event.text)

    topdown.generate(made.run_file, tmp_path / "release", report=note)
    assert {f"a few areas with made-up people: {stage}" for stage in ("measure", "solve", "publish")} <= seen[
        "preflight"
    ]
    checks = {check.name for check in topdown.verify(tmp_path / "release", report=note).checks}
    assert checks <= seen["verify"]
    assert len([text for text in seen["verify"] if text.startswith("intervals of")]) > 5
    topdown.plan(made.run_file).tune(made.run_file.parent / "tuned.toml", report=note)
    assert "search" in seen["tune"]
    topdown.simulate(made.run_file, made.records, replicates=2, report=note)
    assert any(text.startswith("replicate 2, solve") for text in seen["simulate"])
    topdown.audit_runs(made.run_file, 1000, report=note)
    assert any(text.startswith("pairs that differ in") for text in seen["audit"])


def test_what_the_listener_raises_is_no_finding(tmp_path: Path) -> None:
    """Who stops a verification from a notebook's bar must not be told that the release is damaged."""
    made = topdown.synth(tmp_path / "town", schema="toy", people=50, seed=1)
    topdown.generate(made.run_file, tmp_path / "release")

    def stop(event: topdown.Event) -> None:
        if event.text.startswith("records and tables"):
            raise LookupError("stopped")

    with pytest.raises(LookupError, match="stopped"):
        topdown.verify(tmp_path / "release", report=stop)
