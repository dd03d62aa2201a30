"""Differential privacy: relation, noise distributions, exact sampling, accounting, ledger, and what is said of them.

Names are loaded when first asked for, so that a command line does not wait for numpy.
"""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.privacy.bits import AesBits, BitSource, SimulationBits, UrandomBits, XorBits
    from topdown.privacy.exact_values import Enclosure
    from topdown.privacy.relation import Change, Neighbours, Relation
    from topdown.privacy.sampler import Sampler, draw_one, table_fingerprint

__all__ = [
    "AesBits",
    "BitSource",
    "Change",
    "Enclosure",
    "Neighbours",
    "Relation",
    "Sampler",
    "SimulationBits",
    "UrandomBits",
    "XorBits",
    "draw_one",
    "table_fingerprint",
]

__getattr__ = lazy_face(__name__, __file__)
