"""`topdown plan --compare-noise`: what is asked, and its part of the screen."""

from __future__ import annotations

from fractions import Fraction

from topdown.accountant.exact import rational
from topdown.api.noise_compared import NoiseCompared
from topdown.api.planned import Planned
from topdown.decimals import significant
from topdown.plan.plan import Plan
from topdown.screen.console import Screen
from topdown.screen.layout import Column

_DIGITS = 4


_TAKE = 'A run file has the second kind with mechanism = "optimal"; shares split ε and δ.'
_HAS = "This plan has noise of the second kind; its shares split ε and δ."


def compare_as(planned: Planned, wish: str) -> NoiseCompared:
    """Compare as "EPSILON:DELTA" or "DELTA" says."""
    epsilon, colon, delta = wish.rpartition(":")
    return planned.compare_noise(rational(delta, "delta"), rational(epsilon, "epsilon") if colon else None)


def show_noise(screen: Screen, plan: Plan, found: NoiseCompared) -> None:
    """Write the variances of both kinds, what they keep, and which is better for the plan."""
    screen.heading("Noise compared", f", both at ε {found.epsilon}, δ {found.delta} for all queries together")
    columns = [
        *(Column("level"), Column("query", wraps=True)),
        *(Column(name, right=True) for name in ("Gaussian", "single counts", "ratio")),
    ]
    rows = [
        (
            *(one.level, one.query),
            *(_up(number) for number in (one.gaussian_variance, one.optimal_variance, one.ratio)),
        )
        for one in found.queries
    ]
    screen.table(columns, rows)
    screen.blank()
    for line in _sentences(plan, found):
        screen.say(line, indent=2, hang=4)


def _up(number: Fraction) -> str:
    return significant(number, _DIGITS, up=True)


def _sentences(plan: Plan, found: NoiseCompared) -> list[str]:
    unit = plan.schema.unit
    change = {"bounded": f"One {unit} replaced", "add_remove": f"One {unit} added or removed"}[
        plan.neighbours
    ]
    how = "composed losses" if found.method == "composed losses" else "sums of ε and δ"
    gaussian, optimal = _up(found.gaussian_delta), _up(found.optimal_delta)
    ratios = [one.ratio for one in found.queries]
    spread = f"{significant(min(ratios), 3, up=False)} to {significant(max(ratios), 3, up=True)}"
    better = {
        "discrete_gaussian": "Discrete Gaussian noise is better for this plan",
        "optimal": "The best noise for single counts has less variance for every query",
        "neither": "Neither kind has less variance for every query",
    }[found.better]
    return [
        (
            "Variances of each answer, rounded up, about in this plan's proportions between queries: of discrete "
            "Gaussian noise, and of the best noise for single counts."
        ),
        (
            f"{change} moves at most {found.n_counts:,} counts, by 1 each. Together they need δ not above {gaussian} "
            f"with the first kind, and not above {optimal} with the second; both certified, the second from {how}."
        ),
        (
            f"{better}. The second kind has {spread} times the variance of the first; splits of ε and δ were tried, "
            "none is proved best."
        ),
        _HAS if plan.delta else _TAKE,
    ]
