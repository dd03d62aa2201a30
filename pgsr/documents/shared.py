"""Pieces that several documents of pgsr are made of, with the most that a checker reads of a stranger's."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from topdown.documents.shared import Part, Sha256

Exact = Annotated[
    str,
    Meta(
        pattern="^(0|[1-9][0-9]{0,400})(/[1-9][0-9]{0,400})?$",
        max_length=600,
        description="Exact number, whole or a fraction a/b",
    ),
]
Decimal = Annotated[str, Meta(pattern="^[0-9]{1,40}(\\.[0-9]{1,60})?(e-?[0-9]{1,3})?$")]
Pair = Annotated[tuple[Decimal, Decimal], Meta(description="Lower and upper bound, rounded outward")]
Text = Annotated[str, Meta(max_length=2000)]
Whole = Annotated[int, Meta(ge=0, le=2**62)]
Engine = Annotated[str, Meta(pattern="^[0-9]+(\\.[0-9]+)+([a-z0-9.+-]*)$", max_length=40)]
Stamp = Literal["", "NOT-A-RELEASE"]
Vector = Literal["histogram", "cumulative", "tail", "tail_rows", "chain", "tail_chain"]
Calibration = Literal["correct", "published"]
LossName = Literal["epsilon", "rho"]
Relation = Literal["move", "new", "dropped", "household", "appears"]


class Truth(Part, frozen=True, kw_only=True):
    """Why a simulation's groups may be simulated on."""

    kind: Literal["made_up", "public"]
    name: Text
    sha256: Sha256
    reason: Text
    generator: Text
    seed: int | None


class Secret(Part, frozen=True, kw_only=True):
    """One neighbour step; a disclosed one bears no number."""

    name: Text
    kind: Literal["presence", "size"]
    relation: Relation
    neighbours: Text
    status: Literal["protected", "conditional", "disclosed"]
    exact: list[Text]
    loss: Exact | UnsetType = UNSET
    n_counts_moved: Annotated[int, Meta(ge=1, le=2**62)] | UnsetType = UNSET
    epsilon: dict[Annotated[str, Meta(max_length=20)], Pair] | UnsetType = UNSET
    best_guess: Pair | UnsetType = UNSET
    right_in_100: Annotated[int, Meta(ge=50, le=2**62)] | UnsetType = UNSET
    method: Annotated[str, Meta(max_length=120)] | UnsetType = UNSET
    sentence: Text


class Privacy(Part, frozen=True, kw_only=True):
    """What is promised."""

    unit: Annotated[str, Meta(max_length=60)]
    unit_means: Text
    relations: Annotated[list[Relation], Meta(min_length=1)]
    conditional_on: Annotated[list[Text], Meta(min_length=1)]
    noise: Literal["geometric", "gaussian"]
    calibration: Calibration
    claimed: Exact
    loss_name: LossName
    loss: Exact
    private_as_claimed: bool
    secrets: Annotated[list[Secret], Meta(min_length=1)]
