"""What areas below each child add, in lattice form: never written out, applied by means over product axes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from topdown.solve.groups import Floats, Ints
from topdown.solve.least_squares.kernels_lattice import Axes, apply_sums
from topdown.solve.tree.lattice import Lattice


@final
@dataclass(frozen=True, eq=False)
class OnLattice:
    """K_j by components on each child's open dense values; see `Beyond`.

    Args:
        lattice: in whose terms.
        dense, product: int64 (n,), dense value and product cell of each row.
        values: per child, its open dense values.
        matrices: per child, K by components, (n_components, t, t).
        own: what all children share, (n_components, n_dense, n_dense): the matrix A on complete tables.
        linear: per child, the linear term on complete tables, (t, n_product).
    """

    lattice: Lattice
    dense: Ints
    product: Ints
    values: tuple[Ints, ...]
    matrices: tuple[Floats, ...]
    own: Floats
    linear: tuple[Floats, ...]

    @cached_property
    def at(self) -> Ints:
        """Place of each row in each child's complete table, int64 (n, m); -1 where it is closed."""
        columns = []
        for values in self.values:
            local = np.full(self.lattice.n_dense, -1, dtype=np.int64)
            local[values] = np.arange(len(values))
            here = local[self.dense]
            columns.append(np.where(here >= 0, here * self.lattice.n_product + self.product, -1))
        return np.ascontiguousarray(np.stack(columns, axis=1))

    @cached_property
    def axes(self) -> Axes:
        """Where product cells go when axes are summed over."""
        return axes_of(self.lattice)

    def factors(self, matrices: Floats) -> Floats:
        """Return what `apply_sums` takes, of component matrices (n_components, t, t)."""
        return np.asarray(self.lattice.factors(matrices) / self.lattice.averaged[:, None, None])

    @cached_property
    def _factors(self) -> tuple[Floats, ...]:
        return tuple(np.ascontiguousarray(self.factors(k)) for k in self.matrices)

    def times(self, z: Floats) -> Floats:
        """Return K_j z_j in column j."""
        out = np.zeros(z.shape)
        n_product = self.lattice.n_product
        for j, factors in enumerate(self._factors):
            open_rows = np.flatnonzero(self.at[:, j] >= 0)
            at = self.at[open_rows, j]
            full, image = np.zeros((len(factors[0]), n_product)), np.empty((len(factors[0]), n_product))
            full.reshape(-1)[at] = z[open_rows, j]
            apply_sums(factors, self.axes, full, image, np.empty_like(full), np.empty_like(full))
            out[open_rows, j] = image.reshape(-1)[at]
        return out

    def block(self, j: int) -> Floats:
        """Return K_j."""
        return written_out(
            self.lattice, self.matrices[j], self.values[j], self.dense,
            self.lattice.equal_axes(self.product, self.product),
        )  # fmt: skip


def axes_of(lattice: Lattice) -> Axes:
    """Return where product cells go when the axes of each set are summed over."""
    place = np.zeros((lattice.n_components, lattice.n_product), dtype=np.int64)
    sizes = np.ones(lattice.n_components, dtype=np.int64)
    for s in range(lattice.n_components):
        for a, n in enumerate(lattice.sizes):
            if not s >> a & 1:
                place[s] = place[s] * n + lattice.coordinates[a]
                sizes[s] *= n
    return Axes(place, sizes)


def written_out(lattice: Lattice, matrices: Floats, values: Ints, dense: Ints, equal: Ints) -> Floats:
    """Return a matrix on rows, (n, n); zero where a row's dense value is closed.

    Args:
        matrices: by components on the open dense values, (n_components, t, t). values: those values.
        dense: int64 (n,), of the rows. equal: int64 (n, n), axes on which two rows' product cells agree.
    """
    local = np.full(lattice.n_dense, len(values), dtype=np.int64)
    local[values] = np.arange(len(values))
    entries = np.pad(lattice.entries(matrices), ((0, 0), (0, 1), (0, 1)))
    here = local[dense]
    return np.ascontiguousarray(entries[equal, here[:, None], here[None, :]])
