"""What the measurements of the whole tree say of a table: fractional estimates and their standard deviations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class EstimatedTable:
    """Estimates of the answers of a query at the areas of a level, before anything is made whole or nonnegative.

    An estimate is unbiased; `stddev` is that of its noise. Estimates of one release are not independent: the deviation
    of a sum does not follow from those of its parts (`topdown interval` makes it).

    Args:
        query, level: whose table it is.
        geocodes: of the areas, one a row.
        attributes: of the query, and recodes. labels: of each answer, in their order, one a column.
        estimate, stddev: float64 (n_areas, n_answers), in records, to thousandths; deviations are rounded up.
        exact: whether the whole table is exact by policy; then `estimate` holds the counts, and deviations are 0. They
            are 0 too where public facts leave nobody.
    """

    query: str
    level: str
    geocodes: tuple[str, ...]
    attributes: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    estimate: NDArray[np.float64]
    stddev: NDArray[np.float64]
    exact: bool

    def __repr__(self) -> str:
        n, k = self.estimate.shape
        return f"EstimatedTable({self.query!r} at {self.level!r}, areas x answers {n:,} x {k:,})"

    def _repr_html_(self) -> str:
        from topdown.shown import card

        rows = [
            (code, ", ".join(labels), f"{x:.1f}", f"{s:.1f}")
            for code, xs, sds in zip(self.geocodes[:2], self.estimate[:2], self.stddev[:2], strict=True)
            for labels, x, s in zip(self.labels[:10], xs[:10], sds[:10], strict=True)
        ]
        head = ("area", "answer", "estimate", "standard deviation")
        return card(repr(self), rows, head=head, note="The first areas and answers.")


def estimates_of(folder: Path, query: str, level: str) -> EstimatedTable:
    """Return the estimates of a table; see `Release.estimates`."""
    from itertools import product

    import numpy as np

    from topdown.api.tables import numbers_of
    from topdown.measure.released import read_open_microdata
    from topdown.plan.prepare import load_context
    from topdown.publish.intervals import is_exact
    from topdown.publish.microdata import PERSONS

    context = load_context(folder)
    asked, depth = context.plan.query(query), context.geography.index(level)
    areas = context.geography.levels[depth]
    shape, exact = (len(areas), asked.n_answers), is_exact(context.plan, asked, depth)
    numbers = numbers_of(folder, context, asked=True)
    if exact:
        counts = read_open_microdata(folder / PERSONS, context)
        for up in range(len(context.geography.levels) - 1, depth, -1):
            here = context.geography.levels
            counts = counts.aggregate(here[up].parent, len(here[up - 1]))
        found = 1000 * counts.answers(asked).reshape(-1), np.zeros(shape[0] * shape[1], dtype=np.int64)
    else:
        node, answer = (at.reshape(-1) for at in np.indices(shape, dtype=np.int64))
        found = numbers.at({(asked.name, depth): (node, answer)})[asked.name, depth]
    return EstimatedTable(
        asked.name,
        level,
        tuple(areas.codes),
        tuple(factor.name for factor in asked.factors),
        tuple(product(*(factor.group_labels for factor in asked.factors))),
        found[0].reshape(shape) / 1000,
        found[1].reshape(shape) / 1000,
        exact,
    )
