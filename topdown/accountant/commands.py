"""What the command line prints about releases: pure functions from exact inputs to JSON-ready documents.

Exact numbers are strings "a/b", enclosures are [low, high] decimal strings rounded outward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from topdown.accountant import zcdp
from topdown.accountant.composition import Composition
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.exact import Threshold, delta_of
from topdown.accountant.semantics import Measurement, Neighbours, Secret, secrets

Document = dict[str, object]
CURVE = tuple(Fraction(n, 100) for n in (1, 2, 5, 10, 20, 30, 40, 50, 60, 80))
COMPARISON_NOTE = "closed form of the continuous Gaussian; errs in both directions, not a bound"


def audit_static(
    measurements: Iterable[Measurement],
    deltas: Sequence[Threshold] = ("1e-10",),
    *,
    neighbours: Neighbours = "bounded",
    engine: str | None = None,
    certify_curve: bool = False,
) -> Document:
    """Return the exact loss of a release: everything, each attribute, moves within each level.

    Args:
        measurements: every (level, query) measured, with exact variances.
        deltas: where epsilon is stated.
        neighbours: "bounded" or "add_remove".
        certify_curve: also put the attack curve in balls, which takes most of a second for a census release.
        engine: by default balls, or float64 where balls would need more than 1500 nodes (`method` says which).
    """
    rows = [_audited(s, deltas, engine) for s in secrets(measurements, neighbours)]
    return {
        "type": "topdown.audit.static",
        "version": 1,
        "engine": rows[0]["method"],
        "neighbours": neighbours,
        "deltas": [str(d) for d in deltas],
        "secrets": rows,
        "curve": _curve(secrets_first(measurements, neighbours), certify=certify_curve),
        "sentence": rows[0]["sentence"],
    }


def usual(composition: Composition, deltas: Iterable[Threshold]) -> Document:
    """Return the comparison columns at each delta: zCDP by both conversions (rounded up), and mu-GDP."""
    columns: dict[str, dict[str, object]] = {
        "bun_steinke": {},
        "canonne_kamath_steinke": {},
        "gaussian_comparison": {},
    }
    for delta in deltas:
        key = str(delta)
        columns["bun_steinke"][key] = zcdp.bun_steinke(composition.rho, delta).texts(12)[1]
        columns["canonne_kamath_steinke"][key] = zcdp.canonne_kamath_steinke(composition.rho, delta).texts(
            12
        )[1]
        columns["gaussian_comparison"][key] = composition.gaussian(delta=float(delta_of(delta)))
    return {**columns, "gaussian_note": COMPARISON_NOTE}


def sentence(best_guess: Enclosure) -> str:
    """Return the sentence an official can quote, its number rounded up."""
    times = right_in_100(best_guess)
    return (
        "Someone who knows every other person's answers, and must tell which of two answers one person gave, "
        f"chooses rightly at most {times} times in 100; a coin gives 50."
    )


def right_in_100(best_guess: Enclosure) -> int:
    """Return the certified success rate in percent, rounded up."""
    return min(math.ceil(best_guess.upper * 100), 100)


def secrets_first(measurements: Iterable[Measurement], neighbours: Neighbours) -> Composition:
    """Return the composition of the first secret: one person, everything."""
    return secrets(measurements, neighbours)[0].composition


def _audited(secret: Secret, deltas: Sequence[Threshold], engine: str | None) -> Document:
    composition = secret.composition
    name = engine or composition.certifying()
    boxes = {str(d): composition.epsilon(d, engine=name) for d in deltas}
    guess = composition.best_guess(engine=name)
    return {
        "name": secret.name,
        "kind": secret.kind,
        "rho": str(composition.rho),
        "mu": composition.mu,
        "n_counts_moved": composition.law.coordinates,
        "epsilon": {d: list(box.texts()) for d, box in boxes.items()},
        "enclosure_width": {d: float(box.width) for d, box in boxes.items()},
        "usual": usual(composition, deltas),
        "best_guess": list(guess.texts()),
        "right_in_100": right_in_100(guess),
        "sentence": sentence(guess),
        "method": next((b.method for b in boxes.values()), guess.method),
    }


def _curve(composition: Composition, *, certify: bool) -> list[Document]:
    """Return the attack power 1 - f(alpha) at a few false-alarm rates, enclosed."""
    boxes = composition.trade_off_curve(CURVE, engine=composition.certifying() if certify else "auto")
    return [
        {"alpha": str(a), "power": list(Enclosure(1 - b.upper, 1 - b.lower).texts(12))}
        for a, b in zip(CURVE, boxes, strict=True)
    ]
