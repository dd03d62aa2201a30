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
        levels = range(len(calibration.parameters))
        return np.concatenate([self.add_level(answers, calibration, tree, i) for i in levels], axis=1)

    def add_level(self, answers: Ints, calibration: Calibration, tree: Tree, level: int) -> Ints:
        """Return the answers of one level with noise, [size][region of the level].

        Args:
            answers: exact answers of all levels.
            calibration, tree: see `add`.
            level: its position, the root's is 0.
        """
        here = answers[:, tree.columns(level)]
        return here + self.noise(calibration, level, here.shape)

    def noise(self, calibration: Calibration, level: int, shape: tuple[int, ...]) -> Ints:
        """Return noise of one level's law.

        Args:
            calibration: see `add`.
            level: its position, the root's is 0.
            shape: of the noise.
        """
        from topdown.noise import DiscreteGaussian, Sampler, TwoSidedGeometric

        law = DiscreteGaussian if calibration.noise == "gaussian" else TwoSidedGeometric
        parameter = calibration.parameters[level]
        if self._rough is not None and law is TwoSidedGeometric and parameter > WIDEST_TABLE:
            success = -np.expm1(-1.0 / float(parameter))
            up, down = (self._rough.geometric(success, shape) for _ in range(2))
            return np.asarray(up - down).astype(np.int64)
        drawn = Sampler(law(parameter), self._bits).draw(int(np.prod(shape))).astype(np.int64)
        return drawn.reshape(shape)
