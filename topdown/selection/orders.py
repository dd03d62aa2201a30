"""An order of public items in which every covered record soon meets one that covers it, and its first part.

Each record uses the first item of the order that covers it; the cost of an order is how many items are used.

Source: the paper, section on set cover (open-set model of Gupta et al. 2010). `cover_order` runs the sweep of falling
thresholds as one above-threshold run on one sample: every record is newly covered once, so nothing is split.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from topdown.errors import ConfigError
from topdown.selection.chance import Chance
from topdown.selection.incidences import Covering, Incidence, check_count
from topdown.selection.private_greedy import CoverScore, Selection, greedy, repeated_threshold
from topdown.selection.sampling_rate import Subsampling, least_exponent, root_below

MOST_RECORDS = 10**12
FAILING = Fraction(1, 20)


def thresholds(items: int, most_records: int, plan: Subsampling, failing: Fraction = FAILING) -> list[int]:
    """Return the public thresholds of `cover_order`: rate x most records, halved down to what noise alone may reach.

    At the last one an item that covers nothing new is accepted with probability `failing` / items at most.
    """
    check_count(most_records, MOST_RECORDS, "the public bound on the number of records")
    check_share(failing, "failing")
    least = max(1, least_exponent(plan.base, items / failing))
    found, threshold = [], int(plan.rate * most_records)
    while threshold > least:
        found.append(threshold)
        threshold //= 2
    return [*found, least]


def cover_order(data: Covering, most_records: int, plan: Subsampling, chance: Chance) -> Selection:
    """Order all items by one sweep of falling thresholds; items that none accepts come last, in their own order.

    Args:
        data: which items cover which record.
        most_records: public bound on the number of records; a wrong one costs utility, not privacy.
        plan, chance: as `max_cover`.

    Raises: ConfigError (C193).
    """
    asked = thresholds(data.items, most_records, plan)
    score = CoverScore(data.sampled(chance.keep(data.n_records, plan.rate)))
    return Selection(_swept(score, data.items, asked, plan.base, chance), plan.event)


def cover_order_by_choices(data: Covering, plan: Subsampling, chance: Chance) -> Selection:
    """Order all items by as many private choices: simpler, needs no bound, covers later.

    Args: as `cover_order`.
    """
    score = CoverScore(data.sampled(chance.keep(data.n_records, plan.rate)))
    return Selection(greedy(score, data.items, data.items, plan.base, chance), plan.event)


def partial_cover(
    data: Covering, share: Fraction, most_records: int, plan: Subsampling, chance: Chance
) -> Selection:
    """Choose items, in order, that cover about a share of the records of the sample.

    One sample and one base in three equal parts: a raised count of the records, the order, and the test where to stop.

    Args:
        data, plan, chance: as `cover_order`.
        share: rational, between 0 and 1.
        most_records: public bound on the number of records.

    Raises: ConfigError (C193).
    """
    check_share(share, "the share")
    check_count(most_records, MOST_RECORDS, "the public bound on the number of records")
    flags = chance.keep(data.n_records, plan.rate)
    part = root_below(plan.base, 3)
    wanted = Wanted(share, most_records, least_exponent(part, data.items / FAILING))
    return Selection(first_part(data.sampled(flags), int(flags.sum()), wanted, part, chance), plan.event)


@dataclass(frozen=True)
class Wanted:
    """When a partial cover stops: at `share` of a raised count of records, and `slack` more, all public."""

    share: Fraction
    most_records: int
    slack: int


def first_part(
    sample: Incidence, n_sampled: int, wanted: Wanted, part: Fraction, chance: Chance
) -> tuple[int, ...]:
    """Return the first items of an order that cover what is wanted of a sample; one-sided with part^3."""
    raised = chance.raised(n_sampled, part, wanted.most_records)
    order = greedy(CoverScore(sample), sample.items, sample.items, part, chance)
    target = ceil(wanted.share * raised) + wanted.slack
    walked = CoverScore(sample)
    for n_items, item in enumerate(order, 1):
        walked.take(item)
        if chance.accept(part, target - walked.covered):
            return order[:n_items]
    return order


def check_share(value: object, name: str) -> None:
    """Refuse what is no exact number strictly between 0 and 1 (C193)."""
    if not isinstance(value, Fraction) or not 0 < value < 1:
        raise ConfigError(
            f"{name} is {value!r}, not a Fraction between 0 and 1",
            code="C193",
            fix="give e.g. Fraction(9, 10)",
        )


def _swept(
    score: CoverScore, items: int, asked: list[int], base: Fraction, chance: Chance
) -> tuple[int, ...]:
    accepted = [item for _, item in repeated_threshold(score, asked, items, base, chance)]
    return (*accepted, *(item for item in range(items) if item not in accepted))
