"""Necessary, sufficient, complete: what constraints on a coarse table say about the finer ones (section 3).

By enumeration, so for tiny schemas only: it is how tests know that the conditions used on large ones are right.
C are the constraints on tables of the fine schema S, C0 the implied ones on tables of the coarse schema S0.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

Table = tuple[int, ...]


@dataclass(frozen=True)
class Verdict:
    """Whether C0 is necessary and sufficient for C; a counterexample of each that fails.

    Args:
        unnecessary: a fine table that satisfies C though its projection does not satisfy C0.
        insufficient: a coarse table that satisfies C0 though nothing that projects to it satisfies C.
    """

    unnecessary: Table | None
    insufficient: Table | None

    @property
    def necessary(self) -> bool:
        """Every table that satisfies C projects to one that satisfies C0."""
        return self.unnecessary is None

    @property
    def sufficient(self) -> bool:
        """Every table that satisfies C0 extends to one that satisfies C."""
        return self.insufficient is None

    @property
    def complete(self) -> bool:
        """Both: C0 says of S0 exactly what C does."""
        return self.necessary and self.sufficient


def tables(n_cells: int, n_records: int) -> Iterator[Table]:
    """Return every table of nonnegative whole numbers with a given sum."""
    if n_cells == 1:
        yield (n_records,)
        return
    for first in range(n_records + 1):
        for rest in tables(n_cells - 1, n_records - first):
            yield (first, *rest)


def project(table: Table, of_cell: tuple[int, ...], n_coarse: int) -> Table:
    """Add a fine table up to the coarse cells that its cells belong to."""
    out = [0] * n_coarse
    for count, cell in zip(table, of_cell, strict=True):
        out[cell] += count
    return tuple(out)


def judge(
    fine: Iterable[Table],
    coarse: Iterable[Table],
    to_coarse: Callable[[Table], Table],
    satisfies: Callable[[Table], bool],
    implied: Callable[[Table], bool],
) -> Verdict:
    """Compare constraints with implied constraints on all tables of a tiny schema.

    Args:
        fine: every table of S to consider; with each coarse table all that project to it.
        coarse: every table of S0.
        to_coarse: projection.
        satisfies: C. implied: C0.
    """
    reached: set[Table] = set()
    unnecessary = None
    for table in fine:
        if satisfies(table):
            below = to_coarse(table)
            reached.add(below)
            if unnecessary is None and not implied(below):
                unnecessary = table
    insufficient = next((table for table in coarse if implied(table) and table not in reached), None)
    return Verdict(unnecessary, insufficient)


def extensions(coarse: Table, of_cell: tuple[int, ...], allowed: tuple[bool, ...]) -> Iterator[Table]:
    """Return every fine table that projects to a coarse one and is zero where it must be.

    Args:
        coarse: count of every coarse cell.
        of_cell: coarse cell of every fine one.
        allowed: whether a fine cell may hold records.
    """
    places = [[i for i, c in enumerate(of_cell) if c == cell and allowed[i]] for cell, _ in enumerate(coarse)]
    if any(count and not place for count, place in zip(coarse, places, strict=True)):
        return
    parts = [list(tables(max(len(p), 1), count)) for p, count in zip(places, coarse, strict=True)]
    for chosen in product(*parts):
        out = [0] * len(of_cell)
        for place, part in zip(places, chosen, strict=True):
            for cell, count in zip(place, part, strict=bool(place)):
                out[cell] = count
        yield tuple(out)
