"""certificate.json of a choice: what it promises, to whom, and what it does not."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from topdown.documents.certificate import EverythingReleased
from topdown.documents.shared import Enclosure, LossName, Neighbours, Part, Positive, Rational, Sha256


class SelectionCertificate(
    Part, frozen=True, kw_only=True, tag_field="type", tag="topdown.selection.certificate"
):
    """What may be said of a choice."""

    version: Literal[1] = 1
    engine: str
    plan_hash: Sha256
    data_set: str
    unit: str
    neighbours: Neighbours
    epsilon: Annotated[Rational, Meta(description="Pure, for every delta 0")]
    exp_epsilon: Annotated[Rational, Meta(description="e^epsilon that rate and base keep, exact")]
    rate: Rational
    base: Rational
    best_guess: Annotated[Enclosure, Meta(description="The most that the best guess is right, enclosed")]
    right_in_100: int
    sentence: str
    not_protected: list[str]
    loss_name: LossName
    loss: Annotated[Rational, Meta(description="What each attempt charged the ledger")]
    n_attempts: Positive
    everything_released: EverythingReleased
