"""What two machines must share so that the same work gives the same bytes on both."""

from __future__ import annotations

import hashlib
import platform
import socket
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from threadpoolctl import threadpool_info

from topdown.errors import ConfigError

VERSIONS = ("census-topdown", "numpy", "scipy", "numba", "ortools", "pyarrow")


@dataclass(frozen=True)
class Machine:
    """A machine as one of its processes sees it.

    Args:
        host: its name.
        kind: what decides the bytes: versions, the processor that kernels are compiled for, kernels of the BLAS.
        plan: SHA-256 of the folder's plan.json, in hex; "" if it is not there.
    """

    host: str
    kind: dict[str, str]
    plan: str


def look(folder: Path) -> Machine:
    """Return this machine; `folder` holds a plan."""
    for library in ("numpy", "scipy.linalg"):  # each brings a BLAS of its own
        import_module(library)
    native = import_module("llvmlite.binding")
    kind = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    kind |= {name: version(name) for name in VERSIONS}
    blas = {
        " ".join(str(one.get(key, "")) for key in ("internal_api", "version", "architecture"))
        for one in threadpool_info()
        if one["user_api"] == "blas"
    }
    kind |= {"processor": native.get_host_cpu_name(), "BLAS": ", ".join(sorted(blas))}
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
