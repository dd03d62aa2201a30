"""Groups of a region matched to those of its parts in order of size: pairs meet at their mean by precision.

Source: Kuo, Cho, Kifer and Machanavajjhala (2018). Slow twin in the tests: one group after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgsr._jit import kernel
from pgsr.hierarchy import Ints

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of one region in order of size, equal ones together.

    Args:
        size: row of the size, ascending.
        variance: of the size.
        count: number of groups, above 0.
    """

    size: Ints
    variance: Floats
    count: Ints


def matched(parent: Groups, children: Sequence[Groups], n_sizes: int) -> list[Groups]:
    """Return the children's groups, in order of size, after they met their parent's.

    Args:
        parent: groups of a region.
        children: of its parts; together as many as the parent's.
        n_sizes: number of sizes.
    """
    child = np.repeat(np.arange(len(children)), [len(c.size) for c in children])
    size = np.concatenate([c.size for c in children])
    variance = np.concatenate([c.variance for c in children])
    count = np.concatenate([c.count for c in children])
    order = np.lexsort((child, size))
    most = 4 * (len(size) + len(parent.size) * len(children)) + 16
    out = np.empty((most, 4))
    n = match(
        (parent.size, parent.count, size[order], count[order].copy()),
        (parent.variance, variance[order]),
        child[order],
        out,
    )
    rows = out[:n]
    new = np.minimum(np.floor(rows[:, 1] + 0.5), n_sizes - 1)
    again = np.lexsort((new, rows[:, 0]))
    rows, new = rows[again], new[again].astype(np.int64)
    bounds = np.searchsorted(rows[:, 0], np.arange(len(children) + 1))
    cut = [slice(bounds[c], bounds[c + 1]) for c in range(len(children))]
    return [Groups(new[here], rows[here, 2], rows[here, 3].astype(np.int64)) for here in cut]


@kernel
def match(
    runs: tuple[Ints, Ints, Ints, Ints], variances: tuple[Floats, Floats], child: Ints, out: Floats
) -> int:
    """Fill rows (child, mean size, variance, groups) of matched groups; return how many.

    Children with groups of one size share the parent's in proportion to what they have left.

    Args:
        runs: size and count of the parent's groups; size and count of the children's, ascending; the last is used up.
        variances: of both.
        child: whose each of the children's runs is.
    """
    size_p, count_p, size_c, left = runs
    var_p, var_c = variances
    n, i, have = 0, 0, 0
    start = 0
    while start < size_c.shape[0]:
        stop, tied = start, 0
        while stop < size_c.shape[0] and size_c[stop] == size_c[start]:
            tied += left[stop]
            stop += 1
        while tied > 0:
            if have == 0:
                have = count_p[i]
                i += 1
            m = min(have, tied)
            given = 0
            fraction = np.full(stop - start, -1.0)
            take = np.zeros(stop - start, dtype=np.int64)
            for j in range(start, stop):
                exact = m * (left[j] / tied)
                take[j - start] = min(int(exact), left[j])
                given += take[j - start]
                if take[j - start] < left[j]:
                    fraction[j - start] = exact - take[j - start]
            while given < m:
                best = int(np.argmax(fraction))
                take[best] += 1
                fraction[best] = fraction[best] - 1.0 if take[best] < left[start + best] else -1e300
                given += 1
            for j in range(start, stop):
                if take[j - start] > 0:
                    wp, wc = 1.0 / var_p[i - 1], 1.0 / var_c[j]
                    out[n, 0] = child[j]
                    out[n, 1] = (wp * size_p[i - 1] + wc * size_c[j]) / (wp + wc)
                    out[n, 2] = 1.0 / (wp + wc)
                    out[n, 3] = take[j - start]
                    left[j] -= take[j - start]
                    n += 1
            have -= m
            tied -= m
        start = stop
    return n
