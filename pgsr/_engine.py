"""The seam to topdown's noise: it is drawn here and nowhere else in pgsr."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pgsr.budget import Calibration
from pgsr.hierarchy import Tree

Ints = NDArray[np.int64]
WIDEST_TABLE = 10_000
"""Past this scale the exact sampler needs 16 microseconds a draw; simulations then use NumPy's generator."""


class NoiseSource:
    """Draws the noise of every level, exactly.

    Args:
        seed: None for a release (bits of the operating system's generator); a number makes a reproducible
            simulation, which is not a release.
    """

    def __init__(self, seed: int | None = None) -> None:
        from topdown.noise import AesBits, SimulationBits

        self._bits = AesBits() if seed is None else SimulationBits(seed)
        self._rough = None if seed is None else np.random.default_rng(seed)

    @property
    def is_release(self) -> bool:
        """Whether the noise may protect a release."""
        return bool(self._bits.is_release)

    def add(self, answers: Ints, calibration: Calibration, tree: Tree) -> Ints:
        """Return answers [size][node] with independent noise of each level's law.

        Args:
            answers: exact answers.
            calibration: noise per level.
            tree: the regions.
        """
        from topdown.noise import DiscreteGaussian, Sampler, TwoSidedGeometric

        law = DiscreteGaussian if calibration.noise == "gaussian" else TwoSidedGeometric
        noisy = answers.copy()
        for level, parameter in enumerate(calibration.parameters):
            here = tree.columns(level)
            shape = (len(answers), here.stop - here.start)
            if self._rough is not None and law is TwoSidedGeometric and parameter > WIDEST_TABLE:
                success = -np.expm1(-1.0 / float(parameter))
                noisy[:, here] += self._rough.geometric(success, shape) - self._rough.geometric(
                    success, shape
                )
            else:
                drawn = Sampler(law(parameter), self._bits).draw(shape[0] * shape[1])
                noisy[:, here] += drawn.reshape(shape)
        return noisy
