"""A plan's noise beside the best noise for single counts, under one (epsilon, delta) for all queries together.

Both kinds keep about the plan's proportions between its queries. Discrete Gaussian noise is scaled until the
accountant's enclosure of the whole is at the promise. The other kind gets, for each query, a promise of its
own; what all counts that one record moves need together is bounded in whole numbers (`accountant/dots.py`),
from the laws as they would be drawn. A plan of mechanism "optimal" splits epsilon and delta by its shares instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from topdown.api.noise import LARGEST_DELTA
from topdown.api.whole_plan import check_epsilon, composition_of
from topdown.errors import ConfigError

if TYPE_CHECKING:
    from topdown.api.noise_split import Method
    from topdown.plan.plan import Plan

_DIGITS = 6
Better = Literal["discrete_gaussian", "optimal", "neither"]
Than = Literal["less", "more", "open"]


@dataclass(frozen=True)
class ComparedQuery:
    """One query of one level with the noise of both kinds; variances in records squared, of each answer.

    Args:
        level, query: names.
        gaussian_parameter: of discrete Gaussian noise, exact.
        gaussian_variance: its variance, from below: less than the parameter where that is small.
        optimal_variance: exact.
        epsilon, delta: the promise of the other kind for one count.
    """

    level: str
    query: str
    gaussian_parameter: Fraction
    gaussian_variance: Fraction
    optimal_variance: Fraction
    epsilon: Fraction
    delta: Fraction

    @property
    def ratio(self) -> Fraction:
        """Variance of the other kind over that of discrete Gaussian noise, rounded up by less than a part in 10^50."""
        return self.optimal_variance / self.gaussian_variance


@dataclass(frozen=True)
class NoiseCompared:
    """Two kinds of noise that keep (epsilon, delta) for everything that one record moves.

    Args:
        epsilon, delta: what both keep.
        n_counts: counts that one record moves in all queries together.
        gaussian_delta: what discrete Gaussian noise needs at epsilon, at most; certified.
        optimal_delta: what the other kind needs at epsilon, at most; certified, by `method`.
        method: "composed losses", or "sums" of epsilons and deltas.
        queries: in the plan's order.
    """

    epsilon: Fraction
    delta: Fraction
    n_counts: int
    gaussian_delta: Fraction
    optimal_delta: Fraction
    method: Method
    queries: tuple[ComparedQuery, ...]

    @property
    def better(self) -> Better:
        """The kind with less variance for every query; of the splits that were tried."""
        ratios = [query.ratio for query in self.queries]
        return "optimal" if max(ratios) < 1 else "discrete_gaussian" if min(ratios) > 1 else "neither"

    def document(self) -> dict[str, Any]:
        """Return the part `noise_compared` of the plan's summary; decimals are rounded up."""
        from topdown.decimals import significant

        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "n_counts_moved": self.n_counts,
            "gaussian_delta": significant(self.gaussian_delta, _DIGITS, up=True),
            "optimal_delta": significant(self.optimal_delta, _DIGITS, up=True),
            "method": self.method,
            "better": self.better,
            "queries": [
                {
                    "level": one.level,
                    "query": one.query,
                    "gaussian_parameter": significant(one.gaussian_parameter, _DIGITS, up=True),
                    "gaussian_variance": significant(one.gaussian_variance, _DIGITS, up=True),
                    "optimal_variance": significant(one.optimal_variance, _DIGITS, up=True),
                    "ratio": significant(one.ratio, _DIGITS, up=True),
                    "epsilon": str(one.epsilon),
                    "delta": str(one.delta),
                }
                for one in self.queries
            ],
        }


def compare_noise(plan: Plan, delta: Fraction, epsilon: Fraction | None = None) -> NoiseCompared:
    """Compare discrete Gaussian noise with the best noise for single counts, for the queries of a plan.

    Args:
        plan: of a release that extends none.
        delta: of everything together, above 0, at most 1/1000.
        epsilon: of everything together, 1/1000 .. 100; what the plan itself costs at delta if None.

    Raises: ConfigError C005 for an extension, C151 for epsilon, C152 and C154 for delta, C155 for too wide noise.
    Cost: some seconds; a minute for a hundred queries.
    """
    if plan.base is not None:
        raise ConfigError(
            "noise is compared for a release that extends none",
            code="C005",
            fix="compare for the plan of the base, or for a plan without --base",
        )
    _check_delta(delta)
    from topdown.accountant.composition import counts_moved
    from topdown.accountant.variance import discrete_gaussian_variance
    from topdown.api.noise_split import certified_split

    moved = counts_moved(plan.neighbours)
    rows = [(level.name, m) for level in plan.levels for m in level.measurements]
    total = _own_epsilon(plan, delta) if epsilon is None else epsilon
    check_epsilon(total)
    scale, needed = _gaussian(plan, total, delta, is_own=epsilon is None)
    counts: dict[Fraction, int] = {}
    for _, m in rows:
        counts[m.variance] = counts.get(m.variance, 0) + moved
    split = certified_split(counts, total, delta)
    queries = []
    for level, m in rows:
        law = split.laws[m.variance]
        promise = law.ask.promises[0]
        parameter = m.variance / scale
        queries.append(
            ComparedQuery(
                level,
                m.query,
                parameter,
                discrete_gaussian_variance(parameter).lower,
                law.variance,
                promise.epsilon,
                promise.delta,
            )
        )
    return NoiseCompared(total, delta, moved * len(rows), needed, split.delta, split.method, tuple(queries))


def gaussian_needs(plan: Plan) -> Than:
    """Say whether discrete Gaussian noise, for the same epsilon and delta, needs more variance than a plan's own noise.

    "less" and "more" are certified, of noise in the plan's proportions; "open" is what quick bounds leave open.

    Args:
        plan: of mechanism "optimal".
    """
    needed = composition_of(plan).delta(plan.loss, engine="bounds")
    delta = plan.delta_of(plan.loss)
    return "less" if needed.upper <= delta else "more" if needed.lower > delta else "open"


def _check_delta(delta: Fraction) -> None:
    if delta <= 0:
        raise ConfigError(f"delta is {delta}", code="C152", fix="give a delta above 0, e.g. 1/1000000")
    if delta > LARGEST_DELTA:
        raise ConfigError(
            f"delta is {delta}, above {LARGEST_DELTA}: the best noise would give exact answers away",
            code="C154",
            fix="give a smaller delta",
        )


def _own_epsilon(plan: Plan, delta: Fraction) -> Fraction:
    """Return what the plan costs at delta: rounded up in the sixth digit, or its exact epsilon."""
    from topdown.decimals import significant

    if plan.loss_name != "rho":
        return plan.loss
    return Fraction(significant(composition_of(plan).epsilon(delta).upper, _DIGITS, up=True))


def _gaussian(plan: Plan, epsilon: Fraction, delta: Fraction, *, is_own: bool) -> tuple[Fraction, Fraction]:
    """Return (by what variances are divided, certified delta)."""
    from topdown.accountant.calibrate import budget_scale

    whole = composition_of(plan)
    keeps_its_own = is_own and plan.loss_name == "rho"
    scale = Fraction(1) if keeps_its_own else budget_scale(whole, epsilon, delta).lower
    needed = whole.scaled(scale).delta(epsilon).upper
    if needed > delta:
        raise ConfigError(
            f"no discrete Gaussian noise could be certified for epsilon {epsilon} at delta {delta}",
            code="A014",
            fix="try another delta",
        )
    return scale, needed
