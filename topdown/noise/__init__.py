"""Exact integer noise: laws with rational parameters, bit sources, the fast sampler and its slow twin."""

from topdown.noise.bits import AesBits, BitSource, SimulationBits, UrandomBits, XorBits
from topdown.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric, cdf_interval, pmf_interval
from topdown.noise.rejection import draw_one
from topdown.noise.sampler import Sampler
from topdown.noise.thresholds import table_fingerprint
from topdown.noise.weighted import WeightedInteger

__all__ = [
    "AesBits",
    "BitSource",
    "DiscreteGaussian",
    "Law",
    "Sampler",
    "SimulationBits",
    "TwoSidedGeometric",
    "UrandomBits",
    "WeightedInteger",
    "XorBits",
    "cdf_interval",
    "draw_one",
    "pmf_interval",
    "table_fingerprint",
]
