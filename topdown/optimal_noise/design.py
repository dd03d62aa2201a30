"""From what is asked to a checked law: a closed form where there is one, else a linear program on a growing window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise

from topdown.errors import ConfigError, InternalError
from topdown.optimal_noise import exact_laws as closed_form
from topdown.optimal_noise import rational_optimum as exact
from topdown.optimal_noise.certified_law import Certificate, Multipliers, OptimalLaw, exp_bounds
from topdown.optimal_noise.exact_laws import LAW_BITS, whole_weights
from topdown.optimal_noise.linear_programs import (
    CompactLP,
    FloatSolution,
    NoSolutionError,
    solve_linear_program,
)
from topdown.optimal_noise.noise_request import NoiseRequest
from topdown.optimal_noise.real_noise import truncated_laplace_reach

LARGEST_GAP = Fraction(1, 10**6)
_MOST_ROWS = 25_000  # some 30 s
_MOST_TAILS = 20_000
_MOST_EXACT = 150  # columns of masses that are solved in rationals: some 0.2 s
_GRID_BITS = 96
_LEAST_MASS = 4e-16


def optimal_law(ask: NoiseRequest) -> OptimalLaw:
    """Return noise of least expected loss among all noise on the integers that keeps the promises.

    Additive noise whose law does not depend on the data, that is. The law's `gap` says how much of the loss is not
    proved necessary; it is at most 10^-6.

    Args:
        ask: promises, sensitivity and loss.

    Returns: a law that was checked; its cost is some ms, up to some s for 10^4 rows of the linear program.
    Raises: ConfigError (C155) if it would need too many values, InternalError (X051, X052) if no law could be proved.
    """
    # where truncated Laplace noise would end, and a little more
    reach = max(truncated_laplace_reach(promise, ask.sensitivity) for promise in ask.promises)
    radius = max(reach + 2 * ask.sensitivity, ask.loss.settled + 1)
    # an even loss that does not fall anywhere in |x|
    values = [ask.loss.at(x) for x in range(ask.loss.settled + 2)]
    by_tails = ask.sensitivity == 1 and ask.loss.even and all(a <= b for a, b in pairwise(values))
    if radius > _MOST_TAILS or not (by_tails or _rows(ask, radius) <= _MOST_ROWS):
        raise ConfigError(
            f"this noise would need some {2 * radius:,} values, too many to prove anything",
            code="C155",
            fix="give a larger epsilon or delta, or a smaller sensitivity",
        )
    if by_tails:
        masses, first, certificate = _by_tails(ask)
        return OptimalLaw(ask, *whole_weights(masses, first, ask), LAW_BITS, certificate)
    while _rows(ask, radius) <= _MOST_ROWS:
        try:
            found = _by_program(ask, radius)
        except NoSolutionError:
            found = None
        if found is not None:
            return found
        radius *= 2
    raise InternalError(
        "no law could be proved best: the numbers of its program are too far apart",
        code="X052",
        fix="a larger delta or a smaller epsilon is easier; please report ordinary numbers",
    )


def _by_tails(ask: NoiseRequest) -> tuple[Sequence[Fraction], int, Certificate]:
    """Sensitivity 1 and an even loss: the least tails."""
    tails, forced = closed_form.least_tails(ask.limits)
    factors = [exp_bounds(promise.epsilon)[1] for promise in ask.promises]
    certificate = closed_form.closed_form_multipliers(ask.loss, forced, factors)
    rounded = {
        key: Multipliers(one.start, _grid(one.left), tuple(map(_grid, one.values)))
        for key, one in certificate.items()
    }
    return closed_form.masses_of(tails), -len(tails), rounded


def _rows(ask: NoiseRequest, radius: int) -> int:
    sides = 1 if ask.loss.even else 2
    return len(ask.promises) * sides * ask.sensitivity * (2 * radius + 2)


def _by_program(ask: NoiseRequest, radius: int) -> OptimalLaw | None:
    """Solve on -radius .. radius; return the law if multipliers prove it best on all integers."""
    wide = _program(ask, radius)
    solution = solve_linear_program(wide.program)
    masses = wide.masses(solution.columns.tolist())
    held = [k - radius for k, mass in enumerate(masses) if mass > _LEAST_MASS]
    first, last = min(held[0], 0), max(held[-1], 0)
    proofs: list[Callable[[], Certificate]] = []
    kept: Sequence[Fraction] | None = None
    if wide.n_masses <= _MOST_EXACT:
        kept, proof = _exactly(ask, first, last)
        proofs += [] if proof is None else [lambda: proof]
    if kept is None:
        kept = [Fraction(mass) for mass in masses[first + radius : last + radius + 1]]
    start, weights = whole_weights(kept, first, ask)
    proofs.append(lambda: _certificate(wide, -radius, _multipliers(wide, solution), (first, last)))
    proofs.append(lambda: _padded_certificate(ask, radius))
    for make in proofs:
        law = OptimalLaw(ask, start, weights, LAW_BITS, make())
        if law.gap <= LARGEST_GAP:
            return law
    return None


def _exactly(
    ask: NoiseRequest, first: int, last: int
) -> tuple[Sequence[Fraction] | None, Certificate | None]:
    """Solve on first .. last in rationals: masses and multipliers, masses alone, or neither."""
    narrow = _program(ask, -first, last)
    try:
        near = solve_linear_program(narrow.program)
    except NoSolutionError:
        return None, None
    try:
        optimum = exact.rational_optimum(narrow, near)
    except exact.NotExactError:
        pass
    else:
        return optimum.masses, _certificate(
            narrow, first, (*optimum.on_excess, *optimum.on_sum), (first, last)
        )
    try:
        return exact.rational_masses(narrow, near), None
    except exact.NotExactError:
        return None, None


def _program(ask: NoiseRequest, left: int, right: int | None = None, pad: int = 0) -> CompactLP:
    """Return the program on -left .. right (left without it), and `pad` cells more at either end."""
    last = (left if right is None else right) + pad
    costs = tuple(ask.loss.at(value) for value in range(-left - pad, last + 1))
    return CompactLP(costs, ask.sensitivity, ask.limits, pad, mirror=ask.loss.even)


def _padded_certificate(ask: NoiseRequest, radius: int) -> Certificate:
    """Solve the program whose events end at the window: what is past it has multipliers of 0."""
    lp = _program(ask, radius, pad=ask.sensitivity)
    return _certificate(lp, -radius, _multipliers(lp, solve_linear_program(lp.program)), None)


def _multipliers(lp: CompactLP, solution: FloatSolution) -> list[Fraction]:
    """Return the multipliers of excesses, then of sums."""
    return [
        Fraction(y) for y in solution.at_most[: len(lp.excesses) + len(lp.limits) * len(lp.shifts)].tolist()
    ]


def _certificate(
    lp: CompactLP, first: int, multipliers: Sequence[Fraction], held: tuple[int, int] | None
) -> Certificate:
    """Return the multipliers of a program as those of the whole line.

    Args:
        lp: its inner cells are the values from `first`.
        first: see lp.
        multipliers: of its excesses, then of its sums.
        held: the values between which the law has mass; past them events go on as half-lines. None: they end.
    """
    n, share = len(lp.inner), Fraction(1, 2) if lp.mirror else Fraction(1)
    start, end = held or (first, first + n - 1)
    found: dict[tuple[int, int], Multipliers] = {}
    for k, top in enumerate(multipliers[len(lp.excesses) :]):
        number, place = divmod(k, len(lp.shifts))
        shift = lp.shifts[place]
        own = multipliers[k * n : (k + 1) * n][start - first : end - first + 1]
        values = [_grid(share * y) for y in own]
        left = _grid(share * top) if held else Fraction(0)
        # what is implied at both ends is left out
        values = values if shift > 0 else values[::-1]
        while values and not values[-1]:
            values.pop()
        skipped = 0
        while skipped < len(values) and values[skipped] == left:
            skipped += 1
        one = Multipliers((start if shift > 0 else -end) + skipped, left, tuple(values[skipped:]))
        found[number, shift] = one
        if lp.mirror:
            found[number, -shift] = one
    return found


def _grid(number: Fraction) -> Fraction:
    """Return the number rounded down to 96 bits behind the point."""
    return Fraction(number.numerator * (1 << _GRID_BITS) // number.denominator, 1 << _GRID_BITS)
