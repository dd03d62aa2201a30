"""What the command line prints: pure functions from exact inputs to JSON-ready documents.

Exact numbers are strings "a/b", enclosures are [low, high] decimal strings rounded outward.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from topdown.accountant.composition import DIGITS, Composition
from topdown.accountant.dhc2020 import dhc_paths
from topdown.accountant.enclosure import Enclosure
from topdown.accountant.exact import Threshold, rational
from topdown.accountant.paths import pair_composition, worst_epsilon
from topdown.accountant.statements import sentence, usual
from topdown.errors import ConfigError

Document = dict[str, object]


def parse_rhos(text: str) -> list[tuple[Fraction, int]]:
    """Read "11/10000*20,73/10000*18": rho, and after * how many measurements have it."""
    out = []
    for part in text.split(","):
        rho, star, count = part.strip().partition("*")
        if star and not count.strip().isdigit():
            raise ConfigError(
                f"{part.strip()!r} has no whole number after *", code="A021", fix='write "11/10000*20"'
            )
        out.append((rational(rho.strip(), "rho"), int(count) if star else 1))
    return out


def account(
    rhos: str | Iterable[tuple[Fraction, int]],
    *,
    epsilons: Iterable[Threshold] = (),
    deltas: Iterable[Threshold] = (),
    alphas: Iterable[Threshold] = (),
    engine: str = "auto",
    digits: int = DIGITS,
) -> Document:
    """Return the exact account of one composition at the given epsilons, deltas and alphas (default delta 1e-10).

    Args:
        rhos: text as for `parse_rhos`, or (rho, count) pairs.
        epsilons, deltas, alphas: thresholds; keys of the result are their text.
        engine: engine by name; digits: of the ball engines.
    """
    pairs = parse_rhos(rhos) if isinstance(rhos, str) else list(rhos)
    composition = Composition(pairs)
    at_epsilon, at_delta, at_alpha = list(epsilons), list(deltas), list(alphas)
    if not (at_epsilon or at_delta or at_alpha):
        at_delta = ["1e-10"]
    options = {"engine": engine, "digits": digits}
    boxes: list[Enclosure] = []

    def texts(box: Enclosure) -> list[str]:
        boxes.append(box)
        return list(box.texts(_figures(box)))

    found: Document = {
        "delta": {str(e): texts(composition.delta(e, **options)) for e in at_epsilon},  # type: ignore[arg-type]
        "epsilon": {str(d): texts(composition.epsilon(d, **options)) for d in at_delta},  # type: ignore[arg-type]
        "trade_off": {str(a): texts(composition.trade_off(a, **options)) for a in at_alpha},  # type: ignore[arg-type]
    }
    guess = composition.best_guess(engine=engine, digits=digits)
    return {
        "type": "topdown.account",
        "version": 1,
        "engine": boxes[-1].method,
        "rho": str(composition.rho),
        "budgets": [[str(rho), count] for rho, count in pairs],
        "n_measurements": composition.law.coordinates,
        "mu": composition.mu,
        **found,
        "usual": usual(composition.rho, at_delta),
        "best_guess": list(guess.texts()),
        "sentence": sentence(guess),
    }


def dhc2020(deltas: Sequence[Threshold] = ("1e-10",), *, proxy: bool = False) -> Document:
    """Return the worst of the 946 pairs of the 43 published DHC paths, or the un-bypassed pair alone (proxy)."""
    paths, unbypassed = dhc_paths()
    chosen = [paths[unbypassed]] if proxy else paths
    worst = worst_epsilon(chosen, deltas)
    reference = pair_composition(paths[unbypassed], paths[unbypassed])
    return {
        "type": "topdown.account.dhc2020",
        "version": 1,
        "engine": worst[0].epsilon.method,
        "rho": str(reference.rho),
        "n_paths": len(chosen),
        "n_pairs": len(chosen) * (len(chosen) + 1) // 2,
        "worst": {
            str(d): {"epsilon": list(w.epsilon.texts()), "paths": list(w.pair)}
            for d, w in zip(deltas, worst, strict=True)
        },
        "unbypassed": {str(d): list(reference.epsilon(d).texts()) for d in deltas},
        "usual": usual(reference.rho, deltas),
    }


def _figures(box: Enclosure) -> int:
    """Return how many digits show both ends apart, at least 18."""
    return (
        18
        if box.width == 0 or box.lower <= 0
        else max(18, 3 - math.floor(math.log10(max(box.relative_width, 1e-300))))
    )
