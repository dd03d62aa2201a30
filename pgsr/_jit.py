"""The one place that touches numba's decorator, so that kernels keep their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., object])


def kernel(function: _F) -> _F:
    """Compile `function` on first use and keep the machine code on disk (single thread, IEEE arithmetic)."""
    return cast(_F, numba.njit(cache=True)(function))
