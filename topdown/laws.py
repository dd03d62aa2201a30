"""The noise laws as data: names, exact loss, variance and calibration of each, in one place.

A law is known by its name in plans, ledgers and measurement files. Whoever draws it (`noise/laws.py`), composes it
(`accountant`) or checks it (`publish/verify`, by its own lines) has code of its own for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

LawName = Literal["discrete_gaussian", "two_sided_geometric"]
LossName = Literal["rho", "epsilon"]
ParameterName = Literal["variance", "scale"]


@dataclass(frozen=True)
class NoiseLaw:
    """One law.

    Args:
        name: in plans and ledgers.
        mechanism: in run files and settings.
        loss_name: rho (zCDP) or epsilon (pure differential privacy).
        parameter_name: variance, in records squared, or scale, in records.
        loss_of_one: loss of one count moved by `shift` records, from (parameter, shift).
        variance: of the noise in records squared, from the parameter, as the solver weighs it.
        calibrated: parameter that makes a query cost a loss, from (loss, L1 sensitivity, squared L2 sensitivity).
        most: largest parameter whose noise leaves 32 bits less than once in 2^128 draws.
    """

    name: LawName
    mechanism: str
    loss_name: LossName
    parameter_name: ParameterName
    loss_of_one: Callable[[Fraction, int], Fraction]
    variance: Callable[[Fraction], Fraction]
    calibrated: Callable[[Fraction, int, int], Fraction]
    most: int

    def loss(self, parameter: Fraction, shift: int, coordinates: int) -> Fraction:
        """Return the loss of counts that each move by `shift`; exact."""
        return coordinates * self.loss_of_one(parameter, shift)


DISCRETE_GAUSSIAN = NoiseLaw(
    name="discrete_gaussian",
    mechanism="discrete_gaussian",
    loss_name="rho",
    parameter_name="variance",
    loss_of_one=lambda variance, shift: (
        Fraction(shift**2) / (2 * variance)
    ),  # Canonne, Kamath, Steinke 2020, Thm 4
    variance=lambda variance: variance,
    calibrated=lambda rho, _, l2_squared: Fraction(l2_squared) / (2 * rho),
    most=(2**31 // 14) ** 2,  # 14 standard deviations
)
TWO_SIDED_GEOMETRIC = NoiseLaw(
    name="two_sided_geometric",
    mechanism="geometric",
    loss_name="epsilon",
    parameter_name="scale",
    loss_of_one=lambda scale, shift: Fraction(shift) / scale,  # Ghosh, Roughgarden, Sundararajan 2009
    # 2 t^2 exceeds the exact variance 1 / (2 sinh(1/2t)^2) by at most 1/6; weights need close numbers, not exact ones.
    variance=lambda scale: 2 * scale**2,
    calibrated=lambda epsilon, l1, _: Fraction(l1) / epsilon,
    most=2**31 // 90,  # 90 scales
)
LAWS: dict[str, NoiseLaw] = {law.name: law for law in (DISCRETE_GAUSSIAN, TWO_SIDED_GEOMETRIC)}


def law_of_mechanism(mechanism: str) -> NoiseLaw:
    """Return the law that a run file's mechanism draws (KeyError if there is none)."""
    return {law.mechanism: law for law in LAWS.values()}[mechanism]
