"""Noise for one answer apart from any release, and the `topdown.noise_law` document.

Nothing is read or charged; draws have a seed, so they protect nobody. A law that is read from a file is checked like
one that is made.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, inf, isqrt, nextafter, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from topdown.app.calls import public_function
from topdown.errors import CertificateError, ConfigError, TopdownError
from topdown.formats import noise_documents as documents
from topdown.formats.caps import TooMuchError, read_json, too_much
from topdown.formats.noise_documents import NoiseLaw, NoiseMultipliers, NoisePromise
from topdown.formats.strict_toml import exact_text
from topdown.notebook import card
from topdown.optimal_noise import (
    Multipliers,
    NoiseRequest,
    OptimalLaw,
    Promise,
    RealNoise,
    RealQuestion,
    default_cells,
    parse_loss,
    sandwich,
)
from topdown.optimal_noise.design import optimal_law
from topdown.optimal_noise.integer_baselines import baselines
from topdown.optimal_noise.noise_request import LARGEST_DELTA, refuse_large_delta
from topdown.optimal_noise.splits import COUNTS, shared_noise
from topdown.privacy import Sampler, SimulationBits
from topdown.privacy.accountant import NoisyCounts, worst_shift
from topdown.privacy.exact_values import Enclosure, alpha_of, fixed, positive, rational, significant
from topdown.privacy.fixed_point import exp_neg
from topdown.privacy.laws import (
    DISCRETE_GAUSSIAN,
    OPTIMAL_INTEGER,
    TWO_SIDED_GEOMETRIC,
    UNIT,
    DiscreteGaussian,
    TwoSidedGeometric,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from topdown.optimal_noise import ErrorLoss
    from topdown.privacy.exact_values import Exact, Threshold


_DIGITS = 9
Drawn = DiscreteGaussian | TwoSidedGeometric | OptimalLaw | RealNoise
_BITS = 128  # of enclosures of probabilities
_EPSILON, _DELTA = "\u03b5", "\u03b4"
End = int | float
_HALF = Fraction(1, 2)
_LEAST_CELLS = 16  # widths in the sensitivity of a real answer, for noise with a formula
_IN_SPREAD = (
    8  # least widths in its standard deviation: rounding adds less than a part in 700 to the variance
)
_MOST_CELLS = 1 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Noise:
    """Noise for one answer, apart from any release. `topdown.noise` makes it; nothing was read or charged.

    >>> import topdown
    >>> made = topdown.noise(gaussian=9)
    >>> made.sample(3, seed=1).shape, made.interval(100)
    ((3,), (94, 106))

    Args:
        law: the distribution: of `topdown.privacy`, or an `OptimalLaw` or `RealNoise` with its proof.
        sensitivity: how far one record moves the answer at most.
        width: of a real answer, which is rounded to its multiples and gets as many times it as the law draws; None for
            a whole number.
    """

    law: Drawn
    sensitivity: Fraction
    width: Fraction | None = None

    @property
    def name(self) -> str:
        """Kind and parameters in words."""
        match self.law:
            case DiscreteGaussian():
                words = f"discrete Gaussian, variance {_shown(self.law.variance * self._unit**2)}"
            case TwoSidedGeometric():
                words = f"two-sided geometric, {_EPSILON} {_shown(self._moved / self.law.scale)}"
            case OptimalLaw() | RealNoise():
                pairs = (
                    f"{_EPSILON} {_shown(p.epsilon)} at {_DELTA} {_shown(p.delta)}" for p in self._promises
                )
                words = f"optimal, {', '.join(pairs)}"
        return words if self.width is None else f"{words}, on multiples of {_shown(self.width)}"

    @property
    def _unit(self) -> Fraction:
        return Fraction(1) if self.width is None else self.width

    @property
    def _moved(self) -> int:
        """How far one record moves the answer at most, in widths; rounding halves up keeps it."""
        return int(self.sensitivity / self._unit)

    @property
    def _promises(self) -> tuple[Promise, ...]:
        match self.law:
            case OptimalLaw():
                return self.law.ask.promises
            case RealNoise():
                return (self.law.question.promise,)
        return ()

    @cached_property
    def variance(self) -> Enclosure:
        """Ends of the variance, in squares of the answer's unit; exact for optimal noise, of the lattice alone."""
        match self.law:
            case DiscreteGaussian():
                low, high = _gaussian_variance(self.law)
            case TwoSidedGeometric():
                ends = (Fraction(end, UNIT) for end in exp_neg(1 / self.law.scale, _BITS))
                low, high = (2 * end / (1 - end) ** 2 for end in ends)
            case OptimalLaw():
                low = high = self.law.variance
            case RealNoise():  # its law is even
                low = high = sum((i * i * p for i, p in self.law.law.items()), Fraction(0))
        return Enclosure(low * self._unit**2, high * self._unit**2)

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise, for screens."""
        return sqrt(float(self.variance))

    def interval(self, noisy: Exact, coverage: Threshold = "19/20") -> tuple[End, End]:
        """Return an interval that holds the answer before noise in at least `coverage` of all draws.

        Args:
            noisy: the answer with this noise; of real answers a multiple of the lattice's width.
            coverage: above 0, below 1; 0.95 is 19/20.

        Returns: its ends: whole numbers, or floats rounded outward for real answers, whose rounding to the lattice is
            counted. Either side is missed in half of what is left, or less.

        Raises:
            ConfigError: A006 the coverage. TypeError: a float as the answer.
        """
        missed = (1 - alpha_of(coverage)) / 2
        if not 0 < missed < _HALF:
            raise ConfigError(f"the coverage is {coverage}", code="A006", fix="give one such as 0.95")
        high = _first(lambda k: self._below(k)[0] >= 1 - missed)
        low = -_first(lambda k: self._below(-k - 1)[1] <= missed)
        at = rational(noisy, "the answer")
        if self.width is not None:
            ends = at - (high + _HALF) * self.width, at - (low - _HALF) * self.width
            return nextafter(float(ends[0]), -inf), nextafter(float(ends[1]), inf)
        return floor(at - high), ceil(at - low)

    def sample(self, n: int, *, seed: int) -> NDArray[Any]:
        """Draw noise by the exact sampler, to study errors of made-up or public answers. It protects nobody.

        A seed decides the draws, so whoever knows it takes them off again. Answers from confidential records are
        measured by `topdown.generate` and `topdown.select`, which charge a ledger first and draw once.

        Args:
            n: how many. seed: any whole number; equal seeds give equal draws.

        Returns: int64 (n,); of real answers float64, multiples of the width.

        Raises:
            ConfigError: C346 the noise is too wide to be drawn. TypeError: the seed is no whole number.
        """
        bits = SimulationBits(seed, ("noise",))
        match self.law:
            case OptimalLaw() | RealNoise():
                law = self.law if isinstance(self.law, OptimalLaw) else self.law.law
                whole = np.array([law.draw(bits) for _ in range(n)], dtype=np.int64)
            case DiscreteGaussian() | TwoSidedGeometric():
                if self.law.is_too_wide:
                    raise ConfigError(
                        f"the noise is too wide to be drawn: {self.name}",
                        code="C346",
                        fix="give a variance of at most 2^54 squared units, or a scale of at most 2^24 of them",
                    )
                whole = Sampler(self.law, bits).draw(n).astype(np.int64)
        return whole if self.width is None else whole * float(self.width)

    def counts(self) -> NoisyCounts:
        """Return what the accountant composes."""
        match self.law:
            case DiscreteGaussian():
                return NoisyCounts(DISCRETE_GAUSSIAN.name, self.law.variance, 1, self._moved)
            case TwoSidedGeometric():
                return NoisyCounts(TWO_SIDED_GEOMETRIC.name, self.law.scale, 1, self._moved)
            case OptimalLaw():
                weights = self.law.weights
            case RealNoise():
                weights = self.law.law.weights
        kept = min(self._promises, key=lambda promise: promise.delta)
        worst = worst_shift(weights, self._moved)
        return NoisyCounts(OPTIMAL_INTEGER.name, kept.epsilon, 1, delta=kept.delta, worst=worst)

    def _below(self, k: int) -> tuple[Fraction, Fraction]:
        """Enclose P(noise <= k), k in widths of the lattice for real noise."""
        match self.law:
            case DiscreteGaussian() | TwoSidedGeometric():
                return self.law.cdf(k, _BITS)
            case OptimalLaw():
                first, weights = self.law.first, self.law.weights
            case RealNoise():
                first, weights = self.law.law.first, self.law.law.weights
        exact = Fraction(sum(weights[: max(k - first + 1, 0)]), sum(weights))
        return exact, exact

    def __repr__(self) -> str:
        return f"Noise({self.name}, standard deviation {self.stddev:.4g})"

    def _repr_html_(self) -> str:
        low, high = self.interval(0)
        rows: list[tuple[str, object]] = [
            ("variance", significant(self.variance.upper, 6, up=True)),
            ("standard deviation", f"{self.stddev:.4g}"),
            ("19 in 20 answers lie within", f"{low:g} to {high:g} of the noisy one"),
        ]
        if isinstance(self.law, OptimalLaw):
            rows.append(("expected loss", significant(self.law.loss, 6, up=True)))
            rows.append(("no noise costs less than", significant(self.law.bound, 6, up=False)))
        return card(f"Noise: {self.name}", rows, note="Nothing was read, drawn or charged.")


def _first(holds: Callable[[int], bool]) -> int:
    """Return the least k >= 0 from which on something holds that, once true, stays so."""
    high = 1
    while not holds(high):
        high *= 2
    return bisect_left(range(high + 1), True, key=holds)


def _shown(number: Fraction) -> str:
    """Write a parameter: as a fraction if it is short."""
    text = exact_text(number)
    return text if len(text) <= _DIGITS else significant(number, 4, up=True)


def _gaussian_variance(law: DiscreteGaussian) -> tuple[Fraction, Fraction]:
    """Enclose the variance of discrete Gaussian noise: its parameter s from above.

    By Poisson summation it is s - 4 pi^2 s^2 A / B with q = exp(-2 pi^2 s), A = 2 (q + 4 q^4 + ..), B >= 1; for
    s >= 1 at least s - 81 s^2 exp(-19 s). Below that probabilities are added up.
    """
    s = law.variance
    if s < 1:
        reach = range(1, law.half_width(_BITS) + 1)
        return 2 * sum((k * k * law.pmf(k, _BITS)[0] for k in reach), Fraction(0)), s
    return s - 81 * s * s * Fraction(exp_neg(19 * s, _BITS)[1], UNIT), s


@public_function
def noise(
    *,
    gaussian: Exact | None = None,
    geometric: Exact | None = None,
    epsilon: Exact | None = None,
    delta: Exact | None = None,
    sensitivity: Exact = 1,
    loss: str | ErrorLoss = "l1",
    also: Sequence[tuple[Exact, Exact]] = (),
    real: bool = False,
    cells: int | None = None,
    large_delta: bool = False,
) -> Noise:
    """Return noise for one answer: discrete Gaussian, two-sided geometric, or the best there is for epsilon and delta.

    Optimal noise is best among all noise that is added whatever the data are, with a proof that none is better. It is
    made for one answer: for several answers of one release discrete Gaussian noise is usually better.

    >>> import topdown
    >>> best = topdown.noise(epsilon=1, delta="1e-6")
    >>> best
    Noise(optimal, ε 1 at δ 1/1000000, standard deviation 1.357)
    >>> best.interval(40, coverage=0.95)
    (37, 43)
    >>> topdown.noise(gaussian=4).variance.texts(4)
    ('3.999', '4')
    >>> topdown.noise(geometric="1/2", sensitivity="5/2", real=True).interval(10)
    (-5.078125000000001, 25.078125000000004)

    Args:
        gaussian: variance of discrete Gaussian noise, in squares of the answer's unit.
        geometric: epsilon of two-sided geometric noise, above 0; its scale is sensitivity / epsilon.
        epsilon: of optimal noise, 0 .. 10. delta: with it, 10^-12 .. 1. All are exact: a whole number, Fraction,
            Decimal or text such as "1/2".
        sensitivity: how far one record moves the answer at most; whole unless `real`.
        loss: of an error, of optimal noise: "l1", "l2", "pinball:OVER:UNDER", "table:V,V,V:LEFT:RIGHT", or a Loss;
            "l1" or "l2" if `real`.
        also: more (epsilon, delta) that optimal noise keeps at the same time.
        real: for a real answer: it is rounded to the nearest multiple of sensitivity / cells, halves up, and gets noise
            on these multiples, for the same loss.
        cells: if `real`, 1 or more; by rule if None.
        large_delta: allow a delta above 1/1000, at which exact answers are a part of the best noise.

    Returns: noise whose `law` was checked independently.

    Raises:
        ConfigError: C347 none or several kinds, C150 the loss, C151 epsilon, C152 delta, C153 the sensitivity, C154 a
            delta above 1/1000, C155 too many values, C162, C163, C164, C285 of real answers, A002 a parameter that is
            not above 0.
        InternalError: X051, X052, X055 no law could be made and proved; X050 a linear program failed.
        TypeError: a float.
    """
    kinds = [gaussian is not None, geometric is not None, epsilon is not None and delta is not None]
    of_optimal = epsilon is not None or delta is not None or bool(also)
    if sum(kinds) != 1 or (of_optimal and not kinds[2]) or (cells is not None and not real):
        raise ConfigError(
            "noise is of one kind: gaussian, geometric, or optimal with epsilon and delta",
            code="C347",
            fix='give e.g. gaussian=4, geometric="1/10", or epsilon=1 and delta="1e-6"',
        )
    if real and epsilon is not None and delta is not None:
        found = real_noise(epsilon, delta, sensitivity, str(loss), cells, large_delta=large_delta)
        return Noise(found, found.question.sensitivity, found.question.width)
    moved = positive(sensitivity, "sensitivity") if real else _whole_sensitivity(sensitivity)
    if gaussian is not None:
        variance = positive(gaussian, "variance")
        width = _width_of(moved, variance, cells) if real else None
        return Noise(DiscreteGaussian(variance / (width or 1) ** 2), moved, width)
    if geometric is not None:
        scale = moved / positive(geometric, "epsilon")
        width = _width_of(moved, scale * scale, cells) if real else None
        return Noise(TwoSidedGeometric(scale / (width or 1)), moved, width)
    pairs = [(rational(epsilon, "epsilon"), rational(delta, "delta")), *also]
    return Noise(integer_noise(pairs, int(moved), loss, large_delta=large_delta), moved)


def _whole_sensitivity(sensitivity: Exact) -> Fraction:
    moved = rational(sensitivity, "sensitivity")
    if moved.denominator != 1 or moved < 1:
        raise ConfigError(
            f"the sensitivity is {moved}, not whole and above 0",
            code="C153",
            fix="give a whole number, or real=True",
        )
    return moved


def _width_of(moved: Fraction, spread: Fraction, cells: int | None) -> Fraction:
    """Return what a real answer is rounded to: a part of its sensitivity, small beside the noise.

    Args:
        moved: the sensitivity.
        spread: square of what the standard deviation of the noise is at least, about.
        cells: how many parts; by rule if None.
    """
    if cells is None:
        cells = max(_LEAST_CELLS, isqrt(ceil(_IN_SPREAD**2 * moved * moved / spread)) + 1)
    if isinstance(cells, bool) or not isinstance(cells, int) or not 1 <= cells <= _MOST_CELLS:
        raise ConfigError(
            f"the sensitivity has {cells!r} cells, not 1 to {_MOST_CELLS:,}",
            code="C162",
            fix="give a whole number of cells, or more noise",
        )
    return moved / cells


@public_function
def integer_noise(
    pairs: Sequence[tuple[Exact, Exact]], sensitivity: int, loss: str | ErrorLoss, *, large_delta: bool
) -> OptimalLaw:
    """Return the best noise for a whole number; (epsilon, delta) in pairs, the rest and errors as `noise`."""
    promises = tuple(Promise(rational(e, "epsilon"), rational(d, "delta")) for e, d in pairs)
    refuse_large(max(promise.delta for promise in promises), large_delta=large_delta)
    return optimal_law(
        NoiseRequest(promises, sensitivity, parse_loss(loss) if isinstance(loss, str) else loss)
    )


def refuse_large(delta: Fraction, *, large_delta: bool) -> None:
    """Refuse a delta above 1/1000 that was not allowed (ConfigError C154)."""
    refuse_large_delta(delta, is_allowed=large_delta, how="large_delta=True, --large-delta")


def real_noise(
    epsilon: Exact, delta: Exact, sensitivity: Exact, loss: str, cells: int | None, *, large_delta: bool
) -> RealNoise:
    """Enclose the least loss of noise for a real answer; arguments and errors as `noise`."""
    promise = Promise(rational(epsilon, "epsilon"), rational(delta, "delta"))
    refuse_large(promise.delta, large_delta=large_delta)
    in_all = default_cells(promise) if cells is None else cells
    return sandwich(RealQuestion(promise, rational(sensitivity, "the sensitivity"), in_all), loss)


def noise_document(law: OptimalLaw, *, compare: bool = False) -> documents.Noise:
    """Return what is said of a law.

    Args:
        law: made or read.
        compare: also compute noise of other kinds; for a law with one promise.

    Raises: ConfigError C005 to compare a law with several promises.
    """
    return documents.Noise(
        law=law_document(law),
        expected_loss=significant(law.loss, _DIGITS, up=True),
        least_possible_loss=significant(law.bound, _DIGITS, up=False),
        gap=significant(law.gap, 2, up=True),
        variance=significant(law.variance, _DIGITS, up=True),
        delta_at={str(e): significant(law.delta(e), 6, up=True) for e in _shown_epsilons(law)},
        others=_other_mechanisms(law) if compare else [],
        several=_shared_among_counts(law) if compare else [],
    )


def _shown_epsilons(law: OptimalLaw) -> list[Fraction]:
    """Return the epsilons of the promises, half of the least and twice the largest."""
    own = sorted({promise.epsilon for promise in law.ask.promises})
    return sorted({own[0] / 2, *own, own[-1] * 2})


def _other_mechanisms(law: OptimalLaw) -> list[documents.OtherNoise]:
    if len(law.ask.promises) > 1:
        raise ConfigError(
            "noise of other kinds is compared for one promise", code="C005", fix="compare without --also"
        )
    return [
        documents.OtherNoise(
            name=one.name,
            parameter=one.parameter,
            expected_loss=significant(one.loss, _DIGITS, up=False),
            saved_percent=fixed(100 * (1 - law.loss / one.loss), 2, up=False),
        )
        for one in baselines(law.ask)
    ]


def _shared_among_counts(law: OptimalLaw) -> list[documents.SharedNoise]:
    promise = law.ask.promises[0]
    if law.ask.sensitivity > 1 or not promise.epsilon or promise.delta > LARGEST_DELTA:
        return []
    found = [shared_noise(float(promise.epsilon), float(promise.delta), n) for n in COUNTS]
    return [
        documents.SharedNoise(
            n_answers=one.n_answers,
            variance=significant(Fraction(one.variance), 4, up=True),
            gaussian_variance=significant(Fraction(one.gaussian), 4, up=True),
            ratio=significant(Fraction(one.ratio), 3, up=True),
        )
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
