"""certificate.json of pgsr."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from pgsr.documents.shared import Engine, Exact, Privacy, Stamp, Text, Truth, Vector, Whole
from topdown.documents.shared import Part, Sha256

VERSION: Final = 4
"""Of the only certificates that are read."""
LevelName = Annotated[str, Meta(min_length=1, max_length=60, pattern="^[^/\\\\\\x00]+$")]


class MechanismRun(Part, frozen=True, kw_only=True):
    """What was run."""

    name: Text
    measures: Vector
    claim: Text
    consistent: bool


class SizeRange(Part, frozen=True, kw_only=True):
    """Public range of sizes."""

    smallest: Literal[0, 1]
    n_sizes: Annotated[int, Meta(ge=1, le=2**26)]
    too_large: Literal["refuse", "top-code"]


class LevelNoise(Part, frozen=True, kw_only=True):
    """Noise of one level."""

    name: LevelName
    parameter: Exact
    sensitivity: Whole
    half_width_95: Whole


class Optimality(Part, frozen=True, kw_only=True):
    """Exchange certificate of Model 1."""

    optimal: bool
    largest_gain: Annotated[int, Meta(ge=-(2**62), le=2**62)]
    n_checks: Whole
    model: Literal["exchange on Model 1"]
    of_measurements: bool


class Intervals(Part, frozen=True, kw_only=True):
    """Where the bounds beside every count come from."""

    method: Literal["noise of the level", "noise and likeness of siblings, closed form"]
    meaning: Text


class Certificate(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.certificate"):
    """certificate.json: what was measured, what it costs, what is claimed."""

    version: Literal[4] = VERSION
    engine: Engine
    release: bool
    stamp: Stamp
    truth: Truth | None
    plan_hash: Sha256
    journal: Annotated[str, Meta(pattern="^([0-9a-f]{32})?$")]
    mechanism: MechanismRun
    privacy: Privacy
    total: Whole
    public_totals: dict[str, Whole]
    sizes: SizeRange
    levels: Annotated[list[LevelNoise], Meta(min_length=1)]
    regions: Annotated[
        list[Annotated[tuple[str, str, str], Meta(description="Region, level, parent")]], Meta(min_length=1)
    ]
    choice: (
        list[Annotated[tuple[Whole, Whole], Meta(description="Columns and rows of each region")]] | UnsetType
    ) = UNSET
    intervals: Intervals
    optimality: Optimality | None
