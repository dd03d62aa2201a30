"""Where work runs: tasks read and return, whoever hands them out writes."""

from topdown.workers.forked import Forked
from topdown.workers.here import Here
from topdown.workers.lost import Lost
from topdown.workers.workers import Cluster, Place, Where, Workers, opened, size_of, workers_with

__all__ = [
    "Cluster",
    "Forked",
    "Here",
    "Lost",
    "Place",
    "Where",
    "Workers",
    "opened",
    "size_of",
    "workers_with",
]
