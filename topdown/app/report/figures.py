"""Pictures of a report as SVG inside the page: no script, no font, no identifiers that a second picture could repeat."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, LEFT, BOTTOM = 460, 330, 62, 46
_BLUE, _GREY, _INK = "#1f5a8a", "#767676", "#222"


def curve(points: Sequence[tuple[float, float]], words: dict[str, str]) -> str:
    """Draw the power of the best attack by its share of false alarms.

    Args:
        points: (share of false alarms, share detected), both 0 .. 1, by increasing false alarms.
        words: title, description, false_alarms, detected, guessing.
    """
    whole = [(0.0, 0.0), *points, (1.0, 1.0)]
    line = " ".join(f"{_x(a):.1f},{_y(b):.1f}" for a, b in whole)
    ticks = "".join(
        f'<path d="M{_x(t):.1f} {_y(0):.1f}V{_y(1):.1f}M{_x(0):.1f} {_y(t):.1f}H{_x(1):.1f}" stroke="#e3e6ea"/>'
        f'<text x="{_x(t):.1f}" y="{_y(0) + 16:.1f}" text-anchor="middle">{t:.0%}</text>'
        f'<text x="{_x(0) - 6:.1f}" y="{_y(t) + 4:.1f}" text-anchor="end">{t:.0%}</text>'
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(words["description"])}" '
        f'font-size="12" fill="{_INK}">{ticks}'
        f'<polygon points="{line} {_x(1):.1f},{_y(0):.1f}" fill="{_BLUE}" fill-opacity=".1"/>'
        f'<path d="M{_x(0):.1f} {_y(0):.1f}L{_x(1):.1f} {_y(1):.1f}" stroke="{_GREY}" stroke-dasharray="4 4"/>'
        f'<polyline points="{line}" fill="none" stroke="{_BLUE}" stroke-width="2.2"/>'
        f'<text x="{_x(0.62):.1f}" y="{_y(0.52):.1f}" fill="{_GREY}">{escape(words["guessing"])}</text>'
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(words["false_alarms"])}</text>'
        f'<text transform="translate(14 {(HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(words['detected'])}</text></svg>"
    )


def bars(rows: Sequence[tuple[str, float, str]], description: str) -> str:
    """Draw one bar a row.

    Args:
        rows: (name, share 0 .. 1 of the longest bar, what stands behind it).
        description: for readers who do not see it.
    """
    step, left, width = 26, 150, 620
    most = max((share for _, share, _ in rows), default=1.0) or 1.0
    drawn = "".join(
        f'<text x="{left - 8}" y="{step * i + 18}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{left}" y="{step * i + 6}" width="{(width - left - 90) * share / most:.1f}" height="16" fill="#8a94a0"/>'
        f'<text x="{left + (width - left - 90) * share / most + 6:.1f}" y="{step * i + 18}">{escape(text)}</text>'
        for i, (name, share, text) in enumerate(rows)
    )
    return (
        f'<svg viewBox="0 0 {width} {step * len(rows) + 8}" role="img" aria-label="{escape(description)}" '
        f'font-size="12" fill="{_INK}">{drawn}</svg>'
    )


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - 14)


def _y(share: float) -> float:
    return (HEIGHT - BOTTOM) - share * (HEIGHT - BOTTOM - 12)
