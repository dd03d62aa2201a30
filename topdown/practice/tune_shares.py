"""Shares of a plan's budget, exact, that suit the whole-tree estimate and some goals, from public facts alone.

Deviations of answers are functions of the shares, as if the same cells were open in every area: the matrices of
`solve.tree` on one pattern T of open dense values, so that all leaves of one parent are alike and one of them, counted
as often as there are, stands for all. Reverse differentiation gives the gradient: from the root back up to the leaves
it goes the way of the sweep in the other direction. The search makes the worst of all deviations, each relative to what
is wished, as small as it can be. A goals file says which tables matter more than others. The tuned run file drops
queries that get nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from scipy.optimize import minimize

from topdown.arrays import Floats, Ints
from topdown.errors import ConfigError, TopdownError
from topdown.formats.common import Targets
from topdown.formats.strict_toml import add_location, locating_errors, read_toml
from topdown.plan import Plan, PublicContext, RunFile
from topdown.plan.settings import EstimatesTable, LevelTable, Pass
from topdown.progress import Event, Report, silent
from topdown.solve import query_of_labels
from topdown.solve.tree import LatticeForm, axis_factors, open_values, regular_inverse

EXACT = 1e-9  # variance, relative to the largest, from which an answer counts as exact


@dataclass(frozen=True, eq=False)
class UniformDeviations:
    """A plan on one pattern of open cells.

    Args:
        parent: per level below the root, int64 (n_nodes,), index in the level above; at the leaves one for each parent.
        count: per level, how many areas each entry stands for.
        grams: per level, (n_queries, n_components, t, t): information of each measured query for the whole budget.
        exact: per component, (n_rows, t): sums that are exact at the root.
        forms: (n_answers, n_components * t * t), variances of the answers whose deviations are wanted, linear in V.
        places: int64 (n_answers,), which table each is of.
    """

    parent: tuple[Ints, ...]
    count: tuple[Floats, ...]
    grams: tuple[Floats, ...]
    exact: tuple[Floats, ...]
    forms: Floats
    places: Ints

    def deviations(self, shares: Sequence[Floats]) -> Floats:
        """Return mean standard deviations under the tree estimate, (n_levels, n_tables), 0 for exact answers.

        Args:
            shares: per level, of the whole budget, one a query.
        """
        return _measured(self, _sweep_up(self, shares).v)[0]

    def with_gradient(
        self, shares: Sequence[Floats], weigh: Callable[[Floats], Floats]
    ) -> tuple[Floats, list[Floats]]:
        """Return the deviations, and by every share the derivative of their sum times weights.

        Args:
            shares: as in `deviations`.
            weigh: weights (n_levels, n_tables) from deviations.
        """
        swept = _sweep_up(self, shares)
        found = _measured(self, swept.v)[0]
        return found, _sweep_down(self, swept, _measured(self, swept.v, weigh(found))[1])

    def linear(self, shares: Sequence[Floats]) -> Floats | None:
        """Return deviations if each level is fitted to its own measurements and nothing must be at least 0.

        V_c = s (1 - 1/m) + V_parent / m^2 with s the inverse of a level's own information and m children.
        None where a level's own queries do not tell every cell apart.
        """
        try:
            own = [regular_inverse(a) for a in _information(self, shares)]
        except np.linalg.LinAlgError:
            return None
        v = [_root_information(self, own[0])[1][None]]
        for depth, parent in enumerate(self.parent, start=1):
            m = np.bincount(parent, weights=self.count[depth], minlength=len(v[-1]))[parent][
                :, None, None, None
            ]
            v.append(own[depth] * (1 - 1 / m) + v[-1][parent] / m**2)
        return _measured(self, v)[0]


@dataclass(frozen=True, eq=False)
class _SweptLevel:
    beyond: list[Floats]  # K of every level above the leaves
    spread: list[Floats]  # Sig of every level, one for all at the leaves
    v: list[Floats]
    gain: Floats  # of the root, I - Sig P


def uniform_deviations(context: PublicContext, form: LatticeForm, names: Sequence[str]) -> UniformDeviations:
    """Return a plan as if every area had the pattern of open cells that most leaves have.

    Args:
        context: plan and public facts. form: its lattice form.
        names: queries whose deviations are wanted.
    """
    plan, lattice, rules = context.plan, form.lattice, context.rules
    leaf = open_values(lattice, rules.class_of_cell, rules.open[-1])
    patterns, counts = np.unique(leaf[leaf.any(axis=1)], axis=0, return_counts=True)
    dense = np.flatnonzero(patterns[counts.argmax()])
    parent, count = _areas(context)
    grams = []
    for level in plan.levels:
        # What a query of share 1 of the whole loss tells: weights grow in proportion to the loss.
        weights = [float(1 / (m.variance * (m.loss / plan.loss))) for m in level.measurements]
        quadratics = [
            query_of_labels(lattice, plan.query(m.query).labels).gram(lattice) for m in level.measurements
        ]
        grams.append(
            np.array([w * g[:, dense[:, None], dense] for w, g in zip(weights, quadratics, strict=True)])
        )
    known = [
        query_of_labels(lattice, plan.query(e.query).labels)
        for e in plan.invariants.exact
        if plan.levels[0].name == e.level
    ]
    exact = []
    for c in range(lattice.n_components):
        rows = [np.arange(q.n_groups)[:, None] == q.group[dense] for q in known if c & ~q.kept == 0]
        table = np.vstack([np.zeros((0, len(dense))), *rows])
        exact.append(table[table.any(axis=1)])
    forms, places = [], []
    for i, name in enumerate(names):
        query = query_of_labels(lattice, plan.query(name).labels)
        chosen = [1 if query.kept >> a & 1 else n for a, n in enumerate(lattice.sizes)]
        groups = (np.unique(query.group[dense])[:, None] == query.group[dense]).astype(np.float64)
        form_of_answer = np.einsum("c,gd,ge->gcde", axis_factors(lattice, chosen), groups, groups)
        forms.append(form_of_answer.reshape(len(groups), -1))
        places += [i] * len(groups)
    return UniformDeviations(parent, count, tuple(grams), tuple(exact), np.vstack(forms), np.array(places))


def _areas(context: PublicContext) -> tuple[tuple[Ints, ...], tuple[Floats, ...]]:
    """Return parents and counts of inhabited areas; leaves of one parent are one."""
    parents: list[Ints] = []
    counts = [np.ones(1)]
    place = np.zeros(1, dtype=np.int64)
    last = len(context.geography.levels) - 1
    for depth, (level, here) in enumerate(
        zip(context.geography.levels[1:], context.rules.inhabited[1:], strict=True), start=1
    ):
        above = place[level.parent[here]]
        if depth == last:
            known, many = np.unique(above, return_counts=True)
            parents.append(known.astype(np.int64))
            counts.append(many.astype(np.float64))
        else:
            parents.append(above.astype(np.int64))
            counts.append(np.ones(len(above)))
        place = np.full(len(here), -1, dtype=np.int64)
        place[here] = np.arange(int(here.sum()))
    return tuple(parents), tuple(counts)


def _information(model: UniformDeviations, shares: Sequence[Floats]) -> list[Floats]:
    return [np.einsum("q,qcde->cde", s, g)[None] for s, g in zip(shares, model.grams, strict=True)]


def _root_information(model: UniformDeviations, spread: Floats) -> tuple[Floats, Floats]:
    """Return I - Sig P and V of the root, with P = F'(F Sig F')^+ F by components."""
    gain = np.tile(np.eye(spread.shape[-1]), (len(model.exact), 1, 1))
    for c, rows in enumerate(model.exact):
        if len(rows):
            half = spread[0, c] @ rows.T
            gain[c] -= half @ np.linalg.pinv(rows @ half, hermitian=True) @ rows
    return gain, gain @ spread[0]


def _sweep_up(model: UniformDeviations, shares: Sequence[Floats]) -> _SweptLevel:
    """Return the covariances V of the tree estimate of every level.

    With I what a level's own answers tell: Sig = (I + K)^-1 of what its subtree tells, where K = (sum of the children's
    Sig)^-1 is what the levels below tell of an area. Then down: V = Sig + Sig (K V K - K) Sig, K and V of the parent.
    """
    own = _information(model, shares)
    spread, beyond = [regular_inverse(own[-1])], []
    for depth in range(len(own) - 1, 0, -1):
        parent, n = model.parent[depth - 1], len(model.count[depth - 1])
        held = model.count[depth][:, None, None, None] * spread[-1]
        sums = np.zeros((n, *held.shape[1:]))
        np.add.at(sums, parent, held)
        beyond.append(regular_inverse(sums))
        spread.append(regular_inverse(own[depth - 1] + beyond[-1]))
    spread, beyond = spread[::-1], beyond[::-1]
    gain, v = _root_information(model, spread[0])
    found = [v[None]]
    for k, sig, parent in zip(beyond, spread[1:], model.parent, strict=True):
        change = k @ found[-1] @ k - k
        found.append(sig + sig @ change[parent] @ sig)
    return _SweptLevel(beyond, spread, found, gain)


def _measured(
    model: UniformDeviations, v: Sequence[Floats], weights: Floats | None = None
) -> tuple[Floats, list[Floats]]:
    """Return mean deviations, and what they weigh by each covariance if weights are given."""
    out, back = np.zeros((len(v), model.places.max() + 1)), []
    mean = 1.0 / np.bincount(model.places)[model.places]
    for depth, (at, count) in enumerate(zip(v, model.count, strict=True)):
        found = at.reshape(len(at), -1) @ model.forms.T
        scale = np.abs(at).reshape(len(at), -1).mean(axis=0) @ np.abs(model.forms).T
        sd = np.sqrt(np.where(found > EXACT * scale, found, 0.0))
        share = count / count.sum()
        out[depth] = np.bincount(model.places, weights=mean * (share @ sd))
        if weights is not None:
            slope = share[:, None] * (weights[depth][model.places] * mean) / np.where(sd > 0, 2 * sd, np.inf)
            back.append((slope @ model.forms).reshape(at.shape))
    return out, back


def _sweep_down(model: UniformDeviations, swept: _SweptLevel, back: list[Floats]) -> list[Floats]:
    """Return derivatives by shares from those by covariances V of all levels, `back`, which is changed.

    Each formula of `_sweep_up` in reverse: first those of V, from the leaves to the root, then those of K and Sig from
    the root to the leaves. `of_spread` and `of_beyond` gather derivatives by Sig and K; the derivative by the matrix
    of which Sig or K is the inverse is minus that by the inverse, between two inverses.
    """
    last = len(back) - 1
    of_spread = [np.zeros_like(sig) for sig in swept.spread]
    of_beyond = [np.zeros_like(k) for k in swept.beyond]
    for depth in range(last, 0, -1):
        k, sig, parent, here = (
            swept.beyond[depth - 1],
            swept.spread[depth],
            model.parent[depth - 1],
            back[depth],
        )
        above = swept.v[depth - 1]
        change = (k @ above @ k - k)[parent]
        one = here @ sig @ change
        direct = here + one + np.swapaxes(one, -1, -2)
        of_spread[depth] += direct if depth < last else direct.sum(axis=0, keepdims=True)
        moved = np.zeros_like(k)
        np.add.at(moved, parent, sig @ here @ sig)
        half = moved @ k @ above
        of_beyond[depth - 1] += half + np.swapaxes(half, -1, -2) - moved
        back[depth - 1] = back[depth - 1] + k @ moved @ k
    of_spread[0] += np.swapaxes(swept.gain, -1, -2) @ back[0] @ swept.gain
    grads = []
    for depth, sig in enumerate(swept.spread):
        if depth:
            k = swept.beyond[depth - 1]
            of_sum = -(k @ of_beyond[depth - 1] @ k)
            each = of_sum[model.parent[depth - 1]]
            if depth == last:
                each = (model.count[depth][:, None, None, None] * each).sum(axis=0, keepdims=True)
            of_spread[depth] += each
        of_own = -(sig @ of_spread[depth] @ sig)
        if depth < last:
            of_beyond[depth] += of_own
        grads.append(np.einsum("cde,qcde->q", of_own.sum(axis=0), model.grams[depth]))
    return grads


USUAL_LEAST = Fraction(1, 50)  # below it, splits of wide levels take long to solve
LEAST_LEAST, MOST_LEAST = Fraction(1, 1000), Fraction(1, 2)
LEAST_GOAL, MOST_GOAL = Fraction(1, 1000), Fraction(1000)


class GoalTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[goal]]`: below 1, deviations of this table matter more; above 1, less."""

    level: str
    query: str
    goal: Fraction


class GoalsFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A goals file. `least_detailed` is the part of every level that `detailed` keeps where it is measured."""

    type: str
    version: int
    goal: tuple[GoalTable, ...] = ()
    least_detailed: Fraction = USUAL_LEAST


@dataclass(frozen=True)
class Goals:
    """What matters more.

    Args:
        of: goal of a level's name and a query's; 1 where there is none.
        least_detailed: part of every level that `detailed` keeps where it is measured.
    """

    of: Mapping[tuple[str, str], Fraction] = field(default_factory=dict)
    least_detailed: Fraction = USUAL_LEAST


def load_goals(path: Path, plan: Plan) -> Goals:
    """Read a goals file.

    Raises:
        ConfigError: see `read_toml`; C214 an unknown level or table, one named twice, or a number outside its range.
    """
    file = read_toml(path, GoalsFile, "topdown.goals")
    try:
        levels = [level.name for level in plan.levels]
        measured = {"total", *(m.query for level in plan.levels for m in level.measurements)}
        found: dict[tuple[str, str], Fraction] = {}
        for i, table in enumerate(file.goal):
            with locating_errors("goal", str(i)):
                if table.level not in levels:
                    raise _wrong_goal(
                        f"level {table.level!r} is none of the plan's", f"use one of: {', '.join(levels)}"
                    )
                name = plan.query(table.query).name
                if name not in measured:
                    raise _wrong_goal(
                        f"the plan measures no table {name!r}", f"use one of: {', '.join(sorted(measured))}"
                    )
                if (table.level, name) in found:
                    raise _wrong_goal(f"{name!r} of level {table.level!r} has two goals", "keep one of them")
                if not LEAST_GOAL <= table.goal <= MOST_GOAL:
                    raise _wrong_goal(
                        f"the goal {table.goal} is not from {LEAST_GOAL} to {MOST_GOAL}",
                        "write a number below 1 for what matters more",
                    )
                found[table.level, name] = table.goal
        with locating_errors("least_detailed"):
            if file.least_detailed > MOST_LEAST:
                raise _wrong_goal(
                    f"least_detailed is {file.least_detailed}, more than {MOST_LEAST}", 'write "1/50"'
                )
        return Goals(found, file.least_detailed)
    except TopdownError as error:
        add_location(error, path)
        raise


def _wrong_goal(text: str, fix: str) -> ConfigError:
    return ConfigError(text, code="C214", fix=fix + "; nothing was written")


EXPONENTS = (20, 100)  # of smooth stand-ins for the largest ratio, one search after the other
LEAST = -20.0  # logarithm of a share
STEPS = 600
ENOUGH = 1e-6  # relative change of the objective at which the search ends


@dataclass(frozen=True, eq=False)
class WantedDeviations:
    """What shares are to serve.

    Args:
        deviations: (n_levels, n_tables), that a ratio is taken to; 0 where a table does not count.
        worthless: per level, bool (n_queries,), queries that get nothing, because their answers are exact.
        least: per level, (n_queries,), parts of the level's share that queries get in any case.
    """

    deviations: Floats
    worthless: tuple[NDArray[np.bool_], ...]
    least: tuple[Floats, ...]


def best_shares(
    model: UniformDeviations, start: Sequence[Floats], wishes: WantedDeviations, report: Report = silent
) -> list[Floats]:
    """Return shares of the whole budget, per level one a query, that minimise the largest ratio.

    Powers in place of the largest, L-BFGS on logarithms of shares; the same on every run.

    Args:
        model: deviations by shares.
        start: shares to begin with, positive but where worthless.
        wishes: what is wished.
        report: called at every step of the search.

    Cost: about 300 sweeps; ten seconds for Rhode Island.
    """
    cuts = np.cumsum([len(part) for part in start])[:-1]
    live = wishes.deviations > 0
    if not live.any():
        return list(start)
    worthless = np.concatenate(wishes.worthless)
    begin = np.clip(np.log(np.where(worthless, 1.0, np.concatenate(start))), LEAST, 0.0)

    def free(logs: Floats) -> Floats:
        found = np.where(worthless, 0.0, np.exp(logs))
        return np.asarray(found / found.sum())

    def objective(logs: Floats, exponent: int) -> tuple[float, Floats]:
        report(Event("tune", EXPONENTS.index(exponent), len(EXPONENTS), "search"))
        ratios = np.zeros_like(wishes.deviations)

        def weigh(deviations: Floats) -> Floats:
            ratios[live] = deviations[live] / wishes.deviations[live]
            powers = (ratios / ratios.max()) ** exponent
            return np.asarray(np.where(live, powers / powers.sum() / np.where(live, deviations, 1.0), 0.0))

        parts = free(logs)
        _, slopes = model.with_gradient(_with_least(parts, cuts, wishes), weigh)
        smooth = np.log(ratios.max()) + np.log(((ratios / ratios.max()) ** exponent).sum()) / exponent
        by_part = np.concatenate(
            [
                (1 - least.sum()) * slope + least @ slope
                for slope, least in zip(slopes, wishes.least, strict=True)
            ]
        )
        return float(smooth), parts * (by_part - parts @ by_part)

    logs = begin
    for exponent in EXPONENTS:
        logs = minimize(
            objective,
            logs,
            args=(exponent,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(LEAST, 0.0)] * len(begin),
            options={"maxiter": STEPS, "maxfun": STEPS, "ftol": ENOUGH, "maxcor": 20},
        ).x
    return _with_least(free(logs), cuts, wishes)


def _with_least(parts: Floats, cuts: NDArray[np.int64], wishes: WantedDeviations) -> list[Floats]:
    """Return shares per level in which some queries have their least part of the level's."""
    return [
        (1 - least.sum()) * part + least * part.sum()
        for part, least in zip(np.split(parts, cuts), wishes.least, strict=True)
    ]


PARTS = 4096  # least denominator of shares
NEGLIGIBLE = 1e-6  # deviation, relative to the largest, that is no goal


@dataclass(frozen=True, eq=False)
class LevelShares:
    """Shares of one level: of the budget, and of the level by the number of each query; 0 where it is dropped."""

    share: Fraction
    queries: tuple[Fraction, ...]


@dataclass(frozen=True, eq=False)
class Tuned:
    """New shares.

    Args:
        levels: root first.
        compared: what deviations were compared with: those of levels fitted to their own measurements only, or,
            where these do not tell every cell apart, those of the tree under the old shares.
    """

    levels: tuple[LevelShares, ...]
    compared: Targets


def best_exact_shares(
    context: PublicContext,
    form: LatticeForm,
    goals: Goals,
    exact: Mapping[tuple[int, int], bool],
    names: Sequence[str],
    report: Report = silent,
) -> Tuned:
    """Return shares that make the largest of all deviations, relative to goals, as small as they can be.

    Args:
        context: plan and public facts. form: its lattice form.
        goals: what matters more.
        exact: per index of a level and of a name, whether all its answers are exact by policy.
        names: tables that count.
        report: called at every step.

    Cost: about 300 sweeps of the tree; ten seconds for Rhode Island.
    """
    plan = context.plan
    model = uniform_deviations(context, form, names)
    start = [np.array([float(m.loss / plan.loss) for m in level.measurements]) for level in plan.levels]
    linear = model.linear(start)
    wished = model.deviations(start) if linear is None else linear
    wished = np.where(wished > NEGLIGIBLE * wished.max(), wished, 0.0)
    worthless, least = [], []
    for depth, level in enumerate(plan.levels):
        for i, name in enumerate(names):
            told = exact[depth, i]
            wished[depth, i] *= 0.0 if told else float(goals.of.get((level.name, name), Fraction(1)))
        known = np.array([exact[depth, names.index(m.query)] for m in level.measurements])
        worthless.append(known & (not known.all()))
        finest = np.array([m.query == "detailed" for m in level.measurements])
        least.append(np.where(finest, float(goals.least_detailed), 0.0))
    found = best_shares(model, start, WantedDeviations(wished, tuple(worthless), tuple(least)), report)
    return Tuned(_exact_shares(context, found), "tree" if linear is None else "own")


def _exact_shares(context: PublicContext, found: Sequence[Floats]) -> tuple[LevelShares, ...]:
    """Return shares as fractions: those of levels add up to what they did, those of queries to 1."""
    plan = context.plan
    whole = sum((level.share for level in plan.levels), Fraction(0))
    times = -(-PARTS // whole.numerator)
    levels = _share_parts([float(level_shares.sum()) for level_shares in found], whole.numerator * times)
    kept = _kept_queries(context, found)
    out = []
    for n, level_shares, keeps in zip(levels, found, kept, strict=True):
        counts = iter(
            _share_parts([float(x) for x, keep in zip(level_shares, keeps, strict=True) if keep], PARTS)
        )
        queries = tuple(Fraction(next(counts), PARTS) if keep else Fraction(0) for keep in keeps)
        out.append(LevelShares(Fraction(n, whole.denominator * times), queries))
    return tuple(out)


def _kept_queries(context: PublicContext, found: Sequence[Floats]) -> list[list[bool]]:
    """Tell which queries are kept: those of a share worth writing, and each where it is largest, for its table.

    A level without `detailed` keeps all: fewer might not tell its cells apart.
    """
    levels = context.plan.levels
    parts = [level_shares / level_shares.sum() for level_shares in found]
    most: dict[str, float] = {}
    for level, level_shares in zip(levels, parts, strict=True):
        for m, part in zip(level.measurements, level_shares, strict=True):
            most[m.query] = max(most.get(m.query, 0.0), float(part))
    kept = []
    for level, level_shares in zip(levels, parts, strict=True):
        names = [m.query for m in level.measurements]
        last = [
            part == most[name] and name != "total" for name, part in zip(names, level_shares, strict=True)
        ]
        kept.append(
            [
                "detailed" not in names or only or float(part) * PARTS >= 1
                for only, part in zip(last, level_shares, strict=True)
            ]
        )
    return kept


def _share_parts(weights: Sequence[float], total: int) -> list[int]:
    """Return whole numbers, at least 1 each, that add up to a total and are nearest to proportional."""
    spare = total - len(weights)
    exact = [Fraction(w) / sum(map(Fraction, weights)) * total for w in weights]
    above = [max(x - 1, Fraction(0)) for x in exact]
    scaled = [x * spare / sum(above) if sum(above) else Fraction(spare, len(weights)) for x in above]
    out = [int(x) for x in scaled]
    order = sorted(range(len(out)), key=lambda i: (out[i] - scaled[i], i))
    for i in order[: spare - sum(out)]:
        out[i] += 1
    return [1 + n for n in out]


TUNED = ", tuned"


def tuned_run(run: RunFile, plan: Plan, shares: Sequence[LevelShares]) -> RunFile:
    """Return a run file with other shares; levels that the geography lacks keep theirs."""
    of = {level.name: found for level, found in zip(plan.levels, shares, strict=True)}
    tables = tuple(
        _tuned_level(plan, table, of[table.name]) if table.name in of else table for table in run.level
    )
    given = run.estimates or EstimatesTable()
    name = run.settings if run.settings.endswith(TUNED) else run.settings + TUNED
    estimates = msgspec.structs.replace(given, tuned_for=given.targets)
    return msgspec.structs.replace(run, level=tables, estimates=estimates, settings=name)


def _tuned_level(plan: Plan, table: LevelTable, shares: LevelShares) -> LevelTable:
    queries = {name: share for name, share in zip(table.queries, shares.queries, strict=True) if share}
    dropped = {plan.query(name).name for name in set(table.queries) - set(queries)}
    return msgspec.structs.replace(
        table,
        share=shares.share,
        queries=queries,
        passes=_tuned_passes(plan, table.passes, dropped),
        root_passes=_tuned_passes(plan, table.root_passes, dropped),
    )


def _tuned_passes(plan: Plan, passes: tuple[Pass, ...], dropped: set[str]) -> tuple[Pass, ...]:
    """Return passes without some queries; one that is left with none uses all that are measured."""
    return tuple(
        msgspec.structs.replace(
            step, queries=tuple(name for name in step.queries if plan.query(name).name not in dropped)
        )
        for step in passes
    )
