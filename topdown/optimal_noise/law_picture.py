"""Noise laws as a small SVG, without any plotting library: one bar a value, one panel a law."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from textwrap import wrap

from topdown.optimal_noise.certified_law import OptimalLaw
from topdown.privacy.exact_values import fixed

_WIDTH, _MARGIN, _TITLE_WIDTH = 640, 48, 84
_ONE_PANEL, _PANEL, _GAP = 224, 92, 24  # heights of the only panel, of one of several, between two
_SHOWN = Fraction(1, 2000)  # of the largest probability: smaller bars are under a pixel
_PANELS = 5


@dataclass(frozen=True)
class _Panel:
    """One law: the probability of every place on the axis, and what is said beside it."""

    masses: Mapping[int, Fraction]
    said: str = ""


def law_svg(law: OptimalLaw, title: str) -> str:
    """Return an SVG of the probabilities of a law of whole numbers: one bar for each that can be seen."""
    masses = {value: law.mass(value) for value in range(law.first, law.last + 1)}
    return _svg([_Panel(masses)], title, "error of the answer", str)


def lattice_svg(first: int, weights: Sequence[int], width: Fraction, title: str) -> str:
    """Return an SVG of a law on the multiples of a width.

    Args:
        first: the multiple of the first weight.
        weights: of consecutive multiples, integers in the same unit.
        width: of the lattice, in the unit of the answer.
        title: said above, at most two lines of it.
    """
    total = sum(weights)
    masses = {first + i: Fraction(weight, total) for i, weight in enumerate(weights)}
    reach, digits = max(-first, 1) * width, 0
    while reach * 10**digits < 100:
        digits += 1
    return _svg(
        [_Panel(masses)], title, "error of the rounded answer", lambda at: fixed(at * width, digits, up=None)
    )


def kernel_svg(weights: Sequence[Sequence[int]], title: str) -> str:
    """Return an SVG of the laws of the answer (columns) for up to five counts (rows), first and last among them."""
    top = len(weights) - 1
    counts = sorted({round(i * top / (_PANELS - 1)) for i in range(_PANELS)})
    panels = [
        _Panel({y: Fraction(w, sum(weights[n])) for y, w in enumerate(weights[n])}, f"count {n}")
        for n in counts
    ]
    return _svg(panels, title, "answer", str)


def _svg(panels: Sequence[_Panel], title: str, axis: str, named: Callable[[int], str]) -> str:
    """Draw the panels below each other over one axis and one scale."""
    largest = max(max(panel.masses.values()) for panel in panels)
    seen = {at for panel in panels for at, mass in panel.masses.items() if mass >= _SHOWN * largest}
    first, last = min(*seen, -1) if len(panels) == 1 else min(seen), max(*seen, 1)
    step = (_WIDTH - 2 * _MARGIN) / (last - first + 1)
    tall = _ONE_PANEL if len(panels) == 1 else _PANEL
    floors = [_MARGIN + tall + i * (tall + _GAP) for i in range(len(panels))]
    height = floors[-1] + _MARGIN
    heading = "".join(
        f'<text x="{_WIDTH / 2}" y="{20 + 17 * i}" text-anchor="middle" font-size="13">{escape(line)}</text>'
        for i, line in enumerate(wrap(title, _TITLE_WIDTH)[:2])
    )
    every = max(1, (last - first) // 12)
    ticks = "".join(
        f'<text x="{_MARGIN + (at - first + 0.5) * step:.1f}" y="{floors[-1] + 18}" text-anchor="middle">'
        f"{escape(named(at))}</text>"
        for at in range(first, last + 1)
        if at % every == 0
    )

    def drawn(panel: _Panel, floor: int) -> str:
        bars = "".join(
            f'<rect x="{_MARGIN + (at - first) * step:.2f}" y="{floor - high:.2f}" '
            f'width="{max(step - 1, 0.5):.2f}" height="{high:.2f}"/>'
            for at, high in ((at, float(mass / largest) * tall) for at, mass in panel.masses.items())
            if high >= _SHOWN * tall
        )
        scale = "".join(
            f'<text x="{_MARGIN - 6}" y="{y + 4}" text-anchor="end">{said}</text>'
            for y, said in ((floor - tall, fixed(largest, 3, up=None)), (floor, "0"))
        )
        said = f'<text x="{_WIDTH - _MARGIN}" y="{floor - tall - 6}" text-anchor="end">{escape(panel.said)}</text>'
        return (
            f'{scale}<path d="M{_MARGIN} {floor}H{_WIDTH - _MARGIN}" stroke="#999"/>'
            f'<g fill="#0b6e99">{bars}</g>{said}'
        )

    middle = (floors[0] - tall + floors[-1]) / 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-size="12" '
        f'font-family="sans-serif" fill="#333" role="img" aria-label="{escape(title)}">'
        f'<rect width="100%" height="100%" fill="#fff"/>{heading}{ticks}'
        + "".join(drawn(panel, floor) for panel, floor in zip(panels, floors, strict=True))
        + f'<text x="{_WIDTH / 2}" y="{height - 10}" text-anchor="middle">{escape(axis)}</text>'
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">probability'
        "</text></svg>\n"
    )
