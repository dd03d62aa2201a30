"""What a run takes: seconds by stage, memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from topdown.workers import Where

T = TypeVar("T")


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
