"""Public values in a notebook: a small table in HTML, everything in it escaped, no colours and nothing to be run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MOST_ROWS, MOST_CHARACTERS = 40, 300


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
    parts = [f"<b>{_text(title)}</b>", "<table>", _row(head, "th") if head else "", *body, "</table>"]
    return "<div>" + "".join(parts) + (f"<p>{_text(note)}</p>" if note else "") + "</div>"


def _row(cells: Sequence[object], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _text(value: object) -> str:
    text = "".join(c if c.isprintable() else " " for c in str(value))
    return escape(text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "...")
