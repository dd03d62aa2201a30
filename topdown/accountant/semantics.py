"""Whose secret: one person's everything, one attribute, a move inside one area of a level.

Under the bounded relation a replaced record changes two counts by one in every measurement it touches: the cell it
leaves and the cell it enters. A change of some attributes leaves unchanged every query that does not resolve
them; a move inside an area of a level leaves unchanged every query of that level and above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from topdown.accountant.composition import Composition
from topdown.accountant.exact import positive
from topdown.errors import ConfigError

Neighbours = Literal["bounded", "add_remove"]


@dataclass(frozen=True)
class Measurement:
    """One query measured at every area of one level.

    level: index from the root (0) down; level_name: its name; attributes: those whose change can change the
    query's answers; variance: of the discrete Gaussian on each answer, exact; shift: by how much one record
    changes a count.
    """

    level: int
    level_name: str
    query: str
    attributes: frozenset[str]
    variance: Fraction
    shift: int = 1

    def __post_init__(self) -> None:
        positive(self.variance, f"variance of {self.query} at {self.level_name}")


@dataclass(frozen=True)
class Secret:
    """One kind of secret and the composition that protects it."""

    name: str
    kind: Literal["everything", "attribute", "within_level"]
    composition: Composition


def secrets(measurements: Iterable[Measurement], neighbours: Neighbours = "bounded") -> list[Secret]:
    """Return the compositions for one person's everything, each attribute alone, and moves within each level.

    With "add_remove" the presence of a record is the secret (one count per measurement). An attribute or a
    place is always changed by replacing, so those compositions have two counts per measurement for both relations.
    An attribute that no measurement resolves is not listed: changing it costs nothing.
    """
    rows = tuple(measurements)
    if neighbours not in ("bounded", "add_remove"):
        raise ConfigError(f"neighbours is {neighbours!r}", code="A013", fix='write "bounded" or "add_remove"')
    if not rows:
        raise ConfigError("nothing is measured", code="A007", fix="give at least one measurement")
    out = [
        Secret(
            "one person, everything", "everything", _composition(rows, 2 if neighbours == "bounded" else 1)
        )
    ]
    for attribute in sorted(frozenset().union(*(m.attributes for m in rows))):
        touched = [m for m in rows if attribute in m.attributes]
        out.append(Secret(f"{attribute} only", "attribute", _composition(touched, 2)))
    names = {m.level: m.level_name for m in rows}
    for level in sorted(names)[:-1]:
        below = [m for m in rows if m.level > level]
        out.append(Secret(f"place within one {names[level]}", "within_level", _composition(below, 2)))
    return out


def _composition(rows: Sequence[Measurement], coordinates: int) -> Composition:
    return Composition.of((m.variance, m.shift, coordinates) for m in rows)
