"""The cover order as its paper has it, corrected: fresh samples, one for each threshold. Documented, not recommended.

The paper's algorithm 4, with thresholds constant x N / 2^r in the algorithm as in its proof, and a public bound N in
place of a noisy count. Every sample is charged: epsilon is split over the rounds, half for the last. With the printed
constant of 1000 no item reaches a threshold below some millions of records, and the order is the one it began with;
`orders.cover_order` runs all thresholds on one sample for one charge.
"""

import math
from fractions import Fraction

from topdown.formats import Neighbours
from topdown.privacy.accountant import PureDP, ReleaseEvent
from topdown.selection import (
    FAILING,
    MOST_RECORDS,
    Chance,
    Covering,
    CoverScore,
    Selection,
    Subsampling,
    check_count,
    subsampling,
)

PRINTED = 1000


def rounds(
    items: int, most_records: int, epsilon: Fraction, neighbours: Neighbours = "add_remove"
) -> list[Subsampling]:
    """Return the plan of each round, smallest epsilon first; their product is within e^epsilon.

    Args:
        items: public.
        most_records: public bound on the number of records.
        epsilon: of all rounds together.
        neighbours: as `subsampling`.

    Raises: ConfigError (C191) where epsilon is too small to be split, C193.
    """
    check_count(most_records, MOST_RECORDS, "the public bound on the number of records")
    least = math.ceil(100 * math.log2(items / FAILING))
    n_rounds = max(0, (most_records // least).bit_length() - 1)
    return [subsampling(epsilon / 2 ** (n_rounds - r), neighbours) for r in range(n_rounds)]


def cover_order_by_samples(
    data: Covering, most_records: int, plans: list[Subsampling], chance: Chance, constant: int = PRINTED
) -> Selection:
    """Order all items by falling thresholds, each asked of a fresh sample; items that none accepts come last.

    Args:
        data, most_records, chance: as `orders.cover_order`.
        plans: from `rounds`.
        constant: the thresholds are constant x most records / 2^r, r = 1, 2, ...

    Raises: ConfigError (C193).
    """
    check_count(constant, MOST_RECORDS, "the constant")
    order: list[int] = []
    for r, plan in enumerate(plans, 1):
        score = CoverScore(data.sampled(chance.keep(data.n_records, plan.rate)))
        for item in order:
            score.take(item)
        threshold = constant * most_records // 2**r
        for item in range(data.items):
            if item not in order and chance.accept(plan.base, threshold - int(score.gains()[item])):
                score.take(item)
                order.append(item)
    order += [item for item in range(data.items) if item not in order]
    cost = PureDP(math.prod((plan.exp_epsilon for plan in plans), start=Fraction(1)))
    return Selection(tuple(order), ReleaseEvent(plans[0].neighbours, cost))
