"""Numbers of a report beside the files that they name: read from the page and rounded by code of verify's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

DIGITS = {"up1": 1, "up2": 2, "up4": 4}


class _Reader(HTMLParser):
    """Collect every element `data`: its attributes and the text in it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.numbers: list[tuple[dict[str, str], str]] = []
        self._open: dict[str, str] | None = None
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "data":
            self._open, self._text = {key: value or "" for key, value in attrs}, ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "data" and self._open is not None:
            self.numbers.append((self._open, self._text))
            self._open = None


def count_numbers(page: str) -> int:
    """Return how many numbers of a report name their place."""
    return len(_read(page))


def false_numbers(page: str, documents: Mapping[str, Any]) -> Iterator[str]:
    """Say of each number of a report that is not the one at the place it names, or is rounded to the other side.

    Args:
        page: the report.
        documents: file name to parsed document.
    """
    for attributes, shown in _read(page):
        source, form = attributes.get("data-source", ""), attributes.get("data-form", "")
        name, _, pointer = source.partition("#/")
        try:
            value = documents[name]
            for key in pointer.split("/"):
                plain = key.replace("~1", "/").replace("~0", "~")
                value = value[int(plain)] if isinstance(value, list) else value[plain]
            due = _rounded(value, form)
        except (LookupError, TypeError, ValueError, ZeroDivisionError):
            yield f"{shown!r} names {source!r}, and there is no such number"
            continue
        if attributes.get("value") != str(value) or shown != due:
            yield f"{shown!r} stands for {source}, which is {value}: {due}"


def _read(page: str) -> list[tuple[dict[str, str], str]]:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.numbers


def _rounded(value: object, form: str) -> str:
    """Write a number as a report may show it: losses, chances and errors no smaller than they are."""
    if form == "text":
        return str(value)
    exact = Fraction(str(value))
    if form == "whole":
        if exact.denominator != 1:
            raise ValueError(value)
        return f"{int(exact):,}"
    if form == "percent":
        return f"{_with_point(round(exact * 1000), 1)} %"
    if form == "percent_up":
        return f"{_with_point(-(-1000 * exact.numerator // exact.denominator), 1)} %"
    digits = DIGITS[form]
    scaled = exact * 10**digits
    return _with_point(-(-scaled.numerator // scaled.denominator), digits)


def _with_point(scaled: int, digits: int) -> str:
    whole, rest = divmod(abs(scaled), 10**digits)
    return f"{'-' if scaled < 0 else ''}{whole:,}.{rest:0{digits}}"
