"""CPU seconds of the statements of a release under bundled settings, read or computed, beside another checkout.

Run: `python -m bench.bench_accounted_once CHECKOUT RUN.toml`. Medians of three processes of each, taken in turn.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

RUNS = 3
TASK = """
import sys, time
import topdown
context = topdown.plan(sys.argv[1]).prepared.context
from topdown.publish.release_certificate import certified_privacy
start = time.process_time()
certified_privacy(context.policy)
print(time.process_time() - start)
"""


def seconds(checkout: str, run: str) -> float:
    """Return the CPU seconds of one process that states the privacy of a plan."""
    environment = os.environ | {"PYTHONPATH": checkout}
    command = [sys.executable, "-c", TASK, run]
    return float(
        subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment, cwd=checkout
        ).stdout
    )


def main(checkout: str, run: str) -> None:
    """Print both medians and their ratio."""
    here = str(Path(__file__).resolve().parents[1])
    pairs = [(seconds(here, run), seconds(checkout, run)) for _ in range(RUNS)]
    now, before = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"statements: {now:.2f} CPU s, before {before:.2f}: {now / before:.3f} x")


if __name__ == "__main__":
    main(*sys.argv[1:])
