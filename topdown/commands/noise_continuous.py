"""`topdown noise --continuous`: the best noise for a real query, enclosed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from topdown.decimals import significant
from topdown.errors import EXIT_OK
from topdown.noise.optimal.ask import Promise
from topdown.noise.optimal.cells import BITS
from topdown.noise.optimal.continuous import RealNoise, RealQuestion, sandwich
from topdown.noise.optimal.real_baselines import analytic_gaussian_sigma, truncated_laplace
from topdown.noise.optimal.supports import default_cells
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.documents.noise_continuous import NoiseContinuous

DIGITS = 6
_NAMES = {"l1": "|x|", "l2": "x^2"}


@dataclass(frozen=True)
class RealWish:
    """What was asked on the command line of noise for a real query."""

    epsilon: str
    delta: str
    sensitivity: str
    loss: str
    large_delta: bool
    cells: int | None


def make_continuous(screen: Screen, wish: RealWish, *, plot: Path | None, force: bool) -> int:
    """Enclose the best noise for a real query, draw its lattice law where asked, and show it.

    Raises:
        ConfigError: C080, C132, C151, C152, C154, C162, C163, C164. NoSolutionError, InternalError: nothing is shown.

    """
    from topdown.accountant.exact import rational
    from topdown.commands.noise_modes import promise_of

    promise = promise_of(wish.epsilon, wish.delta, large_delta=wish.large_delta)
    cells = default_cells(promise) if wish.cells is None else wish.cells
    question = RealQuestion(promise, rational(wish.sensitivity, "the sensitivity"), cells)
    found = sandwich(question, wish.loss)
    if plot is not None:
        from topdown.commands.files import write_new
        from topdown.noise.optimal.picture import lattice_svg

        title = (
            f"Noise on multiples of {question.width} for a real query: \u03b5 {promise.epsilon} "
            f"at \u03b4 {promise.delta}"
        )
        drawn = lattice_svg(found.law.first, found.law.weights, question.width, title)
        write_new(plot, drawn, force=force)
    return show_continuous(screen, found)


def show_continuous(screen: Screen, found: RealNoise) -> int:
    """Show an enclosure."""
    from topdown.screen.layout import Column

    document = continuous_document(found)
    screen.document(document)
    screen.heading("Least expected loss", f" of noise for a real query, {_NAMES[found.loss]}")
    low, high = document.least_loss
    rows = [("best noise", low, high), ("noise on the lattice alone", "", document.lattice_loss)]
    rows += [(f"{name}, not certified", "", f"{value:.6g}") for name, value in document.compared.items()]
    screen.table([Column("", wraps=True), Column("not below"), Column("not above")], rows)
    screen.blank()
    for sentence in document.sentences:
        screen.say(sentence)
    return EXIT_OK


def continuous_document(found: RealNoise) -> NoiseContinuous:
    """Return what was found as a document; every end is rounded away from what it claims."""
    from topdown.documents.noise_continuous import LatticeLaw, NoiseContinuous

    question, promise = found.question, found.question.promise
    return NoiseContinuous(
        epsilon=str(promise.epsilon),
        delta=str(promise.delta),
        sensitivity=str(question.sensitivity),
        loss="l1" if found.loss == "l1" else "l2",
        cells=question.cells,
        width=str(question.width),
        least_loss=(
            significant(found.lower, DIGITS, up=False),
            significant(found.upper, DIGITS, up=True),
        ),
        lattice=LatticeLaw(
            first=found.law.first,
            weights=[str(w) for w in found.law.weights],
            bits=BITS,
            delta_needed=significant(found.law.excess, 12, up=True),
        ),
        lattice_loss=significant(found.on_lattice, DIGITS, up=True),
        compared=_compared(promise, question.sensitivity, found.loss),
        sentences=sentences(found),
    )


def sentences(found: RealNoise) -> list[str]:
    """Say what is certified, and of what."""
    question, promise = found.question, found.question.promise
    low, high = significant(found.lower, DIGITS, up=False), significant(found.upper, DIGITS, up=True)
    return [
        (
            f"Additive noise that keeps epsilon = {promise.epsilon} and delta = {promise.delta} for every move of the "
            f"answer by up to {question.sensitivity}, both ways, has an expected {_NAMES[found.loss]} of {low} "
            f"or more; some noise that keeps them has {high} or less."
        ),
        (
            f"To release, round the answer to the nearest multiple of {question.width}, halves up, and add the lattice "
            "law: that keeps epsilon and delta exactly where the answer itself is exact. Rounding adds an error of up "
            f"to {question.width / 2} that the losses here do not count."
        ),
        (
            f"This is the guarantee of one release. Delta = {promise.delta} allows that with this probability a "
            "release gives the answer away."
        ),
    ]


def _compared(promise: Promise, sensitivity: Fraction, loss: str) -> dict[str, float]:
    epsilon, delta, move = float(promise.epsilon), float(promise.delta), float(sensitivity)
    sigma = analytic_gaussian_sigma(epsilon, delta, move)
    found = {"analytic Gaussian": sigma * sigma if loss == "l2" else sigma * sqrt(0.6366197723675814)}
    if epsilon > 0:
        found["truncated Laplace"] = truncated_laplace(epsilon, delta, move)[loss == "l2"]
    return found
