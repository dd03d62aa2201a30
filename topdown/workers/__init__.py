"""Where work runs: tasks read and return, whoever hands them out writes."""

from topdown.workers.forked import Forked
from topdown.workers.here import Here
from topdown.workers.workers import Workers, workers_with

__all__ = ["Forked", "Here", "Workers", "workers_with"]
