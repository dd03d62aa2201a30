"""Pieces that several documents are made of: exact numbers, digests, names, and what is said of secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from topdown.formats.json_schema import either

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 in hex")]
LedgerId = Annotated[str, Meta(pattern="^[0-9a-f]{16}$", description="Random id of a ledger")]

ONE_LINE = r"^(?![\s\S]*[\x00-\x1f\x7f-\x9f\u2028\u2029])"
OneLine = Annotated[
    str,
    Meta(
        pattern=ONE_LINE,
        description="Published text without line breaks or other control characters: README.txt has a line for it",
    ),
]

ReleaseId = Annotated[
    str,
    Meta(pattern=ONE_LINE + r"[\s\S]*\S", description="Name of a release in one line, not blank"),
]

Rational = Annotated[
    str, Meta(pattern="^[0-9]+(/[1-9][0-9]*)?$", description="Exact number, whole or a fraction a/b")
]

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Enclosure = Annotated[tuple[str, str], Meta(description="Lower and upper bound as decimals, rounded outward")]

Neighbours = Literal["bounded", "add_remove"]
USUAL_NEIGHBOURS: Neighbours = "bounded"
"""Where nobody says otherwise."""
LossName = Literal["rho", "epsilon", "epsilon_delta"]
Charged = Annotated[
    dict[LossName, Rational],
    Meta(description="Sums of the losses of all charges, by kind; kinds do not add up"),
]

LawName = Literal["discrete_gaussian", "two_sided_geometric", "optimal_integer"]
"""Of noise, in plans, ledgers and measurement files."""

Mechanism = Literal["discrete_gaussian", "geometric", "optimal"]
"""The same laws, as run files and settings name them."""


@dataclass(frozen=True)
class PrivacyUnit:
    """Whose answers are protected: "person", or a unit of several records, "household of at most 4 persons".

    Args:
        text: as schemas, plans, ledgers and certificates write it.
        name: of the unit, "household".
        record: what a record is, "person".
        most_records: of one unit, 1 to 1,000.
        column: of the records, that tells units apart; "" if there is none.
    """

    text: str
    name: str
    record: str
    most_records: int = 1
    column: str = ""

    @classmethod
    def read(cls, text: str) -> PrivacyUnit:
        """Return the unit of a text: one record, unless it is of the form of several.

        Example:
            >>> PrivacyUnit.read("household of at most 4 persons").most_records, PrivacyUnit.read("person").record
            (4, 'person')
        """
        found = _SEVERAL.fullmatch(text)
        if found is not None and 1 < int(found["most"]) <= MOST_RECORDS_OF_UNIT:
            return cls(text, found["name"], found["record"], int(found["most"]), column=found["name"])
        return cls(text, text, text)


MOST_RECORDS_OF_UNIT = 1000
_SEVERAL = re.compile(r"(?P<name>[^\W\d_]\w*) of at most (?P<most>[1-9][0-9]{0,3}) (?P<record>[^\W\d]+)s")


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document or a part of one."""


def is_answered(answer: str) -> bool:
    """Tell whether an answer that only a person can give has been given: it has a letter or digit."""
    return any(character.isalnum() for character in answer)


class Basis(Part, frozen=True, kw_only=True):
    """Why a statistic is published without noise; "?" while open."""

    legal_basis: str
    decided_by: str
    date: str


class ReleaseNames(Part, frozen=True, kw_only=True):
    """Names of a release and answers only people can give; "?" while open."""

    id: ReleaseId
    title: OneLine
    data_set: str
    agency: OneLine
    contact: OneLine
    licence: Annotated[OneLine, Meta(description="Of the data")] | UnsetType = UNSET


Targets = Literal["own", "tree"]
"""What splits are fitted to: each area's own measurements, or one estimate of the whole tree."""

TruthKind = Literal["made_up", "release", "public"]


class EstimateOfLevel(Part, frozen=True, kw_only=True):
    """What the splits into one level are fitted to; `why` where that is not the tree estimate."""

    level: str
    targets: Targets
    why: str


ByDelta = Annotated[dict[str, Enclosure], Meta(description="Enclosure by delta")]
SecretKind = Literal["presence", "everything", "attribute", "within_level"]
Status = Literal["protected", "conditional", "disclosed"]
Stated = Literal["protected", "conditional"]


class UsualConversions(Part, frozen=True, kw_only=True):
    """Epsilon by delta, as others would state it."""

    bun_steinke: dict[str, str]
    canonne_kamath_steinke: dict[str, str]
    gaussian_comparison: dict[str, float]
    gaussian_note: str


class Numbers(Part, frozen=True, kw_only=True):
    """What can be learned of one secret."""

    n_counts_moved: Count
    epsilon: ByDelta
    best_guess: Annotated[Enclosure, Meta(description="Probability that the best guess is right")]
    right_in_100: Count
    method: str
    sentence: str


class PureSecret(Numbers, frozen=True, kw_only=True):
    """A secret behind geometric noise."""

    name: str
    kind: SecretKind
    status: Stated
    exact: list[str]


class GaussianSecret(PureSecret, frozen=True, kw_only=True):
    """A secret behind Gaussian noise."""

    rho: Rational
    mu: float
    usual: UsualConversions


class PairSecret(PureSecret, frozen=True, kw_only=True):
    """A secret behind noise of finitely many values: epsilon and delta are sums over the counts it moves."""

    delta: Rational


class DisclosedSecret(Part, frozen=True, kw_only=True):
    """A secret that exact statistics give away: it has no number."""

    name: str
    kind: SecretKind
    status: Literal["disclosed"]
    exact: list[str]
    sentence: Annotated[str, Meta(pattern="^disclosed by: ")]


class LedgerSecret(Numbers, frozen=True, kw_only=True):
    """A secret behind everything that was charged to a ledger, composed."""

    name: str
    kind: Literal["presence", "everything", "step"]


class GaussianLedgerSecret(LedgerSecret, frozen=True, kw_only=True):
    """A secret behind everything that was charged to a ledger, where all of it is Gaussian noise."""

    rho: Rational
    mu: float
    usual: UsualConversions


class ComposedDelta(Part, frozen=True, kw_only=True):
    """A delta that everything together keeps at an epsilon, rounded up."""

    epsilon: Rational
    delta: Annotated[str, Meta(pattern="^[0-9.]+(e-[0-9]+)?$")]


Composed = Annotated[
    list[ComposedDelta], Meta(description="Of the first secret, from the composed losses of the laws")
]

Secrets = Annotated[
    list[Annotated[dict[str, Any], either(GaussianSecret, PairSecret, PureSecret, DisclosedSecret)]],
    Meta(min_length=1),
]

SecretOrNone = Annotated[Any, either(GaussianSecret, PairSecret, PureSecret, None)]
LedgerSecrets = list[Annotated[dict[str, Any], either(GaussianLedgerSecret, LedgerSecret)]]
Day = Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="UTC")]


class LedgerEnd(Part, frozen=True, kw_only=True):
    """Where a ledger, or a copy of it, ends."""

    record: Count
    date: Day


class LedgerTakenOver(Part, frozen=True, kw_only=True):
    """A ledger of a former format whose charges count here."""

    ledger: LedgerId
    format: Count
    data_set: str
    records: Positive
    head: Annotated[Sha256, Meta(description="SHA-256 of its last line")]
    sha256: Annotated[Sha256, Meta(description="Of its file")]
    witness: Annotated[
        Literal["agrees", "none"], Meta(description="Whether a second file confirmed its length")
    ]
    attested: Annotated[Count, Meta(description="Times somebody had attested that it was complete")]
    refunded: Annotated[Count, Meta(description="Charges that had been taken back in it")]
    n_charges: Count


class LedgerAttestation(Part, frozen=True, kw_only=True):
    """Somebody attested that the ledger, or one that was taken over, is complete."""

    record: Count
    date: Day
    by: Annotated[str, Meta(description="Empty if the record names nobody")]
    reason: str
    taken_over: LedgerTakenOver | UnsetType = UNSET


class LedgerLimit(Part, frozen=True, kw_only=True):
    """The most that everything charged may cost together, from a record on."""

    record: Count
    date: Day
    rho_limit: Rational | UnsetType = UNSET
    epsilon_limit: Rational | UnsetType = UNSET
    delta_limit: (
        Annotated[Rational, Meta(description="Where epsilon is limited; absent: for every delta")] | UnsetType
    ) = UNSET
    by: Annotated[str, Meta(description="Who changed it; absent where it was the first")] | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class LedgerRefund(Part, frozen=True, kw_only=True):
    """A person took a charge back: its noise was destroyed unseen."""

    record: Count
    date: Day
    intent: Annotated[Count, Meta(description="Record of the charge")]
    by: str
    reason: str


class LedgerHistory(Part, frozen=True, kw_only=True):
    """Which ledger it is, where it or a copy of it ends, and what persons attested or took back."""

    ledger: LedgerId
    up_to: LedgerEnd
    limits: Annotated[
        list[LedgerLimit], Meta(description="The first, and every change; the last is in force")
    ]
    attestations: list[LedgerAttestation]
    refunds: list[LedgerRefund]


class EverythingReleased(LedgerHistory, frozen=True, kw_only=True):
    """What the whole ledger costs, as far as the ledger or its copy goes."""

    data_set: str
    neighbours: str
    unit: str
    charged: Charged
    charged_delta: Rational | UnsetType = UNSET
    conditional_on: list[str]
    secrets: LedgerSecrets


class Step(Part, frozen=True, kw_only=True):
    """One release of a chain, alone."""

    release: str
    plan_hash: Sha256
    secrets: Secrets


class CurvePoint(Part, frozen=True, kw_only=True):
    """Power of the best attack at a false-alarm rate."""

    alpha: str
    power: Enclosure
