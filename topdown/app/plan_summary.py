"""A plan as the `topdown.plan_summary` document: all there is to know before anything is spent, with its warnings.

`budget_grid` says what larger and smaller budgets would buy, all shares as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.metadata import version
from statistics import NormalDist
from typing import Any

import numpy as np
from msgspec import UNSET

from topdown.app.compare_noise import USUAL_DELTA, budget_for, gaussian_needs
from topdown.app.resource_needs import estimate_needs, memory_warning
from topdown.errors import BudgetError, ConfigError, InternalError
from topdown.formats.common import EstimateOfLevel
from topdown.formats.plan_documents import (
    ExpectedAccuracy,
    ExtendedBase,
    Feasible,
    LedgerSpent,
    MappedAttribute,
    PlannedInvariant,
    PlannedLevel,
    PlannedPrivacy,
    PlannedQuery,
    PlanSummary,
    UnspentShare,
    Warned,
)
from topdown.formats.release_documents import InvariantKindName
from topdown.formats.strict_toml import exact_text
from topdown.measure.run_ledger import check_ledger_of_run, check_one_ledger, ledger_location, planned_spend
from topdown.model import Basis
from topdown.plan import (
    LevelPlan,
    Plan,
    PreparedRun,
    PublicContext,
    ReleaseChain,
    RunFile,
    calibrate_noise,
    read_plan,
)
from topdown.privacy.laws import LAWS
from topdown.privacy.ledger import LEDGER_VERSION, Opened, charged_fields, over_budget, read_ledger
from topdown.progress import Event, Report, silent
from topdown.publish.release_certificate import (
    certified_loss,
    change_statuses,
    claims_of,
    composed_loss,
    delta_beside,
    open_answers,
    usual_epsilon,
)
from topdown.publish.table_intervals import is_exact
from topdown.solve import extend
from topdown.solve.implied.level_verdicts import plan_verdicts
from topdown.solve.tree import check_solve, choose_levels, expected_deviations


def plan_summary(prepared: PreparedRun) -> PlanSummary:
    """Describe a plan: levels, noise, exact statistics, privacy, ledger, needs, warnings; opens no records."""
    context, run = prepared.context, prepared.run
    plan = context.plan
    ledger = view_ledger(prepared)
    patterns = None
    if plan.base is not None:
        patterns = extend.find_patterns(context)  # I020: a leaf that cannot be extended
        extend.check_stages(context, patterns)  # C096: least squares that would be too large
    levels = _planned_levels(context, patterns)
    unasked = open_answers(plan)
    estimates = list(choose_levels(context).levels) if plan.fits_tree else []
    verdicts = plan_verdicts(context) if patterns is None else extend.extension_verdicts(context, patterns)
    check_solve(context)
    return PlanSummary(
        engine=version("census-topdown"),
        plan_hash=plan.plan_hash,
        release_id=plan.release.id,
        title=plan.release.title,
        data_set=plan.release.data_set,
        schema=plan.schema.name,
        settings=plan.settings,
        neighbours=plan.neighbours,
        mechanism=plan.mechanism,
        draft=bool(unasked),
        open_answers=unasked,
        levels=levels,
        queries=_planned_queries(plan),
        invariants=_exact_statistics(context),
        unspent=[UnspentShare(level=name, share=exact_text(share)) for name, share in plan.unspent],
        privacy=_privacy_section(context.policy),
        ledger=_ledger_section(prepared, ledger),
        needs=estimate_needs(plan, sum(level.n_solves for level in levels)),
        warnings=[
            *sparse_levels(plan, run.input.people),
            *_budget_warnings(plan, ledger, unasked),
            *spent_on_exact(plan),
            *fitted_by_no_pass(plan, estimates),
            *memory_warning(plan),
            *tuned_for_others(run),
            *_refused_by_ledger(check_ledger_of_run, prepared, "generate"),
            *([] if patterns is None else _refused_by_ledger(check_one_ledger, prepared, "extend")),
        ],
        feasible=Feasible(ok=True, verdicts=list(verdicts)),
        estimates=estimates or UNSET,
        accuracy=UNSET if plan.estimates is None else mean_deviations(context),
        base=UNSET if patterns is None else base_summary(prepared, patterns),
    )


def _planned_levels(context: PublicContext, patterns: extend.Patterns | None) -> list[PlannedLevel]:
    plan = context.plan
    return [
        PlannedLevel(
            level=level.name,
            n_nodes=level.n_nodes,
            n_measured=level.n_measured,
            n_empty=level.n_nodes - level.n_measured,
            n_numbers=plan.numbers_at(depth),
            loss=exact_text(level.loss),
            delta=delta_beside(plan, level.loss),
            share=exact_text(level.share),
            **solve_sizes(context, depth, patterns),
        )
        for depth, level in enumerate(plan.levels)
    ]


def _planned_queries(plan: Plan) -> list[PlannedQuery]:
    return [
        PlannedQuery(
            level=level.name,
            query=m.query,
            n_answers=m.n_answers,
            loss=exact_text(m.loss),
            delta=delta_beside(plan, m.loss),
            law=m.law,
            parameter=exact_text(m.parameter),
            variance=exact_text(m.variance),
            stddev=m.stddev,
        )
        for level in plan.levels
        for m in level.measurements
    ]


def _ledger_section(prepared: PreparedRun, ledger: LedgerView) -> LedgerSpent:
    own = prepared.run.ledger
    limits: dict[str, Any] = {name: exact_text(limit) for name, limit in own.limits.fields.items() if limit}
    return LedgerSpent(
        id=own.id or None,
        path=str(prepared.ledger_path),
        n_intents=ledger.n_intents,
        **ledger.stated,
        **limits,
    )


def mean_deviations(context: PublicContext) -> list[ExpectedAccuracy]:
    """Return the mean deviation of every table's estimates; 0 where all answers are exact by policy."""
    plan, order = context.plan, [level.name for level in context.plan.levels]
    out = []
    for at in expected_deviations(context):
        stddev = 0.0 if is_exact(plan, plan.query(at.query), order.index(at.level)) else at.stddev
        half_width = NormalDist().inv_cdf(0.975) * stddev
        out.append(
            ExpectedAccuracy(
                level=at.level,
                query=at.query,
                stddev=float(f"{stddev:.4g}"),
                half_width=float(f"{half_width:.4g}"),
            )
        )
    return out


def solve_sizes(
    context: PublicContext, depth: int, patterns: extend.Patterns | None = None
) -> dict[str, int]:
    """Count the solves of a level and bound the largest: children of one node times cells open at it."""
    if patterns is not None:
        return extend.split_sizes(context, patterns, depth)
    rules, geography = context.rules, context.geography
    class_sizes = np.bincount(rules.class_of_cell, minlength=rules.open[0].shape[1])
    if depth == 0:
        cells = int(rules.open[0][0] @ class_sizes)
        return {"n_solves": int(cells > 0), "most_children": 1, "most_unknowns": cells}
    lived_in = geography.levels[depth].parent[rules.inhabited[depth]]
    children = np.bincount(lived_in, minlength=len(geography.levels[depth - 1]))
    unknowns = children * (rules.open[depth - 1] @ class_sizes)
    return {
        "n_solves": int((children > 0).sum()),
        "most_children": int(children.max()),
        "most_unknowns": int(unknowns.max()),
    }


def _exact_statistics(context: PublicContext) -> list[PlannedInvariant]:
    inv, leaf = context.plan.invariants, context.geography.leaves
    rows = [
        _exact_row("exact", e.name, e.level, context.plan.level(e.level).n_nodes, e.basis) for e in inv.exact
    ]
    hard = sorted(context.leaf_rows, key=lambda row: (row.rule.closes_everywhere, not row.rule.closes))
    rows += [_exact_row(r.rule.kind, r.name, leaf.name, int(r.asks.sum()), r.rule.basis) for r in hard]
    rows += [_exact_row(s.kind, s.name, leaf.name, len(leaf), s.basis) for s in inv.soft_rules]
    return rows


def _exact_row(kind: InvariantKindName, name: str, level: str, n: int, basis: Basis) -> PlannedInvariant:
    return PlannedInvariant(
        name=name,
        kind=kind,
        level=level,
        n=n,
        legal_basis=basis.legal_basis,
        decided_by=basis.decided_by,
        date=basis.date,
    )


def _privacy_section(policy: ReleaseChain) -> PlannedPrivacy:
    plan = policy.plan
    return PlannedPrivacy(
        unit=plan.schema.unit,
        neighbours=plan.neighbours,
        loss_name=plan.loss_name,
        budget=exact_text(plan.budget),
        loss=exact_text(plan.loss),
        loss_with_base=exact_text(policy.loss),
        delta=delta_beside(plan, plan.loss),
        composed=composed_loss(policy),
        gaussian_needs=gaussian_needs(plan) if plan.delta else UNSET,
        certified=certified_loss(policy),
        usual={"1e-10": usual_epsilon(policy.loss, "rho")} if plan.loss_name == "rho" else {},
        public_facts=policy.has_public_facts,
        conditional_on=list(policy.conditional_on),
        changes=change_statuses(policy),
    )


def _refused_by_ledger(
    check: Callable[[PreparedRun], object], prepared: PreparedRun, command: str
) -> list[Warned]:
    """Warn of a ledger that a command would refuse, as `extend` one that did not pay for the base (B020)."""
    try:
        check(prepared)
    except BudgetError as error:
        return [Warned(code=str(error.code), text=f"{error.text}: {command} will refuse it")]
    return []


def tuned_for_others(run: RunFile) -> list[Warned]:
    """Warn of shares that were tuned for other estimates than the plan's."""
    given = run.estimates
    if given is None or given.tuned_for in ("", given.targets):
        return []
    text = f'the shares were tuned for targets = "{given.tuned_for}", and each area is fitted otherwise'
    return [Warned(code="B031", text=text)]


def _budget_warnings(plan: Plan, ledger: LedgerView, unasked: list[str]) -> list[Warned]:
    found = [
        Warned(
            code="B010",
            text=f'the settings name a level "{name}" this geography lacks: {exact_text(share)} stays unspent',
        )
        for name, share in plan.unspent
    ]
    if ledger.refusal is not None:
        found.append(
            Warned(code=str(ledger.refusal.code), text=f"{ledger.refusal.text}: generate will refuse it")
        )
    if unasked:
        what = f"{len(unasked)} answer{'s' if len(unasked) > 1 else ''} only a person can give"
        shown = ", ".join(unasked[:3]) + (f" and {len(unasked) - 3} more" if len(unasked) > 3 else "")
        found.append(
            Warned(code="H001", text=f"{what} still open: {shown}. The release will be stamped DRAFT")
        )
    return found


def spent_on_exact(plan: Plan) -> list[Warned]:
    """Name the measurements of a plan with estimates whose answers are all exact by policy, from 1 % of the loss on."""
    found = []
    for depth, level in enumerate(plan.levels if plan.estimates is not None else ()):
        for m in level.measurements:
            per_cent = int(100 * m.loss / plan.loss)
            if per_cent and is_exact(plan, plan.query(m.query), depth):
                text = f"{per_cent} % of the budget measures {m.query} of level {level.name}, which is exact"
                found.append(Warned(code="B030", text=text))
    return found


def fitted_by_no_pass(plan: Plan, estimates: Sequence[EstimateOfLevel]) -> list[Warned]:
    """Name the queries that are measured at a level and fitted by none of its passes.

    Nothing is said of extensions, whose stages choose their queries, and of levels fitted to the whole tree's
    estimate, which takes every answer.

    Args:
        plan: any.
        estimates: level and targets of each level, for a plan that asks for the tree's estimate.
    """
    whole = {at.level for at in estimates if at.targets == "tree"}
    found = []
    for level in plan.levels if plan.base is None else ():
        fitted = {query for each in level.passes for query in each.queries}
        for m in level.measurements:
            if level.name not in whole and m.query not in fitted:
                text = f"{m.query} of level {level.name} is measured, and no pass fits it: no table is nearer to it"
                found.append(Warned(code="B032", text=text))
    return found


MOST_A_PERSON = 20  # noisy numbers
_MANY = 2_000_000  # noisy numbers, where nobody said how many people there are


def sparse_levels(plan: Plan, people: int | None) -> list[Warned]:
    """Name the measurement that makes most numbers, and what would make fewer, where people are too few for all."""
    total = sum(plan.numbers_at(depth) for depth in range(len(plan.levels)))
    if total <= (_MANY if people is None else MOST_A_PERSON * people):
        return []
    sizes = {
        (level.name, m.query): level.n_measured * m.n_answers
        for level in plan.levels
        for m in level.measurements
    }
    level, query = max(sizes, key=lambda at: sizes[at])
    most, n_areas = sizes[level, query], plan.level(level).n_measured
    each = f"more than {MOST_A_PERSON} for each person"  # how many they are stays in the run file
    each += f" unless there are {total // MOST_A_PERSON:,}" if people is None else ""
    text = f"{total:,} noisy numbers, {each}: most answers are noise. {query} at level {level} makes {most:,} of them"
    fewer = [f"{name} {n_areas * n:,}" for name, n in _coarser_queries(plan, query) if n_areas * n < most]
    text += f"; measured there instead would make: {', '.join(fewer)}" if fewer else ""
    up = [other.name for other in plan.levels if sizes.get((other.name, query), 0) < most]
    text += f"; or measure {query} at {', '.join(up)} only" if up else ""
    if plan.coverage is not None and level == plan.levels[-1].name:
        text += (
            f". Intervals need every cell of level {level}: for them, give the schema fewer labels instead"
        )
    return [Warned(code="C339", text=text)]


def _coarser_queries(plan: Plan, query: str) -> list[tuple[str, int]]:
    """Return queries with one attribute in its coarsest groups or left out, and their answers, fewest last."""
    factors = plan.query(query).factors
    recodes = {a.name: sorted(a.recodes, key=lambda r: len(r.group_labels)) for a in plan.schema.attributes}
    found: dict[str, int] = {}
    for factor in sorted(factors, key=lambda f: -len(f.group_labels))[:2]:
        for name in (*(r.name for r in recodes.get(factor.name, [])[:1]), ""):
            named = [name if f is factor else f.name for f in factors]
            asked = plan.query(" * ".join(filter(None, named)) or "total")
            found[asked.name] = asked.n_answers
    return sorted(found.items(), key=lambda pair: -pair[1])


def base_summary(prepared: PreparedRun, patterns: extend.Patterns) -> ExtendedBase:
    """Describe the base release and what it leaves open."""
    base, files = prepared.plan.base, prepared.base
    if base is None or files is None:
        raise InternalError("this plan extends no release")
    return ExtendedBase(
        release_id=base.release,
        plan_hash=base.plan_hash,
        schema=read_plan(files.plan).schema.name,
        map=[MappedAttribute(base=name, here=here) for name, here in base.map],
        n_records=patterns.tables[0].n_records,
        n_patterns=patterns.n_patterns,
        n_reserved=patterns.reserves[0].n_records,
    )


@dataclass(frozen=True, eq=False)
class LedgerView:
    """What is charged so far, as documents state it, by how many intents, and why the ledger would refuse the plan."""

    stated: dict[str, Any]
    n_intents: int
    refusal: BudgetError | None


def view_ledger(prepared: PreparedRun) -> LedgerView:
    """Read what is charged; a ledger that does not exist was charged nothing.

    Raises:
        BudgetError: the ledger is damaged (B006).
    """
    book, spend = read_ledger(prepared.ledger_path), planned_spend(prepared)
    stated, n_intents = charged_fields(book), len(book.charges)
    if book.opened is None:
        book.add(Opened("", LEDGER_VERSION, *vars(ledger_location(prepared).binding).values()), "", "")
    refusal = over_budget(prepared.ledger_path, book, spend.intent(spend.covers, 1, "new"), spend.limits)
    return LedgerView(stated, n_intents, refusal)


MOST_POINTS = 20


@dataclass(frozen=True)
class ExpectedError:
    """How far off one table of a level is expected to be, as standard deviations in records.

    Args:
        noise: of each measured answer; None where the query is not measured there.
        estimate: mean over answers of the estimate from all measurements together, before anything is made whole or at
            least 0; 0 where every answer is exact by policy, None for plans that such estimates do not cover.
    """

    level: str
    query: str
    noise: float | None
    estimate: float | None

    @property
    def expected(self) -> float:
        """The deviation of the estimate, or else of the measured answer; one of them is there."""
        return self.noise or 0.0 if self.estimate is None else self.estimate


@dataclass(frozen=True)
class BudgetPoint:
    """One budget of the grid.

    Args:
        loss_name: rho or epsilon, the key under [budget].
        budget: exact, at most four digits; what a run file would say.
        epsilon: what was asked, at `delta`.
        certified_epsilon: what the budget costs at `delta`, at most; never above `epsilon`.
        right_in_100: how often, of 100, the attacker of `sentence` chooses rightly, at most; certified and rounded up.
        sentence: what an official can quote of a release with this budget.
        errors: by level, root first, then by query.
    """

    loss_name: str
    budget: Fraction
    epsilon: Fraction
    delta: Fraction
    certified_epsilon: Fraction
    right_in_100: int
    sentence: str
    errors: tuple[ExpectedError, ...]


def budget_grid(
    context: PublicContext,
    epsilons: Sequence[Fraction],
    delta: Fraction = USUAL_DELTA,
    report: Report = silent,
) -> tuple[BudgetPoint, ...]:
    """Return error and risk of a plan at the largest budget that keeps each epsilon: see `Planned.budget_grid`."""
    if not 1 <= len(epsilons) <= MOST_POINTS or len(set(epsilons)) < len(epsilons):
        raise ConfigError(
            f"a grid has 1 to {MOST_POINTS} different epsilons, not {len(epsilons)}: "
            f"{', '.join(map(str, epsilons))}",
            code="C325",
            fix="give them once each, as in 1,2,4,8",
        )
    points = list[BudgetPoint]()
    for epsilon in epsilons:
        report(Event("plan", len(points), len(epsilons), f"epsilon {epsilon}"))
        found = budget_for(context.plan, epsilon, delta)
        there = replace(context, plan=with_budget(context.plan, found.budget), given_rules=context.rules)
        risk = certified_loss(there.policy, claims_of(context.policy))
        points.append(
            BudgetPoint(
                found.loss_name,
                found.budget,
                epsilon,
                delta,
                found.certified,
                risk.right_in_100,
                risk.sentence,
                expected_errors(there),
            )
        )
    return tuple(points)


def expected_errors(context: PublicContext) -> tuple[ExpectedError, ...]:
    """Return the expected error of every table that a plan measures anywhere, at every level."""
    plan = context.plan
    noise = {(level.name, m.query): m.stddev for level in plan.levels for m in level.measurements}
    estimates = {(row.level, row.query): row.stddev for row in mean_deviations(context)}
    queries = dict.fromkeys(["total", *(query for _, query in noise)])
    return tuple(
        ExpectedError(level.name, query, noise.get(key), estimates.get(key))
        for level in plan.levels
        for query in queries
        if (key := (level.name, query)) in noise or key in estimates
    )


def with_budget(plan: Plan, budget: Fraction) -> Plan:
    """Return a plan with another budget and the same shares; not for losses that are pairs."""

    def scaled(level: LevelPlan) -> LevelPlan:
        loss = budget * level.share
        rows = (
            replace(
                m,
                loss=loss * m.share,
                parameter=calibrate_noise(LAWS[m.law], loss * m.share, plan.query(m.query), plan.relation),
            )
            for m in level.measurements
        )
        return replace(level, loss=loss, measurements=tuple(rows))

    return replace(plan, budget=budget, levels=tuple(scaled(level) for level in plan.levels))
