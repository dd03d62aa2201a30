"""One FFT of the tilted law on its lattice: all nodes, no sieve; the plain twin of the float64 engine.

The characteristic function at all N nodes gives every tilted probability with a small absolute error; a threshold
is then a weighted sum. Error bound: transform and input errors in the 2-norm (PROOF.md, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from topdown.accountant.enclosure import Enclosure, from_floats
from topdown.accountant.law import Law
from topdown.accountant.peaks import Peaks
from topdown.accountant.quadrature import Sums
from topdown.accountant.spectrum import spectrum_of, tilted
from topdown.accountant.window import Window, reach, window_error
from topdown.errors import ConfigError

_UNIT = 2.0**-53
_NATS = 43.0
MOST_POINTS = 1 << 23


class LatticeFft:
    """FFT engine of one law."""

    method = "fft/float64"

    def __init__(self, law: Law) -> None:
        spacing = float(law.spacing)
        upper = reach(law, _NATS)
        terms = math.ceil((upper + float(law.half)) / spacing) + 2
        needed = terms + math.ceil(upper / spacing) + 2
        n_points = 1 << max(4, (needed - 1).bit_length())
        if n_points > MOST_POINTS:
            raise ConfigError(
                f"the lattice has {n_points} points in reach, above {MOST_POINTS}",
                code="A015",
                fix='use engine "auto": it sieves the nodes instead of transforming all of them',
            )
        self.law, self.n_points = law, n_points
        window = Window(law, _NATS, n_points * law.spacing, terms, n_points // 2)
        object.__setattr__(window, "peaks", Peaks(np.arange(1, n_points // 2 + 1), 0.0, 0.0))
        self.window = window
        self.spectrum = spectrum_of(window)

    def delta_sums(self, epsilons: Sequence[Fraction]) -> Sums:
        """Return delta at each epsilon as scaled sums with bounds."""
        rows = [self._one(*self.law.first_above(e - self.law.half)) for e in epsilons]
        return Sums(*(np.array(column) for column in zip(*rows, strict=True)))

    def deltas(self, epsilons: Sequence[Fraction]) -> list[Enclosure]:
        """Return the enclosure of delta at each epsilon."""
        lower, upper = self.delta_sums(epsilons).bounds()
        return [
            from_floats(a, min(b, 1.0), self.method)
            for a, b in zip(lower.tolist(), upper.tolist(), strict=True)
        ]

    def _one(self, index: int, gap: Fraction) -> tuple[float, float, float, float]:
        law, window, n_points = self.law, self.window, self.n_points
        x0 = float(index * law.spacing)
        theta = max(x0 / float(law.total), 0.0)
        modulus, branch_phase = tilted(self.spectrum, np.array([theta]))
        phase = theta * self.spectrum.drift
        if branch_phase is not None:
            phase, modulus = phase + branch_phase[0], modulus[0]
        values = modulus * np.exp(-1j * phase)  # conjugate: irfft adds exp(+i s x)
        masses = np.fft.irfft(values, n_points)
        steps = np.arange(window.terms) * float(law.spacing)
        kernel = np.exp(-theta * steps) * -np.expm1(-(steps + float(gap)))
        window_index = (index + np.arange(window.terms)) % n_points
        value = float((masses[window_index] * kernel).sum())
        size = self.spectrum.size
        load = 60 + (14 + 2 * self.spectrum.n_groups) * (self.spectrum.energy + theta * self.spectrum.travel)
        load += 12 * self.spectrum.branch_load + self.spectrum.unseen / _UNIT
        inputs = float(np.linalg.norm(size * load)) * math.sqrt(2 / n_points)
        transform = 12 * math.log2(n_points) * float(np.linalg.norm(size)) * math.sqrt(2 / n_points)
        rounding = _UNIT * (float(np.linalg.norm(kernel)) * (inputs + transform) + 80 * abs(value))
        half = float(law.half)
        log_scale = theta * theta * half - theta * x0
        log_error = 4 * _UNIT * (theta * theta * half + theta * abs(x0) + 4 + abs(self.spectrum.log_norm))
        return log_scale, value, rounding + window_error(window, theta, x0), log_error
