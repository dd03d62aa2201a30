"""What one query draws at every area of a level, as a ledger records it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from topdown.laws import LAWS


@dataclass(frozen=True)
class DrawnLaw:
    """One query measured once at every area of a level: the noise on the counts that one change can move.

    Args:
        law: discrete_gaussian, two_sided_geometric or optimal_integer.
        parameter: variance parameter in records squared, scale in records, or epsilon of one count.
        shift: by how much a change of one record moves each count it moves.
        coordinates: how many counts it moves.
        level, query: what was measured.
        attributes: attributes whose change can change an answer, in alphabetical order.
        delta: of one count, beside its epsilon; 0 for the other laws.
    """

    law: str
    parameter: Fraction
    shift: int
    coordinates: int
    level: str
    query: str
    attributes: tuple[str, ...] = ()
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not isinstance(self.parameter, Fraction) or not isinstance(self.delta, Fraction):
            raise TypeError('a parameter is an exact Fraction; write Fraction("1/2"), never a float')
        if self.law not in LAWS or self.parameter <= 0 or self.shift < 1 or self.coordinates < 1:
            raise ValueError("a law needs a known name, a positive parameter, shift and number of counts")
        if LAWS[self.law].has_delta != (self.delta > 0) or self.delta >= 1 or (self.delta and self.shift > 1):
            raise ValueError("a delta below 1 is of a law that has one, for counts that move by 1")

    @property
    def loss_name(self) -> str:
        """Unit of the loss."""
        return LAWS[self.law].loss_name

    @property
    def loss(self) -> Fraction:
        """Exact loss: coordinates x shift^2 / 2 variance, coordinates x shift / scale, or coordinates x epsilon."""
        return LAWS[self.law].loss(self.parameter, self.shift, self.coordinates)

    @property
    def delta_loss(self) -> Fraction:
        """Exact delta beside the loss: coordinates x delta."""
        return self.coordinates * self.delta
