"""The account of measurements without a plan: what `topdown account` prints, as JSON-ready documents.

rho is zCDP of the stated relation everywhere, as in a plan; exact numbers are strings "a/b", enclosures are
[low, high] decimal strings rounded outward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from topdown.accountant.composition import DIGITS, Composition, counts_moved
from topdown.accountant.dhc2020 import dhc_paths
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.event import Neighbours
from topdown.accountant.exact import Exact, Threshold, rational
from topdown.accountant.paths import pair_composition, worst_epsilon
from topdown.accountant.statements import Document, right_in_100, usual
from topdown.errors import ConfigError

_QUESTIONS = {
    "bounded": "which of two answers one person gave",
    "add_remove": "whether one person's answers were there at all",
}


def parse_rhos(text: str) -> list[tuple[Fraction, int]]:
    """Read "11/10000*20,73/10000*18": rho of a measurement, and after * how many measurements have it."""
    out = []
    for part in text.split(","):
        rho, star, count = part.strip().partition("*")
        if star and not (count.strip().isascii() and count.strip().isdigit()):
            raise ConfigError(
                f"{part.strip()!r} has no whole number after *", code="A021", fix='write "11/10000*20"'
            )
        number = rational(count.strip(), "the number of measurements") if star else Fraction(1)
        out.append((rational(rho.strip(), "rho"), int(number)))
    return out


def account(
    rhos: str | Iterable[tuple[Exact, int]],
    *,
    neighbours: Neighbours = "bounded",
    epsilons: Iterable[Threshold] = (),
    deltas: Iterable[Threshold] = (),
    alphas: Iterable[Threshold] = (),
    engine: str | None = None,
    digits: int = DIGITS,
) -> Document:
    """Return the exact account of measurements at the given epsilons, deltas and alphas (default delta 1e-10).

    Args:
        rhos: text as for `parse_rhos`, or (rho, measurements) pairs; rho is what each measurement costs in zCDP of
            the relation, as a plan prints it.
        neighbours: "bounded" (a record replaced moves two counts of each measurement by one) or "add_remove" (one).
        epsilons, deltas, alphas: thresholds; keys of the result are their text.
        engine: engine by name; by default the one of `topdown audit`, balls where they are quick.
        digits: of the ball engines.
    """
    pairs = parse_rhos(rhos) if isinstance(rhos, str) else [(rational(r, "rho"), n) for r, n in rhos]
    composition = Composition.from_rho(pairs, neighbours)
    at_epsilon, at_delta, at_alpha = list(epsilons), list(deltas), list(alphas)
    if not (at_epsilon or at_delta or at_alpha):
        at_delta = ["1e-10"]
    name = engine or composition.certifying()
    guess = composition.best_guess(engine=name, digits=digits)
    by_epsilon = {str(e): composition.delta(e, engine=name, digits=digits) for e in at_epsilon}
    by_delta = {str(d): composition.epsilon(d, engine=name, digits=digits) for d in at_delta}
    by_alpha = {str(a): composition.trade_off(a, engine=name, digits=digits) for a in at_alpha}
    moved = counts_moved(neighbours)
    return {
        "type": "topdown.account",
        "version": 2,
        "engine": [guess, *by_epsilon.values(), *by_delta.values(), *by_alpha.values()][-1].method,
        "neighbours": neighbours,
        "rho": str(composition.rho),
        "measurements": [
            {"rho": str(rho), "variance": str(moved / (2 * rho)), "count": count}
            for rho, count in pairs
            if rho and count
        ],
        "n_measurements": composition.law.coordinates // moved,
        "counts_per_measurement": moved,
        "n_counts_moved": composition.law.coordinates,
        "mu": composition.mu,
        "delta": _texts(by_epsilon, digits),
        "epsilon": _texts(by_delta, digits),
        "trade_off": _texts(by_alpha, digits),
        "usual": usual(composition.rho, at_delta),
        "best_guess": list(guess.texts()),
        "right_in_100": right_in_100(guess),
        "sentence": (
            "Someone who reads only these answers, knows every other person's, and must tell "
            f"{_QUESTIONS[neighbours]}, chooses rightly at most {right_in_100(guess)} times in 100; a coin gives 50."
        ),
    }


def dhc2020(deltas: Sequence[Threshold] = ("1e-10",), *, proxy: bool = False) -> Document:
    """Return the worst of the 946 pairs of the 43 published DHC paths, or the un-bypassed pair alone (proxy).

    The published rho are bounded zCDP: what each measurement of one path costs a replaced record that stays on the
    path. `rho` is the sum of a path's, the zCDP budget of the un-bypassed path with itself.
    """
    paths, unbypassed = dhc_paths()
    chosen = [paths[unbypassed]] if proxy else paths
    worst = worst_epsilon(chosen, deltas)
    reference = pair_composition(paths[unbypassed], paths[unbypassed])
    return {
        "type": "topdown.account.dhc2020",
        "version": 2,
        "engine": worst[0].epsilon.method,
        "neighbours": "bounded",
        "rho": str(reference.rho),
        "n_counts_moved": reference.law.coordinates,
        "n_paths": len(chosen),
        "n_pairs": len(chosen) * (len(chosen) + 1) // 2,
        "worst": {
            str(d): {"epsilon": list(w.epsilon.texts()), "paths": list(w.pair)}
            for d, w in zip(deltas, worst, strict=True)
        },
        "unbypassed": {str(d): list(reference.epsilon(d).texts()) for d in deltas},
        "usual": usual(reference.rho, deltas),
    }


def _texts(boxes: dict[str, Enclosure], digits: int) -> dict[str, list[str]]:
    return {key: list(box.texts(_figures(box, digits))) for key, box in boxes.items()}


def _figures(box: Enclosure, digits: int) -> int:
    """Return 18 digits, as an audit prints, or where more were asked for enough to show both ends apart."""
    if digits <= DIGITS or box.width == 0 or box.lower <= 0:
        return 18
    return max(18, 3 - math.floor(math.log10(max(box.relative_width, 1e-300))))
