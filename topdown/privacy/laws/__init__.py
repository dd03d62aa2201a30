"""The noise distributions by name: one file a law, and what all of them are (`distribution.py`)."""

from topdown.privacy.laws.distribution import (
    UNIT,
    FormulaDistribution,
    NoiseDistribution,
    NoiseLaw,
    Weights,
    law_tails,
)
from topdown.privacy.laws.gaussian import DISCRETE_GAUSSIAN, DiscreteGaussian
from topdown.privacy.laws.geometric import TWO_SIDED_GEOMETRIC, TwoSidedGeometric
from topdown.privacy.laws.optimal import OPTIMAL_INTEGER, WeightedInteger

LAWS: dict[str, NoiseLaw] = {
    law.name: law for law in (DISCRETE_GAUSSIAN, TWO_SIDED_GEOMETRIC, OPTIMAL_INTEGER)
}


def law_of_mechanism(mechanism: str) -> NoiseLaw:
    """Return the law that a run file's mechanism draws (KeyError if there is none)."""
    return {law.mechanism: law for law in LAWS.values()}[mechanism]


__all__ = [
    "DISCRETE_GAUSSIAN",
    "LAWS",
    "OPTIMAL_INTEGER",
    "TWO_SIDED_GEOMETRIC",
    "UNIT",
    "DiscreteGaussian",
    "FormulaDistribution",
    "NoiseDistribution",
    "NoiseLaw",
    "TwoSidedGeometric",
    "WeightedInteger",
    "Weights",
    "law_of_mechanism",
    "law_tails",
]
