"""The engines by name, and the choice between them by estimated cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

from topdown.accountant import atoms
from topdown.accountant.enclosure import Enclosure, from_floats
from topdown.accountant.law import Law
from topdown.accountant.peaks import SMALLEST_PRUNED, TooManyNodesError
from topdown.accountant.quadrature import Quadrature, Sums
from topdown.errors import ConfigError

ENGINES = ("auto", "float64", "ball", "fft", "atoms", "atoms-wide", "free", "ball-free", "sieve")
WITH_TAILS = ("float64", "ball")
WIDTH_WANTED = 1e-12
_MOST_PEAKS = 200_000
_SMALLEST_LOG = -640.0


class Engine(Protocol):
    """Anything that encloses delta at exact epsilons."""

    method: str

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of delta at each epsilon."""


class TailEngine(Engine, Protocol):
    """An engine on the lattice (WITH_TAILS), which also encloses tails."""

    def tails(self, indices: Sequence[int]) -> list[Enclosure]:
        """Return the enclosure of P[S >= index * spacing] at each index >= 0."""


class Float64:
    """Sieved quadrature in float64, on the lattice or free of it."""

    def __init__(self, law: Law, *, lattice: bool = True) -> None:
        self.quadrature = Quadrature(law, lattice=lattice)
        self.method = "float64" if lattice else "free/float64"

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of delta at each epsilon."""
        return self._pack(self.quadrature.delta_sums(epsilons))

    def tails(self, indices: Sequence[int]) -> list[Enclosure]:
        """Return the enclosure of P[S >= index * spacing] at each index >= 0."""
        return self._pack(self.quadrature.tail_sums(indices))

    def _pack(self, sums: Sums) -> list[Enclosure]:
        lower, upper = sums.bounds()
        pairs = zip(lower.tolist(), upper.tolist(), strict=True)
        return [from_floats(min(a, 1.0), min(b, 1.0), self.method) for a, b in pairs]


class Ball:
    """The same nodes in balls."""

    def __init__(self, law: Law, digits: int, *, lattice: bool = True) -> None:
        from topdown.accountant.certified import BallQuadrature

        self._quadrature = BallQuadrature(law, digits, lattice=lattice)
        self.method = self._quadrature.method

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of delta at each epsilon."""
        return [self._quadrature.delta(e) for e in epsilons]

    def tails(self, indices: Sequence[int]) -> list[Enclosure]:
        """Return the enclosure of P[S >= index * spacing] at each index >= 0."""
        return [self._quadrature.tail(i) for i in indices]


def build(name: str, law: Law, digits: int) -> Engine:
    """Return the engine called `name` for a law."""
    if name == "fft":
        from topdown.accountant.lattice_fft import LatticeFft

        return LatticeFft(law)
    if name == "sieve":
        from topdown.accountant.paper_sieve import PaperSieve

        return PaperSieve(law)
    makers: dict[str, Callable[[], Engine]] = {
        "float64": lambda: Float64(law),
        "ball": lambda: Ball(law, digits),
        "atoms": lambda: atoms.Atoms(law),
        "atoms-wide": lambda: atoms.Atoms(law, wide=True),
        "free": lambda: Float64(law, lattice=False),
        "ball-free": lambda: Ball(law, digits, lattice=False),
    }
    if name not in makers:
        raise ConfigError(
            f"no engine is called {name!r}", code="A008", fix=f"choose from {', '.join(ENGINES)}"
        )
    return makers[name]()


def choose(law: Law) -> str:
    """Return the cheapest suitable float64 engine: lattice quadrature, atoms or lattice-free quadrature.

    The lattice is usable when the slowest group has few peaks over one period and the sieve leaves few nodes;
    otherwise atoms when they fit; otherwise the lattice-free kernel.
    """
    if lattice_usable(law):
        return "float64"
    if atoms.fits(law):
        return "atoms"
    try:
        _ = Quadrature(law, lattice=False).spectrum
    except TooManyNodesError:
        raise ConfigError(
            f"no engine can enclose this composition: its losses lie on a lattice of spacing {float(law.spacing):.2e} "
            f"and have about {atoms.estimated_atoms(law):.1e} atoms",
            code="A009",
            fix="round the budgets to a common denominator, e.g. all rho in 1/10000",
        ) from None
    return "free"


def lattice_usable(law: Law) -> bool:
    """Tell whether the sieve over the whole lattice period is cheap."""
    pruned = [w for w, g in zip(law.integers, law.groups, strict=True) if g.variance >= SMALLEST_PRUNED]
    points = 12 * math.sqrt(float(law.total)) / float(law.spacing)
    if points > 2**46 or (min(pruned) > _MOST_PEAKS if pruned else points > _MOST_PEAKS):
        return False
    try:
        quadrature = Quadrature(law)
        _ = quadrature.window.peaks
    except TooManyNodesError:
        return False
    return True


def float_range(law: Law, epsilons: Sequence[Fraction]) -> bool:
    """Tell whether delta at these epsilons stays well inside the float64 range."""
    worst = max(float(e - law.half) for e in epsilons)
    return worst <= 0 or -worst * worst / (2 * float(law.total)) > _SMALLEST_LOG
