"""Noise of least expected loss for one whole-number answer, and its `topdown.noise_law` document.

Nothing is drawn, read or charged. A law that is read from a file is checked like one that is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from topdown.app.calls import public_function
from topdown.errors import CertificateError, ConfigError, TopdownError
from topdown.formats.caps import TooMuchError, read_json, too_much
from topdown.formats.noise_documents import NoiseLaw, NoiseMultipliers, NoisePromise
from topdown.optimal_noise import Multipliers, NoiseRequest, OptimalLaw, Promise, parse_loss
from topdown.optimal_noise.design import optimal_law
from topdown.optimal_noise.integer_baselines import baselines
from topdown.optimal_noise.splits import COUNTS, shared_noise
from topdown.privacy.exact_values import fixed, rational, significant

if TYPE_CHECKING:
    from topdown.optimal_noise import ErrorLoss
    from topdown.privacy.exact_values import Exact


LARGEST_DELTA = Fraction(1, 1000)


_DIGITS = 9


@public_function
def optimal_noise(
    epsilon: Exact,
    delta: Exact,
    *,
    sensitivity: int = 1,
    loss: str | ErrorLoss = "l1",
    also: Sequence[tuple[Exact, Exact]] = (),
    large_delta: bool = False,
) -> OptimalLaw:
    """Return the noise of least expected loss for one whole-number answer, with a proof that none is better.

    Best among all noise on the integers that is added whatever the data are. It is made for one answer: for several
    answers of one release discrete Gaussian noise is usually better.

    Args:
        epsilon: 0 .. 10, exact: a whole number, Fraction, Decimal or text such as "1/2".
        delta: 10^-12 .. 1, exact.
        sensitivity: how far one record moves the answer at most.
        loss: "l1", "l2", "pinball:OVER:UNDER", "table:V,V,V:LEFT:RIGHT", or a Loss.
        also: more (epsilon, delta) that are kept at the same time.
        large_delta: allow a delta above 1/1000, at which exact answers are a part of the best noise.

    Returns: a law that was checked independently; `gap` bounds how much better any other could be.

    Raises:
        ConfigError: C150 the loss, C151 epsilon, C152 delta, C153 the sensitivity, C154 a delta above 1/1000,
            C155 too many values.
        InternalError: X051, X052 no law could be made and proved; X050 a linear program failed.
    """
    promises = tuple(
        Promise(rational(e, "epsilon"), rational(d, "delta")) for e, d in ((epsilon, delta), *also)
    )
    largest = max(promise.delta for promise in promises)
    if largest > LARGEST_DELTA and not large_delta:
        raise ConfigError(
            f"delta is {largest}, above {LARGEST_DELTA}: the best noise would release exact answers",
            code="C154",
            fix="give a smaller delta, or allow it: large_delta=True, --large-delta",
        )
    return optimal_law(
        NoiseRequest(promises, sensitivity, parse_loss(loss) if isinstance(loss, str) else loss)
    )


def noise_document(law: OptimalLaw, *, compare: bool = False) -> dict[str, Any]:
    """Return what is said of a law as the `topdown.noise` document.

    Args:
        law: made or read.
        compare: also compute noise of other kinds; for a law with one promise.

    Raises: ConfigError C005 to compare a law with several promises.
    """
    found: dict[str, Any] = {
        "type": "topdown.noise",
        "version": 1,
        "law": msgspec.to_builtins(law_document(law)),
        "expected_loss": significant(law.loss, _DIGITS, up=True),
        "least_possible_loss": significant(law.bound, _DIGITS, up=False),
        "gap": significant(law.gap, 2, up=True),
        "variance": significant(law.variance, _DIGITS, up=True),
        "delta_at": {str(e): significant(law.delta(e), 6, up=True) for e in _shift_of_neighbours(law)},
        "others": _other_mechanisms(law) if compare else [],
        "several": _shared_among_counts(law) if compare else [],
    }
    return found


def _shift_of_neighbours(law: OptimalLaw) -> list[Fraction]:
    """Return the epsilons of the promises, half of the least and twice the largest."""
    own = sorted({promise.epsilon for promise in law.ask.promises})
    return sorted({own[0] / 2, *own, own[-1] * 2})


def _other_mechanisms(law: OptimalLaw) -> list[dict[str, str]]:
    if len(law.ask.promises) > 1:
        raise ConfigError(
            "noise of other kinds is compared for one promise", code="C005", fix="compare without --also"
        )
    return [
        {
            "name": one.name,
            "parameter": one.parameter,
            "expected_loss": significant(one.loss, _DIGITS, up=False),
            "saved_percent": fixed(100 * (1 - law.loss / one.loss), 2, up=False),
        }
        for one in baselines(law.ask)
    ]


def _shared_among_counts(law: OptimalLaw) -> list[dict[str, Any]]:
    promise = law.ask.promises[0]
    if law.ask.sensitivity > 1 or not promise.epsilon or promise.delta > LARGEST_DELTA:
        return []
    found = [shared_noise(float(promise.epsilon), float(promise.delta), n) for n in COUNTS]
    return [
        {
            "n_answers": one.n_answers,
            "variance": significant(Fraction(one.variance), 4, up=True),
            "gaussian_variance": significant(Fraction(one.gaussian), 4, up=True),
            "ratio": significant(Fraction(one.ratio), 3, up=True),
        }
        for one in found
    ]


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
        return _checked_law(found)
    except TopdownError:
        raise
    except ValueError as error:
        raise ConfigError(
            f"a number of this noise law cannot be read: {error}",
            code="C011",
            fix="give a file of topdown noise --out",
        ) from None


def _checked_law(found: NoiseLaw) -> OptimalLaw:
    promises = tuple(Promise(Fraction(p.epsilon), Fraction(p.delta)) for p in found.promises)
    ask = NoiseRequest(promises, found.sensitivity, parse_loss(found.loss))
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
