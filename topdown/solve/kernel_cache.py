"""Compile the kernels once per installation; afterwards they load from the cache."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
from numba.core.dispatcher import Dispatcher

from topdown.arrays import Floats, Ints
from topdown.solve.least_squares import kernels_dense as dense_kernels
from topdown.solve.least_squares import kernels_lattice as lattice_kernels
from topdown.solve.least_squares import kernels_tree as stage_kernels

MODULES = (dense_kernels, lattice_kernels, stage_kernels)


def kernels_of(module: ModuleType) -> tuple[str, ...]:
    """Return the names of the kernels that are written in a module."""
    found = {name: of for name, of in vars(module).items() if isinstance(of, Dispatcher)}
    return tuple(name for name, of in found.items() if of.py_func.__module__ == module.__name__)


def is_compiled() -> bool:
    """Tell whether every kernel has a cache file at least as new as its source."""
    for module in MODULES:
        names, file = kernels_of(module), Path(str(module.__file__))
        source = file.stat().st_mtime
        folder = Path(getattr(module, names[0]).stats.cache_path)
        newest: dict[str, float] = {}
        for kept in folder.glob(f"{file.stem}.*.nbi") if folder.is_dir() else ():
            name = kept.name.split(".")[1].rsplit("-", 1)[0]
            newest[name] = max(newest.get(name, 0.0), kept.stat().st_mtime)
        if any(newest.get(name, 0.0) < source for name in names):
            return False
    return True


def compile_kernels() -> None:
    """Run every kernel once on one cell, with the types the solver uses."""
    one, two = np.ones((1, 1)), np.array([0, 1], dtype=np.int64)
    ints = np.zeros(1, dtype=np.int64)
    allowed = np.ones(1, dtype=bool)
    dense_kernels.project_segments(np.ones(1), two, np.ones(1), allowed, np.zeros(1))
    dense_kernels.project_base(np.ones(1), np.ones(2), np.ones(1), np.ones(2), two)
    _compile_dense(one, two, ints)
    _compile_stage(one, two, ints)


def _compile_dense(one: Floats, two: Ints, ints: Ints) -> None:
    frame = dense_kernels.Frame(
        one.copy(), 1.0, 1.0, two, np.ones(1), np.ones(1, dtype=bool), ints, one.copy(), np.zeros((1, 0)),
        one.copy(), one.copy(), np.ones(1), 1.0,
    )  # fmt: skip
    state = dense_kernels.State(*(one.copy() for _ in range(6)))
    dense_kernels.shared_steps(one.copy(), one * 0, frame, state, 1, 1.0)
    dense_kernels.stacked_steps(np.ones((1, 1, 1)), one * 0, frame, state, 1, 1.0)
    axes = lattice_kernels.Axes(np.zeros((1, 1), dtype=np.int64), np.ones(1, dtype=np.int64))
    children = lattice_kernels.Children(
        two, np.zeros((1, 1), dtype=np.int64), np.zeros(1, dtype=bool), np.ones(1), np.zeros(1), np.ones(1), two,
        np.ones(1), two, np.ones(1), two, ints, ints, two, one,
    )  # fmt: skip
    lattice_kernels.lattice_steps(axes, children, frame, state, one.copy(), 1, 1.0)


def _compile_stage(one: Floats, two: Ints, ints: Ints) -> None:
    tree = stage_kernels.Tree(one[0], ints, ints - 1, one[0], one[0])
    stage_kernels.apply_tree(tree, one)
    schur = stage_kernels.Schur(two, ints, one[0], 1, one, one, ints, two, ints, one[0], one, one)
    none = np.zeros((0, 1))
    stage_kernels.admm_steps(
        tree, schur, one, one, 1.0, 1.6, one.copy(), one.copy(), two, np.ones(1), np.ones(1, dtype=bool),
        np.ones(1), none, np.zeros(0), np.zeros(0), none.copy(), none.copy(), 1, 1.0,
    )  # fmt: skip
