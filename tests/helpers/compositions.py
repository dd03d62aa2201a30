"""Compositions by weight: one count moved by one for each, noise N_Z(0, 1 / weight), as golden values are written."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from topdown.privacy.accountant import Composition
from topdown.verify import MovedCounts, composed_loss


def weighted(weights: Mapping[object, int] | Iterable[tuple[object, int]]) -> Composition:
    """Return the composition of weight -> how many counts."""
    pairs = weights.items() if isinstance(weights, Mapping) else weights
    return Composition.of([(1 / Fraction(weight), 1, count) for weight, count in pairs])


def loss_within(charges: Sequence[Any], delta: str, box: Sequence[str]) -> Any:
    """Return what the verifier composes of charges; fail unless a stated epsilon is about its own."""
    laws = [x for charge in charges for x in charge.laws]
    moved = [(x.law, MovedCounts(x.parameter, x.shift, x.coordinates, x.delta, x.weights)) for x in laws]
    own = composed_loss(moved, [(c.epsilon, c.exp_epsilon) for c in charges if not c.laws])
    ends = own.epsilon(delta)
    assert float(ends.lower) * 0.998 <= float(box[1]) <= float(ends.upper) * 1.002 + float(own.slack)
    return own
