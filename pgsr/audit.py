"""The privacy audit: sensitivities of every vector, the enumerator that confirms them, and the chain's true loss."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product

from pgsr.budget import Budget, calibrate
from pgsr.chain_leak import OutputLeak, published_chain_epsilon
from pgsr.enumerate import enumerate_sensitivity
from pgsr.hierarchy import Tree, tree_of
from pgsr.sizes import Sizes
from pgsr.vectors import KINDS, PERSON_STEPS, Kind, Sensitivity, sensitivity

SMALL = (
    (([-1], [0, 0]), 2, 3),
    (([-1], [0, 0]), 3, 3),
    (([-1], [0, 0, 0]), 3, 2),
    (([-1], [0, 0], [0, 0, 1]), 3, 2),
    (([-1], [0, 0], [0, 1], [0, 1, 1]), 2, 2),
)
CLAIMS = (Fraction(1, 2), Fraction(1), Fraction(2))


@dataclass(frozen=True)
class TableRow:
    """Sensitivities of one vector.

    Args:
        kind: measured vector.
        moves, new, dropped: derived sensitivity of each neighbour step.
        published_epsilon: what a claim of epsilon 1 is really worth with the paper's noise, for moves.
    """

    kind: Kind
    moves: Sensitivity
    new: Sensitivity
    dropped: Sensitivity
    published_epsilon: Fraction


@dataclass(frozen=True)
class Confirmation:
    """One enumeration over all data sets of a small hierarchy.

    Args:
        levels: regions a level.
        n_sizes, total: sizes N and groups G.
        n_pairs: pairs of neighbours compared, over all vectors and steps.
        agreed: whether every derived sensitivity was attained and never exceeded, by entries that change by one.
    """

    levels: tuple[int, ...]
    n_sizes: int
    total: int
    n_pairs: int
    agreed: bool


def sensitivity_table(tree: Tree, n_sizes: int) -> list[TableRow]:
    """Return the derived sensitivities of every vector for a hierarchy."""
    rows, paper = [], Budget(1, calibration="published")
    for kind in KINDS:
        moves, new, dropped = (sensitivity(kind, relation, tree, n_sizes) for relation in PERSON_STEPS)
        published = calibrate(kind, tree, Sizes(n_sizes), paper).loss
        rows.append(TableRow(kind, moves, new, dropped, published))
    return rows


def confirm_by_enumeration() -> list[Confirmation]:
    """Compare derived sensitivities with brute force on all data sets of small hierarchies."""
    found = []
    for levels, n_sizes, total in SMALL:
        tree = tree_of(levels)
        n_pairs, agreed = 0, True
        for kind in KINDS:
            for relation, smallest in product(PERSON_STEPS, (0, 1)):
                seen = enumerate_sensitivity(kind, relation, tree, n_sizes, total, smallest)
                derived = sensitivity(kind, relation, tree, n_sizes, smallest)
                n_pairs += seen.n_pairs
                agreed &= seen.largest_entry <= 1 and (seen.l1, seen.l2_squared, seen.l1_by_level) == (
                    derived.l1,
                    derived.l2_squared,
                    derived.l1_by_level,
                )
        found.append(Confirmation(tuple(len(level) for level in levels), n_sizes, total, n_pairs, agreed))
    return found


@lru_cache(maxsize=1)  # seconds of enumeration, the same every time
def chain_leaks() -> tuple[OutputLeak, ...]:
    """Return the exact output-level epsilon of the published chain at claims 1/2, 1 and 2."""
    return tuple(published_chain_epsilon(claimed) for claimed in CLAIMS)
