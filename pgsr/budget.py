"""From a budget to noise per level and back: exact, through the derived sensitivities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from pgsr.hierarchy import Tree
from pgsr.numbers import fraction
from pgsr.vectors import RELATIONS, Kind, Relation, joint_sensitivity
from topdown.errors import BudgetError, ConfigError

Noise = Literal["geometric", "gaussian"]
CALIBRATIONS = ("correct", "published")
NOT_A_RELEASE: Final = "NOT-A-RELEASE"
WIDEST = {"geometric": 2**24, "gaussian": 2**54}  # scale and variance that the sampler draws
LARGEST_LOSS = 10_000  # past it noise protects nothing, and the accountant takes minutes to say so


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
    def private(self) -> bool:
        """Whether the claim holds."""
        return self.loss <= self.claimed

    @property
    def relative_variance(self) -> tuple[Fraction, ...]:
        """Numbers in proportion to the variance of each level's noise (2 scale^2 for geometric noise)."""
        if self.noise == "gaussian":
            return self.parameters
        return tuple(2 * p * p for p in self.parameters)


def calibrate(
    kind: Kind,
    tree: Tree,
    n_sizes: int,
    budget: object,
    *,
    noise: Noise = "geometric",
    shares: Sequence[object] | None = None,
    relations: tuple[Relation, ...] = ("move",),
    smallest: int = 1,
    calibration: str = "correct",
) -> Calibration:
    """Return the noise that makes a vector private at the budget.

    Args:
        kind: measured vector.
        tree: the regions.
        n_sizes: number of sizes N.
        budget: epsilon, or rho with Gaussian noise; exact ("1/2", Fraction), never a float.
        noise: law of the noise.
        shares: share of each level, root first, summing to 1; default equal.
        relations: neighbour steps to protect; their order and repetitions do not matter.
        smallest: first size, 0 or 1.
        calibration: "published" uses scale L / epsilon for the chain as the paper does. It is not private.

    Raises:
        ConfigError: float or nonpositive budget, unknown noise or calibration; a budget so small that no sampler
            draws its noise, or so large that it promises nothing (C171).
        BudgetError: shares of the wrong number or not summing to 1.
    """
    name = "epsilon" if noise == "geometric" else "rho"
    claimed = fraction(name, budget)
    if noise not in ("geometric", "gaussian"):
        raise ConfigError(f"unknown noise {noise!r}", code="C155", fix="use geometric or gaussian")
    if calibration not in CALIBRATIONS:
        raise ConfigError(f"unknown calibration {calibration!r}", code="C156", fix="use correct or published")
    if calibration == "published" and (noise != "geometric" or shares is not None):
        raise ConfigError(
            "the published calibration has geometric noise and equal shares",
            code="C157",
            fix="leave out the noise and the shares, or use the correct calibration",
        )
    relations = steps_in_order(relations)
    split = _shares(shares, tree.n_levels)
    found = joint_sensitivity(kind, relations, tree, n_sizes, smallest)
    sensitivities = found.l1_by_level
    if noise == "gaussian":
        variances = tuple(
            Fraction(s) / (2 * claimed * q) if s else Fraction(1)
            for s, q in zip(sensitivities, split, strict=True)
        )
        loss = sum(
            (Fraction(s) / (2 * v) for s, v in zip(sensitivities, variances, strict=True)), Fraction(0)
        )
        _refuse_out_of_range(name, claimed, noise, variances)
        return Calibration(noise, calibration, claimed, loss, variances, sensitivities, relations)
    assumed = _published(kind, sensitivities) if calibration == "published" else sensitivities
    scales = tuple(Fraction(max(s, 1)) / (claimed * q) for s, q in zip(assumed, split, strict=True))
    loss = sum((s / scale for s, scale in zip(sensitivities, scales, strict=True)), Fraction(0))
    _refuse_out_of_range(name, claimed, noise, scales)
    return Calibration(noise, calibration, claimed, loss, scales, sensitivities, relations)


def _refuse_out_of_range(
    name: str, claimed: Fraction, noise: Noise, parameters: tuple[Fraction, ...]
) -> None:
    if max(parameters) > WIDEST[noise]:
        raise ConfigError(
            f"{name} is so small that its noise is wider than can be drawn exactly",
            code="C171",
            fix=f"raise {name}, or give every level a larger share of it; nothing was spent",
        )
    if claimed > LARGEST_LOSS:
        raise ConfigError(
            f"{name} is above {LARGEST_LOSS:,}, where noise protects nothing",
            code="C171",
            fix=f"lower {name}; nothing was spent",
        )


def steps_in_order(relations: Sequence[str]) -> tuple[Relation, ...]:
    """Return neighbour steps in one order and each once, or ConfigError C168 for none or an unknown one."""
    wrong = [name for name in relations if name not in RELATIONS]
    if wrong or not relations:
        raise ConfigError(
            f"unknown neighbour step {wrong[0]!r}" if wrong else "no neighbour step is protected",
            code="C168",
            fix=f"use one or more of: {', '.join(RELATIONS)}",
        )
    return tuple(relation for relation in RELATIONS if relation in relations)


def _published(kind: Kind, derived: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sensitivity per level that the paper assumes: one unit a level for the chain (Lemma 6)."""
    return (1,) * len(derived) if kind in ("chain", "tail_chain") else derived


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
