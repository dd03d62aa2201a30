"""The noise of mechanism "optimal": whole weights of the best law for one count, made once for each promise."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from topdown.errors import ConfigError, InternalError

LARGEST_DELTA = Fraction(1, 1000)


@lru_cache(maxsize=256)
def best_weights(epsilon: Fraction, delta: Fraction) -> tuple[str, ...]:
    """Return the weights of 0, 1, 2, .. of the law of least |x| on the integers for one count that moves by 1.

    It is made in exact numbers, the same on every machine, and checked as it is made.

    Args:
        epsilon, delta: of the count, 0 .. 10 and 10^-12 .. 1; exact.

    Returns: whole numbers over 2^128 as decimal text; the law is symmetric.
    Raises: ConfigError C151 epsilon, C152 delta, C155 too many values.
    """
    from topdown.noise.optimal.ask import Ask, Promise
    from topdown.noise.optimal.design import optimal_law
    from topdown.noise.optimal.losses import parse_loss

    law = optimal_law(Ask((Promise(epsilon, delta),), 1, parse_loss("l1")))
    if law.weights != law.weights[::-1] or law.first != -law.last or min(law.weights) < 1:
        raise InternalError("a law of one count is not symmetric", code="X052", fix="please report this plan")
    return tuple(str(weight) for weight in law.weights[law.last :])


@lru_cache(maxsize=256)
def whole(weights: tuple[str, ...]) -> tuple[int, ...]:
    """Return weights as whole numbers."""
    return tuple(int(weight) for weight in weights)


def check_delta(delta: Fraction | None, *, large: bool) -> Fraction:
    """Return the delta of a budget, which all queries share; ConfigError C050, C152, C154 for one that may not be."""
    if delta is None:
        raise ConfigError(
            'mechanism "optimal" needs budget.epsilon and budget.delta and nothing else',
            code="C050",
            fix='write [budget] epsilon = "..." and delta = "1/1000000"',
            key=("budget",),
        )
    if delta == 0:
        raise ConfigError(
            "delta is 0, and no noise of finitely many values keeps delta 0",
            code="C152",
            fix='for delta 0 write mechanism = "geometric"; else give a delta above 0, e.g. "1/1000000"',
            key=("budget", "delta"),
        )
    if delta >= 1 or (delta > LARGEST_DELTA and not large):
        raise ConfigError(
            f"delta is {delta}, above {LARGEST_DELTA}: the best noise would give exact answers away",
            code="C154",
            fix="give a smaller delta"
            + ("" if delta >= 1 else ", or allow it: large_delta = true under [budget]"),
            key=("budget", "delta"),
        )
    return delta
