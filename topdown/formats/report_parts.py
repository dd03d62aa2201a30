"""Parts of a report: words with slots, numbers that name their place, tables and pictures, one HTML file around them.

A report has no script and loads nothing. Who makes or checks one gives the function that writes numbers, so that a
check rounds with code of its own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Literal

from topdown.formats.common import PrivacyUnit, is_answered

FOLDER = Path(__file__).parent / "report"
LANGUAGES = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
REPORT = "report.html"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
Form = Literal["whole", "up1", "up2", "up4", "near2", "percent", "percent_up", "text"]
"""How a number is written: whole; rounded up to 1, 2 or 4 digits; to the nearest of 2 (in no report of a release); per
cent, to the nearest or up; as it stands."""
Write = Callable[[object, str], str]
"""What writes a value in a form; ValueError for a value that has no such form."""
SIZES = (0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 2**62)
"""Where sizes of areas and groups are divided, in records."""
MAP_CLASSES = ("1/20", "1/10", "1/5", "1/2")
"""Where half widths on a map are divided, as shares of the count."""
MOST_TILES = 400
PRODUCTION = {"place": "Guernsey County, Ohio", "year": "2010", "block": "1.89", "tract": "2.40"}
"""Mean absolute error of totals in persons, by level, of the census of a year under the Census Bureau's settings of
2020: its privacy-protected microdata (vintage 2021-06-08) beside Summary File 1, by `bench/bench_production.py`."""
NONE = "–"
WIDTH, HEIGHT, LEFT, BOTTOM = 460, 330, 62, 46
_BLUE, _GREY, _INK = "#1f5a8a", "#6b6b6b", "#222"


@dataclass(frozen=True)
class Content:
    """What pages are made from.

    Args:
        documents: of the release, by file name, and what is derived from its tables under `derived`.
        words: of one language.
    """

    documents: Mapping[str, Any]
    words: Mapping[str, Any]
    write: Write

    def say(self, key: str, **slots: str) -> str:
        """Return a sentence with HTML in its slots; everything else in it is escaped."""
        text: Any = self.words
        for part in key.split("."):
            text = text[int(part)] if isinstance(text, list) else text[part]
        return escape(str(text), quote=False).format(**slots)

    def at(self, source: str) -> Any:
        """Return what stands at a place, `certificate.json#/privacy/loss`; LookupError if there is no such place."""
        name, _, pointer = source.partition("#/")
        value = self.documents[name]
        for key in pointer.split("/") if pointer else ():
            plain = key.replace("~1", "/").replace("~0", "~")
            value = value[int(plain)] if isinstance(value, list) else value[plain]
        return value

    def has(self, source: str) -> bool:
        """Tell whether there is such a place."""
        try:
            self.at(source)
        except (LookupError, TypeError, ValueError):
            return False
        return True

    def number(self, source: str, form: Form) -> str:
        """Return a number as HTML that names its place and its form, so that a check can derive it anew."""
        value = self.at(source)
        return (
            f'<data value="{escape(str(value))}" data-source="{escape(source)}" data-form="{form}">'
            f"{escape(in_language(self.write(value, form), form, self.words))}</data>"
        )

    def numbers(self, source: str, **forms: Form) -> list[str]:
        """Return the numbers at keys of a place as HTML, each in its form."""
        return [self.number(f"{source}/{key}", form) for key, form in forms.items()]

    def number_or_none(self, source: str, form: Form) -> str:
        """Return a number as HTML, or a dash where there is none."""
        return self.number(source, form) if self.has(source) and self.at(source) is not None else NONE

    def span(self, source: str) -> str:
        """Return `least` to `most` of a place as HTML."""
        least, most = (self.number(f"{source}/{end}", "whole") for end in ("least", "most"))
        return least if self.at(f"{source}/least") == self.at(f"{source}/most") else f"{least} – {most}"

    def text(self, source: str) -> str:
        """Return a text of the release as HTML."""
        return escape(str(self.at(source)))

    @property
    def unit(self) -> PrivacyUnit:
        """Whose answers the plan protects, and what a record is."""
        return PrivacyUnit.read(self.at("plan.json#/schema/unit"))

    @property
    def record(self) -> str:
        """What a record is, as HTML."""
        return escape(self.unit.record)

    def of_unit(self, one_record: str, several: str) -> str:
        """Return a sentence about the unit: by the first key if it is one record, else by the second."""
        unit = self.unit
        return self.say(one_record if unit.most_records == 1 else several, unit=escape(unit.text))

    def answer(self, source: str, still_open: str = "open") -> str:
        """Return as HTML what only a person can say or, while that is open or not there, the words for it."""
        said = self.at(source) if self.has(source) else ""
        return escape(str(said if is_answered(str(said)) else self.words[still_open]))

    def quote(self, source: str) -> str:
        """Return a sentence that the release states, in English, as HTML."""
        return f'<q lang="en">{self.text(source)}</q>'


def in_language(shown: str, form: str, words: Mapping[str, Any]) -> str:
    """Return a number with the marks of a language for thousands and decimals: 1,052.5 is 1.052,5 in German."""
    return shown if form == "text" else shown.translate(str.maketrans(",.", words["marks"]))


@cache
def words_of(language: str) -> Mapping[str, Any]:
    """Return the words of a language."""
    return tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Shell:
    """What stands around the pages of a report, as HTML."""

    title: str
    header: str
    footer: str


def whole_page(c: Content, shell: Shell, pages: Mapping[str, str]) -> str:
    """Return a report as one HTML file; the name of a page is its anchor and the table of its words."""
    index = "".join(f'<li><a href="#{name}">{c.say(f"{name}.title")}</a></li>' for name in pages)
    sections = "".join(
        f'<section id="{name}" aria-labelledby="title-{name}"><h2 id="title-{name}">{c.say(f"{name}.title")}</h2>'
        f"{html}</section>\n"
        for name, html in pages.items()
    )
    style = (FOLDER / "report.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n<html lang="{c.words["language"]}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{shell.title}</title>\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<header>{shell.header}</header>\n"
        f'<nav aria-label="{c.say("contents")}"><ul>{index}</ul></nav>\n<main>\n{sections}</main>\n'
        f"<footer><p>{shell.footer}</p></footer>\n</body>\n</html>\n"
    )


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = (), ink: bool = False
) -> str:
    """Return a table; cells are HTML, the head is text."""
    right = set(numbers)
    mark = [' class="n"' if i in right else "" for i in range(len(head))]
    top = "".join(f'<th scope="col"{m}>{escape(name)}</th>' for m, name in zip(mark, head, strict=True))
    cell = ' class="ink"' if ink else ""
    body = "".join(
        "<tr>" + "".join(f"<td{m or cell}>{text}</td>" for m, text in zip(mark, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide" tabindex="0"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def picture(svg: str) -> str:
    """Return a picture in its place on a page; a narrow screen scrolls it, so that its words stay large enough."""
    return f'<figure class="wide" tabindex="0">{svg}</figure>'


def pointer_key(name: str) -> str:
    """Write a key as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def share_of(exact: str) -> float:
    """Return a fraction as a length to draw."""
    over, _, under = exact.partition("/")
    return float(over) / float(under or 1)


def curve_picture(points: Sequence[tuple[float, float]], words: Mapping[str, Any]) -> str:
    """Draw bounds on the power of every attack by its share of false alarms; lines between them guide the eye.

    Args:
        points: (share of false alarms, share detected), both 0 .. 1, by increasing false alarms.
        words: picture and described (title and description), false_alarms, detected, guessing.
    """
    whole = [(0.0, 0.0), *points, (1.0, 1.0)]
    line = " ".join(f"{_x(a):.1f},{_y(b):.1f}" for a, b in whole)
    dots = "".join(f'<circle cx="{_x(a):.1f}" cy="{_y(b):.1f}" r="3" fill="{_BLUE}"/>' for a, b in points)
    ticks = "".join(
        f'<path d="M{_x(t):.1f} {_y(0):.1f}V{_y(1):.1f}M{_x(0):.1f} {_y(t):.1f}H{_x(1):.1f}" stroke="#e3e6ea"/>'
        f'<text x="{_x(t):.1f}" y="{_y(0) + 16:.1f}" text-anchor="middle">{t:.0%}</text>'
        f'<text x="{_x(0) - 6:.1f}" y="{_y(t) + 4:.1f}" text-anchor="end">{t:.0%}</text>'
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    drawn = (
        f"{ticks}"
        f'<polygon points="{line} {_x(1):.1f},{_y(0):.1f}" fill="{_BLUE}" fill-opacity=".1"/>'
        f'<path d="M{_x(0):.1f} {_y(0):.1f}L{_x(1):.1f} {_y(1):.1f}" stroke="{_GREY}" stroke-dasharray="4 4"/>'
        f'<polyline points="{line}" fill="none" stroke="{_BLUE}" stroke-width="1.2"/>{dots}'
        f'<text x="{_x(0.62):.1f}" y="{_y(0.52):.1f}" fill="{_GREY}">{escape(words["guessing"])}</text>'
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(words['false_alarms'])}</text>"
        f'<text transform="translate(14 {(HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(words['detected'])}</text>"
    )
    return svg_picture("curve", (WIDTH, HEIGHT), (words["picture"], words["described"]), drawn)


def bar_picture(rows: Sequence[tuple[str, float, str]], words: Mapping[str, Any]) -> str:
    """Draw one bar a row.

    Args:
        rows: (name, length, what stands behind it).
        words: picture and described (title and description).
    """
    step, left, width = 26, 150, WIDTH
    most = max((share for _, share, _ in rows), default=1.0) or 1.0
    scale = (width - left - 90) / most
    drawn = "".join(
        f'<text x="{left - 8}" y="{step * i + 18}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{left}" y="{step * i + 6}" width="{scale * share:.1f}" height="16" fill="#8a94a0"/>'
        f'<text x="{left + scale * share + 6:.1f}" y="{step * i + 18}">{escape(text)}</text>'
        for i, (name, share, text) in enumerate(rows)
    )
    return svg_picture("bars", (width, step * len(rows) + 8), (words["picture"], words["described"]), drawn)


@dataclass(frozen=True)
class BarWithInterval:
    """A bar: its name, how long it is, ends of its interval (None: there is none), and what stands behind it."""

    name: str
    length: float
    ends: tuple[float, float] | None
    text: str


def interval_picture(bars: Sequence[BarWithInterval], title: str, described: str) -> str:
    """Draw one bar a row, and over it a line from one end of its interval to the other."""
    step, left, width = 22, 190, 720
    most = max((max(bar.length, *(bar.ends or (0.0,))) for bar in bars), default=1.0) or 1.0
    scale = (width - left - 150) / most
    drawn = []
    for i, bar in enumerate(bars):
        top, end = step * i, left + scale * max(bar.length, *(bar.ends or (0.0,)))
        drawn.append(
            f'<text x="{left - 8}" y="{top + 16}" text-anchor="end">{escape(bar.name)}</text>'
            f'<rect x="{left}" y="{top + 5}" width="{scale * bar.length:.1f}" height="13" fill="#c9dcee"/>'
            f'<text x="{end + 6:.1f}" y="{top + 16}">{escape(bar.text)}</text>'
        )
        if bar.ends is not None:
            low, high = (left + scale * at for at in bar.ends)
            drawn.append(
                f'<path d="M{low:.1f} {top + 11.5}H{high:.1f}M{low:.1f} {top + 8}v7M{high:.1f} {top + 8}v7" '
                f'stroke="{_BLUE}" fill="none"/>'
            )
    return svg_picture("bars", (width, step * len(bars) + 8), (title, described), "".join(drawn))


TILE_MARKS = ("0", "1", "2", "3", "4", "-")
"""Class of an area on a map: as many of `MAP_CLASSES` as its half width reaches; the last has no share."""
_FILLS = {"0": "#eef4fa", "1": "#c9dcee", "2": "#8db4d6", "3": "#3d7ab0", "4": "#123a5c", "-": "#ffffff"}
_TILE, _A_ROW, _LABEL = 18, 26, 130


def _tile(mark: str, x: int, y: int) -> str:
    """Draw one area; its mark is written into it, so that colour says nothing alone."""
    ink = "#fff" if mark in "34" else _INK
    return (
        f'<rect x="{x}" y="{y}" width="16" height="16" fill="{_FILLS[mark]}" stroke="{_GREY}"/>'
        f'<text x="{x + 8}" y="{y + 12}" fill="{ink}">{mark}</text>'
    )


def tile_picture(mark: str) -> str:
    """Return one tile for a legend."""
    return (
        '<svg class="tile" viewBox="0 0 18 18" width="18" height="18" aria-hidden="true" font-size="11" '
        f'text-anchor="middle">{_tile(mark, 1, 1)}</svg>'
    )


def tile_map(areas: Sequence[tuple[str, str]], words: tuple[str, str]) -> str:
    """Draw a tile for each (geocode of the area above, one of `TILE_MARKS`), in blocks beside the geocodes."""
    drawn, top = [], 0
    for geocode, tiles in areas:
        drawn.append(f'<text x="{_LABEL - 8}" y="{top + 13}" text-anchor="end">{escape(geocode)}</text>')
        inner = (
            _tile(mark, _LABEL + _TILE * (i % _A_ROW), top + _TILE * (i // _A_ROW))
            for i, mark in enumerate(tiles)
        )
        drawn.append(f'<g text-anchor="middle" font-size="11">{"".join(inner)}</g>')
        top += _TILE * max(-(-len(tiles) // _A_ROW), 1) + 6
    return svg_picture("map", (_LABEL + _TILE * _A_ROW, top), words, "".join(drawn))


BOUNDARIES = "boundaries"
"""Name under which a report is given outlines; they are no document of the release."""


@dataclass(frozen=True)
class Outline:
    """One area of a map.

    Args:
        path: of SVG, in whole units. label: where its mark stands; none if it has no room.
    """

    path: str
    label: tuple[int, int] | None


@dataclass(frozen=True)
class Outlines:
    """Areas of one level on a map.

    Args:
        source: name of the file. size: width and height in units. areas: by geocode.
    """

    source: str
    size: tuple[int, int]
    areas: Mapping[str, Outline]


def outline_map(outlines: Outlines, areas: Iterable[tuple[str, str]], words: tuple[str, str]) -> str:
    """Draw areas, each (geocode, one of `TILE_MARKS`), as they lie."""
    shapes, marks = [], []
    for code, mark in areas:
        area = outlines.areas[code]
        shapes.append(
            f'<path d="{area.path}" fill="{_FILLS[mark]}"><title>{escape(code)}: {mark}</title></path>'
        )
        if area.label is not None:
            x, y = area.label
            ink = "#fff" if mark in "34" else _INK
            marks.append(f'<text x="{x}" y="{y + 7}" fill="{ink}">{mark}</text>')
    drawn = (
        f'<g stroke="{_GREY}" stroke-width="1.5" fill-rule="evenodd">{"".join(shapes)}</g>'
        f'<g text-anchor="middle" font-size="22">{"".join(marks)}</g>'
    )
    return svg_picture("map", outlines.size, words, drawn)


def svg_picture(name: str, size: tuple[int, int], words: tuple[str, str], drawn: str) -> str:
    """Return a picture with title and description for readers who do not see it; `name` is unique on the page."""
    title, description = (escape(text, quote=False) for text in words)
    return (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img" aria-labelledby="{name}-title {name}-description" '
        f'font-size="12" fill="{_INK}"><title id="{name}-title">{title}</title>'
        f'<desc id="{name}-description">{description}</desc>{drawn}</svg>'
    )


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - 24)


def _y(share: float) -> float:
    return (HEIGHT - BOTTOM) - share * (HEIGHT - BOTTOM - 12)
