"""The document of `topdown select --self-check`."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Neighbours, Part, Rational


class CheckedRatio(Part, frozen=True, kw_only=True):
    """The worst ratio of an outcome's probabilities over small neighbours; null where there is no bound."""

    question: Literal["sites", "sites by district", "order", "frequent"]
    neighbours: Neighbours
    worst: Rational | None
    promised: Rational
    holds: bool


class SelectionCheck(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.selection.check"):
    """Exact ratios of the shipped code; they prove the promise for these small data sets only."""

    version: Literal[1] = 1
    holds: bool
    ratios: list[CheckedRatio]
