"""Public knowledge a release must reproduce: invariants, bounds from public facts, structural zeros."""

from __future__ import annotations

from dataclasses import dataclass

Selection = tuple[tuple[str, tuple[str, ...]], ...]  # ((attribute, labels), ...): cells with all of them


@dataclass(frozen=True)
class Basis:
    """Why a statistic is published without noise; answers a person must give, "?" while open."""

    legal_basis: str = "?"
    decided_by: str = "?"
    date: str = "?"


@dataclass(frozen=True)
class Exact:
    """Equality: the answers of `query` at every node of `level` are those of the confidential records."""

    name: str
    level: str
    query: str
    basis: Basis = Basis()


@dataclass(frozen=True)
class AtLeast:
    """At every leaf, the records in `cells` number at least `per` times the public column."""

    name: str
    cells: Selection
    column: str
    per: int = 1
    basis: Basis = Basis()


@dataclass(frozen=True)
class AtMost:
    """At every leaf, the records in `cells` number at most `per` times the public column."""

    name: str
    cells: Selection
    column: str
    per: int = 1
    basis: Basis = Basis()


@dataclass(frozen=True)
class NoneWhereZero:
    """At every leaf where the public columns are all zero, no record lies in `cells`."""

    name: str
    cells: Selection
    columns: tuple[str, ...]
    basis: Basis = Basis()


@dataclass(frozen=True)
class Never:
    """Structural zero: no record lies in `cells`, anywhere, by definition."""

    name: str
    cells: Selection
    basis: Basis = Basis()


@dataclass(frozen=True)
class NoMoreThan:
    """At every leaf, the records in `cells` number at most `times` those in `than`.

    Soft: known of every true population, not promised of the released one. It is kept wherever that is possible and
    reported where it is not.
    """

    name: str
    cells: Selection
    than: Selection
    times: int = 1
    basis: Basis = Basis()


@dataclass(frozen=True)
class Invariants:
    """Everything one release promises about public knowledge."""

    name: str
    title: str
    schema: str
    exact: tuple[Exact, ...] = ()
    at_least: tuple[AtLeast, ...] = ()
    none_where_zero: tuple[NoneWhereZero, ...] = ()
    never: tuple[Never, ...] = ()
    source: str = ""
    at_most: tuple[AtMost, ...] = ()
    no_more_than: tuple[NoMoreThan, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Public leaf columns the constraints read, each once."""
        names = [c.column for c in self.at_least] + [c for z in self.none_where_zero for c in z.columns]
        names += [c.column for c in self.at_most]
        return tuple(dict.fromkeys(names))
