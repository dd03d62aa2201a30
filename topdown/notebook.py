"""Public values in a notebook: a small table in HTML, everything in it escaped, no colours and nothing to be run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from topdown.output_paths import write_new

MOST_ROWS, MOST_CHARACTERS = 40, 300


@dataclass(frozen=True, repr=False)
class Chart:
    """A picture that a notebook shows: SVG without scripts, text of others escaped by whoever drew it.

    Args:
        svg: the whole picture. title: what it shows.
    """

    svg: str
    title: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a file of its own (ConfigError C080: there is one)."""
        write_new(Path(path), self._repr_svg_().encode("utf-8"))

    def __repr__(self) -> str:
        return f"Chart({self.title!r})"

    def _repr_svg_(self) -> str:
        alone = '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" '
        return self.svg.replace("<svg ", alone, 1)


def card(title: str, rows: Iterable[Sequence[object]], *, head: Sequence[str] = (), note: str = "") -> str:
    """Return a table in HTML.

    Args:
        title: above it.
        rows: as many cells each; the first 40 are shown, with the number of those left out. Long texts are cut.
        head: names of the columns, if they need any.
        note: below it.
    """
    listed = list(rows)
    left = len(listed) - MOST_ROWS
    body = [_row(row, "td") for row in listed[:MOST_ROWS]]
    body += [_row([f"{left:,} more"], "td")] if left > 0 else []
    parts = [f"<b>{_cell_text(title)}</b>", "<table>", _row(head, "th") if head else "", *body, "</table>"]
    return "<div>" + "".join(parts) + (f"<p>{_cell_text(note)}</p>" if note else "") + "</div>"


def _row(cells: Sequence[object], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{_cell_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _cell_text(value: object) -> str:
    """Return a value as text of HTML: what cannot be printed is a space, and long texts are cut."""
    text = "".join(c if c.isprintable() else " " for c in str(value))
    return escape(text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "...")
