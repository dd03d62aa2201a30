"""The document of `topdown account --dhc2020`."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Count, Enclosure, Part, Positive, Rational
from topdown.documents.statements import ByDelta, UsualConversions


class WorstPair(Part, frozen=True, kw_only=True):
    """The pair of paths that costs most."""

    epsilon: Enclosure
    paths: list[str]


class AccountDhc2020(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.account.dhc2020"):
    """The result of topdown account --dhc2020 --json."""

    version: Literal[2] = 2
    engine: str
    neighbours: Literal["bounded"]
    rho: Rational
    n_counts_moved: Positive
    n_paths: Count
    n_pairs: Count
    worst: dict[str, WorstPair]
    unbypassed: ByDelta
    usual: UsualConversions
