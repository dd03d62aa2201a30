"""Exact sums of sparse tables: keys and counts, int64 with a guard against overflow."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]
_FRACTION = re.compile(r"[0-9]{1,2000}(/[0-9]{1,2000})?")


def fraction(text: object) -> Fraction:
    """Read "a/b" or "a" as an exact nonnegative number; ValueError for anything else."""
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"{str(text)[:40]!r} is not an exact number")
    top, _, bottom = text.partition("/")
    if bottom and int(bottom) == 0:
        raise ValueError(f"{text[:40]!r} divides by zero")
    return Fraction(int(top), int(bottom or 1))


def exact_text(value: Fraction) -> str:
    """Write an exact number as "a/b", or "a" if it is whole."""
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"


def narrow(numbers: Whole) -> NDArray[Any]:
    """Return integers in the narrowest unsigned type that holds them; as they are if one is negative."""
    if (numbers < 0).any():
        return numbers
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def fits(counts: Whole) -> bool:
    """Tell whether every sum of some of `counts`, or difference of two such, stays in int64."""
    if len(counts) == 0:
        return True
    largest = max(int(counts.max()), -int(counts.min()))
    return largest <= 2**61 // len(counts)


def tally(keys: Whole, counts: Whole) -> tuple[Whole, Whole]:
    """Add up counts of equal keys; return the keys in increasing order and their sums (zeros kept)."""
    if len(keys) == 0:
        return keys, counts
    if (keys[1:] < keys[:-1]).any():
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
    first: Whole = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[first], np.add.reduceat(counts, first)


def differences(keys_a: Whole, a: Whole, keys_b: Whole, b: Whole) -> Whole:
    """Return the keys, in increasing order, whose sums differ between two sparse tables (absent means 0)."""
    if np.array_equal(keys_a, keys_b) and np.array_equal(a, b):
        return np.zeros(0, dtype=np.int64)
    keys, left = tally(np.concatenate((keys_a, keys_b)), np.concatenate((a, -b)))
    wrong: Whole = keys[left != 0]
    return wrong


def value_at(keys: Whole, counts: Whole, key: int) -> tuple[int, int | None]:
    """Return (sum of the counts at a key of a sorted table, its first row or None)."""
    p, q = np.searchsorted(keys, (key, key + 1))
    return int(counts[p:q].sum()), int(p) + 1 if q > p else None


def values_at(keys: Whole, counts: Whole, wanted: Whole) -> Whole:
    """Return the count at each wanted key of a table whose keys increase, of the shape of `wanted`; absent means 0."""
    if len(keys) == 0:
        return np.zeros(wanted.shape, dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, counts[at], 0)
