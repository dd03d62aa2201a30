"""Noise of least expected loss for one whole-number answer, and what it saves. Nothing is drawn, read or charged."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from topdown.api.call import public
from topdown.errors import ConfigError

if TYPE_CHECKING:
    from topdown.accountant.exact import Exact
    from topdown.noise.optimal.law import OptimalLaw
    from topdown.noise.optimal.losses import Loss

LARGEST_DELTA = Fraction(1, 1000)
_DIGITS = 9


@public
def optimal_noise(
    epsilon: Exact,
    delta: Exact,
    *,
    sensitivity: int = 1,
    loss: str | Loss = "l1",
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
    from topdown.accountant.exact import rational
    from topdown.noise.optimal.ask import Ask, Promise
    from topdown.noise.optimal.design import optimal_law
    from topdown.noise.optimal.losses import parse_loss

    promises = tuple(
        Promise(rational(e, "epsilon"), rational(d, "delta")) for e, d in ((epsilon, delta), *also)
    )
    largest = max(promise.delta for promise in promises)
    if largest > LARGEST_DELTA and not large_delta:
        raise ConfigError(
            f"delta is {largest}, above {LARGEST_DELTA}: the best noise would give exact answers away",
            code="C154",
            fix="give a smaller delta, or allow it: large_delta=True, --large-delta",
        )
    return optimal_law(Ask(promises, sensitivity, parse_loss(loss) if isinstance(loss, str) else loss))


def noise_document(law: OptimalLaw, *, compare: bool = False) -> dict[str, Any]:
    """Return what is said of a law as the `topdown.noise` document.

    Args:
        law: made or read.
        compare: also compute noise of other kinds; for a law with one promise.

    Raises: ConfigError C005 to compare a law with several promises.
    """
    import msgspec

    from topdown.api.noise_file import law_document
    from topdown.decimals import significant

    found: dict[str, Any] = {
        "type": "topdown.noise",
        "version": 1,
        "law": msgspec.to_builtins(law_document(law)),
        "expected_loss": significant(law.loss, _DIGITS, up=True),
        "least_possible_loss": significant(law.bound, _DIGITS, up=False),
        "gap": significant(law.gap, 2, up=True),
        "variance": significant(law.variance, _DIGITS, up=True),
        "delta_at": {str(e): significant(law.delta(e), 6, up=True) for e in _neighbours(law)},
        "others": _others(law) if compare else [],
        "several": _several(law) if compare else [],
    }
    return found


def _neighbours(law: OptimalLaw) -> list[Fraction]:
    """Return the epsilons of the promises, half of the least and twice the largest."""
    own = sorted({promise.epsilon for promise in law.ask.promises})
    return sorted({own[0] / 2, *own, own[-1] * 2})


def _others(law: OptimalLaw) -> list[dict[str, str]]:
    from topdown.decimals import fixed, significant
    from topdown.noise.optimal.baselines import baselines

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


def _several(law: OptimalLaw) -> list[dict[str, Any]]:
    from topdown.decimals import significant
    from topdown.noise.optimal.several import COUNTS, shared

    promise = law.ask.promises[0]
    if law.ask.sensitivity > 1 or not promise.epsilon or promise.delta > LARGEST_DELTA:
        return []
    found = [shared(float(promise.epsilon), float(promise.delta), n) for n in COUNTS]
    return [
        {
            "n_answers": one.n_answers,
            "variance": significant(Fraction(one.variance), 4, up=True),
            "gaussian_variance": significant(Fraction(one.gaussian), 4, up=True),
            "ratio": significant(Fraction(one.ratio), 3, up=True),
        }
        for one in found
    ]
