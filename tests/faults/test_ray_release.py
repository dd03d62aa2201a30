"""Releases on a Ray cluster of this machine, workers killed and a machine lost: the folder is that of one process."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.test_generate_kills import census, copy_of, finish, hashes, start
from tests.helpers.cluster import needs_ray
from tests.helpers.nodes import ROOT, kill, node
from tests.helpers.processes import run_python

__all__ = ["census"]
pytestmark = [pytest.mark.slow, needs_ray]
TOPDOWN = [sys.executable, "-m", "topdown.cli"]


def folder(out: Path) -> dict[str, str]:
    """Hash every file of a release."""
    return hashes(out, ".")


def workers_of(pid: int) -> list[int]:
    """Return the processes below one that run our tasks."""
    found, below = [], [pid]
    while below:
        one = below.pop()
        try:
            below += [
                int(child)
                for task in Path(f"/proc/{one}/task").iterdir()
                for child in (task / "children").read_text().split()
            ]
            name = Path(f"/proc/{one}/cmdline").read_bytes()
        except OSError:
            continue
        if name.startswith(b"ray::_run"):
            found.append(one)
    return found


def unsolved(out: Path) -> None:
    """Take away what follows the measurement."""
    for name in ("microdata", "tables"):
        shutil.rmtree(out / name)
    for name in ("solve.json", "certificate.json", "manifest.json", "README.txt"):
        (out / name).unlink()


def test_a_release_on_ray_is_that_of_one_process(census: Path, tmp_path: Path) -> None:
    """Where work runs, and what dies there, must not be seen in a release; nothing is charged for it."""
    run, out = copy_of(census, tmp_path), tmp_path / "release"
    finish(run, out, "--workers", "1")
    alone = folder(out)
    ledger = {path: path.read_bytes() for path in (run.parent / "ledger").iterdir()}
    unsolved(out)
    (run.parent / "persons.csv.gz").unlink()
    process = start(run, out, "--resume", "--on", "ray")
    killed: set[int] = set()
    deadline = time.monotonic() + 100
    while process.poll() is None and len(killed) < 3 and time.monotonic() < deadline:
        for pid in workers_of(process.pid)[:1]:
            if pid not in killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        time.sleep(0.05)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()
    assert len(killed) == 3
    assert b"lost a worker; its work is done again (1 of 3)" in errors
    assert b"one kind" in errors
    assert b"raylet" not in said + errors
    assert alone == folder(out)
    assert ledger == {path: path.read_bytes() for path in ledger}


def test_verify_solves_again_on_ray(census: Path, tmp_path: Path) -> None:
    """An auditor with a cluster must come to the same answer, as one JSON document and nothing else."""
    run, out = copy_of(census, tmp_path), tmp_path / "release"
    finish(run, out, "--on", "ray")
    done = subprocess.run(
        [*TOPDOWN, "verify", str(out), "--solve", "--on", "ray", "--json"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["solved again"]["ok"]


def test_ray_runs_with_the_environment_we_set(tmp_path: Path) -> None:
    """The switch against reports must reach Ray's own processes, not only a dictionary."""
    (tmp_path / "plan.json").write_text("{}")
    code = (
        "import sys\nfrom pathlib import Path\nfrom topdown.workers.ray import connected\n"
        "with connected(Path(sys.argv[1]), print):\n"
        "    for name in Path('/proc').glob('[0-9]*'):\n"
        "        try:\n"
        "            if b'raylet/raylet' in (name / 'cmdline').read_bytes().split(b'\\0')[0]:\n"
        "                print((name / 'environ').read_bytes().replace(b'\\0', b'\\n').decode())\n"
        "        except OSError:\n            pass\n"
    )
    said = run_python("-c", code, tmp_path)
    assert "RAY_USAGE_STATS_ENABLED=0" in said.stdout.splitlines()


def test_an_open_cluster_gets_nothing(tmp_path: Path) -> None:
    """Ray starts without tokens where it finds none, and says so in a warning that nobody reads."""
    (tmp_path / "plan.json").write_text("{}")
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if k != "RAY_AUTH_MODE"}
    environment |= {"HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0"}
    here = ("--include-dashboard=false", "--node-ip-address=127.0.0.1")
    with node("open", environment, "--head", f"--port={port}", *here) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"--address='([^']+)'", line):
                break
        assert found is not None
        code = (
            "import sys\nfrom pathlib import Path\nfrom topdown.errors import ConfigError\n"
            "from topdown.workers.ray import connected\n"
            "try:\n    with connected(Path(sys.argv[1]), print):\n        pass\n"
            "except ConfigError as error:\n    print(error.code, error)\n"
        )
        other = os.environ | {"RAY_ADDRESS": found[1], "RAY_AUTH_TOKEN": "0" * 64}
        said = run_python("-c", code, tmp_path, env=other)
        assert said.stdout.startswith("C231")


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
