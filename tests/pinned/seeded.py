"""What makes a release the same on every run: fixed random bytes, a clock that stands, small trees in sections."""

from __future__ import annotations

import hashlib
import os
import pkgutil
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, tzinfo
from functools import cache
from importlib import import_module
from types import ModuleType

import pytest

import pgsr
import topdown

SMALL = {
    "CUT_LEAVES": 3,
    "SECTION_LEAVES": 2,
    "SOLVE_CUT_LEAVES": 5,
    "RUN_LEAVES": 1,
    "TASKS_PER_WORKER": 1,
    "CHECKPOINT_LEAVES": 2,
}


class Clock(datetime):
    """A clock that stands: ledgers hold the time, and the plan of an extension the hash of a release's ledger."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Clock:
        """Return the one time."""
        return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)


@contextmanager
def seeded(seed: str) -> Iterator[None]:
    """Let the operating system give bytes that a seed decides, keys of noise, ids and names alike, and a fixed time.

    The n-th request for k bytes gets the same bytes whatever else was asked for, so that one id more or less
    leaves the noise as it is. What `secrets` asks for counts apart: other libraries ask the system for ids too.
    """
    asked: Counter[tuple[str, int]] = Counter()

    def giver(door: str) -> Callable[[int], bytes]:
        def give(n_bytes: int) -> bytes:
            asked[door, n_bytes] += 1
            told = f"{seed} {door} {n_bytes} {asked[door, n_bytes]}"
            return hashlib.shake_256(told.encode()).digest(n_bytes)

        return give

    _modules()  # libraries ask for bytes as they are imported
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", giver("system"))
        patch.setattr(random, "_urandom", giver("secrets"))
        _set(patch, "datetime", Clock)
        yield


@contextmanager
def in_sections() -> Iterator[None]:
    """Treat small trees as large ones: cut into sections by solver, writer and verifier."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in SMALL.items():
            _set(patch, name, size)
        yield


def _set(patch: pytest.MonkeyPatch, name: str, value: object) -> None:
    """Set a name in every module of ours that has it, wherever that is."""
    holders = [module for module in _modules() if name in vars(module)]
    assert holders, f"no module has {name}: put its new name into {__name__}"
    for module in holders:
        patch.setattr(module, name, value)


@cache
def _modules() -> tuple[ModuleType, ...]:
    out = []
    for package in (topdown, pgsr):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            try:
                out.append(import_module(found.name))
            except ImportError:  # an optional library is not there
                continue
    return tuple(out)
