"""Exact numbers as text, sums of sparse tables with a guard against overflow, and closed forms to 60 digits."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Ints


@dataclass(frozen=True)
class Ends:
    """Two exact numbers with a true one between them; `method`: how they were found, where a certificate names that."""

    lower: Fraction
    upper: Fraction
    method: str = ""

    def __str__(self) -> str:
        return f"{twelve_digits(self.lower)}, {twelve_digits(self.upper)}"


def twelve_digits(value: Fraction) -> str:
    """Return a value to 12 digits, for a finding."""
    return str(Context(prec=12).divide(Decimal(value.numerator), Decimal(value.denominator)))


_FRACTION = re.compile(r"[0-9]{1,2000}(/[0-9]{1,2000})?")


def fraction(text: object) -> Fraction:
    """Read "a/b" in lowest terms or "a" as an exact nonnegative number; ValueError for anything else."""
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"{str(text)[:40]!r} is not an exact number")
    top, _, bottom = text.partition("/")
    if bottom and int(bottom) == 0:
        raise ValueError(f"{text[:40]!r} divides by zero")
    number = Fraction(int(top), int(bottom or 1))
    if exact_text(number) != text:
        raise ValueError(f"{text[:40]!r} is another spelling of {exact_text(number)[:40]}")
    return number


def exact_text(value: Fraction) -> str:
    """Write an exact number as "a/b", or "a" if it is whole."""
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"


def narrow(numbers: Ints) -> NDArray[Any]:
    """Return integers in the narrowest unsigned type that holds them; as they are if one is negative."""
    if (numbers < 0).any():
        return numbers
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def sums_fit(counts: Ints) -> bool:
    """Tell whether every sum of some of `counts`, or difference of two such, stays in int64."""
    if len(counts) == 0:
        return True
    largest = max(int(counts.max()), -int(counts.min()))
    return largest <= 2**61 // len(counts)


CLOSE = 4  # numbers a key, between the least key and the largest, up to which nothing is sorted


def tally(keys: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Add up counts, (n,) or (n, k), of equal keys; return the keys in increasing order and sums (zeros kept)."""
    if len(keys) == 0:
        return keys, counts
    if (keys[1:] < keys[:-1]).any():
        least = int(keys.min())
        if int(keys.max()) - least < CLOSE * len(keys):
            return _tally_close(keys.astype(np.int64) - least, counts, least)
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
    first: Ints = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[first], np.add.reduceat(counts, first)


def _tally_close(place: Ints, counts: Ints, least: int) -> tuple[Ints, Ints]:
    """Add up counts of equal keys that are `least` and a small number."""
    there: Ints = np.flatnonzero(np.bincount(place))
    columns = counts.reshape(len(place), -1).T
    sums = np.zeros((len(columns), int(there[-1]) + 1), dtype=np.int64)
    for into, column in zip(sums, columns, strict=True):
        np.add.at(into, place, column)
    return there + least, sums[:, there].T.reshape(-1, *counts.shape[1:])


def differences(keys_a: Ints, a: Ints, keys_b: Ints, b: Ints) -> Ints:
    """Return the keys, in increasing order, whose sums differ between two sparse tables (absent means 0)."""
    if np.array_equal(keys_a, keys_b) and np.array_equal(a, b):
        return np.zeros(0, dtype=np.int64)
    keys, left = tally(np.concatenate((keys_a, keys_b)), np.concatenate((a, -b)))
    wrong: Ints = keys[left != 0]
    return wrong


def value_at(keys: Ints, counts: Ints, key: int) -> tuple[int, int | None]:
    """Return (sum of the counts at a key of a sorted table, its first row or None)."""
    p, q = np.searchsorted(keys, (key, key + 1))
    return int(counts[p:q].sum()), int(p) + 1 if q > p else None


def values_at(keys: Ints, counts: Ints, wanted: Ints) -> Ints:
    """Return the count at each wanted key of a table whose keys increase, of the shape of `wanted`; absent means 0."""
    if len(keys) == 0:
        return np.zeros(wanted.shape, dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, counts[at], 0)


NUMBER = re.compile(r"[0-9]{1,40}(\.[0-9]{1,400})?(e-?[0-9]{1,3})?")
DELTA = re.compile(r"1e-([1-9][0-9]?)")
_WIDE = Context(prec=60)
ROUNDED = Fraction(1, 10**40)  # relative; what 60 digits lose in a few steps is far below


def read_decimal(text: object) -> Fraction:
    """Read a nonnegative decimal, such as 16.2 or 9.1e-7, exactly; ValueError for anything else."""
    if not isinstance(text, str) or not NUMBER.fullmatch(text):
        raise ValueError(f"{str(text)[:40]!r} is not a decimal number")
    return Fraction(Decimal(text))


def read_enclosure(stated: object) -> tuple[Fraction, Fraction]:
    """Read [low, high]; ValueError unless both are decimals and low is not above high."""
    if not isinstance(stated, list) or len(stated) != 2:
        raise ValueError("it is no pair [low, high]")
    low, high = read_decimal(stated[0]), read_decimal(stated[1])
    if low > high:
        raise ValueError("its low end lies above its high end")
    return low, high


def digits_of(delta: str) -> int:
    """Return n of "1e-n"; ValueError for another way to write it, or n above 99."""
    found = DELTA.fullmatch(delta)
    if found is None:
        raise ValueError(f"{delta[:40]!r} is no delta such as 1e-10")
    return int(found[1])


def exp(value: Fraction) -> Fraction:
    """Return e**value to 60 digits."""
    return Fraction(_WIDE.exp(_decimal(value)))


def root(value: Fraction) -> Fraction:
    """Return the square root to 60 digits."""
    return Fraction(_WIDE.sqrt(_decimal(value)))


def log(value: Fraction) -> Fraction:
    """Return the natural logarithm to 60 digits."""
    return Fraction(_WIDE.ln(_decimal(value)))


def usual_formula(rho: Fraction, digits: int) -> Fraction:
    """Return rho + 2 sqrt(rho ln(1/delta)) at delta 1e-digits (Bun, Steinke 2016, proposition 1.3)."""
    return rho + 2 * root(rho * digits * log(Fraction(10)))


def tight_formula(rho: Fraction, digits: int) -> Fraction:
    """Return the least epsilon that rho alone allows (Canonne, Kamath, Steinke 2020, corollary 13).

    The order 1 + x at which rho x**2 + ln(1 + x) = ln(1/delta) gives the minimum of
    (1 + x) rho + (ln(1/delta) - ln(1 + x)) / x + ln(x / (1 + x)); there an x right to 15 digits costs nothing.
    """
    below, above = 0.0, 1.0
    target, wide = digits * math.log(10), float(rho)
    while wide * above * above + math.log1p(above) < target:
        above *= 2
    for _ in range(100):
        middle = (below + above) / 2
        small = wide * middle * middle + math.log1p(middle) < target
        below, above = (middle, above) if small else (below, middle)
    x = Fraction(above)
    found = (1 + x) * rho + (digits * log(Fraction(10)) - log(1 + x)) / x + log(x) - log(1 + x)
    return max(found, Fraction(0))


def _decimal(value: Fraction) -> Decimal:
    return _WIDE.divide(Decimal(value.numerator), Decimal(value.denominator))
