"""The inverse of a plan's account: the largest short budget whose certified epsilon at a delta is at most a wish."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from topdown.api.whole_plan import check_epsilon, composition_of
from topdown.errors import ConfigError

if TYPE_CHECKING:
    from topdown.plan.plan import Plan

DELTA = Fraction(1, 10**10)
_DIGITS = 4  # of the budget: short enough to be typed, and within a thousandth of the most there is


@dataclass(frozen=True)
class BudgetFor:
    """A budget for one release that extends none, all its shares as the plan has them.

    Args:
        loss_name: rho or epsilon, the key under [budget].
        budget: exact, few digits.
        epsilon: what was wished, at `delta`.
        certified: what the budget costs at `delta`, at most; never above `epsilon`.
    """

    loss_name: str
    budget: Fraction
    epsilon: Fraction
    delta: Fraction
    certified: Fraction

    def document(self) -> dict[str, Any]:
        """Return the part `budget_for` of the plan's summary; what it costs is rounded up."""
        from topdown.decimals import significant

        return {
            "loss_name": self.loss_name,
            "budget": str(self.budget),
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "certified": significant(self.certified, 9, up=True),
        }


def budget_for(plan: Plan, epsilon: Fraction, delta: Fraction = DELTA) -> BudgetFor:
    """Return the largest budget of four digits that keeps epsilon at delta for everything one record moves.

    Args:
        plan: its shares and neighbours; its own budget does not matter.
        epsilon: 1/1000 .. 100. delta: above 0, below 1; a budget of pure epsilon holds for every delta.

    Raises: ConfigError C005 for an extension or a budget of two numbers, C151 for epsilon, C152 for delta, A014 where
        nothing could be certified.
    """
    if plan.base is not None or plan.delta:
        raise ConfigError(
            "a budget is found for a release that extends none, of mechanism discrete_gaussian or geometric",
            code="C005",
            fix="leave --budget-for out",
        )
    check_epsilon(epsilon)
    if not 0 < delta < 1:
        raise ConfigError(f"delta is {delta}", code="C152", fix="give a delta between 0 and 1, e.g. 1e-10")
    if plan.loss_name == "epsilon":
        spent = plan.loss / plan.budget  # less than 1 where the geography lacks a level
        budget = _short(epsilon / spent)
        return BudgetFor("epsilon", budget, epsilon, delta, budget * spent)
    from topdown.accountant.calibrate import budget_scale

    whole = composition_of(plan)
    budget = _short(plan.budget * budget_scale(whole, epsilon, delta).lower)
    certified = whole.scaled(budget / plan.budget).epsilon(delta).upper
    if certified > epsilon:
        raise ConfigError(
            f"no budget could be certified for epsilon {epsilon} at delta {delta}",
            code="A014",
            fix="try another delta",
        )
    return BudgetFor("rho", budget, epsilon, delta, certified)


def _short(budget: Fraction) -> Fraction:
    from topdown.decimals import significant

    return Fraction(significant(budget, _DIGITS, up=False))
