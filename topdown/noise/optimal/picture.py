"""A noise law as a small SVG, without any plotting library."""

from __future__ import annotations

from fractions import Fraction
from textwrap import wrap
from xml.sax.saxutils import escape, quoteattr

from topdown.decimals import fixed
from topdown.noise.optimal.law import OptimalLaw

_WIDTH, _HEIGHT, _MARGIN, _TITLE_WIDTH = 640, 320, 48, 84
_SHOWN = Fraction(1, 2000)  # of the largest probability: smaller bars are under a pixel


def law_svg(law: OptimalLaw, title: str) -> str:
    """Return an SVG of the probabilities: one bar for each value whose bar can be seen."""
    masses = {value: law.mass(value) for value in range(law.first, law.last + 1)}
    largest = max(masses.values())
    seen = [value for value, mass in masses.items() if mass >= _SHOWN * largest]
    first, last = min(*seen, -1), max(*seen, 1)
    step = (_WIDTH - 2 * _MARGIN) / (last - first + 1)
    floor = _HEIGHT - _MARGIN

    def height(mass: Fraction) -> float:
        return float(mass / largest) * (_HEIGHT - 2 * _MARGIN)

    bars = "".join(
        f'<rect x="{_MARGIN + (value - first) * step:.2f}" y="{floor - height(masses[value]):.2f}" '
        f'width="{max(step - 1, 0.5):.2f}" height="{height(masses[value]):.2f}"/>'
        for value in seen
    )
    every = max(1, (last - first) // 12)
    ticks = "".join(
        f'<text x="{_MARGIN + (value - first + 0.5) * step:.1f}" y="{floor + 18}" text-anchor="middle">{value}</text>'
        for value in range(first, last + 1)
        if value % every == 0
    )
    scale = "".join(
        f'<text x="{_MARGIN - 6}" y="{y + 4}" text-anchor="end">{said}</text>'
        for y, said in ((_MARGIN, fixed(largest, 3, up=None)), (floor, "0"))
    )
    heading = "".join(
        f'<text x="{_WIDTH / 2}" y="{20 + 17 * i}" text-anchor="middle" font-size="13">{escape(line)}</text>'
        for i, line in enumerate(wrap(title, _TITLE_WIDTH)[:2])
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-size="12" '
        f'font-family="sans-serif" fill="#333" role="img" aria-label={quoteattr(title)}>'
        f'<rect width="100%" height="100%" fill="#fff"/>{heading}{ticks}{scale}'
        f'<path d="M{_MARGIN} {floor}H{_WIDTH - _MARGIN}" stroke="#999"/><g fill="#0b6e99">{bars}</g>'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 10}" text-anchor="middle">error of the answer</text>'
        f'<text x="14" y="{_HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {_HEIGHT / 2})">probability'
        "</text></svg>\n"
    )
