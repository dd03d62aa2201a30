"""Compile the kernels once per installation; afterwards they load from the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from topdown.solve import kernels

NAMES = ("gram", "project_segments", "project_base", "admm", "has_negative_cycle")


def is_compiled() -> bool:
    """Tell whether every kernel has a cache file at least as new as its source."""
    source = Path(kernels.__file__).stat().st_mtime
    folder = Path(kernels.admm.stats.cache_path)
    if not folder.is_dir():
        return False
    newest: dict[str, float] = {}
    for file in folder.glob("kernels.*.nbi"):
        name = file.name.split(".")[1].rsplit("-", 1)[0]
        newest[name] = max(newest.get(name, 0.0), file.stat().st_mtime)
    return all(newest.get(name, 0.0) >= source for name in NAMES)


def compile_kernels() -> None:
    """Run every kernel once on one cell, with the types the solver uses."""
    one, two = np.ones((1, 1)), np.array([0, 1], dtype=np.int64)
    ints = np.zeros(1, dtype=np.int64)
    kernels.gram(np.zeros((1, 1), dtype=np.int64), np.ones(1))
    allowed = np.ones(1, dtype=bool)
    kernels.project_segments(np.ones(1), two, np.ones(1), allowed, np.zeros(1))
    kernels.admm(
        one.copy(), one * 0, one.copy(), 1.0, 1.0, one.copy(), one.copy(), two, np.ones(1), allowed,
        ints, one.copy(), one.copy(), one.copy(), np.zeros((1, 0)),
        one.copy(), one.copy(), np.ones(1), 1.0, one.copy(), one.copy(), 1, 1.0,
    )  # fmt: skip
    kernels.has_negative_cycle(ints, ints, ints, ints, ints, 1)
