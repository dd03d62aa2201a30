"""What `topdown tune --json` prints."""

from __future__ import annotations

from typing import Literal

from topdown.documents.shared import Part, Rational, Sha256


class TunedQuery(Part, frozen=True, kw_only=True):
    """A query's part of its level's share before and after; 0 where it is dropped."""

    query: str
    before: Rational
    after: Rational


class TunedLevel(Part, frozen=True, kw_only=True):
    """A level's share of the budget before and after."""

    level: str
    before: Rational
    after: Rational
    queries: list[TunedQuery]


class TunedDeviation(Part, frozen=True, kw_only=True):
    """Mean standard deviation of a table's estimates, records, before and after; `goal` is what it was weighed by."""

    level: str
    query: str
    goal: Rational
    before: float
    after: float


class Tune(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.tune"):
    """A run file with tuned shares.

    `compared` says what deviations were compared with in the search: those of levels fitted to their own measurements
    only (own), or the tree's under the old shares where these do not tell every cell apart (tree).
    """

    version: Literal[1] = 1
    run_file: str
    out: str
    plan_hash: Sha256
    budget: Rational
    loss: Rational
    compared: Literal["own", "tree"]
    levels: list[TunedLevel]
    deviations: list[TunedDeviation]
