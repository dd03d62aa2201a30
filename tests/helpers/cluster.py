"""One Ray cluster of this machine for all tests of a process; without Ray its tests are skipped and counted."""

import atexit
import importlib.util
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from topdown.workers import Cluster, connect_cluster, tell_nobody

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="the extra cluster (ray) is not installed")


@cache
def cluster() -> Cluster:
    """Start a cluster until the process ends; its folder holds a plan.json that is only looked at."""
    open_until_exit = ExitStack()
    atexit.register(open_until_exit.close)
    folder = Path(open_until_exit.enter_context(tempfile.TemporaryDirectory()))
    (folder / "plan.json").write_text("{}")
    return open_until_exit.enter_context(connect_cluster(folder, tell_nobody))
