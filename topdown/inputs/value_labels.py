"""How the values of a column become labels: whole numbers by bands, codes by name, empty values by one label.

The run file says it for the records (`[input.values.age]`); values that are labels already stay as they are.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from msgspec import Struct

from topdown.errors import ConfigError

BLANK = "(blank)"  # how an empty value is written where a person types it
_BAND = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})|(\+))?")
_WHOLE = re.compile(r"[0-9]{1,9}")


class ValueLabels(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the values of one attribute mean in the records.

    `bands` are labels such as "0-17", "18-64" and "65+": a whole number gets the label of its band. `labels` gives
    other values, and bands, the label on the right. `blank` is the label of an empty value.

    >>> ages = ValueLabels(bands=("0-17", "18+"), labels={"0-17": "child", "18+": "adult"}, blank="unknown")
    >>> ages.label_of("17"), ages.label_of("103"), ages.label_of("child"), ages.label_of("")
    ('child', 'adult', 'child', 'unknown')
    """

    bands: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    blank: str = ""

    def label_of(self, value: str) -> str:
        """Return the label of a value; a number outside all bands stays as it is, and is no label."""
        return self.labels_of([value])[0]

    def labels_of(self, values: Iterable[str | None]) -> list[str]:
        """Return the labels of values. Cost: a microsecond each."""
        ends = [band_ends(band) for band in self.bands]
        firsts, found = [first for first, _ in ends], []
        for value in values:
            if not value:
                found.append(self.blank)
                continue
            if ends and _WHOLE.fullmatch(value):
                place = bisect_right(firsts, int(value)) - 1
                last = ends[place][1] if place >= 0 else -1
                value = self.bands[place] if last is None or int(value) <= last else value
            found.append(self.labels.get(value, value))
        return found

    def meant(self) -> tuple[str, ...]:
        """Return the labels that it gives, each once."""
        named = (*(self.labels.get(band, band) for band in self.bands), *self.labels.values(), self.blank)
        return tuple(dict.fromkeys(label for label in named if label))


def band_ends(band: str) -> tuple[int, int | None]:
    """Return the first and last whole number of a band, None for one without an end; ConfigError C335 if it is none."""
    found = _BAND.fullmatch(band)
    if found is None:
        raise ConfigError(
            f"{band!r} is no band of whole numbers",
            code="C335",
            fix='write bands as "0-17", "65+", or "7" for a single number',
        )
    first, last, open_end = found.groups()
    return int(first), None if open_end else int(last or first)


def check_values(values: ValueLabels, attribute: str, labels: Sequence[str]) -> None:
    """Refuse bands that overlap, leave numbers out between them or end before they begin, and labels nobody has.

    Raises:
        ConfigError: C335 a text is no band, C336 a number would have two bands or none, C337 there is no such label.
    """
    broken = _broken_at(values.bands)
    if broken:
        raise ConfigError(
            f"bands of {attribute!r}: at {broken!r} some whole number has no band, or two",
            code="C336",
            fix='let every band begin where the one before ends: ["0-17", "18-64", "65+"]',
        )
    unknown = [label for label in values.meant() if label not in labels]
    if unknown:
        raise ConfigError(
            f"input.values.{attribute} gives the label {unknown[0]!r}, which {attribute!r} does not have",
            code="C337",
            fix="give one of: " + ", ".join(map(repr, labels[:12])),
        )


def _broken_at(bands: Sequence[str]) -> str:
    """Return the first band that does not begin where the one before ends, or ends before it begins; "" if none."""
    expected: int | None = None
    for i, band in enumerate(bands):
        first, last = band_ends(band)
        if (i and first != expected) or (last is not None and last < first):
            return band
        expected = None if last is None else last + 1
    return ""


def bands_from(firsts: Sequence[int]) -> tuple[str, ...]:
    """Return bands by their first numbers, the last without an end.

    >>> bands_from([0, 18, 65])
    ('0-17', '18-64', '65+')
    """
    inner = (str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in pairwise(firsts))
    return (*inner, f"{firsts[-1]}+")


def bands_among(labels: Iterable[str]) -> tuple[str, ...]:
    """Return the labels that are bands of whole numbers, without a gap and one of several numbers; else none."""
    bands = tuple(label for label in labels if _BAND.fullmatch(label))
    return bands if any(not _WHOLE.fullmatch(band) for band in bands) and not _broken_at(bands) else ()
