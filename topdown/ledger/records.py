"""Records of a ledger as values, and how each is written: exact numbers as text, no field more or less."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from topdown.ledger.choice import Choice
from topdown.ledger.drawn_law import DrawnLaw

LOSS_NAMES = ("rho", "epsilon", "epsilon_delta")
_PAIRS_ONLY = ("delta", "delta_limit")  # fields that no record of rho or epsilon has
VERSION = 2
_EXACT = re.compile(r"[0-9]+(/[1-9][0-9]*)?")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_PART = re.compile(r"(?P<level>.+)/[^/]+", re.DOTALL)


@dataclass(frozen=True)
class Binding:
    """What every loss in a ledger is about; losses of different meaning do not add up.

    Args:
        data_set: the confidential data.
        neighbours: relation between two data sets that the losses protect: bounded, add_remove, or pgsr's steps.
        unit: whose answers are protected: person, household, ...
        loss_name: rho (zCDP), epsilon (pure DP), or epsilon_delta: epsilon, and a delta that adds up beside it.
    """

    data_set: str
    neighbours: str
    unit: str
    loss_name: str


@dataclass(frozen=True)
class Opened:
    """First record: which ledger this is, and what its losses are about (see `Binding`)."""

    ledger: str
    version: int
    data_set: str
    neighbours: str
    unit: str
    loss_name: str

    def __post_init__(self) -> None:
        if self.version != VERSION or self.loss_name not in LOSS_NAMES:
            raise ValueError("a ledger of another version, or of an unknown loss")

    @property
    def binding(self) -> Binding:
        """What the ledger is bound to."""
        return Binding(self.data_set, self.neighbours, self.unit, self.loss_name)


@dataclass(frozen=True)
class Intent:
    """Noise of these laws is about to be drawn; its loss counts from here on.

    Args:
        release, plan_hash: what it is for.
        laws: what will be drawn once; `loss` is their sum, exact.
        exact: names of the statistics that the release publishes exactly.
        attempt: 1 for the first intent of a measurement, more after a crash.
        covers: names of the levels whose noise may be drawn once under this intent.
        journal: id of the measurement, so that no other folder can draw under it.
        loss: filled in from the laws.
        limit, limit_reason: the limit it was checked against, filled in by the ledger.
        delta: beside the loss, filled in from the laws; 0 unless losses are pairs.
        delta_limit: the limit of delta it was checked against, filled in by the ledger.
    """

    release: str
    plan_hash: str
    laws: tuple[DrawnLaw, ...]
    exact: tuple[str, ...]
    attempt: int
    covers: tuple[str, ...]
    journal: str
    loss: Fraction = Fraction(-1)
    limit: Fraction = Fraction(0)
    limit_reason: str = ""
    delta: Fraction = Fraction(-1)
    delta_limit: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not self.laws or not self.covers or not self.journal:
            raise ValueError("an intent needs laws, levels it covers and a journal")
        if len({law.loss_name for law in self.laws}) != 1 or {x.level for x in self.laws} != set(self.covers):
            raise ValueError("the laws of an intent have one loss, and are those of the levels it covers")
        total = sum((law.loss for law in self.laws), Fraction(0))
        if self.loss not in (Fraction(-1), total):
            raise ValueError("the loss of an intent is not that of its laws")
        both = sum((law.delta_loss for law in self.laws), Fraction(0))
        if self.delta not in (Fraction(-1), both) or (self.delta_limit and not both):
            raise ValueError("the delta of an intent is not that of its laws")
        object.__setattr__(self, "loss", total)
        object.__setattr__(self, "delta", both)

    @property
    def loss_name(self) -> str:
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
class Void:
    """The noise drawn under intent `intent` never left the room and is destroyed; `witness` saw to it."""

    intent: int
    reason: str
    witness: str


@dataclass(frozen=True)
class Vouched:
    """The witness of the ledger was lost or the records moved; somebody says that the ledger is whole, and why."""

    reason: str


Charge = Intent | Choice
Event = Opened | Charge | Begun | Drawn | Commit | Void | Vouched
KINDS: dict[str, type[Any]] = {
    "open": Opened,
    "intent": Intent,
    "choice": Choice,
    "begin": Begun,
    "drawn": Drawn,
    "commit": Commit,
    "void": Void,
    "vouch": Vouched,
}


def level_of(part: str) -> str:
    """Return the level of a part `level/name`; ValueError if it is none."""
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} is no part")
    return match["level"]


def exact_text(value: Fraction) -> str:
    """Write an exact number as "a/b", or "a" if it is whole."""
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"


def to_fields(event: Event) -> dict[str, object]:
    """Return a record as JSON-ready fields with its kind."""
    kind = next(name for name, cls in KINDS.items() if isinstance(event, cls))
    return {"kind": kind} | _fields(event)


def from_fields(plain: dict[str, object]) -> tuple[Event, str]:
    """Read a record back, strictly; ValueError or TypeError if a field is missing, unknown or of the wrong type."""
    rest = dict(plain)
    kind, time = rest.pop("kind", None), rest.pop("time", None)
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None or not isinstance(time, str) or not _TIME.fullmatch(time):
        raise ValueError("unknown kind or no time")
    event: Event = _record(cls, rest)
    return event, time


def _fields(record: Event | DrawnLaw) -> dict[str, object]:
    """Return the fields of a record or law; those of delta only where there is one."""
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    return {name: _plain(value) for name, value in values.items() if name not in _PAIRS_ONLY or value}


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return exact_text(value)
    if isinstance(value, DrawnLaw):
        return _fields(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _record(cls: type[Any], plain: object) -> Any:
    readers = {item.name: _READERS[str(item.type)] for item in fields(cls)}
    if not isinstance(plain, dict) or not set(readers) - set(_PAIRS_ONLY) <= set(plain) <= set(readers):
        raise ValueError("missing or unknown field")
    values = {name: readers[name](value) for name, value in plain.items()}
    absent = {name: Fraction(0) for name in readers if name not in plain}
    if not all(values[name] for name in _PAIRS_ONLY if name in values):
        raise ValueError("a field of delta that is 0")
    return cls(**values, **absent)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError("not a whole number")
    return value


def _fraction(value: object) -> Fraction:
    text = _text(value)
    if not _EXACT.fullmatch(text) or exact_text(Fraction(text)) != text:
        raise ValueError("not an exact number in lowest terms")
    return Fraction(text)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


_READERS: dict[str, Callable[[object], object]] = {
    "str": _text,
    "int": _whole,
    "Fraction": _fraction,
    "tuple[str, ...]": lambda value: tuple(_text(v) for v in _list(value)),
    "tuple[int, ...]": lambda value: tuple(_whole(v) for v in _list(value)),
    "tuple[DrawnLaw, ...]": lambda value: tuple(_record(DrawnLaw, v) for v in _list(value)),
}
