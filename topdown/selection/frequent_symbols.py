"""Symbols that many people have at a step, step after step, with a cap on how often a person counts.

One sample for the whole stream; each symbol of a public alphabet is asked at each step, those of nobody included.

Source: the paper, algorithm 3 and theorem 5.6. Closed forms of thresholds: PROOF.md, section 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

import numpy as np

from topdown.errors import DataError
from topdown.selection.chance import Chance, Subsampling, least_exponent, root_below
from topdown.selection.incidences import Integers, check_count

ABSENT = -1
MOST_SYMBOLS = 10**9


@dataclass(frozen=True)
class Monitor:
    """What is watched for; all public.

    Args:
        symbols: size of the alphabet.
        cap: how many reports a person takes part in at most, 1 .. 1000.
        threshold: how many people of the sample a report asks for, at least 1.

    Raises: ConfigError (C193).
    """

    symbols: int
    cap: int
    threshold: int

    def __post_init__(self) -> None:
        check_count(self.symbols, MOST_SYMBOLS, "the number of symbols")
        check_count(self.cap, 1000, "the cap")
        check_count(self.threshold, 10**12, "the threshold")


def frequent(
    steps: Iterable[Integers], n_people: int, monitor: Monitor, plan: Subsampling, chance: Chance
) -> Iterator[tuple[int, ...]]:
    """Return, one by one, for each step the symbols reported, sorted; all steps together cost `plan.event`, once.

    A symbol of w people of the sample is reported for certain where w reaches the threshold, else with probability
    r^-(threshold - w), r^cap at most the base. Who has been in `cap` reports counts no more.

    Args:
        steps: for each step the symbol of each person, 0 .. symbols - 1, or -1 for none; people keep their places.
        n_people: private.
        monitor, plan, chance: as above.

    Raises: DataError (D060).
    """
    left = np.where(chance.keep(n_people, plan.rate), monitor.cap, 0)
    return watched(steps, left, monitor, root_below(plan.base, monitor.cap), chance)


def watched(
    steps: Iterable[Integers], left: Integers, monitor: Monitor, base: Fraction, chance: Chance
) -> Iterator[tuple[int, ...]]:
    """Yield the reports of a sample, of whom each still has `left` reports: one-sided with base^cap."""
    for values in steps:
        if len(values) != len(left) or (
            len(left) and (values.min() < ABSENT or values.max() >= monitor.symbols)
        ):
            raise DataError(
                "a step names a person or symbol that there is not", code="D060", fix="number them from 0"
            )
        yield _step(values, left, monitor, base, chance)


def _step(
    values: Integers, left: Integers, monitor: Monitor, base: Fraction, chance: Chance
) -> tuple[int, ...]:
    """Report the symbols of one step, and charge the people behind them."""
    counted = (left > 0) & (values != ABSENT)
    present, weights = np.unique(values[counted], return_counts=True)
    found = [
        int(symbol)
        for symbol, weight in zip(present, weights, strict=True)
        if chance.accept(base, monitor.threshold - int(weight))
    ]
    left[counted & np.isin(values, found)] -= 1
    empty = monitor.symbols - len(present)
    place = chance.first_accepted(empty, base, monitor.threshold)
    below = present - np.arange(len(present))  # how many absent symbols come before each present one
    while place < empty:
        found.append(place + int(np.searchsorted(below, place, side="right")))
        place += 1 + chance.first_accepted(empty - place - 1, base, monitor.threshold)
    return tuple(sorted(found))


def threshold_for(light: int, reports: Fraction, cap: int, plan: Subsampling) -> int:
    """Return the least threshold at which `light` people make a report with a chance of 1 / `reports` at most.

    Args:
        light: people before sampling, 0 .. 10,000.
        reports: (steps x symbols) / the probability with which any false report is accepted.
        cap, plan: as `frequent`.
    """
    check_count(light + 1, 10_001, "the number of people, and one,")
    base = root_below(plan.base, cap)
    return max(1, least_exponent(base, reports * (1 - plan.rate + plan.rate * base) ** light))


def surely_heavy(threshold: int, reports: Fraction, plan: Subsampling) -> int:
    """Return a number of people of whom the sample has `threshold` but for a chance of 1 / `reports`.

    With (steps x symbols) / beta `reports`, all symbols of so many people are reported but for beta, as long as nobody
    among them has reached the cap. Chernoff's bound, rounded up.
    """
    with localcontext() as context:
        context.prec, context.rounding = 40, ROUND_CEILING
        logarithm = (Decimal(reports.numerator) / Decimal(reports.denominator)).ln()
        root = ((2 * logarithm).sqrt() + (2 * logarithm + 4 * threshold).sqrt()) / 2
        rate = Decimal(plan.rate.numerator) / Decimal(plan.rate.denominator)
        return int((root * root / rate * (1 + Decimal(10) ** -20)).to_integral_value(ROUND_CEILING))
