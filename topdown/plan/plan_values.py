"""The plan: what will be measured, with which noise, at which exact cost. Reads no confidential data.

A plan is a value. Its hash covers everything that decides the release (schema, invariants, geography and
public facts, budget, queries, solving order) and nothing else (no path, no time, no machine).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from math import sqrt
from pathlib import Path
from typing import Any

import msgspec

from topdown.errors import ConfigError
from topdown.formats import json_bytes
from topdown.formats.caps import PLAN_BYTES, read_json
from topdown.formats.common import LawName, LossName, Mechanism, Neighbours, Targets
from topdown.formats.release_documents import PlanMeasured
from topdown.formats.strict_toml import dec_hook, enc_hook
from topdown.model import KINDS, Invariants, Query, Schema, parse_query
from topdown.plan.settings import Pass, ReleaseInfo, Rounding
from topdown.privacy.laws import LAWS, law_of_mechanism
from topdown.privacy.relation import Relation

VERSION = 2  # of plan.json
MEASURED_PLAN = "measurements/plan.json"  # of a release that solves another one's measurement: its plan
WORK = "work"  # inside the release folder: finished parts of a solve, gone before the release is sealed


@dataclass(frozen=True)
class MeasurementPlan:
    """One query at every inhabited node of one level.

    Args:
        query: name of the query.
        n_answers: answers a node.
        share: of the level's budget.
        loss: rho (discrete Gaussian) or epsilon (geometric, optimal) this query costs.
        law: noise law.
        parameter: variance parameter in records squared (discrete Gaussian), scale in records (geometric), or
            epsilon of each count that moves (optimal).
        delta: this query costs beside `loss`; 0 unless optimal.
        weights: of the law's values 0, 1, 2, ..: whole numbers over 2^128 (optimal).
    """

    query: str
    n_answers: int
    share: Fraction
    loss: Fraction
    law: LawName
    parameter: Fraction
    delta: Fraction = Fraction(0)
    weights: tuple[str, ...] = ()

    @property
    def variance(self) -> Fraction:
        """Variance of the noise in records squared, as the solver weighs it."""
        return LAWS[self.law].variance(self.parameter, self.whole_weights)

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise itself, in records, for screens and foreseen sizes."""
        return sqrt(float(LAWS[self.law].own_variance(self.parameter, self.whole_weights)))

    @property
    def whole_weights(self) -> tuple[int, ...]:
        """Weights of 0, 1, 2, .. over 2^128; none for a law with a formula."""
        return parse_weights(self.weights)

    @property
    def count_delta(self) -> Fraction:
        """Delta of each count that moves, beside the epsilon `parameter`; 0 unless optimal."""
        return self.delta * self.parameter / self.loss if self.delta else Fraction(0)


@dataclass(frozen=True)
class LevelPlan:
    """Everything one level of the tree needs."""

    name: str
    n_nodes: int
    n_measured: int
    share: Fraction
    loss: Fraction
    measurements: tuple[MeasurementPlan, ...]
    passes: tuple[Pass, ...]
    rounding: tuple[Rounding, ...]

    @property
    def answers_per_node(self) -> int:
        """Noisy numbers drawn at one node."""
        return sum(m.n_answers for m in self.measurements)

    @property
    def n_numbers(self) -> int:
        """Noisy numbers drawn at the level."""
        return self.n_measured * self.answers_per_node


@dataclass(frozen=True)
class Base:
    """The release that this one extends: it keeps that table exactly at every leaf.

    Args:
        release: its id.
        plan_hash: its plan.
        manifest_sha256: its manifest.json, and with it every file of it.
        table_sha256: its microdata/persons.parquet.
        map: each attribute of its schema, and the attribute or recode of this schema with the same values.
        n_numbers: noisy numbers at each level; only answers that the base's table leaves open are measured.
    """

    release: str
    plan_hash: str
    manifest_sha256: str
    table_sha256: str
    map: tuple[tuple[str, str], ...]
    n_numbers: tuple[int, ...]


@dataclass(frozen=True)
class Estimates:
    """What splits are fitted to, and the coverage of the intervals in the tables; None: there are none."""

    targets: Targets = "own"
    coverage: Fraction | None = None


@dataclass(frozen=True)
class Plan:
    """A whole release before anything is spent; see the module for what `plan_hash` covers."""

    release: ReleaseInfo
    schema: Schema
    invariants: Invariants
    neighbours: Neighbours
    mechanism: Mechanism
    settings: str
    budget: Fraction
    levels: tuple[LevelPlan, ...]
    unspent: tuple[tuple[str, Fraction], ...]
    public_sha256: str
    geography_sha256: str
    base: Base | None = None
    estimates: Estimates | None = None
    delta: Fraction = Fraction(0)
    measured: PlanMeasured | None = None
    type: str = field(default="topdown.plan")
    version: int = VERSION

    def __repr__(self) -> str:
        levels = ", ".join(level.name for level in self.levels)
        return (
            f"Plan({self.release.id!r}, {self.loss_name} {self.loss}, levels {levels}, {self.plan_hash[:8]})"
        )

    @property
    def relation(self) -> Relation:
        """What one unit may change between neighbouring data sets."""
        return Relation.named(self.neighbours, self.schema.unit)

    @property
    def loss(self) -> Fraction:
        """Total rho (discrete Gaussian) or epsilon (geometric, optimal) that the measurements cost."""
        return sum((level.loss for level in self.levels), Fraction(0))

    def delta_of(self, loss: Fraction) -> Fraction:
        """Return the delta that a part of the budget costs beside its `loss`: shares split both; 0 unless optimal."""
        return self.delta * loss / self.budget

    @property
    def loss_name(self) -> LossName:
        """`rho`, `epsilon` or `epsilon_delta`: the unit of every loss in this plan."""
        return law_of_mechanism(self.mechanism).loss_name

    @property
    def n_numbers(self) -> int:
        """Noisy numbers drawn in all."""
        return sum(self.numbers_at(depth) for depth in range(len(self.levels)))

    def numbers_at(self, depth: int) -> int:
        """Return the noisy numbers drawn at one level."""
        return self.levels[depth].n_numbers if self.base is None else self.base.n_numbers[depth]

    @property
    def fits_tree(self) -> bool:
        """Whether splits are fitted to the tree estimate where it covers them."""
        return self.estimates is not None and self.estimates.targets == "tree"

    @property
    def coverage(self) -> Fraction | None:
        """Chance of every interval in the tables; None if they have none."""
        return None if self.estimates is None else self.estimates.coverage

    @cached_property
    def plan_hash(self) -> str:
        """SHA-256, in hex, of the canonical JSON of the plan."""
        return hashlib.sha256(msgspec.json.encode(self.to_document(), order="deterministic")).hexdigest()

    @property
    def measured_hash(self) -> str:
        """The hash of the plan that was charged and measured: this one's, or that of the release solved again."""
        return self.plan_hash if self.measured is None else self.measured.plan_hash

    def level(self, name: str) -> LevelPlan:
        """Return one level by name; KeyError if there is none."""
        return {level.name: level for level in self.levels}[name]

    def query(self, name: str) -> Query:
        """Return a query of the plan's schema by name."""
        return parse_query(self.schema, name)

    def to_document(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values; exact numbers are strings "a/b"."""
        document = msgspec.to_builtins(self, enc_hook=enc_hook)
        if not isinstance(document, dict):
            raise TypeError("a plan must become a JSON object")
        if self.base is None:
            document.pop("base", None)
        if not self.release.licence:
            document["release"].pop("licence", None)
        if self.estimates is None:  # plans without it read and hash as before there was any
            document.pop("estimates", None)
        elif self.estimates.coverage is None:
            document["estimates"].pop("coverage", None)
        if self.measured is None:
            document.pop("measured", None)
        if not self.delta:  # and those that have none
            document.pop("delta", None)
            for m in (m for level in document["levels"] for m in level["measurements"]):
                m.pop("delta", None)
                m.pop("weights", None)
        for kind in KINDS:  # plans without later kinds read and hash as before there were any
            if not kind.always_listed and not self.invariants.by_kind[kind.kind]:
                document["invariants"].pop(kind.kind, None)
        return document


def plan_from_document(document: dict[str, Any]) -> Plan:
    """Read a plan back; ConfigError if it is not one, or one of another version."""
    stated = document.get("version")
    if document.get("type") == "topdown.plan" and isinstance(stated, int) and stated != VERSION:
        age = "an older" if stated < VERSION else "a newer"
        raise ConfigError(
            f"this plan was made by {age} version of the engine (plan version {stated}, not {VERSION})",
            code="C016",
            fix="make the plan again, or read the release with the version that made it",
        )
    try:
        return msgspec.convert(document, Plan, dec_hook=dec_hook, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"not a plan: {error}", code="C016", fix="make it with: topdown plan RUN.toml"
        ) from None


def plan_file(plan: Plan, run_file: str = "") -> bytes:
    """Return plan.json: the plan with its hash; a saved one names the run file it came from."""
    document = plan.to_document()
    return json_bytes(document | {"plan_hash": plan.plan_hash} | ({"run_file": run_file} if run_file else {}))


def read_plan(path: Path) -> Plan:
    """Read plan.json; ConfigError C016 if it is none, C018 if it does not match its own hash."""
    try:
        document = read_json(path, PLAN_BYTES)
        stated = document.pop("plan_hash")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        kind = type(error).__name__
        wrong = "is not there" if kind == "FileNotFoundError" else f"is not a plan ({kind})"
        raise ConfigError(
            f"{path} {wrong}",
            code="C016",
            fix="make it with: topdown plan RUN.toml",
        ) from None
    document.pop("run_file", None)
    try:
        plan = plan_from_document(document)
    except ConfigError as error:
        error.file = error.file or str(path)
        raise
    if plan.plan_hash != stated:
        raise ConfigError(
            f"{path} was altered: its hash does not match", code="C018", fix="make the plan again"
        )
    return plan


@lru_cache(maxsize=256)
def parse_weights(weights: tuple[str, ...]) -> tuple[int, ...]:
    """Return weights as whole numbers."""
    return tuple(int(weight) for weight in weights)
