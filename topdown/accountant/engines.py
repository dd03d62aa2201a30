"""The engines by name, and the choice between them by estimated cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from topdown.accountant import atoms
from topdown.accountant.bounds import Bounds
from topdown.accountant.enclosure import Enclosure, from_floats
from topdown.accountant.law import EngineLimitError, Law
from topdown.accountant.peaks import SMALLEST_PRUNED
from topdown.accountant.quadrature import Quadrature, Sums
from topdown.accountant.window import parts
from topdown.errors import ConfigError

ENGINES = (
    "auto",
    "float64",
    "ball",
    "fft",
    "atoms",
    "atoms-wide",
    "free",
    "ball-free",
    "sieve",
    "bounds",
    "second",
)
WITH_TAILS = ("float64", "ball")
WIDTH_WANTED = 1e-12
SMALLEST_ALPHA = Fraction(1, 10**280)
_MOST_PEAKS = 200_000
_MOST_POINTS = 2**46  # the sieve counts nodes in whole numbers below 2**50
_SMALLEST_LOG = -640.0
_SECOND_NATS, _SECOND_NODES = 37.0, 5_000
_MOST_STEPS = 250_000
_MOST_CURVE = 600_000
_FLOAT_VARIANCES = (Fraction(1, 10**6), Fraction(10**18))
_FLOAT_TOTALS = (Fraction(1, 10**24), Fraction(10**12))
_FLOAT_COUNT = 10**13


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

    def __init__(self, law: Law, *, lattice: bool = True, quadrature: Quadrature | None = None) -> None:
        self.quadrature = quadrature or Quadrature(law, lattice=lattice)
        self.method = "float64" if self.quadrature.lattice else "free/float64"

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

    @property
    def steps(self) -> int:
        """How many ball operations set-up and a dozen thresholds take, roughly; EngineLimitError if nodes abound."""
        return self._quadrature.steps

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of delta at each epsilon."""
        return [self._quadrature.delta(e) for e in epsilons]

    def tails(self, indices: Sequence[int]) -> list[Enclosure]:
        """Return the enclosure of P[S >= index * spacing] at each index >= 0."""
        return [self._quadrature.tail(i) for i in indices]


def build(name: str, law: Law, digits: int) -> Engine:
    """Return the engine called `name` for a law; A009 where it does not fit."""
    if name not in ENGINES or name == "auto":
        raise ConfigError(
            f"no engine is called {name!r}", code="A008", fix=f"choose from {', '.join(ENGINES)}"
        )
    if name == "bounds":
        return Bounds(law)
    if not floats_hold(law):
        raise EngineLimitError(f"engine {name!r} does not hold numbers of this size", fix='use engine "auto"')
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
        "second": lambda: second_opinion(law),
    }
    return makers[name]()


def second_opinion(law: Law) -> Float64:
    """Return a float64 engine with other, fewer nodes than the one `choose` would take: quick to set up.

    Raises: EngineLimitError where few nodes are not enough, with lattice and without.
    """
    few = 12 * math.sqrt(float(law.total)) / float(law.spacing) <= _MOST_POINTS
    for lattice in (True, False) if few else (False,):
        found = Quadrature(law, lattice=lattice, nats=_SECOND_NATS, limit=_SECOND_NODES)
        try:
            _ = found.spectrum
        except EngineLimitError:
            continue
        return Float64(law, quadrature=found)
    raise EngineLimitError("too many nodes for a second opinion", fix='use engine "auto"')


def choose(law: Law) -> str:
    """Return the cheapest suitable engine: lattice quadrature, atoms, lattice-free quadrature, or bounds.

    The lattice is usable when the slowest group has few peaks over one period and the sieve leaves few nodes;
    otherwise atoms when they fit; otherwise the lattice-free kernel; otherwise, and outside the range in which the
    rounding of floats is accounted for, bounds that cost the same for every law.
    """
    if not floats_hold(law):
        return "bounds"
    if lattice_usable(law):
        return "float64"
    if atoms.fits(law):
        return "atoms"
    try:
        _ = Quadrature(law, lattice=False).spectrum
    except EngineLimitError:
        return "bounds"
    return "free"


def floats_hold(law: Law) -> bool:
    """Tell whether every number of the law is where the rounding bounds of the float64 engines were made for."""
    return (
        all(_FLOAT_VARIANCES[0] <= g.variance <= _FLOAT_VARIANCES[1] for g in law.groups)
        and _FLOAT_TOTALS[0] <= law.total <= _FLOAT_TOTALS[1]
        and max(g.shift for g in law.groups) * law.coordinates <= _FLOAT_COUNT
    )


def lattice_usable(law: Law) -> bool:
    """Tell whether the sieve over the whole lattice period is cheap."""
    pruned = [w for w, g in zip(law.integers, law.groups, strict=True) if g.variance >= SMALLEST_PRUNED]
    points = 12 * math.sqrt(float(law.total)) / float(law.spacing)
    if points > _MOST_POINTS or (min(pruned) > _MOST_PEAKS if pruned else points > _MOST_PEAKS):
        return False
    try:
        quadrature = Quadrature(law)
        _ = quadrature.window.peaks
    except EngineLimitError:
        return False
    return True


def float_range(law: Law, epsilon: Fraction) -> bool:
    """Tell whether delta at this epsilon stays well inside the float64 range."""
    worst = float(epsilon - law.half)
    return worst <= 0 or -worst * worst / (2 * float(law.total)) > _SMALLEST_LOG


def quick(engine: Engine) -> bool:
    """Tell whether a ball engine needs no more than a second or so to be set up and asked a few times."""
    if not isinstance(engine, Ball):
        return True
    try:
        return engine.steps <= _MOST_STEPS
    except EngineLimitError:
        return False


def curve_is_quick(engine: Engine, law: Law, n_points: int) -> bool:
    """Tell whether the trade-off at so many points takes seconds: each is a search over dozens of thresholds."""
    work = 0.0
    if isinstance(engine, Float64):
        work = len(engine.quadrature.window.index) * parts(law) * (0.1 if engine.quadrature.lattice else 1.0)
    elif isinstance(engine, atoms.Atoms):
        work = atoms.work(law)
    return n_points * work <= _MOST_CURVE


def outward(boxes: Sequence[Enclosure]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return enclosures as (lower, upper) float64 arrays, rounded outward."""
    lower = np.array([float(b.lower) for b in boxes])
    upper = np.array([float(b.upper) for b in boxes])
    return np.maximum(np.nextafter(lower, -np.inf), 0.0), np.nextafter(upper, np.inf)
