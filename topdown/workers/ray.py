"""Work on the machines of a Ray cluster; no other file imports Ray.

Tasks are plain functions of installed modules: nothing is uploaded, and each machine runs its own installation.
Machines must share what decides the bytes: versions, processor, kernels of the BLAS, and the folder with the plan.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_info, threadpool_limits

from topdown.errors import ConfigError
from topdown.process import use_system_allocator
from topdown.workers.tasks import Pending, RemoteWorkers, ReportLoss, WorkerLostError, refuse_confidential

COMPARED_PACKAGES = ("census-topdown", "numpy", "scipy", "pyarrow")


@dataclass(frozen=True)
class Machine:
    """A machine as one of its processes sees it.

    Args:
        host: its name.
        kind: what decides the bytes: versions, what NumPy uses of the processor, kernels of the BLAS.
        plan: SHA-256 of the folder's plan.json, in hex; "" if it is not there.
    """

    host: str
    kind: dict[str, str]
    plan: str


def describe_machine(folder: Path) -> Machine:
    """Return this machine; `folder` holds a plan."""
    for library in ("numpy", "scipy.linalg"):  # each brings a BLAS of its own
        import_module(library)
    found = import_module("numpy").show_config(mode="dicts")["SIMD Extensions"]["found"]
    kind = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    kind |= {name: version(name) for name in COMPARED_PACKAGES}
    blas = {
        " ".join(str(one.get(key, "")) for key in ("internal_api", "version", "architecture"))
        for one in threadpool_info()
        if one["user_api"] == "blas"
    }
    kind |= {"processor": ", ".join(found), "BLAS": ", ".join(sorted(blas))}
    try:
        plan = hashlib.sha256((folder / "plan.json").read_bytes()).hexdigest()
    except OSError:
        plan = ""
    return Machine(socket.gethostname(), kind, plan)


def require_same(own: Machine, other: Machine, folder: Path) -> None:
    """Refuse a machine on which the same work could give other bytes, or that sees another folder.

    Raises:
        ConfigError: C233 it is of another kind, C234 its folder is not this one.
    """
    differ = [key for key in own.kind if own.kind[key] != other.kind.get(key)]
    if differ:
        raise ConfigError(
            f"{other.host} is a machine of another kind than {own.host}",
            code="C233",
            details=tuple(
                (key, f"{own.kind[key]} on {own.host}, {other.kind.get(key, 'none')} on {other.host}")
                for key in differ
            ),
            fix="use machines of one kind with the same versions; where only the kernels of the BLAS differ, set "
            "OPENBLAS_CORETYPE to one value on all",
        )
    if other.plan != own.plan or not other.plan:
        raise ConfigError(
            f"{other.host} does not see the plan in {folder} that {own.host} sees",
            code="C234",
            file=str(folder / "plan.json"),
            fix="put the folder where every machine sees it at this path, then go on with --resume",
        )


Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")
OLDEST = (2, 55)
AHEAD = 4  # tasks a core, under way or waiting
ANSWER_SECONDS = 60  # within which each machine says what it is
INSTALL = 'install the extra "cluster" on every machine: pip install "census-topdown[cluster]"'
_held: tuple[str, Any] | None = None  # the shared value by its name; in workers only


def require_ray() -> None:
    """Refuse what can be refused before a cluster is asked, and before anything is spent.

    Raises:
        ConfigError: C230 Ray is not installed, or too old; C231 the cluster would be open to its network, or its
            address is that of a Ray Client.
    """
    try:
        found = version("ray")
    except PackageNotFoundError:
        raise ConfigError("Ray is not installed", code="C230", fix=INSTALL) from None
    if tuple(int(n) for n in found.split(".")[:2]) < OLDEST:
        raise ConfigError(f"Ray {found} is too old", code="C230", fix=INSTALL)
    require_closed(os.environ.get("RAY_ADDRESS", ""), os.environ.get("RAY_AUTH_MODE", ""))


def require_closed(address: str, mode: str) -> None:
    """Refuse a cluster in which whoever reaches a port runs code (ConfigError C231).

    Ray listens on the network of a machine even if the cluster has no other.

    Args:
        address: RAY_ADDRESS; "" or "local": a cluster of this machine.
        mode: RAY_AUTH_MODE.
    """
    if "://" in address:
        raise ConfigError(
            f"RAY_ADDRESS={address} is not HOST:PORT",
            code="C231",
            fix="give the address that ray start --head prints, and run this on a machine of the cluster",
        )
    if mode.strip().lower() == "disabled":
        raise _open_cluster("with RAY_AUTH_MODE=disabled, a cluster asks for no token")


def _open_cluster(text: str) -> ConfigError:
    return ConfigError(
        f"{text}: whoever reaches it runs code on it",
        code="C231",
        fix="give every machine one token (ray get-auth-token --generate); start the cluster with RAY_AUTH_MODE=token",
    )


def ray_environment(address: str) -> dict[str, str]:
    """Return what is set for Ray before it is imported.

    It reports to nobody. Workers of a cluster of our own are not starved; to another we come with a token.
    """
    own = {"RAY_USAGE_STATS_ENABLED": "0"}
    return own | ({"RAY_worker_niceness": "0"} if address in ("", "local") else {"RAY_AUTH_MODE": "token"})


@dataclass(frozen=True)
class RayCluster:
    """A cluster this process is connected to.

    Args:
        n: its cores.
        own: this machine.
        folder: what every machine must see.
    """

    n: int
    own: Machine
    folder: Path

    def workers(self, shared: Shared, lost: ReportLoss) -> RayWorkers[Shared]:
        """Return workers that hold a value."""
        return RayWorkers(self, shared, lost)


@contextmanager
def connect_cluster(folder: Path, told: ReportLoss) -> Iterator[RayCluster]:
    """Connect to the cluster that RAY_ADDRESS names, or start one of this machine's cores until the context ends.

    Every machine has to be of this kind and to see `folder/plan.json`; each worker looks again before its first task.

    Args:
        folder: a measured release.
        told: gets one sentence about the cluster.

    Raises:
        ConfigError: C230 see `require_ray`; C231 the cluster asks for no token; C232 it or a machine of it does not
            answer; C233 a machine is of another kind; C234 one does not see the folder.
    """
    require_ray()
    address, folder = os.environ.get("RAY_ADDRESS", ""), folder.resolve()
    before = dict(os.environ)
    os.environ.update(ray_environment(address))
    try:
        ray = _connect(address)
        try:
            machines = _machines(ray, folder)
            own = describe_machine(folder)
            for machine in machines:
                require_same(own, machine, folder)
            n = max(1, int(ray.cluster_resources().get("CPU", 1)))
            many = "machine" if len(machines) == 1 else "machines"
            told(f"ray {ray.__version__}: {len(machines)} {many}, {n:,} cores, one kind")
            yield RayCluster(n, own, folder)
        finally:
            ray.shutdown()
    finally:
        os.environ.clear()
        os.environ.update(before)


def _connect(address: str) -> Any:
    import ray
    from ray._private import worker as driver

    driver.print_to_stdstream = (
        _print_nothing  # it tells about lost workers on standard output, where documents go
    )
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        if address in ("", "local"):
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
            ray.init("local", num_cpus=cores, include_dashboard=False, **quiet)
        else:
            ray.init(address, **quiet)
    except Exception as error:  # Ray raises what its libraries raise
        raise ConfigError(
            f"cannot connect to a Ray cluster at {address or 'this machine'} ({type(error).__name__})",
            code="C232",
            fix="RAY_ADDRESS is HOST:PORT of a running cluster, as ray start --head prints it, with its token on this "
            "machine; without RAY_ADDRESS one is started here",
        ) from None
    return ray


def _print_nothing(*_: object, **__: object) -> None:
    """Print nothing."""


def _machines(ray: Any, folder: Path) -> list[Machine]:
    """Ask every machine of the cluster what it is."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"]]
    ask = ray.remote(num_cpus=0, max_retries=3)(_describe_worker)
    found = []
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        found.append((node, ask.options(scheduling_strategy=there).remote(folder)))
    machines = []
    for node, answer in found:
        try:
            machine, mode = ray.get(answer, timeout=ANSWER_SECONDS)
        except ray.exceptions.RayError as error:
            raise ConfigError(
                f"{node['NodeManagerHostname']} does not run our code ({type(error).__name__})",
                code="C232",
                fix="install the same versions of census-topdown, its extra cluster and Python on every machine",
            ) from None
        if mode in ("", "disabled"):
            raise _open_cluster(f"{machine.host} is of a cluster that asks for no token")
        machines.append(machine)
    return machines


def _describe_worker(folder: Path) -> tuple[Machine, str]:
    """Return the machine of a worker, and how its cluster was told to ask who comes."""
    return describe_machine(folder), os.environ.get("RAY_AUTH_MODE", "").strip().lower()


class RayWorkers(RemoteWorkers[Shared]):
    """Processes of a cluster; each gets the shared value once, before its first task.

    What is handed out and not asked for any more ends by itself, or with the connection: Ray 2.60 ends this process if
    a task is cancelled that has just ended. So no more is handed out than keeps all cores busy.

    Args:
        cluster: connected.
        shared: pickled; what the caller changes in it later is not seen.
        lost: told about each worker that is lost.
    """

    def __init__(self, cluster: RayCluster, shared: Shared, lost: ReportLoss) -> None:
        import ray

        super().__init__(shared, lost, AHEAD * cluster.n)
        self._ray, self._cluster = ray, cluster
        self._shared = ray.put(shared)
        self._run = ray.remote(num_cpus=1, max_retries=0)(_run_remotely)  # run again by us, who can say so
        kinds = ("WorkerCrashed", "NodeDied", "LocalRayletDied", "OutOfMemory", "ObjectLost")
        self._gone: tuple[type[Exception], ...] = tuple(getattr(ray.exceptions, f"{k}Error") for k in kinds)

    def _submit(self, work: Callable[[Shared, Task], Result], task: Task) -> Any:
        return self._run.remote(self._cluster, [self._shared], work, task)

    def _result(self, answer: Any) -> Any:
        try:
            done = self._ray.get(answer)
        except self._gone:
            raise WorkerLostError from None
        if isinstance(done, _Raised):
            raise done.error
        return done

    def _broken(self, waiting: Sequence[Pending[Task]]) -> tuple[list[Pending[Task]], list[Pending[Task]]]:
        """Return what has ended without a result: each task has a worker of its own."""
        answers = [pending.answer for pending in waiting]
        ended = set(self._ray.wait(answers, num_returns=len(answers), timeout=0)[0])
        broken = [p for p in waiting if p.answer in ended and self._loss(p.answer) is not None]
        return broken, broken

    def _loss(self, answer: Any) -> Exception | None:
        """Return the error of a task that has ended, if its worker was lost."""
        try:
            self._ray.get(answer)
        except self._gone as error:
            return error
        return None

    def _machines(self, suspects: Sequence[Pending[Task]]) -> Sequence[str]:
        hosts = {node["NodeID"]: node["NodeManagerHostname"] for node in self._ray.nodes()}  # lost ones too
        if len(hosts) == 1:
            return ()
        return [hosts.get(quoted_node(str(self._loss(pending.answer)), hosts), "") for pending in suspects]


def quoted_node(text: str, nodes: Iterable[str]) -> str:
    """Return the one node whose id an error quotes; "" if it quotes none, or several.

    Ray's own error quotes the node if that is lost or short of memory, not if only the process was killed.
    """
    found = [node for node in nodes if node and node in text]
    return found[0] if len(found) == 1 else ""


@dataclass(frozen=True)
class _Raised:
    """An exception on its way to the caller, as it is."""

    error: Exception


def _run_remotely(
    cluster: RayCluster, held: list[Any], work: Callable[[Any, Task], Result], task: Task
) -> object:
    try:
        done = work(_fetch_shared(cluster, held[0]), task)
        refuse_confidential(done)
    except Exception as error:
        return _Raised(error)
    return done


def _fetch_shared(cluster: RayCluster, held: Any) -> Any:
    """Return the shared value, which this worker fetches once."""
    global _held
    if _held is None or _held[0] != held.hex():
        import ray

        require_same(cluster.own, describe_machine(cluster.folder), cluster.folder)
        threadpool_limits(limits=1)
        use_system_allocator()
        _held = None
        _held = held.hex(), ray.get(held)
    return _held[1]
