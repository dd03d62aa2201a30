"""What noise costs by verify's own lines: what neighbours move, and the laws of noise.

Of a law: names, loss, calibration, variance, and what its weights must be.

All records of a unit change at once. What a unit of several records loses to noise is known where the losses of records
add up, whatever counts they move: of geometric noise. It is not known what such a change leaves open of what is exact.

Discrete Gaussian: rho = S / (2 variance). Two-sided geometric: epsilon = S / scale. A law with a delta: every count
that moves pays its part of epsilon, and of delta. Whatever else asks for a law finds it in `LAWS`.

Weights of a noise law are checked in whole numbers: for a symmetric law whose answer moves by 1, the worst event has
the values x with p(x) > e^epsilon p(x - 1), and the delta that is needed is the sum of p(x) - e^epsilon p(x - 1) over
them; in the other direction it is the same. e^epsilon is taken from below, so that no delta found here is too small.
The law with the least tails has P(X >= 1) = (1 - delta) / (1 + e^epsilon), and then each tail is the one before less
delta, over e^epsilon, while that is above 0. A law that is more private than charged is not the one promised either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from topdown.verify.exact_arithmetic import ROUNDED, exp


@dataclass(frozen=True)
class CheckedRelation:
    """What verify knows of one neighbour relation.

    A record adds 1 to one answer of one area, in every measurement. One record more or less changes one answer; one
    record replaced takes 1 from one answer and adds 1 to another; at most so many for all records of a unit.

    Args:
        shifts: by how much each answer changes that a neighbour changes in one measurement of a level.
        stated: kinds of change that statements have a row for, and the relation of each.
        needs: by another relation, how many of its changes make one change of this.
    """

    shifts: tuple[int, ...]
    stated: tuple[tuple[str, str], ...]
    needs: Mapping[str, int]

    @property
    def l1(self) -> int:
        """The largest change of all answers together."""
        return sum(map(abs, self.shifts))

    @property
    def l2_squared(self) -> int:
        """The largest sum of the squares of all changes."""
        return sum(shift * shift for shift in self.shifts)

    @property
    def shift(self) -> int:
        """By how much one answer changes, at most."""
        return max(self.shifts)

    def sampled_odds(self, rate: Fraction, base: Fraction) -> Fraction:
        """Return e^epsilon of a one-sided mechanism on a Poisson sample; a replacement is one step up and one down."""
        up, down = 1 + rate * (base - 1), 1 / (1 - rate)
        return max(up, down) if len(self.shifts) == 1 else up * down


_SEVERAL = re.compile(r"([^\W\d_]\w*) of at most ([1-9][0-9]{0,2}|1000) ([^\W\d]+)s")


@dataclass(frozen=True)
class CheckedUnit:
    """What verify knows of a unit of privacy: its name, what a record is, and how many records it has at most."""

    name: str
    record: str
    n_records: int


def unit_of(text: str) -> CheckedUnit:
    """Read "household of at most 4 persons"; whatever is not of that form has one record."""
    found = _SEVERAL.fullmatch(text)
    if found and found[2] != "1":
        return CheckedUnit(found[1], found[3], int(found[2]))
    return CheckedUnit(text, text, 1)


def relation_of_plan(neighbours: str, unit: str, law: CheckedLaw, *, known: bool) -> CheckedRelation:
    """Return what neighbours change; ValueError for a unit of several records whose loss or rules are not checked.

    Args:
        known: whether something is exact, or some count has a most.
    """
    n = unit_of(unit).n_records
    if n == 1 and re.search(r"\d", unit):
        raise ValueError(f"{unit[:60]!r} is no unit of privacy")
    if n > 1 and (law.composed_as != "geometric" or known):
        raise ValueError(f"what {law.name} noise and exact statistics say of one {unit[:60]} is not checked")
    mine = RELATIONS[neighbours]
    return replace(mine, shifts=tuple(n * shift for shift in mine.shifts))


GROUP_STEPS = "steps of group sizes: "  # before the steps of a charge for group sizes


OF_GROUP_SIZES = "add_remove"  # relation of a ledger for group sizes of persons


RELATIONS = {
    "bounded": CheckedRelation((1, -1), (("everything", "bounded"),), {"add_remove": 2}),
    "add_remove": CheckedRelation(
        (1,), (("presence", "add_remove"), ("everything", "bounded")), {GROUP_STEPS: 1}
    ),
}


def n_counts_moved(kind: str) -> int:
    """Return how many answers of a measurement a change of one record moves: one for presence, else two."""
    return 1 if kind == "presence" else 2


def speaks_of_unit(unit: str, charged: str, *, is_noise: bool) -> bool:
    """Tell whether a charge says something of all records of a unit: of several, noise on counts of records does."""
    return unit_of(unit).n_records == 1 or (is_noise and charged in RELATIONS)


def changes_needed(about: str, charged: str) -> int | None:
    """Return how many changes that a charge is about make one change that is asked about; None if nothing is known.

    A record replaced is one removed and one added. A person who is there or not makes one group of group sizes larger
    or smaller by one, or changes their number, which is exact; two such steps may move one answer by two.
    """
    if about == charged:
        return 1
    needs = RELATIONS[about].needs if about in RELATIONS else {}
    return needs.get(GROUP_STEPS if charged.startswith(GROUP_STEPS) else charged)


UNIT = 1 << 128
LARGEST_EPSILON = 10
SLACK = Fraction(1, 1 << 48)  # of a probability: what is rounded, and mixed in to keep the promise whole


def law_problem(
    weights: Sequence[str], epsilon: Fraction, delta: Fraction, is_due: IsDue | None = None
) -> str:
    """Say what is wrong with the law of one count; empty if it keeps (epsilon, delta) and is the law that is due.

    Args:
        weights: of 0, 1, 2, .., whole numbers as text.
        epsilon, delta: promise of one count whose answer moves by 1.
        is_due: whether whole weights are those of the law; None: of the law with the least tails.
    """
    if len(weights) < 2:
        return "has one value, or none"
    if not 0 < epsilon <= LARGEST_EPSILON or not 0 < delta < 1:
        return "has a promise that no law is made for"
    whole = [int(w) for w in weights]
    if min(whole) < 1 or 2 * sum(whole) - whole[0] != UNIT:
        return "has weights that do not add to 2^128, or one that is 0"
    if delta_needed(whole, epsilon) > delta:
        return "does not keep its delta"
    return (
        "" if (is_due or has_least_tails)(whole, epsilon, delta) else "is another law than its promise gives"
    )


def delta_needed(whole: Sequence[int], epsilon: Fraction) -> Fraction:
    """Return the delta that a symmetric law needs at epsilon for answers that move by 1; at least the true one.

    Args:
        whole: weights of 0, 1, 2, .. over 2^128.
        epsilon: above 0.
    """
    odds = exp(epsilon) * (1 - ROUNDED)
    top, bottom = odds.numerator, odds.denominator
    line = [*whole[:0:-1], *whole]
    excess = sum(max(p * bottom - top * q, 0) for p, q in zip([*line, 0], [0, *line], strict=True))
    return Fraction(excess, bottom * UNIT)


def has_least_tails(whole: Sequence[int], epsilon: Fraction, delta: Fraction) -> bool:
    """Tell whether weights are those of the law with the least tails."""
    odds = exp(epsilon)
    slack, grid = int(SLACK * UNIT), Fraction(1, UNIT * UNIT)
    tail, due = sum(whole[1:]), (1 - delta) / (1 + odds)
    for weight in (*whole[1:], 0):
        if abs(tail - due * UNIT) > slack:
            return False
        tail -= weight
        due = (due - delta) / odds
        due = max(due.numerator * UNIT * UNIT // due.denominator * grid, Fraction(0))
    return True


IsDue = Callable[[Sequence[int], Fraction, Fraction], bool]


@dataclass(frozen=True)
class CheckedLaw:
    """What verify knows of one law.

    Args:
        name: in plans and ledgers.
        mechanism: in plans, as their run files name it.
        loss_name: rho, epsilon, or epsilon_delta.
        loss: of one count, from (parameter, shift).
        parameter: that makes a query cost a loss, from (loss, L1 sensitivity, squared L2 sensitivity).
        variance: that least squares weighs, from (parameter, weights).
        composed_as: whose losses one count has; `bound` if nothing but its epsilon is known.
        is_due: whether weights are those of the law, from (weights over 2^128, epsilon, delta of one count); None for
            a law with a formula.
    """

    name: str
    mechanism: str
    loss_name: Literal["rho", "epsilon", "epsilon_delta"]
    loss: Callable[[Fraction, int], Fraction]
    parameter: Callable[[Fraction, int, int], Fraction]
    variance: Callable[[Fraction, Sequence[str]], Fraction]
    composed_as: Literal["gaussian", "geometric", "weights", "bound"]
    is_due: IsDue | None = None

    @property
    def has_delta(self) -> bool:
        """Whether its losses are pairs, and its plans hold weights."""
        return self.loss_name == "epsilon_delta"


def variance_of_weights(_: Fraction, weights: Sequence[str]) -> Fraction:
    """Return the exact variance of a symmetric law, rounded up to parts of 2^30."""
    whole = sum(2 * k * k * int(weight) for k, weight in enumerate(weights))
    return Fraction(-(-whole >> 98), 1 << 30)


LAWS = {
    law.name: law
    for law in (
        CheckedLaw(
            "discrete_gaussian",
            "discrete_gaussian",
            "rho",
            loss=lambda variance, shift: Fraction(shift * shift) / (2 * variance),
            parameter=lambda rho, _, l2_squared: l2_squared / (2 * rho),
            variance=lambda variance, _: variance,
            composed_as="gaussian",
        ),
        CheckedLaw(
            "two_sided_geometric",
            "geometric",
            "epsilon",
            loss=lambda scale, shift: shift / scale,
            parameter=lambda epsilon, l1, _: l1 / epsilon,
            variance=lambda scale, _: 2 * scale**2,
            composed_as="geometric",
        ),
        CheckedLaw(
            "optimal_integer",
            "optimal",
            "epsilon_delta",
            loss=lambda epsilon, shift: shift * epsilon,
            parameter=lambda epsilon, l1, _: epsilon / l1,
            variance=variance_of_weights,
            composed_as="weights",
            is_due=has_least_tails,
        ),
    )
}


def law_named(name: str) -> CheckedLaw:
    """Return the law of a plan or a ledger; ValueError if it is not one that is checked."""
    if name not in LAWS:
        raise ValueError(f"noise of the law {name[:40]!r} is not checked")
    return LAWS[name]


def law_of_mechanism(mechanism: str) -> CheckedLaw:
    """Return the law that a plan's mechanism draws; ValueError if it is not one that is checked."""
    for law in LAWS.values():
        if law.mechanism == mechanism:
            return law
    raise ValueError(f"noise of mechanism {mechanism[:40]!r} is not checked")
