"""Two Ray nodes on this machine, and work that tells where it is lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]


def die_once(folder: str, n: int) -> int:
    """Work for a moment; the third task is killed the first time."""
    mark = Path(folder) / "died"
    time.sleep(0.5)
    if n == 2 and not mark.exists():
        mark.touch()
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    return n


def work_long(folder: str, n: int) -> int:
    """Say on which node this begins, and take a while."""
    (Path(folder) / f"began on {_node()}").touch()
    time.sleep(4)
    return n


def _node() -> str:
    import ray

    return ray.get_runtime_context().get_node_id()


@contextmanager
def node(name: str, environment: dict[str, str], *more: str) -> Iterator[subprocess.Popen[str]]:
    """Start a node of one core until the context ends."""
    process = subprocess.Popen(
        [*RAY, f"--node-name={name}", *more],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            kill(process)
            process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a node as if its machine lost power."""
    for pid in below(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def below(pid: int) -> list[int]:
    """Return a process and all that it started."""
    found = [pid]
    for one in found:
        with suppress(OSError):
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found
