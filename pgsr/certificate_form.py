"""What a certificate and a manifest may hold: every key, its type, and no other; read with nothing taken on trust."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Exact = Annotated[str, Meta(pattern="^(0|[1-9][0-9]{0,400})(/[1-9][0-9]{0,400})?$", max_length=600)]
Decimal = Annotated[str, Meta(pattern="^[0-9]{1,40}(\\.[0-9]{1,60})?(e-?[0-9]{1,3})?$")]
Text = Annotated[str, Meta(max_length=2000)]
Whole = Annotated[int, Meta(ge=0, le=2**62)]
Pair = tuple[Decimal, Decimal]
Relation = Literal["move", "new", "dropped"]
Stamp = Literal["", "NOT-A-RELEASE"]
Engine = Annotated[str, Meta(pattern="^[0-9]+(\\.[0-9]+)+([a-z0-9.+-]*)$", max_length=40)]


class _Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A document or a part of one."""


class Mechanism(_Form, frozen=True):
    """What was run."""

    name: Text
    measures: Literal["histogram", "cumulative", "tail", "chain", "tail_chain"]
    claim: Text
    consistent: bool


class Secret(_Form, frozen=True, omit_defaults=True):
    """One neighbour step; a disclosed one bears no number."""

    name: Text
    kind: Literal["presence"]
    relation: Relation
    neighbours: Text
    status: Literal["protected", "conditional", "disclosed"]
    exact: list[Text]
    sentence: Text
    loss: Exact | msgspec.UnsetType = msgspec.UNSET
    n_counts_moved: Whole | msgspec.UnsetType = msgspec.UNSET
    epsilon: dict[Annotated[str, Meta(max_length=20)], Pair] | msgspec.UnsetType = msgspec.UNSET
    best_guess: Pair | msgspec.UnsetType = msgspec.UNSET
    right_in_100: Whole | msgspec.UnsetType = msgspec.UNSET
    method: Annotated[str, Meta(max_length=120)] | msgspec.UnsetType = msgspec.UNSET


class Privacy(_Form, frozen=True):
    """What is promised."""

    unit: Annotated[str, Meta(max_length=60)]
    unit_means: Text
    relations: list[Relation]
    conditional_on: list[Text]
    noise: Literal["geometric", "gaussian"]
    calibration: Literal["correct", "published"]
    claimed: Exact
    loss_name: Literal["epsilon", "rho"]
    loss: Exact
    private_as_claimed: bool
    secrets: list[Secret]


class Sizes(_Form, frozen=True):
    """Public range of sizes."""

    smallest: Literal[0, 1]
    n_sizes: Annotated[int, Meta(ge=1, le=2**26)]
    too_large: Literal["refuse", "top-code"]


class Level(_Form, frozen=True):
    """Noise of one level."""

    name: Annotated[str, Meta(min_length=1, max_length=60, pattern="^[^/\\\\\\x00]+$")]
    parameter: Exact
    sensitivity: Whole
    half_width_95: Whole


class Optimality(_Form, frozen=True):
    """Exchange certificate of Model 1."""

    optimal: bool
    largest_gain: Annotated[int, Meta(ge=-(2**62), le=2**62)]
    n_checks: Whole
    model: Literal["exchange on Model 1"]
    of_measurements: bool


class Origin(_Form, frozen=True):
    """Why a simulation's groups may be simulated on."""

    kind: Literal["made_up", "release", "public"]
    name: Text
    sha256: Sha256
    reason: Text
    generator: Text
    seed: int | None


class Certificate(_Form, frozen=True):
    """certificate.json."""

    type: Literal["pgsr.certificate"]
    version: int
    engine: Engine
    release: bool
    stamp: Stamp
    truth: Origin | None
    plan_hash: Sha256
    journal: Annotated[str, Meta(pattern="^([0-9a-f]{32})?$")]
    mechanism: Mechanism
    privacy: Privacy
    total: Whole
    public_totals: dict[str, Whole]
    sizes: Sizes
    levels: Annotated[list[Level], Meta(min_length=1)]
    regions: Annotated[list[tuple[str, str, str]], Meta(min_length=1)]
    optimality: Optimality | None


class Entry(_Form, frozen=True):
    """One file of a manifest."""

    sha256: Sha256
    bytes: Whole


class Manifest(_Form, frozen=True):
    """manifest.json."""

    type: Literal["pgsr.manifest"]
    version: Literal[2]
    engine: Engine
    release: bool
    stamp: Stamp
    files: dict[str, Entry]


def check_form(document: dict[str, Any], form: type[_Form]) -> None:
    """Raise ValueError, in words that name the place, unless a document has exactly this form."""
    msgspec.convert(document, form, strict=True)
