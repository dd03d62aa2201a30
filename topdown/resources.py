"""Find what ships with the package beside its modules: data files and compiled kernels.

Schemas, invariants, settings and sample data live in `topdown/_bundled/` in a wheel; in a checkout at the top of the
tree. Kernels are the modules of inner loops: plain Python that `build_kernels.py` compiles with Cython when the package
is installed. Python imports the compiled file in place of the source where there is one. Where there is none, or the
source is another than was compiled, the source itself runs, many times slower, and `report_slow_kernels` says it.
"""

from __future__ import annotations

import hashlib
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from topdown.errors import ConfigError
from topdown.progress import Event, Report

KERNELS = (
    "pgsr.estimators.kernels_intervals",
    "pgsr.estimators.kernels_isotonic",
    "pgsr.estimators.kernels_model1",
    "pgsr.estimators.kernels_paths",
    "pgsr.estimators.kernels_split",
    "topdown.formats.kernels_lists",
    "topdown.solve.kernels_family",
    "topdown.solve.kernels_shared",
    "topdown.solve.least_squares.kernels_admm",
    "topdown.solve.least_squares.kernels_tree",
    "topdown.solve.kernels_simplex",
    "topdown.solve.rounding.kernels_network",
    "topdown.verify.kernels_packing",
)
"""Modules that are compiled, of topdown and pgsr."""

_HERE = Path(__file__).resolve().parent
KINDS = ("schemas", "invariants", "settings", "sample_data")


def bundled_root() -> Path:
    """Return the folder that holds the bundled data folders."""
    inside = _HERE / "_bundled"
    return inside if inside.is_dir() else _HERE.parent


def bundled_names(kind: str) -> list[str]:
    """List the bundled files of one kind (`schemas`, `invariants`, `settings`) by name, sorted."""
    return sorted(p.stem for p in (bundled_root() / kind).glob("*.toml"))


def find(kind: str, name: str, beside: Path) -> Path:
    """Return the file a user means by `name`: a path ending in .toml (relative to `beside`), or a bundled name.

    Raises:
        ConfigError: there is no such file.
    """
    if name.endswith(".toml"):
        path = (beside / name).resolve()
        if path.is_file():
            return path
        raise ConfigError(
            f"{kind} file {name!r} does not exist", code="C003", fix="give a path relative to the run file"
        )
    path = bundled_root() / kind / f"{name}.toml"
    if path.is_file():
        return path
    raise ConfigError(
        f"there are no bundled {kind} called {name!r}",
        code="C004",
        fix="use one of: " + ", ".join(bundled_names(kind)) + ", or a path ending in .toml",
    )


def source_sha256(source: Path) -> str:
    """Return the hash that a compiled kernel is known by."""
    return hashlib.sha256(source.read_bytes()).hexdigest()


def run_source_if_changed(module: str, compiled: str, sha256: str) -> None:
    """Put the source in place of a compiled kernel that was made of another one; every compiled kernel ends with it.

    Args:
        module: its name. compiled: its file. sha256: of the source that it was compiled from.
    """
    source = Path(compiled).with_name(f"{module.rpartition('.')[2]}.py")
    if source.is_file() and source_sha256(source) != sha256:
        sys.modules[module] = load_source(module, source)


def load_source(module: str, source: Path) -> ModuleType:
    """Return a kernel as plain Python, whether or not it is compiled."""
    spec = spec_from_file_location(module, source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is no Python file")
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def report_slow_kernels(package: str, report: Report) -> None:
    """Say which kernels of "topdown" or "pgsr" run as plain Python, if any does."""
    kernels = [name for name in KERNELS if name.startswith(f"{package}.")]
    slow = [name for name in kernels if str(import_module(name).__file__).endswith(".py")]
    if not slow:
        return
    text = (
        f"{len(slow)} of {len(kernels)} kernels are not compiled and run as plain Python, often 100 times slower: "
        f"{', '.join(slow)}. Install a C compiler and then this package again (in a checkout: make kernels)."
    )
    report(Event("kernels", 1, 1, text))
