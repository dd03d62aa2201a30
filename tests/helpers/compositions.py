"""Compositions by weight: one count moved by one for each, noise N_Z(0, 1 / weight), as golden values are written."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

from topdown.privacy.accountant import Composition


def weighted(weights: Mapping[object, int] | Iterable[tuple[object, int]]) -> Composition:
    """Return the composition of weight -> how many counts."""
    pairs = weights.items() if isinstance(weights, Mapping) else weights
    return Composition.of([(1 / Fraction(weight), 1, count) for weight, count in pairs])
