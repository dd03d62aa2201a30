"""result.json of a choice: the choice and nothing else that records decide."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.shared import Part, Sha256


class Frequent(Part, frozen=True, kw_only=True):
    """An answer of a query that was reported in an area; `values` is empty for the query total."""

    query: str
    area: str
    values: dict[str, str]


class SelectionResult(Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.selection.result"):
    """The result of topdown select; the order of `chosen` is that of the choices, or of names with districts."""

    version: Literal[1] = 1
    plan_hash: Sha256
    chosen: Annotated[list[str], Meta(description="Names of candidates; empty for frequent answers")]
    frequent: Annotated[list[Frequent], Meta(description="Empty for sites and orders")]
