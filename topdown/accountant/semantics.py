"""Whose secret: presence, everything, one attribute, a move inside one area of a level.

Under the bounded relation a replaced record changes two counts by one in every measurement it touches: the cell it
leaves and the cell it enters. A change of one attribute leaves unchanged every query that does not resolve it; a
move inside an area of a level leaves unchanged every query of that level and above. One record more or less
changes one count in every measurement.

What exact statistics say of a change is decided before, from labels alone. A change that every one of them, or
every public fact, gives away has no loss: noise elsewhere does not hide it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from topdown.accountant.approximate import MovedCounts, PairLoss
from topdown.accountant.composition import Composition
from topdown.accountant.exact import positive
from topdown.accountant.law import law_of
from topdown.accountant.pure import PureLoss
from topdown.errors import ConfigError
from topdown.laws import LAWS, LawName, Weights

Neighbours = Literal["bounded", "add_remove"]
Kind = Literal["presence", "everything", "attribute", "within_level"]
Status = Literal["protected", "conditional", "disclosed"]
Loss = Composition | PureLoss | PairLoss


@dataclass(frozen=True)
class Measurement:
    """One query measured at every area of one level.

    level: index from the root (0) down; level_name: its name; attributes: those whose change can change the
    query's answers; parameter: variance (discrete Gaussian), scale (geometric) or epsilon (optimal) of the noise on
    each answer, exact; delta, weights: of each answer's law, for a law that has them.
    """

    level: int
    level_name: str
    query: str
    attributes: frozenset[str]
    parameter: Fraction
    law: LawName = "discrete_gaussian"
    delta: Fraction = Fraction(0)
    weights: Weights = ()

    def __post_init__(self) -> None:
        positive(self.parameter, f"{LAWS[self.law].parameter_name} of {self.query} at {self.level_name}")


@dataclass(frozen=True)
class Claim:
    """What exact statistics say of one kind of change.

    kind; of: the attribute, or the name of the level; status; exact: names of the statistics that some change alters,
    or of what excludes every change; level: index of the level that a move stays inside of.
    """

    kind: Kind
    of: str
    status: Status
    exact: tuple[str, ...] = ()
    level: int = -1

    def name(self, unit: str) -> str:
        """Return the row's name, for a unit of privacy."""
        return {
            "presence": f"one {unit}, presence",
            "everything": f"one {unit}, everything",
            "attribute": f"{self.of} only",
            "within_level": f"place within one {self.of}",
        }[self.kind]


@dataclass(frozen=True)
class Secret:
    """One kind of secret and the loss that bounds it; None if it is disclosed."""

    claim: Claim
    loss: Loss | None


def secrets(measurements: Iterable[Measurement], claims: Sequence[Claim]) -> list[Secret]:
    """Return the loss of each claim that is not disclosed.

    Raises: ConfigError if nothing is measured, or if laws are mixed.
    """
    rows = tuple(measurements)
    if not rows:
        raise ConfigError("nothing is measured", code="A007", fix="give at least one measurement")
    if len({m.law for m in rows}) > 1:
        raise ConfigError(
            "two noise laws are measured together", code="A031", fix="state the loss of each mechanism apart"
        )
    return [Secret(c, None if c.status == "disclosed" else _loss(rows, c)) for c in claims]


def _loss(rows: Sequence[Measurement], claim: Claim) -> Loss:
    """Return the composition of the measurements a change can touch: two counts each, one for presence."""
    touched = [m for m in rows if _touches(claim, m)]
    counts = 1 if claim.kind == "presence" else 2
    law = LAWS[rows[0].law]
    if law.has_delta:
        return PairLoss(tuple(MovedCounts(m.weights, m.parameter, m.delta, counts) for m in touched))
    if not touched or law.loss_name == "epsilon":
        epsilon = sum((law.loss(m.parameter, 1, counts) for m in touched), Fraction(0))
        return PureLoss(epsilon, counts * len(touched), rows[0].law)
    return Composition(law_of((m.parameter, 1, counts) for m in touched))


def _touches(claim: Claim, m: Measurement) -> bool:
    if claim.kind == "attribute":
        return claim.of in m.attributes
    return claim.kind != "within_level" or m.level > claim.level
