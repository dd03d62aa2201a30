"""Types of arrays, for annotations.

In a kernel (`topdown.resources.KERNELS`) `arrays.pxd` says what the compiler reads in place of each name: C integers,
and views of contiguous arrays (the last index runs fastest) without bounds checks. Arrays that a kernel only reads may
be read-only. Kernels annotate arguments, arrays and real local variables (`total: float = 0.0`); integers follow.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Shorts = NDArray[np.int32]

Whole = int
"""In a kernel a 64-bit integer, which wraps."""
IntTable = NDArray[np.int64]
BoolTable = NDArray[np.bool_]
SingleTable = NDArray[np.float32]
ShortTable = NDArray[np.int32]
FloatTable = NDArray[np.float64]
FloatStack = NDArray[np.float64]
"""In a kernel arrays of two and three indices; those above have one."""
BytesOut = NDArray[np.uint8]
ShortsOut = NDArray[np.int32]
IntsOut = NDArray[np.int64]
IntTableOut = NDArray[np.int64]
BoolTableOut = NDArray[np.bool_]
FloatsOut = NDArray[np.float64]
FloatTableOut = NDArray[np.float64]
NumbersOut = TypeVar("NumbersOut", NDArray[np.int64], NDArray[np.float64])
"""In a kernel arrays that it writes; the last one of integers or of floats."""
