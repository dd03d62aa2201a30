"""Demands met from the supplies that reach them, as a maximum flow (SciPy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from topdown.errors import InternalError
from topdown.solve.groups import Ints

MOST = 2**31 - 1  # SciPy's capacities have 32 bits


def meet(supply: Ints, reach: NDArray[np.bool_], demand: Ints) -> Ints | None:
    """Meet every demand from the supplies that reach it.

    Args:
        supply: persons, (n,). demand: persons, (m,), together `MOST` at most.
        reach: bool (n, m).

    Returns:
        int64 (n, m), or None if the demands cannot be met.

    Raises:
        InternalError: there is more demand than 32-bit capacities hold.
    """
    n, m = reach.shape
    if demand.sum() > MOST:
        raise InternalError(f"more than {MOST:,} people are to be assigned in one area", code="X002")
    network = np.zeros((n + m + 2, n + m + 2), dtype=np.int32)
    network[0, 1 : 1 + n] = np.minimum(supply, demand.sum())
    network[1 : 1 + n, 1 + n : -1] = np.where(reach, demand[None, :], 0)
    network[1 + n : -1, -1] = demand
    result = maximum_flow(csr_array(network), 0, n + m + 1)
    if result.flow_value != demand.sum():
        return None
    flow: Ints = result.flow.toarray()[1 : 1 + n, 1 + n : -1].astype(np.int64)
    return flow
