"""The form of plan.json as the verifier reads it: every key known, exact numbers as text."""

from __future__ import annotations

from typing import Literal

import msgspec

from topdown.model.constraint import Invariants
from topdown.model.schema import Schema


class _Doc(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class MeasurementDoc(_Doc, frozen=True, omit_defaults=True):
    """One query of one level, as written in plan.json."""

    query: str
    n_answers: int
    share: str
    loss: str
    law: str
    parameter: str
    delta: str = "0"
    weights: tuple[str, ...] = ()


class PassDoc(_Doc, frozen=True):
    """One pass of a level."""

    table: str
    queries: tuple[str, ...]


class RoundingDoc(_Doc, frozen=True):
    """One table of a rounding chain."""

    table: str
    weight: int


class LevelDoc(_Doc, frozen=True):
    """One level, as written in plan.json."""

    name: str
    n_nodes: int
    n_measured: int
    share: str
    loss: str
    measurements: tuple[MeasurementDoc, ...]
    passes: tuple[PassDoc, ...]
    rounding: tuple[RoundingDoc, ...]


class ReleaseDoc(_Doc, frozen=True):
    """Names of the release and answers only people can give."""

    id: str
    title: str
    data_set: str
    agency: str
    contact: str


class BaseDoc(_Doc, frozen=True):
    """The release that an extension keeps exactly."""

    release: str
    plan_hash: str
    manifest_sha256: str
    table_sha256: str
    map: tuple[tuple[str, str], ...]
    n_numbers: tuple[int, ...]


class EstimatesDoc(_Doc, frozen=True, omit_defaults=True):
    """What splits were fitted to, and the coverage of the intervals in the tables."""

    targets: Literal["own", "tree"]
    coverage: str = ""


class MeasuredDoc(_Doc, frozen=True):
    """The release whose measurement is solved in another way."""

    release: str
    plan_hash: str


class PlanDoc(_Doc, frozen=True, omit_defaults=True):
    """The whole of plan.json."""

    release: ReleaseDoc
    schema: Schema
    invariants: Invariants
    neighbours: Literal["bounded", "add_remove"]
    mechanism: Literal["discrete_gaussian", "geometric", "optimal"]
    settings: str
    budget: str
    levels: tuple[LevelDoc, ...]
    unspent: tuple[tuple[str, str], ...]
    public_sha256: str
    geography_sha256: str
    type: str
    version: int
    plan_hash: str
    base: BaseDoc | None = None
    estimates: EstimatesDoc | None = None
    delta: str = "0"
    measured: MeasuredDoc | None = None
