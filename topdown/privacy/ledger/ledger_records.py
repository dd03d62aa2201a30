"""Records of a ledger as values, and how each is written: exact numbers as text, no field more or less."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from topdown.formats.caps import exact_text
from topdown.formats.common import LossName
from topdown.privacy.laws import LAWS, WeightedInteger, Weights
from topdown.privacy.relation import RELATIONS, Relation

_TERMS = 120


@dataclass(frozen=True)
class Limits:
    """The most that everything charged to one data set may cost together; either kind, or both.

    Args:
        rho: most zCDP; None: not limited. Noise with a delta of its own has none, and is refused under it.
        epsilon: most epsilon at `delta`; None: not limited.
        delta: where epsilon is limited, 0 .. 1, below 1; 0: for every delta.
        reason: why, if someone wrote it down; limits are equal whatever it is.
    """

    rho: Fraction | None = None
    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    reason: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        given = [one for one in (self.rho, self.epsilon) if one is not None]
        if not given or min(given) <= 0:
            raise ValueError("a limit of rho or of epsilon, above 0")
        if not 0 <= self.delta < 1 or (self.epsilon is None and self.delta):
            raise ValueError("a delta below 1, beside a limit of epsilon only")

    @property
    def fields(self) -> dict[str, Any]:
        """The numbers as records have them; 0 where nothing is limited."""
        none = Fraction(0)
        return {
            "rho_limit": self.rho or none,
            "epsilon_limit": self.epsilon or none,
            "delta_limit": self.delta,
        }

    def __str__(self) -> str:
        """Write them: "rho 3", "epsilon 2 at delta 1/100000", or both."""
        found = [] if self.rho is None else [f"rho {exact_text(self.rho)}"]
        if self.epsilon is not None:
            found.append(f"epsilon {exact_text(self.epsilon)} at delta {exact_text(self.delta)}")
        return " and ".join(found)


@dataclass(frozen=True, kw_only=True)
class LimitedRecord:
    """A record that may state limits, or a charge those that it was checked against; 0 where nothing is limited."""

    rho_limit: Fraction = Fraction(0)
    epsilon_limit: Fraction = Fraction(0)
    delta_limit: Fraction = Fraction(0)

    @property
    def limits(self) -> Limits | None:
        """The limits; None if it states none (ValueError: a delta without an epsilon)."""
        if not (self.rho_limit or self.epsilon_limit):
            return None
        return Limits(self.rho_limit or None, self.epsilon_limit or None, self.delta_limit)


@dataclass(frozen=True)
class Choice(LimitedRecord):
    """A choice is about to be drawn, once, from a Poisson sample of the records; its loss counts from here on.

    Args:
        release, plan_hash: what it is for.
        neighbours: relation of records that `epsilon` is about.
        epsilon: pure differential privacy of the choice, exact, an upper bound of ln(exp_epsilon); it is the loss.
        rate, base: of the sample, and of the one-sided mechanism on it; see `exp_epsilon`.
        attempt, covers, journal, limit_reason: as for `Intent`.
    """

    release: str
    plan_hash: str
    neighbours: str
    epsilon: Fraction
    rate: Fraction
    base: Fraction
    attempt: int
    covers: tuple[str, ...]
    journal: str
    limit_reason: str = ""
    loss_name: ClassVar[LossName] = "epsilon"
    laws: ClassVar[tuple[()]] = ()
    exact: ClassVar[tuple[()]] = ()
    delta: ClassVar[Fraction] = Fraction(0)

    def __post_init__(self) -> None:
        if self.neighbours not in RELATIONS:
            raise ValueError("a choice is about records, not about groups")
        if self.epsilon <= 0 or not 0 < self.rate < 1 or self.base <= 1:
            raise ValueError("a choice needs an epsilon above 0, a rate between 0 and 1, and a base above 1")
        if not self.covers or not self.journal:
            raise ValueError("a choice needs what it covers, and a journal")
        # a rational below e^epsilon, by less than 10^-50 of it up to epsilon 10: the first terms of its series
        total = term = Fraction(1)
        for n in range(1, _TERMS):
            term = term * self.epsilon / n
            total += term
        if self.exp_epsilon > total:
            raise ValueError("a choice of this rate and base keeps no such epsilon")

    @property
    def exp_epsilon(self) -> Fraction:
        """Exact e^epsilon that rate and base keep (topdown/selection/PROOF.md, section 1)."""
        return Relation.named(self.neighbours).sampled_odds(self.rate, self.base)

    @property
    def loss(self) -> Fraction:
        """Its epsilon."""
        return self.epsilon


@dataclass(frozen=True)
class DrawnLaw:
    """One query measured once at every area of a level: the noise on the counts that one change can move.

    Args:
        law: discrete_gaussian, two_sided_geometric or optimal_integer.
        parameter: variance parameter in records squared, scale in records, or epsilon of one count.
        shift: by how much a change of one record moves each count it moves.
        coordinates: how many counts it moves.
        level, query: what was measured.
        attributes: attributes whose change can change an answer, in alphabetical order.
        delta: of one count, beside its epsilon; 0 for the other laws.
        weights: of the law's values 0, 1, 2, .., whole numbers over 2^128 as text, where it has a delta: what is drawn,
            so that its losses can be composed exactly. Charges of format 2 lack them: only epsilon and delta are known.
    """

    law: str
    parameter: Fraction
    shift: int
    coordinates: int
    level: str
    query: str
    attributes: tuple[str, ...] = ()
    delta: Fraction = Fraction(0)
    weights: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.parameter, Fraction) or not isinstance(self.delta, Fraction):
            raise TypeError('a parameter is an exact Fraction; write Fraction("1/2"), never a float')
        if self.law not in LAWS or self.parameter <= 0 or self.shift < 1 or self.coordinates < 1:
            raise ValueError("a law needs a known name, a positive parameter, shift and number of counts")
        if LAWS[self.law].has_delta != (self.delta > 0) or self.delta >= 1 or (self.delta and self.shift > 1):
            raise ValueError("a delta below 1 is of a law that has one, for counts that move by 1")
        if self.weights and not LAWS[self.law].has_delta:
            raise ValueError("weights are of a law that has a delta")
        if self.weights:
            WeightedInteger(self.whole_weights)  # refuses weights that are those of no law

    @property
    def whole_weights(self) -> Weights:
        """Its weights as numbers."""
        return tuple(map(int, self.weights))

    @property
    def loss_name(self) -> LossName:
        """Unit of the loss."""
        return LAWS[self.law].loss_name

    @property
    def loss(self) -> Fraction:
        """Exact loss: coordinates x shift^2 / 2 variance, coordinates x shift / scale, or coordinates x epsilon."""
        return LAWS[self.law].loss(self.parameter, self.shift, self.coordinates)

    @property
    def delta_loss(self) -> Fraction:
        """Exact delta beside the loss: coordinates x delta."""
        return self.coordinates * self.delta


LOSS_NAMES: tuple[LossName, ...] = ("rho", "epsilon", "epsilon_delta")
_NONE = Fraction(0)
_ABSENT = {
    "delta": _NONE,
    "rho_limit": _NONE,
    "epsilon_limit": _NONE,
    "delta_limit": _NONE,
    "weights": (),
    "by": "",
}  # written only where it is something else
LEDGER_VERSION = 3
_EXACT = re.compile(r"[0-9]+(/[1-9][0-9]*)?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_PART = re.compile(r"(?P<level>.+)/[^/]+", re.DOTALL)


@dataclass(frozen=True)
class LedgerBinding:
    """What every loss in a ledger is about; losses of different meaning do not add up.

    Args:
        data_set: the confidential data.
        neighbours: relation between two data sets that statements about the ledger speak of: one of records, or steps
            of whole groups. A charge under another relation must follow from it: see `steps_between`.
        unit: whose answers are protected: person, household, ...
    """

    data_set: str
    neighbours: str
    unit: str


@dataclass(frozen=True)
class Opened(LimitedRecord):
    """First record: which ledger this is, what its losses are about, and their limits, if they are known yet."""

    ledger: str
    version: int
    data_set: str
    neighbours: str
    unit: str

    def __post_init__(self) -> None:
        if self.version != LEDGER_VERSION:
            raise ValueError("a ledger of another version")
        _ = self.limits  # refuses a delta without an epsilon

    @property
    def binding(self) -> LedgerBinding:
        """What the ledger is bound to."""
        return LedgerBinding(self.data_set, self.neighbours, self.unit)


@dataclass(frozen=True)
class Intent(LimitedRecord):
    """Noise of these laws is about to be drawn; its loss counts from here on.

    Args:
        release, plan_hash: what it is for.
        laws: what will be drawn once; `loss` is their sum, exact.
        exact: names of the statistics that the release publishes exactly.
        attempt: 1 for the first intent of a measurement, more after a crash.
        covers: names of the levels whose noise may be drawn once under this intent.
        journal: id of the measurement, so that no other folder can draw under it.
        neighbours: relation under which a change moves the counts of `laws`: one of records, or steps.
        limit_reason: why the limits that the ledger fills in are as they are.
    """

    release: str
    plan_hash: str
    laws: tuple[DrawnLaw, ...]
    exact: tuple[str, ...]
    attempt: int
    covers: tuple[str, ...]
    journal: str
    neighbours: str
    limit_reason: str = ""
    derived: ClassVar[tuple[str, ...]] = ("loss", "delta")

    def __post_init__(self) -> None:
        if not self.laws or not self.covers or not self.journal or not self.neighbours:
            raise ValueError("an intent needs laws, levels it covers, a journal and a relation")
        if len({law.loss_name for law in self.laws}) != 1 or {x.level for x in self.laws} != set(self.covers):
            raise ValueError("the laws of an intent have one loss, and are those of the levels it covers")

    @cached_property
    def loss(self) -> Fraction:
        """Sum of the losses of its laws."""
        return sum((law.loss for law in self.laws), Fraction(0))

    @cached_property
    def delta(self) -> Fraction:
        """Sum of the deltas beside the losses; 0 unless losses are pairs."""
        return sum((law.delta_loss for law in self.laws), Fraction(0))

    @property
    def loss_name(self) -> LossName:
        """Unit of the loss: rho, epsilon or epsilon_delta."""
        return self.laws[0].loss_name


@dataclass(frozen=True)
class Begun:
    """The noise of one part (`level/name`) is about to be drawn under `intent`, for the only time."""

    intent: int
    part: str


@dataclass(frozen=True)
class Drawn:
    """The part begun under `intent` is whole on the disk; `sha256` is its file."""

    intent: int
    part: str
    sha256: str


@dataclass(frozen=True)
class Commit:
    """The noise drawn under `intents` is in the files whose digest is `files`; from now on it may be read."""

    intents: tuple[int, ...]
    plan_hash: str
    journal: str
    files: str


@dataclass(frozen=True)
class Refund:
    """The noise drawn under intent `intent` never left the room and is destroyed; `witness` saw to it."""

    intent: int
    reason: str
    witness: str


@dataclass(frozen=True)
class Attested:
    """The registry of the ledger was lost; `by` attests that the ledger is complete, and why. Old records lack `by`."""

    reason: str
    by: str = ""


@dataclass(frozen=True)
class LimitChange(LimitedRecord):
    """From now on everything may cost this much together; `by` decided it, and why."""

    by: str
    reason: str

    def __post_init__(self) -> None:
        if self.limits is None or not (self.by and self.reason):
            raise ValueError("a change of limits has limits, and a person who says why")


Charge = Intent | Choice


@dataclass(frozen=True)
class PastCharge:
    """A charge of a former ledger: its number and time there, and whether it was committed."""

    record: int
    time: str
    committed: bool
    charge: Charge


@dataclass(frozen=True)
class TakenOver:
    """Everything that a ledger of a former format holds counts from here on; `by` attests that it is complete.

    A later record about the same former ledger takes the place of this one.

    Args:
        ledger, version, data_set: which one it is, and its format.
        records, head: how many records it had, and the SHA-256 of the last of them.
        sha256: of its file.
        witness: "agrees" if a witness or registry was found that knows no more, else "none".
        attested, refunded: how often somebody attested that it was complete, and took a charge back.
        charges: every charge that was not taken back.
        by, reason: who took it over, and why.
    """

    ledger: str
    version: int
    data_set: str
    records: int
    head: str
    sha256: str
    witness: str
    attested: int
    refunded: int
    charges: tuple[PastCharge, ...]
    by: str
    reason: str

    def __post_init__(self) -> None:
        if self.witness not in ("agrees", "none") or self.records < 1 or not (self.by and self.reason):
            raise ValueError("a ledger that is taken over has records, and a person who says why")


Event = Opened | Charge | Begun | Drawn | Commit | Refund | Attested | TakenOver | LimitChange
KINDS: dict[str, type[Any]] = {
    "open": Opened,
    "intent": Intent,
    "choice": Choice,
    "begin": Begun,
    "drawn": Drawn,
    "commit": Commit,
    "void": Refund,
    "vouch": Attested,
    "take_over": TakenOver,
    "limit": LimitChange,
}


def level_of(part: str) -> str:
    """Return the level of a part `level/name`; ValueError if it is none."""
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} is no part")
    return match["level"]


def to_fields(event: Any, kinds: Mapping[str, type[Any]] = KINDS) -> dict[str, object]:
    """Return a record as JSON-ready fields with its kind."""
    kind = next(name for name, cls in kinds.items() if isinstance(event, cls))
    return {"kind": kind} | _fields(event)


def from_fields(plain: dict[str, object], kinds: Mapping[str, type[Any]] = KINDS) -> tuple[Any, str]:
    """Read a record and its time back; ValueError or TypeError if a field is missing, unknown or of the wrong type."""
    rest = dict(plain)
    kind, time = rest.pop("kind", None), rest.pop("time", None)
    cls = kinds.get(kind) if isinstance(kind, str) else None
    if cls is None or not isinstance(time, str) or not _TIME.fullmatch(time):
        raise ValueError("unknown kind or no time")
    return record_from(cls, rest), time


def _fields(record: Any) -> dict[str, object]:
    """Return the fields of a record or law, and what is written beside them though it follows from them."""
    names = (*(item.name for item in fields(record)), *getattr(record, "derived", ()))
    values = {name: getattr(record, name) for name in names}
    return {name: _plain(value) for name, value in values.items() if name not in _ABSENT or value}


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return exact_text(value)
    if isinstance(value, DrawnLaw | PastCharge):
        return _fields(value)
    if isinstance(value, Charge):
        return to_fields(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def record_from(cls: type[Any], plain: object) -> Any:
    """Read the fields of a record or law; ValueError or TypeError if one is missing, unknown or of the wrong type."""
    derived: tuple[str, ...] = getattr(cls, "derived", ())
    readers = {item.name: _READERS[str(item.type)] for item in fields(cls)} | dict.fromkeys(
        derived, exact_number
    )
    if not isinstance(plain, dict) or not set(readers) - set(_ABSENT) <= set(plain) <= set(readers):
        raise ValueError("missing or unknown field")
    values = {name: readers[name](value) for name, value in plain.items()}
    absent = {name: _ABSENT[name] for name in readers if name not in plain}
    if not all(values[name] for name in _ABSENT if name in values):
        raise ValueError("a field that says nothing")
    stated = {name: values.pop(name, absent.pop(name, _NONE)) for name in derived}
    made = cls(**values, **absent)
    if any(getattr(made, name) != value for name, value in stated.items()):
        raise ValueError("the loss or the delta of an intent is not that of its laws")
    return made


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _read_whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError("not a whole number")
    return value


def exact_number(value: object) -> Fraction:
    """Read "a/b" or "a"; ValueError or TypeError if it is no such text in lowest terms."""
    text = _read_text(value)
    if not _EXACT.fullmatch(text) or exact_text(Fraction(text)) != text:
        raise ValueError("not an exact number in lowest terms")
    return Fraction(text)


def _read_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _read_truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not true or false")
    return value


def _read_charge(value: object) -> Any:
    plain = dict(value) if isinstance(value, dict) else {}
    kinds: dict[object, type[Any]] = {"intent": Intent, "choice": Choice}
    cls = kinds.get(plain.pop("kind", ""))
    if cls is None:
        raise ValueError("no charge")
    return record_from(cls, plain)


_READERS: dict[str, Callable[[object], object]] = {
    "str": _read_text,
    "int": _read_whole,
    "Fraction": exact_number,
    "tuple[str, ...]": lambda value: tuple(_read_text(v) for v in _read_list(value)),
    "tuple[int, ...]": lambda value: tuple(_read_whole(v) for v in _read_list(value)),
    "bool": _read_truth,
    "Charge": _read_charge,
    "tuple[DrawnLaw, ...]": lambda value: tuple(record_from(DrawnLaw, v) for v in _read_list(value)),
    "tuple[PastCharge, ...]": lambda value: tuple(record_from(PastCharge, v) for v in _read_list(value)),
}
