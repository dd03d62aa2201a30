"""The noise laws as data: names, exact loss, variance and calibration of each, in one place.

A law is known by its name in plans, ledgers and measurement files. Whoever draws it (`noise/laws.py`), composes it
(`accountant`) or checks it (`publish/verify`, by its own lines) has code of its own for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

LawName = Literal["discrete_gaussian", "two_sided_geometric", "optimal_integer"]
LossName = Literal["rho", "epsilon", "epsilon_delta"]
ParameterName = Literal["variance", "scale", "epsilon"]
Weights = tuple[int, ...]
"""Of the values 0, 1, 2, .. of a symmetric law, whole numbers over 2^128; none for a law with a formula."""

UNIT = 1 << 128
_VARIANCE_GRID = 1 << 30


@dataclass(frozen=True)
class NoiseLaw:
    """One law.

    Args:
        name: in plans and ledgers.
        mechanism: in run files and settings.
        loss_name: rho (zCDP), epsilon (pure differential privacy), or epsilon_delta: epsilon, and a delta that is
            added up beside it.
        parameter_name: variance, in records squared; scale, in records; or epsilon of one count.
        loss_of_one: loss of one count moved by `shift` records, from (parameter, shift).
        variance: of the noise in records squared, from (parameter, weights), as the solver weighs it.
        calibrated: parameter that makes a query cost a loss, from (loss, L1 sensitivity, squared L2 sensitivity).
        most: largest parameter; for a variance or a scale, whose noise leaves 32 bits less than once in 2^128 draws.
        usual: how others would state its loss as an epsilon.
        symbol: of its loss, on screens.
    """

    name: LawName
    mechanism: str
    loss_name: LossName
    parameter_name: ParameterName
    loss_of_one: Callable[[Fraction, int], Fraction]
    variance: Callable[[Fraction, Weights], Fraction]
    calibrated: Callable[[Fraction, int, int], Fraction]
    most: int
    usual: str
    symbol: str

    def loss(self, parameter: Fraction, shift: int, coordinates: int) -> Fraction:
        """Return the loss of counts that each move by `shift`; exact."""
        return coordinates * self.loss_of_one(parameter, shift)

    @property
    def has_delta(self) -> bool:
        """Whether its losses are pairs: an epsilon and a delta."""
        return self.loss_name == "epsilon_delta"


@lru_cache(maxsize=512)
def variance_of(weights: Weights) -> Fraction:
    """Return the exact variance of a symmetric law, rounded up to a multiple of 2^-30: measurement files hold it."""
    exact = Fraction(2 * sum(k * k * weight for k, weight in enumerate(weights)), UNIT)
    return Fraction(-(-exact.numerator * _VARIANCE_GRID // exact.denominator), _VARIANCE_GRID)


def _moved_by_one(epsilon: Fraction, shift: int) -> Fraction:
    if shift != 1:
        raise ValueError("the weights of a law keep its promise for counts that move by 1")
    return epsilon


DISCRETE_GAUSSIAN = NoiseLaw(
    name="discrete_gaussian",
    mechanism="discrete_gaussian",
    loss_name="rho",
    parameter_name="variance",
    loss_of_one=lambda variance, shift: (
        Fraction(shift**2) / (2 * variance)
    ),  # Canonne, Kamath, Steinke 2020, Thm 4
    variance=lambda variance, _: variance,
    calibrated=lambda rho, _, l2_squared: Fraction(l2_squared) / (2 * rho),
    most=(2**31 // 14) ** 2,  # 14 standard deviations
    usual="rho + 2 sqrt(rho ln(1/delta))",
    symbol="ρ",
)
TWO_SIDED_GEOMETRIC = NoiseLaw(
    name="two_sided_geometric",
    mechanism="geometric",
    loss_name="epsilon",
    parameter_name="scale",
    loss_of_one=lambda scale, shift: Fraction(shift) / scale,  # Ghosh, Roughgarden, Sundararajan 2009
    # 2 t^2 exceeds the exact variance 1 / (2 sinh(1/2t)^2) by at most 1/6; weights need close numbers, not exact ones.
    variance=lambda scale, _: 2 * scale**2,
    calibrated=lambda epsilon, l1, _: Fraction(l1) / epsilon,
    most=2**31 // 90,  # 90 scales
    usual="epsilon",
    symbol="ε",
)
OPTIMAL_INTEGER = NoiseLaw(
    name="optimal_integer",
    mechanism="optimal",
    loss_name="epsilon_delta",
    parameter_name="epsilon",
    loss_of_one=_moved_by_one,  # with the delta of one count beside it (noise/optimal/PROOF.md)
    variance=lambda _, weights: variance_of(weights),
    calibrated=lambda epsilon, l1, _: epsilon / l1,  # of each count that moves: epsilons and deltas add up
    most=10,
    usual="sums of epsilon and delta",
    symbol="ε",
)
LAWS: dict[str, NoiseLaw] = {
    law.name: law for law in (DISCRETE_GAUSSIAN, TWO_SIDED_GEOMETRIC, OPTIMAL_INTEGER)
}


def law_of_mechanism(mechanism: str) -> NoiseLaw:
    """Return the law that a run file's mechanism draws (KeyError if there is none)."""
    return {law.mechanism: law for law in LAWS.values()}[mechanism]
