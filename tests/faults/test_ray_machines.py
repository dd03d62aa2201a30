"""Two nodes of a Ray cluster on this machine: the notice of a lost one names it."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.cluster import needs_ray
from tests.helpers.nodes import ROOT, kill, node

pytestmark = [pytest.mark.slow, needs_ray]
DRIVER = """
import sys, ray
from pathlib import Path
from tests.helpers.nodes import die_once, work_long
from topdown.workers.ray import connected

nodes = ray.nodes
ray.nodes = lambda: [one | {"NodeManagerHostname": one["NodeName"]} for one in nodes()]
with connected(Path(sys.argv[1]), print) as cluster:
    workers = cluster.workers(sys.argv[1], lambda text: print(text, flush=True))
    assert list(workers.map(die_once, range(6))) == list(range(6))
    names = {one["NodeID"]: one["NodeName"] for one in ray.nodes()}
    (second,) = (id for id, name in names.items() if name == "second")
    print("second is", second, flush=True)
    assert list(workers.map(work_long, range(4))) == list(range(4))
"""


def test_a_lost_machine_is_named(tmp_path: Path) -> None:
    """With hundreds of machines, one that is gone has to be found by its name."""
    (tmp_path / "plan.json").write_text("{}")
    with socket.socket() as free:
        free.bind(("", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = dict(os.environ) | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "5" * 64,
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(ROOT),
    }
    at = "--node-ip-address=127.0.0.1"
    with node(
        "first",
        environment,
        "--head",
        "--include-dashboard=false",
        f"--port={address.rpartition(':')[2]}",
        at,
    ) as head:
        for line in head.stdout or ():
            if "Ray runtime started" in line:
                break
        with node("second", environment, f"--address={address}", at) as second:
            for line in second.stdout or ():
                if "Ray runtime started" in line:
                    break
            driver = subprocess.Popen(
                [sys.executable, "-c", DRIVER, str(tmp_path)],
                env=environment | {"RAY_ADDRESS": address},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            said = []
            for line in driver.stdout or ():
                said.append(line.rstrip())
                if line.startswith("second is "):
                    _wait_for(tmp_path / f"began on {line.split()[-1]}")
                    kill(second)
            errors = driver.communicate(timeout=120)[1]
    assert driver.returncode == 0, errors
    assert "2 machines" in said[0]
    assert said[1] == "lost a worker; its work is done again (1 of 3)"  # Ray does not say where it was
    assert said[-1] == "lost a worker on second; its work is done again (1 of 3)"


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.05)
