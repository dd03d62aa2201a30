"""The two engines on a sample: repeated exponential mechanism and repeated above-threshold. Proofs: PROOF.md, 3 and 4.

Both are one-sided with the base they are given, for scores that (1) never fall when a record is added and (2) move,
over the whole run and along any outputs, by at most 1 for one record, in the scores of what was chosen or accepted.

Source: the paper, theorems 4.3 and 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from topdown.selection.chance import Chance

Gains = npt.NDArray[np.int64]
Allowed = Callable[[tuple[int, ...]], Sequence[int]]


class Score(Protocol):
    """What each item would add for the records of the sample, in whole units; one record adds at most `grid`."""

    grid: int

    def gains(self) -> Gains:
        """Return what each item would add now."""

    def take(self, item: int) -> None:
        """Count an item as taken."""


def repeated_choice(
    score: Score, allowed: Allowed, rounds: int, base: Fraction, chance: Chance
) -> tuple[int, ...]:
    """Choose one item a round, with weight base^gain, and take it; stop where nothing is allowed.

    Args:
        score: gains of the sample.
        allowed: items that may be chosen after some outputs; it may not look at records.
        rounds: public.
        base: r with r^grid at most the budget's base.
        chance: decisions.
    """
    chosen: tuple[int, ...] = ()
    for _ in range(rounds):
        candidates = allowed(chosen)
        if not len(candidates):
            break
        gains = score.gains()
        item = candidates[chance.choose([int(gains[c]) for c in candidates], base)]
        score.take(item)
        chosen = (*chosen, item)
    return chosen


def repeated_threshold(
    score: Score, thresholds: Sequence[int], items: int, base: Fraction, chance: Chance
) -> tuple[tuple[int, int], ...]:
    """Ask at each threshold, of each item not yet accepted, whether its gain reaches it; return each yes in order.

    A yes is (place of the threshold, item). These say all that was answered, and are private together.

    An item at or above the threshold is accepted for certain, another with probability base^-(missing units). "No" is
    free, so thresholds and items may be as many as the public side likes.
    """
    accepted: list[tuple[int, int]] = []
    left = list(range(items))
    for place, threshold in enumerate(thresholds):
        still = []
        for item in left:
            if chance.accept(base, threshold - int(score.gains()[item])):
                score.take(item)
                accepted.append((place, item))
            else:
                still.append(item)
        left = still
    return tuple(accepted)
