"""Which k of m public items serve the most private records: the private greedy. Pure DP, one sample, one charge.

Source: the paper, theorem 1.2, with the larger base of PROOF.md, section 2. Utility: a share 1 - 1/e of the best
minus an error of order k ln(m) / epsilon records; the privacy holds whatever the utility.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from topdown.accountant.event import ReleaseEvent
from topdown.selection.chance import Chance
from topdown.selection.engines import Allowed, Score, repeated_choice
from topdown.selection.plan import Subsampling, root_below
from topdown.selection.records import Covering, Similarity, check_count
from topdown.selection.scores import CoverScore, NearestScore


@dataclass(frozen=True)
class Selection:
    """What may be published of a selection: the items in the order chosen, and what the choice cost."""

    items: tuple[int, ...]
    event: ReleaseEvent


def max_cover(data: Covering, k: int, plan: Subsampling, chance: Chance) -> Selection:
    """Choose k items that cover many records.

    Args:
        data: which items cover which record.
        k: 1 .. items, public.
        plan: rate and base, from `subsampling(epsilon)`.
        chance: `RealChance(AesBits())` for records.

    Raises: ConfigError (C193).
    """
    return multi_cover(data, k, 1, plan, chance)


def multi_cover(data: Covering, k: int, needed: int, plan: Subsampling, chance: Chance) -> Selection:
    """Choose k items that cover many records `needed` times; fewer times count in proportion.

    Args: as `max_cover`; `needed` is 1 .. 10,000, public.

    Raises: ConfigError (C193).
    """
    check_count(needed, 10_000, "the number of items a record needs")
    check_count(k, data.items, "k")
    score = CoverScore(data.sampled(chance.keep(data.n_records, plan.rate)), needed)
    return Selection(greedy(score, data.items, k, plan.base, chance), plan.event)


def facility_location(data: Similarity, k: int, plan: Subsampling, chance: Chance) -> Selection:
    """Choose k items so that the sum over records of the similarity to the nearest is large.

    Args: as `max_cover`, for `data` with similarities on a grid.

    Raises: ConfigError (C193).
    """
    n_records, items = data.values.shape
    check_count(k, items, "k")
    flags = chance.keep(n_records, plan.rate)
    score = NearestScore(data.values, flags.astype(np.int64), data.grid)
    return Selection(greedy(score, items, k, plan.base, chance), plan.event)


def not_yet(items: int) -> Allowed:
    """Return the rule that every item may be chosen once."""

    def allowed(chosen: tuple[int, ...]) -> Sequence[int]:
        return [item for item in range(items) if item not in chosen]

    return allowed


def greedy(score: Score, items: int, k: int, base: Fraction, chance: Chance) -> tuple[int, ...]:
    """Choose k items of a sample, one-sided with the base for a record's whole contribution."""
    return repeated_choice(score, not_yet(items), k, root_below(base, score.grid), chance)
