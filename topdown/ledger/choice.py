"""The record of a choice from a sample: an intent whose loss is that of a selection, not of noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

NEIGHBOURS = ("bounded", "add_remove")
_TERMS = 120


@dataclass(frozen=True)
class Choice:
    """A choice is about to be drawn, once, from a Poisson sample of the records; its loss counts from here on.

    Args:
        release, plan_hash: what it is for.
        neighbours: relation that `epsilon` is about, that of the ledger: bounded or add_remove.
        epsilon: pure differential privacy of the choice, exact, an upper bound of ln(exp_epsilon).
        rate, base: of the sample, and of the one-sided mechanism on it; see `exp_epsilon`.
        loss_name: rho or epsilon, that of the ledger.
        attempt, covers, journal, loss, limit, limit_reason: as for `Intent`.
    """

    release: str
    plan_hash: str
    neighbours: str
    epsilon: Fraction
    rate: Fraction
    base: Fraction
    loss_name: str
    attempt: int
    covers: tuple[str, ...]
    journal: str
    loss: Fraction = Fraction(-1)
    limit: Fraction = Fraction(0)
    limit_reason: str = ""
    laws: ClassVar[tuple[()]] = ()
    exact: ClassVar[tuple[()]] = ()
    delta: ClassVar[Fraction] = Fraction(0)
    delta_limit: ClassVar[Fraction] = Fraction(0)

    def __post_init__(self) -> None:
        if self.neighbours not in NEIGHBOURS or self.loss_name not in ("rho", "epsilon"):
            raise ValueError("a choice is about replaced records, or about added and removed ones")
        if self.epsilon <= 0 or not 0 < self.rate < 1 or self.base <= 1:
            raise ValueError("a choice needs an epsilon above 0, a rate between 0 and 1, and a base above 1")
        if not self.covers or not self.journal:
            raise ValueError("a choice needs what it covers, and a journal")
        if self.exp_epsilon > _exp_below(self.epsilon):
            raise ValueError("a choice of this rate and base keeps no such epsilon")
        due = choice_loss(self.loss_name, self.epsilon, self.exp_epsilon)
        if self.loss not in (Fraction(-1), due):
            raise ValueError("the loss of a choice is not that of its epsilon")
        object.__setattr__(self, "loss", due)

    @property
    def exp_epsilon(self) -> Fraction:
        """Exact e^epsilon that rate and base keep (topdown/selection/PROOF.md, section 1)."""
        added, removed = 1 + self.rate * (self.base - 1), 1 / (1 - self.rate)
        return added * removed if self.neighbours == "bounded" else max(added, removed)


def choice_loss(loss_name: str, epsilon: Fraction, odds: Fraction) -> Fraction:
    """Return what a choice charges, exactly: epsilon, or as zCDP epsilon x (odds - 1) / (odds + 1).

    That is epsilon tanh(epsilon / 2), the rho of randomised response, which dominates; see `accountant.zcdp.of_pure`.

    Args:
        loss_name: rho or epsilon.
        epsilon: at least ln(odds).
        odds: e^epsilon as it is kept, above 1.
    """
    return epsilon if loss_name == "epsilon" else epsilon * (odds - 1) / (odds + 1)


def _exp_below(epsilon: Fraction) -> Fraction:
    """Return a rational below e^epsilon, by less than 10^-50 of it up to epsilon 10: the first terms of its series."""
    total = term = Fraction(1)
    for n in range(1, _TERMS):
        term = term * epsilon / n
        total += term
    return total
