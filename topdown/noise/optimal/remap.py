"""What a kernel is compared with: a constant answer, and additive noise as it is, clamped or remapped.

All of them are private if the noise is: what is done to its outcome alone costs nothing. Each function returns
the expected loss of every count 0 .. M; `costs(n, y)` is the loss of answering y where the count is n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

Costs = Callable[[int, int], Fraction]
Law = Mapping[int, Fraction]


def constant(top: int, answer: int, costs: Costs) -> list[Fraction]:
    """Answer the same whatever the count is."""
    return [costs(n, answer) for n in range(top + 1)]


def additive(top: int, law: Law, costs: Costs) -> list[Fraction]:
    """Answer count + noise, below 0 and above M too."""
    return [_mean(p * costs(n, n + i) for i, p in law.items()) for n in range(top + 1)]


def clamped(top: int, law: Law, costs: Costs) -> list[Fraction]:
    """Answer count + noise, moved to 0 .. M."""
    return [_mean(p * costs(n, min(max(n + i, 0), top)) for i, p in law.items()) for n in range(top + 1)]


def remapped(law: Law, weights: Sequence[Fraction], costs: Costs) -> list[Fraction]:
    """Answer each outcome of count + noise by what costs least on average, given how likely each count is then.

    Args:
        law: P(noise = i).
        weights: how likely each count 0 .. M is held to be.
        costs: as above.

    """
    top = len(weights) - 1
    losses = [Fraction(0)] * (top + 1)
    for outcome in range(min(law), top + max(law) + 1):
        likely = {n: law[outcome - n] for n in range(top + 1) if law.get(outcome - n)}
        joint = {n: weights[n] * p for n, p in likely.items()}
        means = [_mean(p * costs(n, y) for n, p in joint.items()) for y in range(top + 1)]
        answer = means.index(min(means))
        for n, p in likely.items():
            losses[n] += p * costs(n, answer)
    return losses


def _mean(terms: Iterable[Fraction]) -> Fraction:
    return sum(terms, Fraction(0))
