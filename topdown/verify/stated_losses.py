"""What a certificate states in rows and numbers, compared with losses that verify derived itself."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from operator import methodcaller
from typing import Any

from topdown.formats.verify_documents import Finding
from topdown.verify.change_losses import (
    ALPHAS,
    EVERY_DELTA,
    MIXED_METHOD,
    ChangeLoss,
    GaussianLoss,
    MixedLoss,
    PairLoss,
    PureLoss,
    mixed_end_agrees,
)
from topdown.verify.exact_arithmetic import (
    ROUNDED,
    Ends,
    digits_of,
    exact_text,
    read_decimal,
    read_enclosure,
    tight_formula,
    twelve_digits,
    usual_formula,
)
from topdown.verify.findings import Findings
from topdown.verify.gaussian_sums import continuous_epsilon

FILE = "certificate.json"
BOUNDS, PURE, PAIR = "bounds: two Gaussians, zCDP, symmetry", "pure epsilon", "sums of epsilon and delta"
COMPOSED = f"{PAIR}, guesses by composed losses"


# How wide an enclosure may be, as a part of its high end, by the engine that its method names.
WIDTHS = (
    (re.compile(r"ball/[0-9]{2,4} bit"), Fraction(1, 10**9)),
    (re.compile(r"float64|atoms/(float64|long double)"), Fraction(1, 10**6)),
    (re.compile(r"ball-free/[0-9]{2,4} bit|free/float64"), Fraction(1, 10**4)),  # of variances far apart
    (re.compile(f"{PURE}|{PAIR}|{COMPOSED}"), Fraction(1, 10**11)),
    (re.compile(re.escape(BOUNDS)), Fraction(0)),
)

CURVE_WIDTH = Fraction(1, 10**6)
LEAST_WIDTH = Fraction(1, 10**12)
BOUND_SLACK = Fraction(1, 50)  # a search for bounds may stop this part of itself short
CLOSED_FORM_SLACK = Fraction(1, 10**10)
COMPARISON = "closed form of the continuous Gaussian; errs in both directions, not a bound"
MOST_DELTAS = 8
_NUMBERS = {"n_counts_moved", "epsilon", "best_guess", "right_in_100", "method"}
_OF_RHO = {"rho", "mu", "usual"}


@dataclass(frozen=True)
class StatedRow:
    """One row that a certificate must state.

    Args:
        head: what it must state literally.
        loss: of the secret; None if it is disclosed.
        sentence: the sentence; of a secret that is not disclosed, given how many choices in 100 are right.
    """

    head: dict[str, Any]
    loss: ChangeLoss | None
    sentence: Callable[[int], str] | str
    deltas: tuple[str, ...] = ()


@dataclass
class Comparison:
    """Collects contradictions between a certificate and what was derived; `deltas` is where epsilon is stated."""

    out: Findings
    deltas: tuple[str, ...] = ("1e-10",)

    def same(self, code: str, place: str, expected: Any, found: Any) -> bool:
        """Add a finding unless both are the same JSON."""
        self.out.n_checked += 1
        if _json_text(expected) == _json_text(found):
            return True
        self.wrong(code, place, "is not what follows from the files", _json_text(expected), _json_text(found))
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

    def rows(self, code: str, place: str, stated: object, expected: Sequence[StatedRow]) -> None:
        """Compare rows one by one; others than those expected are all wrong."""
        found = [row if isinstance(row, dict) else {} for row in stated] if isinstance(stated, list) else []
        names = [row.head["name"] for row in expected]
        if self.same(code, f"{place}: its rows", names, [row.get("name") for row in found]):
            for i, row in enumerate(expected):
                self._row(code, f"{place}[{i}]", found[i], row)

    def _row(self, code: str, place: str, stated: dict[str, Any], row: StatedRow) -> None:
        loss = row.loss
        keys = {*row.head, "sentence"}
        if loss is not None:
            keys |= _NUMBERS | (_OF_RHO if loss.rho is not None else set())
            keys |= {"delta"} if loss.delta is not None else set()
        self.same(code, f"{place}: its keys", sorted(keys), sorted(stated))
        for key, value in row.head.items():
            self.same(code, f"{place}.{key}", value, stated.get(key))
        if loss is not None:
            self._numbers(place, stated, loss, row.deltas or self.deltas)
        said = row.sentence if isinstance(row.sentence, str) else row.sentence(stated.get("right_in_100", 0))
        self.same("V134", f"{place}.sentence", said, stated.get("sentence"))

    def _numbers(self, place: str, stated: dict[str, Any], loss: ChangeLoss, deltas: tuple[str, ...]) -> None:
        self.same("V132", f"{place}.n_counts_moved", loss.counts, stated.get("n_counts_moved"))
        method = stated.get("method")
        epsilon = stated.get("epsilon")
        at = dict(epsilon) if isinstance(epsilon, dict) else {}
        if loss.delta is not None:
            deltas = (exact_text(loss.delta),)
            self.same("V132", f"{place}.delta", deltas[0], stated.get("delta"))
        if self.same("V132", f"{place}.epsilon: its deltas", sorted(deltas), sorted(at)):
            for delta in deltas:
                found = methodcaller("epsilon", delta)
                self._enclosure(f"{place}.epsilon at {delta}", at[delta], loss, method, found)
        guess = stated.get("best_guess")
        if method == COMPOSED and isinstance(loss, PairLoss):
            self._composed_guess(f"{place}.best_guess", guess, loss)
        else:
            self._enclosure(f"{place}.best_guess", guess, loss, method, lambda x: x.guess)
        with self.reading("V132", f"{place}.right_in_100"):
            times = min(math.ceil(100 * read_enclosure(guess)[1]), 100)
            self.same("V132", f"{place}.right_in_100", times, stated.get("right_in_100"))
        if loss.rho is not None:
            self.same("V132", f"{place}.rho", exact_text(loss.rho), stated.get("rho"))
            with self.reading("V132", f"{place}.mu"):
                self._near(f"{place}.mu", _read_float(stated.get("mu")), math.sqrt(float(2 * loss.rho)))
            with self.reading("V131", f"{place}.usual"):
                self._usual(f"{place}.usual", stated["usual"], loss.rho, deltas)

    def curve(self, stated: object, loss: ChangeLoss, method: object) -> None:
        """Compare the power of the best test at ALPHAS."""
        place = "privacy.curve"
        points = [p if isinstance(p, dict) else {} for p in stated] if isinstance(stated, list) else []
        if not self.same(
            "V132", f"{place}: its alphas", list(map(str, ALPHAS)), [p.get("alpha") for p in points]
        ):
            return
        for i, point in enumerate(points):
            self.same("V132", f"{place}[{i}]: its keys", ["alpha", "power"], sorted(point))
            own = partial(lambda x, i: x.powers[i], i=i)
            self._enclosure(f"{place}[{i}].power", point.get("power"), loss, method, own, bounds_do=True)

    def _enclosure(
        self,
        place: str,
        stated: object,
        loss: ChangeLoss,
        method: object,
        own: Callable[[ChangeLoss], Ends],
        *,
        bounds_do: bool = False,
    ) -> None:
        """Add a finding unless [low, high] can hold the true value, is not below it, and is as narrow as its method.

        bounds_do: the bounds of theorems are allowed, whatever the method (the curve, where its sums are not quick).
        """
        with self.reading("V132", place):
            low, high = read_enclosure(stated)
            if isinstance(loss, MixedLoss):
                mine, exact = own(loss), method == MIXED_METHOD
                if method not in loss.methods or not mixed_end_agrees(
                    (low, high), mine, loss.slack, narrow=exact
                ):
                    line = "is not what everything together costs"
                    self.wrong("V132", place, line, str(mine), _json_text(stated))
                return
            width = max(_allowed_width(method), CURVE_WIDTH) if bounds_do else _allowed_width(method)
            by_sums = method in (PAIR, COMPOSED)
            if (method == PURE) != isinstance(loss, PureLoss) or by_sums != isinstance(loss, PairLoss):
                raise ValueError(f"no method {method!r} gives it")
            mine = own(loss)
            if isinstance(loss, PureLoss):  # exact, or a bound with a trivial lower end: both ends are known
                room = width * mine.upper + LEAST_WIDTH
                outward = low <= mine.lower * (1 + 3 * ROUNDED) and mine.upper * (1 - 3 * ROUNDED) <= high
                if not (outward and mine.lower - low <= room and high - mine.upper <= room):
                    line = "is not the value found here"
                    self.wrong("V132", place, line, str(mine), _json_text(stated))
                return
            narrow = method != BOUNDS and high - low <= width * high + LEAST_WIDTH
            if (
                not narrow
                and isinstance(loss, GaussianLoss)
                and (method == BOUNDS or (bounds_do and loss.total.is_slow))
            ):
                wide = own(loss.widest)
                narrow = wide.lower * (1 - BOUND_SLACK) - LEAST_WIDTH <= low
                narrow &= high <= wide.upper * (1 + BOUND_SLACK) + LEAST_WIDTH
            if not (narrow and low <= mine.upper and mine.lower <= high):
                side = "above" if low > mine.upper else "below" if high < mine.lower else "too wide for"
                line = f"is {side} the value found here"
                self.wrong("V132", place, line, str(mine), _json_text(stated))

    def _composed_guess(self, place: str, stated: object, loss: PairLoss) -> None:
        """Add a finding unless a guess is bounded as composed losses do: from 1/2 to no less than they allow."""
        with self.reading("V132", place):
            (low, high), mine = read_enclosure(stated), loss.composed_guess if loss.parts else None
            if low != Fraction(1, 2) or mine is None or not mine.lower <= high <= mine.upper:
                self.wrong(
                    "V132", place, "is not what composed losses give", str(mine or ""), _json_text(stated)
                )

    def _usual(self, place: str, stated: dict[str, Any], rho: Fraction, deltas: tuple[str, ...]) -> None:
        keys = ["bun_steinke", "canonne_kamath_steinke", "gaussian_comparison", "gaussian_note"]
        self.same("V131", f"{place}: its keys", keys, sorted(stated))
        self.same("V131", f"{place}.gaussian_note", COMPARISON, stated.get("gaussian_note"))
        for key in keys[:3]:
            if not self.same("V131", f"{place}.{key}: its deltas", sorted(deltas), sorted(stated[key])):
                continue
            for delta in deltas:
                text, digits = stated[key][delta], digits_of(delta)
                if key == "gaussian_comparison":
                    mine = continuous_epsilon(rho, digits) if rho else 0.0
                    self._near(f"{place}.{key}", _read_float(text), mine, 1e-6)
                    continue
                formula = usual_formula if key == "bun_steinke" else tight_formula
                true = formula(rho, digits) if rho else Fraction(0)
                if not true * (1 - ROUNDED) <= read_decimal(text) <= true * (1 + CLOSED_FORM_SLACK):
                    due = twelve_digits(true)
                    self.wrong("V131", f"{place}.{key}", "is not what rho implies", due, str(text))

    def _near(self, place: str, stated: float, mine: float, slack: float = 1e-12) -> None:
        self.out.n_checked += 1
        if not abs(stated - mine) <= slack * abs(mine):
            self.wrong("V132", place, "is not what rho implies", repr(mine), repr(stated))


def _allowed_width(method: object) -> Fraction:
    for known, width in WIDTHS:
        if isinstance(method, str) and known.fullmatch(method):
            return width
    raise ValueError(f"no method is called {str(method)[:40]!r}")


def _read_float(stated: object) -> float:
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not math.isfinite(stated):
        raise ValueError(f"{str(stated)[:40]!r} is not a number")
    return float(stated)


def _json_text(value: Any) -> str:
    # JSON true and 1, or 1 and 1.0, are equal in Python; they are not the same statement.
    return json.dumps(value, sort_keys=True)
