"""What is said of a release: rows for each secret, the sentence an official can quote, JSON-ready.

Exact numbers are strings "a/b", enclosures are [low, high] decimal strings rounded outward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from topdown.accountant import zcdp
from topdown.accountant.approximate import PairLoss
from topdown.accountant.choices import WithChoices
from topdown.accountant.composition import Composition
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.exact import Threshold, delta_of
from topdown.accountant.pure import PureLoss
from topdown.accountant.semantics import Claim, Loss, Measurement, Secret, secrets
from topdown.decimals import significant
from topdown.errors import ConfigError
from topdown.laws import LAWS

Document = dict[str, Any]
CURVE = tuple(Fraction(n, 100) for n in (1, 2, 5, 10, 20, 30, 40, 50, 60, 80))
COMPARISON_NOTE = "closed form of the continuous Gaussian; errs in both directions, not a bound"
EVERY_DELTA = "0"  # where pure epsilon is stated
QUARTERS = tuple(Fraction(n, 4) for n in (1, 2, 3, 4))  # of epsilon, where composed deltas are stated
_DELTA_DIGITS = 6
WIDE = Fraction(1, 10**6)  # of a point of the curve
_COIN = "a coin gives 50"


@dataclass(frozen=True)
class Words:
    """What a sentence speaks of: unit of privacy, whether public facts narrow what an answer can be, what is read."""

    unit: str = "person"
    public_facts: bool = False
    reads: str = "this release"

    def of_all(self, n_steps: int) -> Words:
        """Return the words of a release with everything it extends."""
        return replace(self, reads="this release and what it extends") if n_steps > 1 else self

    def of_one(self) -> Words:
        """Return the words of one step of a chain."""
        return replace(self, reads="the measurements of this step")


@dataclass(frozen=True)
class ChainStep:
    """One release of a chain: its id, its plan, and what it measures."""

    release: str
    plan_hash: str
    measurements: tuple[Measurement, ...]


EVERYTHING = Claim("everything", "", "protected")
PLAIN = Words()


def statement(
    steps: Sequence[ChainStep],
    claims: Sequence[Claim],
    deltas: Sequence[Threshold] = ("1e-10",),
    *,
    words: Words = PLAIN,
) -> Document:
    """Return what a release, together with those it extends, says of every secret.

    Args:
        steps: the releases, oldest first, the one that is stated last.
        claims: what exact statistics say of each secret; the first one is the neighbours' own and not disclosed.
        deltas: where epsilon is stated; pure epsilon is stated at 0, which holds for all, a pair at its own delta.
        words: of the sentences.

    Returns:
        secrets, deltas, steps (rows of each release alone; empty if nothing is extended), curve, sentence; of a pair
        also composed: deltas at quarters of its epsilon.
    """
    everything = [m for step in steps for m in step.measurements]
    first = secrets(everything, claims[:1])[0].loss
    if first is None:
        raise ConfigError(
            "no two neighbours agree on what is exact", code="C120", fix="keep fewer statistics exact"
        )
    mine = secret_rows(everything, claims, deltas, words=words.of_all(len(steps)))
    part = words.of_one()
    return {
        "deltas": list(mine[0]["epsilon"]),
        "secrets": mine,
        "steps": [
            {
                "release": s.release,
                "plan_hash": s.plan_hash,
                "secrets": secret_rows(s.measurements, claims, deltas, words=part, balls=False),
            }
            for s in (steps if len(steps) > 1 else ())
        ],
        "curve": _curve(first),
        "sentence": mine[0]["sentence"],
    } | (composed(first) if isinstance(first, PairLoss) else {})


def composed(loss: PairLoss) -> Document:
    """Return deltas that hold at quarters of a pair's epsilon, from composed losses; rounded up."""
    points = tuple(loss.epsilon * quarter for quarter in QUARTERS)
    found = list(loss.deltas_at(points))
    found[-1] = min(found[-1], loss.delta)  # at epsilon itself the sum holds too
    return {
        "composed": [
            {"epsilon": str(e), "delta": significant(d, _DELTA_DIGITS, up=True)}
            for e, d in zip(points, found, strict=True)
        ]
    }


def secret_rows(
    measurements: Iterable[Measurement],
    claims: Sequence[Claim],
    deltas: Sequence[Threshold] = ("1e-10",),
    *,
    words: Words = PLAIN,
    balls: bool = True,
) -> list[Document]:
    """Return one row a claim.

    Args:
        measurements, claims, deltas, words: as for `statement`.
        balls: compute in balls, or in float64 with bounds where they would take more than a second; False: in
            float64 with bounds. `method` says which.
    """
    return [_row(secret, deltas, words, balls=balls) for secret in secrets(measurements, claims)]


def sentence(best_guess: Enclosure, claim: Claim = EVERYTHING, words: Words = PLAIN) -> str:
    """Return the sentence an official can quote, its number rounded up."""
    unit, times = words.unit, right_in_100(best_guess)
    exact = claim.exact if claim.status == "conditional" else ()
    both = f", both of which fit {_fits(exact, words)}," if _fits(exact, words) else ","
    knows = f"Someone who reads only {words.reads}, knows every other {unit}'s answers"
    asked = {
        "presence": f", and must tell whether one {unit}'s answers were there at all"
        + both.replace("both of which fit", "where both fit"),
        "everything": f", and must tell which of two answers one {unit} gave{both}",
        "attribute": f" and all of one {unit}'s but {claim.of}, and must tell which of two values that is{both}",
        "within_level": f" and all of one {unit}'s but the place within one {claim.of}, and must tell which of two "
        f"places that is{both}",
    }[claim.kind]
    return f"{knows}{asked} chooses rightly at most {times} times in 100; {_COIN}."


def right_in_100(best_guess: Enclosure) -> int:
    """Return the certified success rate in percent, rounded up."""
    return min(math.ceil(best_guess.upper * 100), 100)


def usual(rho: Fraction, deltas: Iterable[Threshold]) -> Document:
    """Return the comparison columns at each delta: zCDP by both conversions (rounded up), and mu-GDP."""
    columns: dict[str, dict[str, object]] = {
        "bun_steinke": {},
        "canonne_kamath_steinke": {},
        "gaussian_comparison": {},
    }
    for delta in deltas:
        key = str(delta)
        if not rho:
            columns["bun_steinke"][key] = columns["canonne_kamath_steinke"][key] = "0"
            columns["gaussian_comparison"][key] = 0.0
            continue
        columns["bun_steinke"][key] = zcdp.bun_steinke(rho, delta).texts(12)[1]
        columns["canonne_kamath_steinke"][key] = zcdp.canonne_kamath_steinke(rho, delta).texts(12)[1]
        alike = Composition.from_rho([(rho, 1)], "bounded")
        columns["gaussian_comparison"][key] = alike.gaussian(delta=float(delta_of(delta)))
    return {**columns, "gaussian_note": COMPARISON_NOTE}


def _fits(exact: Sequence[str], words: Words) -> str:
    parts = []
    if exact:
        parts.append(f"what is exact ({', '.join(exact)})")
    if words.public_facts:
        parts.append("the public facts")
    return " and ".join(parts)


def _row(
    secret: Secret,
    deltas: Sequence[Threshold],
    words: Words,
    *,
    balls: bool,
) -> Document:
    claim = secret.claim
    head = {
        "name": claim.name(words.unit),
        "kind": claim.kind,
        "status": claim.status,
        "exact": list(claim.exact),
    }
    if secret.loss is None:
        return head | {"sentence": f"disclosed by: {', '.join(claim.exact)}"}
    numbers = dict(_numbers(secret.loss, tuple(deltas), balls=balls))
    guess = numbers.pop("guess")
    return head | numbers | {"sentence": sentence(guess, claim, words)}


def loss_numbers(loss: Loss | WithChoices, deltas: Sequence[Threshold]) -> Document:
    """Return the numbers of one loss: rho, epsilon by delta, best guess, how they were found."""
    return {key: value for key, value in _numbers(loss, tuple(deltas), balls=True).items() if key != "guess"}


@lru_cache(maxsize=256)
def _numbers(loss: Loss | WithChoices, deltas: tuple[Threshold, ...], *, balls: bool) -> Document:
    """Return the numbers of one loss, and `guess`; many rows, and the ledger's statement, are about the same loss."""
    if isinstance(loss, PairLoss):
        here = {str(loss.delta): Enclosure(loss.epsilon, loss.epsilon)}
        return {"delta": str(loss.delta)} | _guesses(here, loss.best_guess(), loss.coordinates)
    if isinstance(loss, PureLoss):
        is_pure = LAWS[loss.law].loss_name == "epsilon"
        at = [EVERY_DELTA] if is_pure else [str(d) for d in deltas]
        boxes = {d: Enclosure(loss.epsilon, loss.epsilon) for d in at}
        zero: Document = {} if is_pure else _zcdp(Fraction(0), deltas)
        return zero | _guesses(boxes, loss.best_guess(), loss.coordinates)
    if isinstance(loss, WithChoices):
        name = loss.noise.certifying() if isinstance(loss.noise, Composition) else "auto"
        boxes = {d: loss.epsilon_at(d, name) for d in (map(str, deltas) if loss.rho else [EVERY_DELTA])}
        zero = _zcdp(loss.total_rho, deltas) if loss.rho else {}
        return zero | _guesses(boxes, loss.best_guess(name), loss.coordinates)
    name = loss.certifying() if balls else "auto"
    boxes = {str(d): loss.epsilon(d, engine=name) for d in deltas}
    return _zcdp(loss.rho, deltas) | _guesses(boxes, loss.best_guess(engine=name), loss.law.coordinates)


def _both(one: Enclosure, other: Enclosure) -> Enclosure:
    """Return where two enclosures of one value meet."""
    return Enclosure(max(one.lower, other.lower), min(one.upper, other.upper), one.method)


def _zcdp(rho: Fraction, deltas: Sequence[Threshold]) -> Document:
    return {"rho": str(rho), "mu": math.sqrt(float(2 * rho)), "usual": usual(rho, deltas)}


def _guesses(boxes: dict[str, Enclosure], guess: Enclosure, coordinates: int) -> Document:
    return {
        "n_counts_moved": coordinates,
        "epsilon": {d: list(box.texts()) for d, box in boxes.items()},
        "best_guess": list(guess.texts()),
        "right_in_100": right_in_100(guess),
        "method": next((b.method for b in boxes.values() if b.method), guess.method),
        "guess": guess,
    }


def _curve(loss: Loss) -> list[Document]:
    """Return the attack power 1 - f(alpha) at a few false-alarm rates, enclosed.

    In float64 with bounds: a point lies between two lines of the lattice, so balls are no narrower, only slower.
    """
    if isinstance(loss, PureLoss | PairLoss):
        boxes = loss.trade_off_curve(CURVE)
    else:
        boxes = loss.trade_off_curve(CURVE, engine="auto")
        if any(
            box.width > WIDE for box in boxes
        ):  # the theorems that hold for every composition may say more
            more = loss.trade_off_curve(CURVE, engine="bounds")
            boxes = [_both(one, other) for one, other in zip(boxes, more, strict=True)]
    return [
        {"alpha": str(a), "power": list(Enclosure(1 - b.upper, 1 - b.lower).texts(12))}
        for a, b in zip(CURVE, boxes, strict=True)
    ]
