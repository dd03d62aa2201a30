"""Pieces that several documents are made of."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 in hex")]
LedgerId = Annotated[str, Meta(pattern="^[0-9a-f]{16}$", description="Random id of a ledger")]
Rational = Annotated[
    str, Meta(pattern="^[0-9]+(/[1-9][0-9]*)?$", description="Exact number, whole or a fraction a/b")
]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Enclosure = Annotated[tuple[str, str], Meta(description="Lower and upper bound as decimals, rounded outward")]
Neighbours = Literal["bounded", "add_remove"]
LossName = Literal["rho", "epsilon", "epsilon_delta"]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document or a part of one."""


class Basis(Part, frozen=True, kw_only=True):
    """Why a statistic is published without noise; "?" while open."""

    legal_basis: str
    decided_by: str
    date: str


class ReleaseNames(Part, frozen=True, kw_only=True):
    """Names of a release and answers only people can give; "?" while open."""

    id: str
    title: str
    data_set: str
    agency: str
    contact: str


class EstimateOfLevel(Part, frozen=True, kw_only=True):
    """What the splits into one level are fitted to; `why` where that is not the tree estimate."""

    level: str
    targets: Literal["own", "tree"]
    why: str
