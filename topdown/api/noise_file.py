"""Noise laws as `topdown.noise_law` documents; what is read is checked like what is made."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from topdown.caps import TooMuchError, read_json, too_much
from topdown.documents.noise_law import NoiseLaw, NoiseMultipliers, NoisePromise
from topdown.errors import CertificateError, ConfigError, TopdownError
from topdown.noise.optimal.ask import Ask, Promise
from topdown.noise.optimal.law import OptimalLaw
from topdown.noise.optimal.losses import parse_loss
from topdown.noise.optimal.verify import Multipliers

_FARTHEST = 100_000
_MOST_STEPS = 4_000_000  # of a check: some 10 s


def law_document(law: OptimalLaw) -> NoiseLaw:
    """Return a law as a document."""
    return NoiseLaw(
        promises=[NoisePromise(epsilon=str(p.epsilon), delta=str(p.delta)) for p in law.ask.promises],
        sensitivity=law.ask.sensitivity,
        loss=law.ask.loss.name,
        bits=128,
        first=law.first,
        weights=[str(weight) for weight in law.weights],
        multipliers=[
            NoiseMultipliers(
                promise=number,
                shift=shift,
                start=one.start,
                left=str(one.left),
                values=[str(value) for value in one.values],
            )
            for (number, shift), one in law.certificate.items()
        ],
    )


def read_law(path: Path) -> OptimalLaw:
    """Read a law and check it: its weights keep its promises, and its multipliers give whatever bound they give.

    Raises: ConfigError C011 (no such document), C140 (too large), CertificateError V180 (not what it says).
    """
    try:
        return law_of(read_json(path))
    except TooMuchError as error:
        raise too_much(path, error) from None
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{path} is no JSON", code="C011", file=str(path), fix="give a file of topdown noise --out"
        ) from None


def law_of(document: Any) -> OptimalLaw:
    """Return the law of a document, checked; errors as for `read_law`."""
    try:
        found = msgspec.convert(document, NoiseLaw, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"this is no topdown.noise_law document: {error}",
            code="C011",
            fix="give a file of topdown noise --out",
        ) from None
    try:
        return _checked(found)
    except TopdownError:
        raise
    except ValueError as error:
        raise ConfigError(
            f"a number of this noise law cannot be read: {error}",
            code="C011",
            fix="give a file of topdown noise --out",
        ) from None


def _checked(found: NoiseLaw) -> OptimalLaw:
    promises = tuple(Promise(Fraction(p.epsilon), Fraction(p.delta)) for p in found.promises)
    ask = Ask(promises, found.sensitivity, parse_loss(found.loss))
    reach = max([abs(found.first), *(abs(m.start) + len(m.values) for m in found.multipliers)])
    steps = 2 * len(found.weights) * found.sensitivity * len(promises) + 2 * reach * len(found.multipliers)
    if max(reach, ask.loss.settled) > _FARTHEST or steps > _MOST_STEPS:
        raise ConfigError(
            "this noise law has too many values to be checked", code="C140", fix="make a law of fewer values"
        )
    certificate = {}
    for one in found.multipliers:
        key = (one.promise, one.shift)
        known = one.promise < len(promises) and 1 <= abs(one.shift) <= found.sensitivity
        if not known or key in certificate:
            raise CertificateError(
                f"multipliers of promise {one.promise}, shift {one.shift} belong to nothing, or come twice",
                code="V180",
                fix="make the law again: topdown noise --help",
            )
        certificate[key] = Multipliers(one.start, Fraction(one.left), tuple(map(Fraction, one.values)))
    return OptimalLaw(ask, found.first, tuple(map(int, found.weights)), found.bits, certificate)
