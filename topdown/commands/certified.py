"""The certified privacy loss of a plan: enclosures, never a bare number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from topdown.errors import ConfigError
from topdown.plan.plan import Plan
from topdown.screen import figures

if TYPE_CHECKING:
    from topdown.accountant.semantics import Measurement


def plan_measurements(plan: Plan) -> list[Measurement]:
    """Return every (level, query) of a plan as the accountant wants it; ConfigError A030 for pure DP."""
    from topdown.accountant.semantics import Measurement

    if plan.mechanism != "discrete_gaussian":
        raise ConfigError(
            f"the exact accountant covers discrete Gaussian noise; this plan uses {plan.mechanism} noise, whose "
            f"loss is exact as it stands: epsilon {plan.loss}",
            code="A030",
            fix="quote epsilon itself; it holds for every delta",
        )
    return [
        Measurement(depth, level.name, m.query, plan.query(m.query).attributes, m.parameter)
        for depth, level in enumerate(plan.levels)
        for m in level.measurements
    ]


def certified_loss(plan: Plan) -> dict[str, Any]:
    """Return epsilon at delta 1e-10 and the chance of a right guess as [low, high]; {} without a bound."""
    from topdown.accountant.semantics import secrets

    try:
        everything = secrets(plan_measurements(plan), plan.neighbours)[0].composition
        epsilon, guess = everything.epsilon(figures.DELTA), everything.best_guess()
    except ConfigError:
        return {}
    return {
        "epsilon": {"1e-10": list(epsilon.texts())},
        "best_guess": list(guess.texts()),
        "method": epsilon.method,
    }
