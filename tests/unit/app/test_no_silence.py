"""A run says where it is: no stretch of work goes by without an event."""

import itertools
import time
from pathlib import Path

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
