"""A plan under one (epsilon, delta): the budget that keeps it, and its noise beside the best for single counts.

What is proposed in floats is certified exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from topdown import optimal_noise
from topdown.errors import ConfigError, InternalError
from topdown.formats import plan_documents
from topdown.formats.common import LossName
from topdown.formats.plan_documents import Better, Method, Than
from topdown.optimal_noise import splits
from topdown.optimal_noise.noise_request import (
    LARGEST_EPSILON,
    SMALLEST_DELTA,
    NoiseRequest,
    Promise,
    Square,
    refuse_large_delta,
)
from topdown.privacy.accountant.calibrate import budget_scale, discrete_gaussian_variance
from topdown.privacy.accountant.composition import Composition
from topdown.privacy.accountant.events import delta_above
from topdown.privacy.accountant.finite_losses import loss_of_one_step
from topdown.privacy.exact_values import significant
from topdown.privacy.laws import DISCRETE_GAUSSIAN

if TYPE_CHECKING:
    from topdown.optimal_noise import OptimalLaw
    from topdown.plan import Plan


_DIGITS = 6
EPSILON_OF_A_PLAN = (
    Fraction(1, 1000),
    Fraction(100),
)  # least and most that may be asked of all queries together


def composition_of(plan: Plan) -> Composition:
    """Return everything one unit moves in a plan that extends none, as discrete Gaussian noise of its variances.

    Raises: ConfigError A081 for a unit of several records.
    """
    plan.relation.check_noise(DISCRETE_GAUSSIAN)
    moved = plan.relation.n_counts
    return Composition.of((m.variance, 1, moved) for level in plan.levels for m in level.measurements)


def check_epsilon(epsilon: Fraction) -> None:
    """Refuse an epsilon of everything together that no search is for (ConfigError C151)."""
    least, most = EPSILON_OF_A_PLAN
    if not least <= epsilon <= most:
        raise ConfigError(
            f"epsilon is {epsilon} for all queries together, outside {least} .. {most}",
            code="C151",
            fix="give one, as EPSILON:DELTA",
        )


USUAL_DELTA = Fraction(1, 10**10)
_BUDGET_DIGITS = 4  # of the budget: short enough to be typed, and within a thousandth of the most there is


@dataclass(frozen=True, repr=False)
class BudgetFor:
    """A budget for one release that extends none, all its shares as the plan has them.

    Args:
        loss_name: rho or epsilon, the key under [budget].
        budget: exact, few digits.
        epsilon: what was wished, at `delta`.
        certified: what the budget costs at `delta`, at most; never above `epsilon`.
    """

    loss_name: LossName
    budget: Fraction
    epsilon: Fraction
    delta: Fraction
    certified: Fraction

    def __repr__(self) -> str:
        cost = f"epsilon {significant(self.certified, 6, up=True)} at delta {self.delta}"
        return f"BudgetFor({self.loss_name} {self.budget}, costs at most {cost})"

    def document(self) -> plan_documents.BudgetFor:
        """Return the part `budget_for` of the plan's summary; what it costs is rounded up."""
        return plan_documents.BudgetFor(
            loss_name=self.loss_name,
            budget=str(self.budget),
            epsilon=str(self.epsilon),
            delta=str(self.delta),
            certified=significant(self.certified, 9, up=True),
        )


def budget_for(plan: Plan, epsilon: Fraction, delta: Fraction = USUAL_DELTA) -> BudgetFor:
    """Return the largest budget of four digits that keeps epsilon at delta: see `Planned.budget_for`."""
    if plan.base is not None or plan.delta:
        raise ConfigError(
            "a budget is found for a release that extends none, of mechanism discrete_gaussian or geometric",
            code="C005",
            fix="leave --budget-for and --report out",
        )
    check_epsilon(epsilon)
    if not 0 < delta < 1:
        raise ConfigError(f"delta is {delta}", code="C152", fix="give a delta between 0 and 1, e.g. 1e-10")
    if plan.loss_name == "epsilon":
        spent = plan.loss / plan.budget  # less than 1 where the geography lacks a level
        budget = _at_most_four_digits(epsilon / spent)
        return BudgetFor("epsilon", budget, epsilon, delta, budget * spent)
    whole = composition_of(plan)
    budget = _at_most_four_digits(plan.budget * budget_scale(whole, epsilon, delta).lower)
    certified = whole.scaled(budget / plan.budget).epsilon(delta).upper
    if certified > epsilon:
        raise ConfigError(
            f"no budget could be certified for epsilon {epsilon} at delta {delta}",
            code="A014",
            fix="try another delta",
        )
    return BudgetFor("rho", budget, epsilon, delta, certified)


def _at_most_four_digits(budget: Fraction) -> Fraction:
    return Fraction(significant(budget, _BUDGET_DIGITS, up=False))


@dataclass(frozen=True)
class ComparedQuery:
    """One query of one level with the noise of both kinds; variances in records squared, of each answer.

    Args:
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


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        kept = f"epsilon {significant(self.epsilon, 6, up=True)} at delta {self.delta}"
        return f"NoiseCompared({kept}, {len(self.queries)} queries, better: {self.better})"

    @property
    def better(self) -> Better:
        """The kind with less variance for every query; of the splits that were tried."""
        ratios = [query.ratio for query in self.queries]
        return "optimal" if max(ratios) < 1 else "discrete_gaussian" if min(ratios) > 1 else "neither"

    def document(self) -> plan_documents.ComparedNoise:
        """Return the part `noise_compared` of the plan's summary; decimals are rounded up."""
        return plan_documents.ComparedNoise(
            epsilon=str(self.epsilon),
            delta=str(self.delta),
            n_counts_moved=self.n_counts,
            gaussian_delta=_decimal_above(self.gaussian_delta),
            optimal_delta=_decimal_above(self.optimal_delta),
            method=self.method,
            better=self.better,
            queries=[
                plan_documents.QueryNoise(
                    level=one.level,
                    query=one.query,
                    gaussian_parameter=_decimal_above(one.gaussian_parameter),
                    gaussian_variance=_decimal_above(one.gaussian_variance),
                    optimal_variance=_decimal_above(one.optimal_variance),
                    ratio=_decimal_above(one.ratio),
                    epsilon=str(one.epsilon),
                    delta=str(one.delta),
                )
                for one in self.queries
            ],
        )


def _decimal_above(number: Fraction) -> str:
    return significant(number, _DIGITS, up=True)


def compare_noise(plan: Plan, delta: Fraction, epsilon: Fraction | None = None) -> NoiseCompared:
    """Compare discrete Gaussian noise with the best noise for single counts: see `Planned.compare_noise`."""
    if plan.base is not None:
        raise ConfigError(
            "noise is compared for a release that extends none",
            code="C005",
            fix="compare for the plan of the base, or for a plan without --base",
        )
    if delta <= 0:
        raise ConfigError(f"delta is {delta}", code="C152", fix="give a delta above 0, e.g. 1/1000000")
    refuse_large_delta(delta)
    moved = plan.relation.n_counts
    rows = [(level.name, m) for level in plan.levels for m in level.measurements]
    total = plan.loss if epsilon is None else epsilon
    if epsilon is None and plan.loss_name == "rho":
        total = Fraction(significant(composition_of(plan).epsilon(delta).upper, _DIGITS, up=True))
    check_epsilon(total)
    scale, needed = _gaussian_scale(plan, total, delta, is_own=epsilon is None)
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
    """
    needed = composition_of(plan).delta(plan.loss, engine="bounds")
    delta = plan.delta_of(plan.loss)
    return "less" if needed.upper <= delta else "more" if needed.lower > delta else "open"


def _gaussian_scale(
    plan: Plan, epsilon: Fraction, delta: Fraction, *, is_own: bool
) -> tuple[Fraction, Fraction]:
    """Return (by what variances are divided, certified delta)."""
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


_GRID = 1 << 40
_NUDGES = (Fraction(1, 10**6), Fraction(1, 10**4), Fraction(1, 10**3), Fraction(1, 100))
Counts = Mapping[Fraction, int]


@dataclass(frozen=True)
class CertifiedSplit:
    """Laws that keep a promise together.

    Args:
        laws: by wanted variance.
        delta: what all counts need together, at most.
        method: how that is known.
    """

    laws: Mapping[Fraction, OptimalLaw]
    delta: Fraction
    method: Method


@dataclass(frozen=True)
class _Proposal:
    """Epsilon by wanted variance, and the delta of every count; in floats before `_certified` looks at it."""

    epsilons: Mapping[Fraction, Fraction]
    each: Fraction
    method: Method

    def size(self, counts: Counts) -> float:
        """Return the sum of logarithms of the variances: what proposals are compared by."""
        return math.fsum(
            n * math.log(splits.law_variance(splits.tails_law(float(self.epsilons[v]), float(self.each))))
            for v, n in counts.items()
        )


def certified_split(counts: Counts, epsilon: Fraction, delta: Fraction) -> CertifiedSplit:
    """Return laws whose standard deviations are about in proportion to the wanted ones, and what they keep together.

    The best of the splits tried, not of all there are.

    Args:
        counts: wanted variance, up to a common factor -> how many counts one record moves that have it, by 1 each.
        epsilon, delta: of all of them together; delta at most 1/1000.

    Raises: ConfigError C152 for a delta too small to be shared, C155 for noise too wide.
    """
    proposals = sorted(_proposals(counts, epsilon, delta), key=lambda one: one.size(counts))
    for one in proposals:
        found = _certified(one, counts, epsilon, delta)
        if found is not None:
            return found
    raise ConfigError(
        f"delta {delta} and epsilon {epsilon} are too small to be shared by {sum(counts.values())} counts",
        code="C152",
        fix="give a larger delta or epsilon",
    )


def _proposals(counts: Counts, epsilon: Fraction, delta: Fraction) -> Iterator[_Proposal]:
    n = sum(counts.values())
    parts = {variance: 1 / math.sqrt(float(variance)) for variance in counts}
    by_part: dict[float, int] = {}
    for variance, number in counts.items():
        by_part[parts[variance]] = by_part.get(parts[variance], 0) + number
    whole = sum((number * Fraction(parts[variance]) for variance, number in counts.items()), Fraction(0))
    sums = {
        v: min(_rounded_down(epsilon * Fraction(part) / whole), LARGEST_EPSILON) for v, part in parts.items()
    }
    if len(sums) == 1:
        sums = {variance: min(epsilon / n, LARGEST_EPSILON) for variance in sums}
    if delta / n >= SMALLEST_DELTA and -math.log(delta / n) < splits.MOST_TAILS * min(sums.values()):
        yield _Proposal(sums, delta / n, "sums")
    for share in splits.SHARES:
        each = share * delta / n
        if each < SMALLEST_DELTA:
            continue
        scale = splits.largest_scale(float(epsilon), float(delta), float(each), by_part)
        found = {variance: _rounded_down(Fraction(scale * part)) for variance, part in parts.items()}
        if min(found.values()) > 0:
            yield _Proposal(found, each, "composed losses")


def _rounded_down(epsilon: Fraction) -> Fraction:
    return Fraction(math.floor(epsilon * _GRID), _GRID)


def _certified(one: _Proposal, counts: Counts, epsilon: Fraction, delta: Fraction) -> CertifiedSplit | None:
    """Return the laws of a proposal, a little wider where floats proposed too much; None if that is not enough."""
    if one.method == "sums":  # basic composition; each law was checked when it was made
        laws = {variance: _law_of_share(own, one.each) for variance, own in one.epsilons.items()}
        return CertifiedSplit(laws, sum((n * one.each for n in counts.values()), Fraction(0)), "sums")
    for nudge in _NUDGES:
        laws = {
            variance: _law_of_share(_rounded_down(own * (1 - nudge)), one.each)
            for variance, own in one.epsilons.items()
        }
        least = min(float(own) for own in one.epsilons.values())
        spare = Fraction(splits.spare_nats(float(epsilon)))
        step = epsilon / splits.n_steps(float(epsilon), least, sum(counts.values()))
        needed = delta_above(
            [(loss_of_one_step(_symmetric_weights(laws[v])), n) for v, n in counts.items()],
            epsilon,
            step,
            spare,
        )
        if needed <= delta:
            return CertifiedSplit(laws, needed, "composed losses")
    return None


def _law_of_share(epsilon: Fraction, delta: Fraction) -> OptimalLaw:
    return optimal_noise.optimal_law(NoiseRequest((Promise(epsilon, delta),), 1, Square()))


def _symmetric_weights(law: OptimalLaw) -> tuple[int, ...]:
    """Return the weights of 0, 1, 2, .. of a law of one count, which is symmetric."""
    if law.weights != law.weights[::-1] or law.first != -law.last:
        raise InternalError("a law of one count is not symmetric", code="X052", fix="please report this plan")
    return law.weights[law.last :]
