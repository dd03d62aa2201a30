"""The account of measurements without a plan, and of the paths of a whole release: what `topdown account` prints.

rho is zCDP of the stated relation everywhere, as in a plan; exact numbers are strings "a/b", enclosures are
[low, high] decimal strings rounded outward.

A path is the list of areas that contain one block; its budgets depend on which levels are bypassed. Replacing a
record moves it from path k to path l, so the pair's composition has the coordinates of both (arXiv 2606.29835,
section 3). The release is (epsilon, delta) with epsilon the maximum over pairs. The 2020 DHC persons release has 43
published paths.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from itertools import combinations_with_replacement

from topdown.errors import ConfigError
from topdown.formats.common import USUAL_NEIGHBOURS, Neighbours
from topdown.privacy.accountant.composition import DIGITS, Composition
from topdown.privacy.exact_values import Enclosure, Exact, Threshold, delta_of, rational
from topdown.privacy.relation import REPLACED, Relation, stated_changes
from topdown.privacy.statement import Document, accuracy_percent, usual_conversions

Pair = tuple[str, str]


@dataclass(frozen=True)
class ReleasePath:
    """One path: its name and, for each rho, how many of its measurements have it (exact, zeros dropped).

    rho is what the measurement costs a replaced record that stays on this path (zCDP, bounded): its noise is
    N_Z(0, 1 / rho), and the record moves two of its counts. A record that changes path moves one count of each.
    """

    name: str
    budgets: tuple[tuple[Fraction, int], ...]

    @property
    def rho(self) -> Fraction:
        """Budget of the path: zCDP of replacing a record that stays on it."""
        return sum((r * n for r, n in self.budgets), Fraction(0))


@dataclass(frozen=True)
class WorstPair:
    """Worst pair at one delta."""

    delta: Fraction
    epsilon: Enclosure
    pair: Pair


def release_path(name: str, budgets: Mapping[Exact, int] | Iterable[tuple[Exact, int]]) -> ReleasePath:
    """Return a checked path."""
    law = Composition.from_rho(budgets, REPLACED.name).law
    return ReleasePath(name, tuple((1 / g.variance, g.count // REPLACED.n_counts) for g in law.groups))


def pair_composition(one: ReleasePath, two: ReleasePath) -> Composition:
    """Return the composition of moving a record from one path to the other: one count of each measurement of both."""
    return Composition.of((1 / r, 1, n) for r, n in (*one.budgets, *two.budgets))


def all_pairs(paths: Sequence[ReleasePath]) -> list[tuple[ReleasePath, ReleasePath]]:
    """Return every unordered pair, a path with itself included; paths with equal budgets count once."""
    if not paths:
        raise ConfigError("no path was given", code="A012", fix="give at least one path with its budgets")
    distinct: dict[tuple[tuple[Fraction, int], ...], ReleasePath] = {}
    for p in paths:
        distinct.setdefault(tuple(sorted(p.budgets)), p)
    return list(combinations_with_replacement(distinct.values(), 2))


def worst_epsilon(paths: Sequence[ReleasePath], deltas: Iterable[Threshold]) -> list[WorstPair]:
    """Return the largest epsilon over all pairs at each delta.

    Every pair's delta is enclosed at the epsilon of one pair; the pair with the largest is inverted; every other pair
    whose certified delta at that epsilon is below the target cannot be worse, and the few left are inverted too.
    """
    pairs = {(one.name, two.name): pair_composition(one, two) for one, two in all_pairs(paths)}
    return [_worst_pair(pairs, delta_of(d)) for d in deltas]


def _worst_pair(pairs: Mapping[Pair, Composition], target: Fraction) -> WorstPair:
    mark = next(iter(pairs.values())).epsilon(target).lower
    top = name = max(pairs, key=lambda pair: pairs[pair].delta_arrays([mark])[0][0])
    best = pairs[top].epsilon(target)
    at = best.lower
    for pair, composition in pairs.items():
        if pair == top or Fraction(composition.delta_arrays([at])[1][0]) < target:
            continue
        found = composition.epsilon(target)
        name = pair if found.lower > best.lower else name
        method = best.method if best.lower >= found.lower else found.method
        best = Enclosure(max(best.lower, found.lower), max(best.upper, found.upper), method)
    return WorstPair(target, best, name)


def dhc_paths() -> tuple[list[ReleasePath], int]:
    """Return the 43 paths (named "1".."43") and the index of the un-bypassed one."""
    text = (files("topdown.privacy.accountant") / "data" / "dhc_persons_2020.json").read_text(
        encoding="utf-8"
    )
    document = json.loads(text)
    paths = [
        release_path(
            str(number), [(Fraction(rho), n) for level in levels.values() for rho, n in level.items()]
        )
        for number, levels in enumerate(document["paths"], start=1)
    ]
    return paths, int(document["unbypassed"]) - 1


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


def account_document(
    rhos: str | Iterable[tuple[Exact, int]],
    *,
    neighbours: Neighbours = USUAL_NEIGHBOURS,
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
        neighbours: relation of rho; what it moves in each measurement moves by one.
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
    moved, change = Relation.named(neighbours).n_counts, stated_changes(neighbours, "person")[0]
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
        "delta": _ends_as_texts(by_epsilon, digits),
        "epsilon": _ends_as_texts(by_delta, digits),
        "trade_off": _ends_as_texts(by_alpha, digits),
        "usual": usual_conversions(composition.rho, at_delta),
        "best_guess": list(guess.texts()),
        "right_in_100": accuracy_percent(guess),
        "sentence": change.sentence(
            "Someone who reads only these answers", "person", "", accuracy_percent(guess)
        ),
    }


def dhc2020_document(deltas: Sequence[Threshold] = ("1e-10",), *, proxy: bool = False) -> Document:
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
        "neighbours": REPLACED.name,
        "rho": str(reference.rho),
        "n_counts_moved": reference.law.coordinates,
        "n_paths": len(chosen),
        "n_pairs": len(chosen) * (len(chosen) + 1) // 2,
        "worst": {
            str(d): {"epsilon": list(w.epsilon.texts()), "paths": list(w.pair)}
            for d, w in zip(deltas, worst, strict=True)
        },
        "unbypassed": {str(d): list(reference.epsilon(d).texts()) for d in deltas},
        "usual": usual_conversions(reference.rho, deltas),
    }


def _ends_as_texts(boxes: dict[str, Enclosure], digits: int) -> dict[str, list[str]]:
    return {key: list(box.texts(_digits_shown(box, digits))) for key, box in boxes.items()}


def _digits_shown(box: Enclosure, digits: int) -> int:
    """Return 18 digits, as an audit prints, or where more were asked for enough to show both ends apart."""
    if digits <= DIGITS or box.width == 0 or box.lower <= 0:
        return 18
    return max(18, 3 - math.floor(math.log10(max(box.relative_width, 1e-300))))
