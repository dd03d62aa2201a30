"""Compare what a certificate states of secrets with what was derived anew: nothing more favourable, nothing vague."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from topdown.accountant.enclosure import Enclosure
from topdown.publish.verify.arithmetic import exact_text
from topdown.publish.verify.privacy.choices import METHOD, WithChoices, holds
from topdown.publish.verify.privacy.decimals import (
    ROUNDED,
    digits_of,
    number,
    pair,
    tight_formula,
    usual_formula,
)
from topdown.publish.verify.privacy.losses import ALPHAS, EVERY_DELTA, Gaussian, Loss, Pair, Pure
from topdown.publish.verify.result import Finding, Findings

FILE = "certificate.json"
BOUNDS, PURE, PAIR = "bounds: two Gaussians, zCDP, symmetry", "pure epsilon", "sums of epsilon and delta"
# How wide an enclosure may be, as a part of its high end, by the engine that its method names.
WIDTHS = (
    (re.compile(r"ball/[0-9]{2,4} bit"), Fraction(1, 10**9)),
    (re.compile(r"float64|atoms/(float64|long double)"), Fraction(1, 10**6)),
    (re.compile(r"ball-free/[0-9]{2,4} bit|free/float64"), Fraction(1, 10**4)),  # of variances far apart
    (re.compile(f"{PURE}|{PAIR}"), Fraction(1, 10**11)),
    (re.compile(re.escape(BOUNDS)), Fraction(0)),
)
CURVE_WIDTH = Fraction(1, 10**6)
LEAST_WIDTH = Fraction(1, 10**12)
BOUND_SLACK = Fraction(1, 10**9)  # a bound may be rounded by this part of itself
CLOSED_FORM_SLACK = Fraction(1, 10**10)
COMPARISON = "closed form of the continuous Gaussian; errs in both directions, not a bound"
MOST_DELTAS = 8
_HEAD = {"name", "kind", "status", "exact", "sentence"}
_NUMBERS = {"n_counts_moved", "epsilon", "best_guess", "right_in_100", "method"}
_OF_RHO = {"rho", "mu", "usual"}


@dataclass(frozen=True)
class Row:
    """One row that a certificate must state.

    Args:
        head: what it must state literally.
        loss: of the secret; None if it is disclosed.
        sentence: the sentence, given how many choices in 100 are right.
    """

    head: dict[str, Any]
    loss: Loss | None
    sentence: Callable[[int], str]


@dataclass
class Comparison:
    """Collects contradictions between a certificate and what was derived; `deltas` is where epsilon is stated."""

    out: Findings
    deltas: tuple[str, ...] = ("1e-10",)

    def same(self, code: str, place: str, expected: Any, found: Any) -> bool:
        """Add a finding unless both are the same JSON."""
        self.out.n_checked += 1
        if _text(expected) == _text(found):
            return True
        self.wrong(code, place, "is not what follows from the files", _text(expected), _text(found))
        return False

    def wrong(self, code: str, place: str, text: str, expected: str = "", found: str = "") -> None:
        """Add a finding."""
        why = "the certificate would promise something that the files do not hold"
        line = f"the certificate's {place} {text}"
        self.out.add(Finding(code, line, FILE, None, None, expected[:120], found[:120], why))

    @contextmanager
    def reading(self, code: str, place: str) -> Iterator[None]:
        """Add a finding for whatever cannot be read inside the block."""
        self.out.n_checked += 1
        try:
            yield
        except (LookupError, ValueError, TypeError, AttributeError, StopIteration) as error:
            self.wrong(code, place, f"cannot be read: {str(error)[:120]}")

    def read_deltas(self, secrets: object, *, pure: bool) -> None:
        """Take from the first row where epsilon is stated; 1e-10 must be there, or 0 alone with geometric noise."""
        self.deltas = (EVERY_DELTA,) if pure else ("1e-10",)
        if pure:
            return
        with self.reading("V132", "privacy.secrets"):
            stated = tuple(secrets[0]["epsilon"]) if isinstance(secrets, list) and secrets else ()
            if "1e-10" not in stated or len(stated) > MOST_DELTAS:
                raise ValueError(f"no epsilon at delta 1e-10, or at more than {MOST_DELTAS} deltas")
            for delta in stated:
                digits_of(delta)
            self.deltas = stated

    def rows(self, code: str, place: str, stated: object, expected: Sequence[Row]) -> None:
        """Compare rows one by one; others than those expected are all wrong."""
        found = [row if isinstance(row, dict) else {} for row in stated] if isinstance(stated, list) else []
        names = [row.head["name"] for row in expected]
        if self.same(code, f"{place}: its rows", names, [row.get("name") for row in found]):
            for i, row in enumerate(expected):
                self._row(code, f"{place}[{i}]", found[i], row)

    def _row(self, code: str, place: str, stated: dict[str, Any], row: Row) -> None:
        loss = row.loss
        keys = {*row.head, "sentence"}
        if loss is not None:
            keys |= _NUMBERS | (_OF_RHO if loss.rho is not None else set())
            keys |= {"delta"} if loss.delta is not None else set()
        self.same(code, f"{place}: its keys", sorted(keys), sorted(stated))
        for key, value in row.head.items():
            self.same(code, f"{place}.{key}", value, stated.get(key))
        times = 0
        if loss is not None:
            self._numbers(place, stated, loss)
            times = stated.get("right_in_100", 0)
        self.same("V134", f"{place}.sentence", row.sentence(times), stated.get("sentence"))

    def _numbers(self, place: str, stated: dict[str, Any], loss: Loss) -> None:
        self.same("V132", f"{place}.n_counts_moved", loss.counts, stated.get("n_counts_moved"))
        method = stated.get("method")
        epsilon = stated.get("epsilon")
        at = dict(epsilon) if isinstance(epsilon, dict) else {}
        deltas = self.deltas
        if loss.delta is not None:
            deltas = (exact_text(loss.delta),)
            self.same("V132", f"{place}.delta", deltas[0], stated.get("delta"))
        if self.same("V132", f"{place}.epsilon: its deltas", sorted(deltas), sorted(at)):
            for delta in deltas:
                found = partial(_epsilon, delta=delta)
                self._enclosure(f"{place}.epsilon at {delta}", at[delta], loss, method, found)
        guess = stated.get("best_guess")
        self._enclosure(f"{place}.best_guess", guess, loss, method, lambda x: x.guess)
        with self.reading("V132", f"{place}.right_in_100"):
            times = min(math.ceil(100 * pair(guess)[1]), 100)
            self.same("V132", f"{place}.right_in_100", times, stated.get("right_in_100"))
        if loss.rho is not None:
            self.same("V132", f"{place}.rho", exact_text(loss.rho), stated.get("rho"))
            with self.reading("V132", f"{place}.mu"):
                self._near(f"{place}.mu", _float(stated.get("mu")), math.sqrt(float(2 * loss.rho)))
            with self.reading("V131", f"{place}.usual"):
                self._usual(f"{place}.usual", stated["usual"], loss.rho)

    def curve(self, stated: object, loss: Loss, method: object) -> None:
        """Compare the power of the best test at ALPHAS."""
        place = "privacy.curve"
        points = [p if isinstance(p, dict) else {} for p in stated] if isinstance(stated, list) else []
        if not self.same(
            "V132", f"{place}: its alphas", list(map(str, ALPHAS)), [p.get("alpha") for p in points]
        ):
            return
        for i, point in enumerate(points):
            self.same("V132", f"{place}[{i}]: its keys", ["alpha", "power"], sorted(point))
            found = partial(_power, i=i)
            self._enclosure(f"{place}[{i}].power", point.get("power"), loss, method, found, bounds_do=True)

    def _enclosure(
        self,
        place: str,
        stated: object,
        loss: Loss,
        method: object,
        own: Callable[[Loss], Enclosure],
        *,
        bounds_do: bool = False,
    ) -> None:
        """Add a finding unless [low, high] can hold the true value, is not below it, and is as narrow as its method.

        bounds_do: the bounds of theorems are allowed, whatever the method (the curve, where its sums are not quick).
        """
        with self.reading("V132", place):
            low, high = pair(stated)
            if isinstance(loss, WithChoices):
                mine = own(loss)
                if method != METHOD or not holds(low, high, mine):
                    line = "is not between the noise alone and the noise with choices"
                    self.wrong("V132", place, line, ", ".join(mine.texts()), _text(stated))
                return
            width = max(_width(method), CURVE_WIDTH) if bounds_do else _width(method)
            if (method == PURE) != isinstance(loss, Pure) or (method == PAIR) != isinstance(loss, Pair):
                raise ValueError(f"no method {method!r} gives it")
            mine = own(loss)
            narrow = method != BOUNDS and high - low <= width * high + LEAST_WIDTH
            said_more = low > mine.lower or high < mine.upper
            if mine.method == BOUNDS and method != BOUNDS and said_more and not bounds_do:
                raise ValueError("no sum of so many laws is quick: only bounds can be said of it")
            if not narrow and isinstance(loss, Gaussian) and (method == BOUNDS or bounds_do):
                wide = own(loss.bounds)
                slack = BOUND_SLACK * high + LEAST_WIDTH
                narrow = wide.lower - slack <= low and high <= wide.upper + slack
                if bounds_do:  # then it is nothing but these bounds
                    narrow &= low <= wide.lower and wide.upper <= high
            if not (narrow and low <= mine.upper and mine.lower <= high):
                side = "above" if low > mine.upper else "below" if high < mine.lower else "too wide for"
                line = f"is {side} the value found here"
                self.wrong("V132", place, line, ", ".join(mine.texts()), _text(stated))

    def _usual(self, place: str, stated: dict[str, Any], rho: Fraction) -> None:
        keys = ["bun_steinke", "canonne_kamath_steinke", "gaussian_comparison", "gaussian_note"]
        self.same("V131", f"{place}: its keys", keys, sorted(stated))
        self.same("V131", f"{place}.gaussian_note", COMPARISON, stated.get("gaussian_note"))
        for key in keys[:3]:
            if not self.same("V131", f"{place}.{key}: its deltas", sorted(self.deltas), sorted(stated[key])):
                continue
            for delta in self.deltas:
                text, digits = stated[key][delta], digits_of(delta)
                if key == "gaussian_comparison":
                    self._near(f"{place}.{key}", _float(text), _gaussian(rho, digits), 1e-6)
                    continue
                true = _formula(key, rho, digits)
                if not true * (1 - ROUNDED) <= number(text) <= true * (1 + CLOSED_FORM_SLACK):
                    self.wrong("V131", f"{place}.{key}", "is not what rho implies", shown(true), str(text))

    def _near(self, place: str, stated: float, mine: float, slack: float = 1e-12) -> None:
        self.out.n_checked += 1
        if not abs(stated - mine) <= slack * abs(mine):
            self.wrong("V132", place, "is not what rho implies", repr(mine), repr(stated))


def _epsilon(loss: Loss, *, delta: str) -> Enclosure:
    return loss.epsilon(delta)


def _power(loss: Loss, *, i: int) -> Enclosure:
    return loss.powers[i]


def shown(value: Fraction) -> str:
    """Return a value to 12 digits, for a finding."""
    return Enclosure(value, value).texts(12)[0]


def _formula(key: str, rho: Fraction, digits: int) -> Fraction:
    if not rho:
        return Fraction(0)
    return usual_formula(rho, digits) if key == "bun_steinke" else tight_formula(rho, digits)


def _gaussian(rho: Fraction, digits: int) -> float:
    from topdown.accountant.gaussian import gaussian_epsilon

    return gaussian_epsilon(math.sqrt(float(2 * rho)), -digits * math.log(10)) if rho else 0.0


def _width(method: object) -> Fraction:
    for known, width in WIDTHS:
        if isinstance(method, str) and known.fullmatch(method):
            return width
    raise ValueError(f"no method is called {str(method)[:40]!r}")


def _float(stated: object) -> float:
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not math.isfinite(stated):
        raise ValueError(f"{str(stated)[:40]!r} is not a number")
    return float(stated)


def _text(value: Any) -> str:
    # JSON true and 1, or 1 and 1.0, are equal in Python; they are not the same statement.
    return json.dumps(value, sort_keys=True)
