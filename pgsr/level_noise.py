"""From a budget to the noise of every level: exact calibration through derived sensitivities, then exact drawing.

Noise is drawn here and nowhere else in pgsr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import numpy as np

from pgsr.exact_arguments import fraction
from pgsr.hierarchy import Sizes, Tree
from pgsr.neighbours import Relation, steps_in_order
from pgsr.vectors import ADAPTIVE, Kind, joint_sensitivity
from topdown.arrays import Ints
from topdown.errors import BudgetError, ConfigError
from topdown.privacy.bits import AesBits, SimulationBits
from topdown.privacy.laws import LAWS
from topdown.privacy.sampler import Sampler

Noise = Literal["geometric", "gaussian"]
CALIBRATIONS = ("correct", "published")
LAW_NAMES = {"geometric": "two_sided_geometric", "gaussian": "discrete_gaussian"}
"""Of topdown, by noise: what draws it, what it costs, how a ledger names it."""
NOT_A_RELEASE: Final = "NOT-A-RELEASE"
WIDEST = {"geometric": 2**24, "gaussian": 2**54}  # scale and variance that the sampler draws
LARGEST_LOSS = 10_000  # past it noise protects nothing, and the accountant takes minutes to say so


@dataclass(frozen=True)
class Budget:
    """How much may be lost, and how it is divided over the levels.

    >>> from pgsr import Budget
    >>> Budget("1/2").loss_name
    'epsilon'

    Args:
        epsilon: of pure differential privacy, paid with geometric noise; exact ("1/2", Fraction), never a float.
        rho: of zCDP, paid with discrete Gaussian noise, in place of epsilon.
        shares: share of each level, root first, summing to 1; default equal.
        calibration: "published" uses scale L / epsilon for the chain as the paper does. It is not private.

    Raises:
        ConfigError: not exactly one of epsilon and rho (C161), one that is no exact number above 0 (C142-C144), an
            unknown calibration (C156), or the published one with other noise or shares than the paper's (C157).
    """

    epsilon: object = None
    rho: object = None
    shares: Sequence[object] | None = None
    calibration: str = "correct"

    def __post_init__(self) -> None:
        name = self.loss_name
        if (self.epsilon is None) == (self.rho is None):
            raise ConfigError(
                f"{self.noise} noise needs {name} and nothing else", code="C161", fix=f'give {name}="1/2"'
            )
        fraction(name, getattr(self, name))
        if self.calibration not in CALIBRATIONS:
            raise ConfigError(
                f"unknown calibration {self.calibration!r}", code="C156", fix="use correct or published"
            )
        if self.calibration == "published" and (self.rho is not None or self.shares is not None):
            raise ConfigError(
                "the published calibration has geometric noise and equal shares",
                code="C157",
                fix="leave out the noise and the shares, or use the correct calibration",
            )

    @property
    def noise(self) -> Noise:
        """The law of the noise that this budget pays for."""
        return "geometric" if self.rho is None else "gaussian"

    @property
    def loss_name(self) -> str:
        """What the budget counts: "epsilon" or "rho"."""
        return LAWS[LAW_NAMES[self.noise]].loss_name

    @property
    def claimed(self) -> Fraction:
        """The exact budget."""
        return fraction(self.loss_name, self.epsilon if self.rho is None else self.rho)


@dataclass(frozen=True)
class Calibration:
    """Noise of every level and what it costs.

    Args:
        noise: "geometric" (pure epsilon) or "gaussian" (zCDP).
        name: "correct", or "published": scale as the paper prints it, only to reproduce the paper.
        claimed: budget asked for: epsilon, or rho with Gaussian noise.
        loss: what the release really costs, exactly: the sum over levels of sensitivity / scale (epsilon), or of
            sensitivity^2 / (2 variance) (rho).
        parameters: per level, the scale of the two-sided geometric or the variance of the discrete Gaussian.
        sensitivities: per level, the derived sensitivity: L1, or squared L2 with Gaussian noise.
        relations: neighbour steps that are protected.
    """

    noise: Noise
    name: str
    claimed: Fraction
    loss: Fraction
    parameters: tuple[Fraction, ...]
    sensitivities: tuple[int, ...]
    relations: tuple[Relation, ...]

    @property
    def loss_name(self) -> str:
        """What its loss is called, "epsilon" or "rho"."""
        return LAWS[LAW_NAMES[self.noise]].loss_name

    @property
    def private(self) -> bool:
        """Whether the claim holds."""
        return self.loss <= self.claimed

    @property
    def relative_variance(self) -> tuple[Fraction, ...]:
        """Numbers in proportion to the variance of each level's noise (2 scale^2 for geometric noise)."""
        return tuple(LAWS[LAW_NAMES[self.noise]].variance(p, ()) for p in self.parameters)


def calibrate(
    kind: Kind, tree: Tree, sizes: Sizes, budget: Budget, relations: Sequence[Relation] = ("move",)
) -> Calibration:
    """Return the noise that makes a vector private at the budget.

    Args:
        budget: how much may be lost.
        relations: neighbour steps to protect; their order and repetitions do not matter.

    Raises:
        ConfigError: a budget so small that no sampler draws its noise, or so large that it promises nothing (C171);
            a step that the vector does not cover (C184).
        BudgetError: shares of the wrong number or not summing to 1.
    """
    claimed, noise = budget.claimed, budget.noise
    steps = steps_in_order(relations)
    if kind == ADAPTIVE and not {"dropped", "household"}.isdisjoint(steps):
        raise ConfigError(
            f"the step {steps[-1]} changes a group by more than one person, and a row by as much: rows do not cover it",
            code="C184",
            fix="cover moves (--relations move), or measure tail counts; nothing was spent",
        )
    split = _shares(budget.shares, tree.n_levels)
    moved = joint_sensitivity(kind, steps, tree, sizes.n_sizes, sizes.smallest).l1_by_level
    # The paper assumes one unit a level for the chain (Lemma 6).
    published = budget.calibration == "published" and kind in ("chain", "tail_chain")
    assumed = [1 if published else max(s, 1) for s in moved]
    law = LAWS[LAW_NAMES[noise]]
    parameters = tuple(law.calibrated(claimed * q, s, s) for s, q in zip(assumed, split, strict=True))
    loss = exact_loss(noise, parameters, moved)
    name = budget.loss_name
    if max(parameters) > WIDEST[budget.noise]:
        raise ConfigError(
            f"{name} is so small that its noise is wider than can be drawn exactly",
            code="C171",
            fix=f"raise {name}, or give every level a larger share of it; nothing was spent",
        )
    if budget.claimed > LARGEST_LOSS:
        raise ConfigError(
            f"{name} is above {LARGEST_LOSS:,}, where noise protects nothing",
            code="C171",
            fix=f"lower {name}; nothing was spent",
        )
    return Calibration(noise, budget.calibration, claimed, loss, parameters, moved, steps)


def exact_loss(noise: Noise, parameters: Sequence[Fraction], moved: Sequence[int]) -> Fraction:
    """Return epsilon or rho of a step that moves so many answers of every level by one."""
    law = LAWS[LAW_NAMES[noise]]
    return sum((law.loss(p, 1, n) for p, n in zip(parameters, moved, strict=True) if n), Fraction(0))


def _shares(shares: Sequence[object] | None, n_levels: int) -> tuple[Fraction, ...]:
    if shares is None:
        return (Fraction(1, n_levels),) * n_levels
    exact = tuple(fraction("share", share) for share in shares)
    if len(exact) != n_levels:
        raise BudgetError(
            f"{len(exact)} shares for {n_levels} levels",
            code="B110",
            fix=f"give {n_levels} shares, root first",
        )
    if sum(exact) != 1:
        raise BudgetError(
            f"the shares sum to {sum(exact)}, not 1", code="B111", fix="give shares such as 1/4 1/4 1/2"
        )
    return exact


WIDEST_TABLE = 10_000
"""Past this scale the exact sampler needs 16 microseconds a draw; simulations then use NumPy's generator."""


class NoiseSource:
    """Draws the noise of every level, exactly.

    Args:
        seed: None for a release (bits of the operating system's generator); a number makes a reproducible
            simulation, which is not a release.
    """

    def __init__(self, seed: int | None = None) -> None:
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
        """
        levels = range(len(calibration.parameters))
        return np.concatenate([self.add_level(answers, calibration, tree, i) for i in levels], axis=1)

    def add_level(self, answers: Ints, calibration: Calibration, tree: Tree, level: int) -> Ints:
        """Return the answers of one level with noise, [size][region of the level].

        Args:
            answers: exact answers of all levels.
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
        parameter = calibration.parameters[level]
        if self._rough is not None and calibration.noise == "geometric" and parameter > WIDEST_TABLE:
            success = -np.expm1(-1.0 / float(parameter))
            up, down = (self._rough.geometric(success, shape) for _ in range(2))
            return np.asarray(up - down).astype(np.int64)
        law = LAWS[LAW_NAMES[calibration.noise]].distribution(parameter, ())
        return Sampler(law, self._bits).draw(int(np.prod(shape))).astype(np.int64).reshape(shape)
