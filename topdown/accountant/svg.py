"""The trade-off curve as a small SVG, without any plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from textwrap import wrap
from xml.sax.saxutils import escape, quoteattr

from topdown.accountant.semantics import Loss

_SIZE, _MARGIN, _TITLE_WIDTH = 420, 58, 54
ALPHAS = tuple(Fraction(n * n, 160**2) for n in range(161))  # dense near 0, where the curve bends most


def trade_off_svg(loss: Loss, title: str, alphas: Sequence[Fraction] = ALPHAS) -> str:
    """Return an SVG of the certified lower bound of f(alpha): no attack gets below it; the diagonal is a coin."""
    points = [(a, box.lower) for a, box in zip(alphas, loss.trade_off_curve(alphas), strict=True)]
    curve = " ".join(f"{_x(a):.2f},{_y(f):.2f}" for a, f in points)
    ticks = "".join(
        f'<text x="{_x(t):.1f}" y="{_SIZE - _MARGIN + 18}" text-anchor="middle">{t * 100:g}%</text>'
        f'<text x="{_MARGIN - 8}" y="{_y(t) + 4:.1f}" text-anchor="end">{t * 100:g}%</text>'
        f'<path d="M{_x(t):.1f} {_y(0):.1f}V{_y(1):.1f}M{_x(0):.1f} {_y(t):.1f}H{_x(1):.1f}" stroke="#ddd"/>'
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    safe = quoteattr(title)
    lines = wrap(title, _TITLE_WIDTH)[:2]
    heading = "".join(
        f'<text x="{_SIZE / 2}" y="{20 + 17 * i}" text-anchor="middle" font-size="13">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    middle = f'x="{_x(0.5) + 6:.1f}" y="{_y(0.5) - 6:.1f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" font-size="12" '
        f'font-family="sans-serif" fill="#333" role="img" aria-label={safe}>'
        f'<rect width="100%" height="100%" fill="#fff"/>'
        f"{heading}{ticks}"
        f'<path d="M{_x(0):.1f} {_y(1):.1f}L{_x(1):.1f} {_y(0):.1f}" stroke="#999" stroke-dasharray="4 4"/>'
        f'<text {middle} fill="#777">a coin</text>'
        f'<polygon points="{curve} {_x(1):.2f},{_y(0):.2f} {_x(1):.2f},{_y(1):.2f} {_x(0):.2f},{_y(1):.2f}" '
        f'fill="#0b6e99" fill-opacity="0.08"/>'
        f'<polyline points="{curve}" fill="none" stroke="#0b6e99" stroke-width="2"/>'
        f'<text x="{_SIZE / 2}" y="{_SIZE - 12}" text-anchor="middle">false alarms</text>'
        f'<text transform="translate(14 {_SIZE / 2}) rotate(-90)" text-anchor="middle">misses, at least</text></svg>\n'
    )


def _x(alpha: Fraction | float) -> float:
    return _MARGIN + float(alpha) * (_SIZE - 2 * _MARGIN)


def _y(miss: Fraction | float) -> float:
    return _SIZE - _MARGIN - float(miss) * (_SIZE - 2 * _MARGIN)
