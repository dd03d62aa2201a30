"""The certified privacy loss of a plan: enclosures, never a bare number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from topdown.errors import ConfigError
from topdown.plan.plan import Plan

if TYPE_CHECKING:
    from topdown.accountant.semantics import Measurement

DELTA = "1e-10"


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
        engine = everything.certifying()
        epsilon, guess = everything.epsilon(DELTA, engine=engine), everything.best_guess(engine=engine)
    except ConfigError:
        return {}
    return {
        "epsilon": {DELTA: list(epsilon.texts())},
        "best_guess": list(guess.texts()),
        "method": epsilon.method,
    }


def certified_privacy(plan: Plan) -> dict[str, Any]:
    """Return what the certificate adds to the plan's exact loss: {} where the accountant has no bound.

    `epsilon` by delta, `curve` (power of the best attack by false-alarm rate) and `attributes` (what each
    single fact about a person costs), every number an enclosure [low, high] of decimal strings.
    """
    from topdown.accountant.commands import audit_static

    try:
        audited: dict[str, Any] = audit_static(
            plan_measurements(plan), (DELTA,), neighbours=plan.neighbours, certify_curve=True
        )
    except ConfigError:
        return {}
    kept = ("name", "kind", "rho", "epsilon", "best_guess", "method")
    secrets = [{key: secret[key] for key in kept} for secret in audited["secrets"]]
    return {"epsilon": secrets[0]["epsilon"], "curve": audited["curve"], "attributes": secrets}
