"""The document of `pgsr audit`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import Count, Part, Rational

Counts = Annotated[list[Count], Meta(min_length=1)]
NotNegative = Annotated[float, Meta(ge=0)]


class VectorSensitivity(Part, frozen=True, kw_only=True):
    """How far neighbours move one vector."""

    vector: Literal["histogram", "cumulative", "tail", "tail_rows", "chain", "tail_chain", "region_major"]
    move_l1: Count
    move_l2_squared: Count
    move_l1_by_level: Counts
    new_l1: Count
    dropped_l1: Count
    true_epsilon_of_published_noise_at_1: Rational


class Enumeration(Part, frozen=True, kw_only=True):
    """All neighbour pairs of a small hierarchy, counted."""

    regions: Counts
    n_sizes: Count
    total: Count
    n_pairs: Count
    ok: bool


class ChainOutput(Part, frozen=True, kw_only=True):
    """An output of the published chain that costs more than it claims."""

    claimed: Rational
    epsilon: NotNegative
    bound: Rational
    output: list[int]
    data: tuple[list[int], list[int]]
    smallest_probability: NotNegative


class Audit(Part, frozen=True, kw_only=True, tag_field="type", tag="pgsr.audit"):
    """The result of pgsr audit --json: sensitivities, their enumeration, the leak of the published chain."""

    version: Literal[1] = 1
    engine: str
    hierarchy: str
    regions: Counts
    n_sizes: Count
    ok: bool
    sensitivities: Annotated[list[VectorSensitivity], Meta(min_length=1)]
    enumerations: list[Enumeration]
    published_chain_output: list[ChainOutput]
