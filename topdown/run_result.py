"""What a run made and what it took: seconds by stage, memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from topdown.workers import Where

if TYPE_CHECKING:
    from topdown.measure.measure import MeasureResult
    from topdown.publish.verify import VerifyResult

T = TypeVar("T")


@dataclass(frozen=True)
class GenerateResult:
    """A finished release.

    Args:
        release: its folder.
        seconds: wall seconds by stage (compile, account, rehearse, measure, solve, publish, verify).
        n_records: records in the microdata.
        n_splits: least-squares splits solved; n_failsafe: of them by the failsafe.
        peak_memory_bytes: an upper bound, since processes share pages: largest resident size of this process plus
            that of its largest child times workers;
            of this process alone where the workers are Ray's.
        checks: what `verify` found; every check passed.
        measured: what the measure stage charged and drew.
    """

    release: Path
    seconds: dict[str, float]
    n_records: int
    n_splits: int
    n_failsafe: int
    peak_memory_bytes: int
    checks: VerifyResult
    measured: MeasureResult

    def __repr__(self) -> str:
        passed = f"{self.checks.n_checks - self.checks.n_failed} of {self.checks.n_checks} checks"
        return f"GenerateResult({str(self.release)!r}, {self.n_records:,} records, {passed})"

    def _repr_html_(self) -> str:
        from topdown.shown import card

        rows = [
            ("folder", self.release),
            ("records", f"{self.n_records:,}"),
            ("checks", f"{self.checks.n_checks - self.checks.n_failed} of {self.checks.n_checks} passed"),
            ("charged for the measurement", f"{self.measured.loss_name} {self.measured.loss}"),
            ("seconds", round(sum(self.seconds.values()), 1)),
        ]
        return card("Release", rows)


@dataclass
class Clock:
    """Wall seconds by stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, stage: str, work: Callable[[], T]) -> T:
        """Do the work of a stage and note how long it took."""
        start = time.monotonic()
        result = work()
        self.seconds[stage] = time.monotonic() - start
        return result


def peak_memory_bytes(workers: Where) -> int:
    """Return that of this process, and of its largest child times workers where these are processes here."""
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if workers == "ray" or workers == 1:
        return int(own * unit)
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return int((own + workers * child) * unit)
