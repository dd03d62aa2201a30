"""Time, memory and disk of a run, foreseen from the plan alone, and what this process may hold.

Memory is compared before anything is charged.
"""

from __future__ import annotations

import os
import resource
from math import log2
from pathlib import Path
from typing import Literal

from topdown.app.screens import figures
from topdown.errors import ConfigError
from topdown.formats.plan_documents import NeededResources, Warned
from topdown.model import Schema
from topdown.plan import Plan
from topdown.solve import WIDE_CELLS
from topdown.solve.tree import most_dense_rows

# CPU seconds of one worker, measured with bench/bench_needs.py on one machine; extensions were measured less.
START_SECONDS = 1.35
SECONDS_A_QUERY = 0.005  # of one level: certified losses of the statements
SECONDS_A_CELL = 7e-5  # the table of the root, in the preflight too; next to nothing in plain wide plans
SECONDS_A_NUMBER = {"own": 1.8e-8, "tree": 8e-8, "wide": 5.8e-7, "wide tree": 1.5e-6, "extension": 4e-7}
SECONDS_A_SOLVE = 1.8e-3


def estimate_needs(plan: Plan, n_solves: int) -> NeededResources:
    """Return what a run with one worker needs: seconds (of CPU), memory_bytes and disk_bytes.

    The noise cannot be compressed below its entropy.
    """
    bits = 0.0
    for depth, level in enumerate(plan.levels):
        every = level.n_measured * sum(m.n_answers for m in level.measurements)
        listed = plan.numbers_at(depth) / every if every else 0.0  # below one for an extension
        bits += listed * sum(
            level.n_measured * m.n_answers * max(1.0, log2(4.14 * max(m.stddev, 0.3)))
            for m in level.measurements
        )
    nodes = sum(level.n_nodes for level in plan.levels)
    n_queries = sum(len(level.measurements) for level in plan.levels)
    kind = kind_of(plan)
    root = 0 if kind in ("wide", "extension") else SECONDS_A_CELL * plan.schema.n_cells
    start = START_SECONDS + SECONDS_A_QUERY * n_queries + root
    below = SECONDS_A_NUMBER[kind] * plan.n_numbers + SECONDS_A_SOLVE * n_solves
    return NeededResources(
        seconds=round(start + below, 1),
        memory_bytes=needed_bytes(plan),
        disk_bytes=int(1.3 * bits / 8 + 200 * nodes + 100_000),
    )


def memory_warning(plan: Plan, allowed: int | None = None) -> list[Warned]:
    """Warn of a plan that may need more memory than this process may use; generate refuses what needs twice as much.

    Args:
        plan: of the run. allowed: bytes; `allowed_bytes` if None.
    """
    most = allowed_bytes() if allowed is None else allowed
    needed = needed_bytes(plan)
    if needed <= most:
        return []
    text = f"about {figures.size(needed)} of memory are needed, and this process may use {figures.size(most)}"
    return [Warned(code="C141", text=text)]


# Of one worker, measured with bench/bench_needs.py. Extensions were measured less.
START_BYTES, EXTENSION_BYTES = 350e6, 800e6
BYTES_A_PAIR = 52  # of cells, in the dense least squares; measured at 5,000 cells
# Beside what a run needs at all.
BYTES_A_NUMBER = {"own": 0.6, "tree": 2.4, "wide": 30, "wide tree": 30, "extension": 8}
_CGROUP = Path("/sys/fs/cgroup")


def needed_bytes(plan: Plan) -> int:
    """Estimate the memory of a run with one worker; extensions and plain wide plans form no large matrices.

    On the shapes of bench/bench_needs.py hardly below what is taken, and up to 2.5 times as much.
    """
    kind = kind_of(plan)
    pairs = 0 if kind == "extension" else most_dense_rows(plan) ** 2
    start = EXTENSION_BYTES if kind == "extension" else START_BYTES
    return int(start + BYTES_A_NUMBER[kind] * plan.n_numbers) + BYTES_A_PAIR * pairs


def tree_fits(schema: Schema, n_areas: int) -> bool:
    """Tell whether a draft of a schema fitted to the whole tree takes at most twice the memory of one that is not.

    Args:
        n_areas: of all levels together.
    """
    n_numbers = n_areas * (1 + sum(schema.shape) + schema.n_cells)
    tree, own = (START_BYTES + BYTES_A_NUMBER[kind] * n_numbers for kind in ("tree", "own"))
    return schema.n_cells > WIDE_CELLS or tree <= 2 * own


def kind_of(plan: Plan) -> Literal["own", "tree", "wide", "wide tree", "extension"]:
    """Return what decides how much a number costs: how its table is fitted."""
    if plan.base is not None:
        return "extension"
    if most_dense_rows(plan) < plan.schema.n_cells:
        return "wide tree" if plan.fits_tree else "wide"
    return "tree" if plan.fits_tree else "own"


def allowed_bytes() -> int:
    """Return the most that this process may hold: the least of its own limit, its group's and the machine's memory."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    if own != resource.RLIM_INFINITY:
        found.append(own)
    return min([*found, *_group_limits()])


LEAST_OPEN_FILES = 24  # twice what Arrow, the ledger, its lock and the files of a release have open at once


def check_open_files() -> None:
    """Refuse a process that may open so few files that a check would take one it cannot open for damaged (X066)."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed < LEAST_OPEN_FILES:
        raise ConfigError(
            f"this process may open {allowed} files at once; a run needs {LEAST_OPEN_FILES}",
            code="X066",
            fix=f"allow more, in the shell: ulimit -n {LEAST_OPEN_FILES}; this run has charged nothing",
        )


def check_memory(plan: Plan, allowed: int | None = None) -> None:
    """Refuse a plan that needs more than twice the memory there is (ConfigError C141).

    Args:
        plan: of the run.
        allowed: bytes that may be used; `allowed_bytes` if None.
    """
    needed, allowed = needed_bytes(plan), allowed_bytes() if allowed is None else allowed
    if needed > 2 * allowed:  # a run may take less than half of what is estimated
        raise ConfigError(
            f"a run of this plan needs about {needed / 1e9:,.0f} GB of memory; this process may use "
            f"{allowed / 1e9:,.1f} GB",
            code="C141",
            details=(("cells", f"{plan.schema.n_cells:,}; memory grows with their square"),),
            fix="use a larger machine or a schema of fewer cells, and add the other attributes with topdown extend; "
            "this run has charged nothing",
            key=("schema",),
        )


def _group_limits() -> list[int]:
    """Return the limits of the control groups this process is in, of both versions; none where there are none."""
    try:
        groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines()]
    except OSError:
        return []
    found = []
    for _, kinds, inside in (group for group in groups if len(group) == 3):
        if kinds and "memory" not in kinds.split(","):
            continue
        root, name = (_CGROUP / "memory", "memory.limit_in_bytes") if kinds else (_CGROUP, "memory.max")
        here = root / inside.lstrip("/")
        for folder in (here, *here.parents):
            try:
                text = (folder / name).read_text("utf-8").strip()
            except OSError:
                continue
            if text.isdigit():
                found.append(int(text))
    return found
