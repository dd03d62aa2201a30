"""The screen of `topdown plan`: levels, noise, exact statistics, privacy, solves, and what else was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from topdown.app.compare_noise import USUAL_DELTA, BudgetFor, NoiseCompared
from topdown.app.compare_plans import PlansCompared
from topdown.app.planned import Planned
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.figures import accuracy_lines, certified_epsilon, conditional_line, disclosed_lines
from topdown.app.screens.text_layout import EXACT, PLUS, WARN, Chunk, Column, Span, bold, dim, numbers
from topdown.formats.plan_documents import (
    ChangedValue,
    DeviationBeside,
    ExpectedAccuracy,
    ExtendedBase,
    PlannedInvariant,
    PlannedQuery,
    PlanSummary,
    Verdict,
)
from topdown.model import KINDS, SoftRule
from topdown.plan import Plan
from topdown.privacy.exact_values import rational, significant
from topdown.privacy.laws import law_of_mechanism
from topdown.privacy.relation import Relation

_GAUSSIAN = {  # for a plan of mechanism "optimal"
    "less": "better: discrete Gaussian noise; some of no more variance keeps this ε and δ",
    "more": "discrete Gaussian noise in these proportions needs more variance for this ε and δ",
    "open": "discrete Gaussian noise may need less variance for this ε and δ",
}


_OF_LEVELS = ("B010", "C339")  # warnings that are shown beside the levels
SOFT_KINDS = {kind.kind for kind in KINDS if issubclass(kind, SoftRule)}  # kept where possible, not promised


def show_plan(screen: Screen, s: PlanSummary, *, details: bool) -> None:
    """Write a plan summary; see the transcript in the documentation of the command line."""
    screen.say(bold(f'Plan for "{s.title}"'), "   no confidential file is opened", hang=5)
    screen.blank()
    empty = " empty in the base release, free" if s.base else " empty by public facts, free"
    screen.say(*(PLUS, " measured with noise   ", EXACT, " exact by policy   "), *(dim("0"), empty), indent=2)
    if s.base:
        show_base(screen, s.base)
    _show_levels(screen, s)
    _show_noise(screen, s, details)
    _show_exact(screen, s, details)
    _show_privacy(screen, s)
    _show_solves(screen, s)


def _show_levels(screen: Screen, s: PlanSummary) -> None:
    screen.heading("Areas and numbers")
    loss = figures.SYMBOL[s.privacy.loss_name]
    columns = [Column("level"), *numbers("+ areas", "0 areas", "numbers", loss, "share")]
    rows = [
        (
            level.level,
            f"{level.n_measured:,}",
            f"{level.n_empty:,}" if level.n_empty else "-",
            f"{level.n_numbers:,}",
            figures.decimal(Fraction(level.loss), up=True),
            figures.percent(Fraction(level.share)),
        )
        for level in s.levels
    ]
    screen.table(columns, rows)
    for warning in s.warnings:
        if warning.code in _OF_LEVELS:
            screen.item(WARN, warning.text)


def _show_noise(screen: Screen, s: PlanSummary, details: bool) -> None:
    queries = s.queries
    names = list(dict.fromkeys(q.query for q in queries))
    shown = names if details else top_queries(queries)
    hint = f" (all {len(names)} queries: --details)" if len(shown) < len(names) else ""
    screen.heading("Noise", f", standard deviation in {_relation(s).unit.record}s{hint}")
    levels = [level.level for level in s.levels]
    of = {(q.query, q.level): figures.two_digits(q.stddev) for q in queries}
    columns = [Column("query"), *numbers(*levels)]
    screen.table(columns, [(name, *(of.get((name, level), "-") for level in levels)) for name in shown])
    if details:
        exact = [
            Column("query"),
            Column("numbers", right=True),
            Column("rho" if s.privacy.loss_name == "rho" else "epsilon"),
            Column(law_of_mechanism(s.mechanism).parameter_name),
        ]
        for level in levels:
            screen.heading(f"Exact noise, {level}")
            here = [q for q in queries if q.level == level]
            screen.table(exact, [(q.query, f"{q.n_answers:,}", q.loss, q.parameter) for q in here])


def top_queries(queries: list[PlannedQuery]) -> list[str]:
    """Choose the total, the detailed table, and the query with the largest loss between them."""
    names = list(dict.fromkeys(q.query for q in queries))
    loss: dict[str, Fraction] = dict.fromkeys(names, Fraction(0))
    for q in queries:
        loss[q.query] += Fraction(q.loss)
    between = sorted((n for n in names if n not in ("total", "detailed")), key=lambda n: -loss[n])[:1]
    return [n for n in ("total", *between, "detailed") if n in names]


def _show_exact(screen: Screen, s: PlanSummary, details: bool) -> None:
    soft = any(rule.kind in SOFT_KINDS for rule in s.invariants)
    screen.heading("Exact", " by policy or by public facts" + ("; ~ kept wherever possible" if soft else ""))
    groups: dict[tuple[str, str, str], list[PlannedInvariant]] = {}
    for i, rule in enumerate(s.invariants):
        key = (rule.kind, rule.level, rule.legal_basis if not details else str(i))
        groups.setdefault(key, []).append(rule)
    rows: list[tuple[Chunk, ...]] = []
    notes: list[tuple[Chunk, Chunk]] = []
    marks: dict[str, str] = {}
    for rules in groups.values():
        first = rules[0]
        name = first.name + (f", and {len(rules) - 1} more like it" if len(rules) > 1 else "")
        basis = first.legal_basis or "?"
        mark = marks.setdefault(basis, f"[{len(marks) + 1}]")
        sign = "~" if first.kind in SOFT_KINDS else "="
        rows.append((f"{sign} {name}", first.level, f"{sum(r.n for r in rules):,}", mark))
    notes = [(dim(mark), basis) for basis, mark in marks.items()]
    columns = [Column("", wraps=True), Column("level"), Column("places", right=True), Column("basis")]
    screen.table(columns, rows)
    screen.pairs(notes)


def _show_privacy(screen: Screen, s: PlanSummary) -> None:
    p, ledger = s.privacy, s.ledger
    screen.heading("Privacy", f" of one {p.unit} ({_relation(s).made_by})")
    symbol, loss, both = figures.SYMBOL[p.loss_name], Fraction(p.loss), Fraction(p.loss_with_base)
    based = "" if loss == both else f" this step, {figures.both(both)} with its base"
    certified = p.certified
    rows: list[tuple[Chunk, Chunk]] = [(symbol, figures.both(loss) + based)]
    if p.delta:
        rows.append(("δ", figures.both_tiny(Fraction(p.delta))))
        rows += [("", f"δ {one.delta} at ε {one.epsilon}, composed") for one in (p.composed or [])[:-1]]
    if p.usual:
        rows.append(("ε", f"{certified_epsilon(certified, 9)}, certified"))
        rows.append(("", f"{p.usual['1e-10']} at δ\u00a01e-10, usual formula"))
    screen.pairs(rows)
    for line in accuracy_lines(certified):
        screen.say(line, indent=2, hang=4)
    fits = conditional_line(p.changes, public_facts=p.public_facts)
    if fits:
        screen.say(fits, indent=2, hang=4)
    for line in disclosed_lines(p.changes):
        screen.item(WARN, line)
    if p.gaussian_needs:
        compared = "" if p.gaussian_needs == "more" else f": --compare-noise {p.loss}:{p.delta}"
        screen.say(_GAUSSIAN[p.gaussian_needs] + compared, indent=2, hang=4)
    screen.say(f"ledger limit {figures.limits(ledger)}, charged so far {figures.charged(ledger)}", indent=2)


def _show_solves(screen: Screen, s: PlanSummary) -> None:
    screen.heading("Solves", ", one for each area with the areas below it")
    columns = [Column("level"), *numbers("solves", "areas in one", "unknowns in one")]
    rows = [
        (x.level, f"{x.n_solves:,}", f"≤ {x.most_children:,}", f"≤ {x.most_unknowns:,}") for x in s.levels
    ]
    screen.table(columns, rows)
    screen.blank()
    levels = s.estimates or []
    covered = [at.level for at in levels if at.targets == "tree"]
    if covered:
        text = f"to one estimate of the whole tree at {', '.join(covered)}"
        screen.say(bold("Fitted"), f"  {text}", hang=8)
    reasons = dict.fromkeys(at.why for at in levels if at.targets == "own")
    for why in reasons:
        names = ", ".join(at.level for at in levels if at.why == why)
        screen.say(bold("Fitted"), f"  to own measurements only at {names}: {why}", hang=8)
    _show_accuracy(screen, s.accuracy or [])
    _show_feasible(screen, s.feasible.verdicts)
    n = s.needs
    time = f"{max(1, round(n.seconds))} s" if n.seconds < 120 else f"{n.seconds / 60:.0f} min"
    screen.say(
        bold("Needs"), f"  about {time} of one core, {figures.size(n.memory_bytes)} memory with one "
        f"worker, {figures.size(n.disk_bytes)} disk", hang=7,
    )  # fmt: skip
    for warning in s.warnings:
        if warning.code not in _OF_LEVELS:
            screen.item(WARN, warning.text, indent=0)


def _show_accuracy(screen: Screen, found: list[ExpectedAccuracy]) -> None:
    """Say how far estimates will be off, query by level, before anything is spent."""
    if not found:
        return
    levels = list(dict.fromkeys(at.level for at in found))
    shown = {(at.query, at.level): f"{at.stddev:,.1f}" for at in found}
    screen.heading(
        "Estimates", ", mean standard deviation; an interval of 95 in 100 is about twice that each way"
    )
    rows = [[q, *(shown[q, level] for level in levels)] for q in dict.fromkeys(at.query for at in found)]
    screen.table([Column("table", wraps=True), *numbers(*levels)], rows)
    screen.blank()


def _show_feasible(screen: Screen, verdicts: list[Verdict]) -> None:
    always = next((v for v in verdicts if v.kind == "always_splits"), None)
    if always is not None:
        screen.say(bold("Feasible"), f"  always splits: {always.sentence}", hang=10)
        return
    open_levels = [v for v in verdicts if v.kind == "not_guaranteed"]
    if not open_levels:
        theorems = sorted({name for v in verdicts for name in v.theorems}, key=lambda t: (len(t), t))
        proof = f" ({', '.join(theorems)})" if theorems else ""
        screen.say(bold("Feasible"), f"  yes, for every noise draw{proof}", hang=10)
    for v in open_levels:
        screen.say(bold("Feasible"), f"  not proved at level {v.level}: {v.sentence}", hang=10)
    for v in verdicts:
        if v.kind == "complete":
            reason = v.sentence.rpartition("because ")[2]
            screen.say(bold("Rounding"), f"  by an integer program at level {v.level}: {reason}", hang=10)


def plan_line(s: PlanSummary) -> list[Chunk]:
    """Return the line that sums a plan up."""
    numbers = sum(level.n_numbers for level in s.levels)
    rules = sum(rule.n for rule in s.invariants if rule.kind not in SOFT_KINDS)
    return [
        "Plan ", bold(s.plan_hash[:8]), ": ", PLUS, f" {numbers:,} numbers, ", EXACT,
        f" {rules:,} exact, {_spent_loss(s)} to spend.",
    ]  # fmt: skip


def show_base(screen: Screen, base: ExtendedBase) -> None:
    """Write the section about the base release."""
    screen.heading("Extends", f' "{base.release_id}", and keeps every count of it in every area')
    names = ", ".join(f"{row.base} as {row.here}" if row.base != row.here else row.base for row in base.map)
    n, reserved = base.n_patterns, base.n_reserved
    screen.pairs(
        [
            ("plan", base.plan_hash[:8]),
            ("schema", f"{base.schema}: {names}"),
            ("records", f"{base.n_records:,}"),
            (
                "patterns",
                f"{n:,} of cells open in a leaf" if n > 1 else "1: the same cells are open in every leaf",
            ),
            ("set aside", f"{reserved:,} people, for lower bounds" if reserved else "nobody"),
        ]
    )


def budget_for_wish(planned: Planned, wish: str) -> BudgetFor:
    """Find the budget for "EPSILON" or "EPSILON:DELTA"."""
    epsilon, colon, delta = wish.partition(":")
    return planned.budget_for(
        rational(epsilon, "epsilon"), rational(delta, "delta") if colon else USUAL_DELTA
    )


def grid_of_wish(wish: str) -> tuple[list[Fraction], Fraction]:
    """Read epsilons and delta of "EPSILON,EPSILON" or "EPSILON,EPSILON:DELTA"."""
    epsilons, colon, delta = wish.partition(":")
    found = [rational(epsilon.strip(), "epsilon") for epsilon in epsilons.split(",") if epsilon.strip()]
    return found, rational(delta, "delta") if colon else USUAL_DELTA


def show_budget(screen: Screen, found: BudgetFor) -> None:
    """Write the line for the run file, and what it costs."""
    screen.heading("Budget", f" for ε {found.epsilon} at δ {found.delta}, all shares as they are")
    screen.say(f'{found.loss_name} = "{found.budget}"  under [budget]', indent=2, hang=4)
    said = significant(found.certified, 9, up=True)
    screen.say(f"costs ε {said} at most, certified; this plan is as it was", indent=2, hang=4)


_CHANGES_SHOWN = 20


def show_changes(screen: Screen, found: list[ChangedValue], *, everything: bool) -> None:
    """Write the changes with their symbols: + new, - gone, ~ other value."""
    for change in found if everything else found[:_CHANGES_SHOWN]:
        gone = Span("~", "warn") if change.new is not None else Span("-", "fail")
        sign = Span("+", "ok") if change.old is None else gone
        values = " -> ".join(value for value in (change.old, change.new) if value is not None)
        screen.say(sign, " ", bold(change.key), f" {values}", indent=2, hang=6)
    if not everything and len(found) > _CHANGES_SHOWN:
        screen.say(dim(f"({len(found) - _CHANGES_SHOWN} more; --details shows them)"), indent=4)


def show_compared(screen: Screen, found: PlansCompared, name: str) -> None:
    """Write cost, noise and expected errors of two plans side by side."""
    screen.heading("Compared", f" with {name}")
    columns = [Column(""), *numbers("this plan", "the other")]
    pair = (found.here, found.there)
    screen.table(
        columns,
        [
            ("spends", *(_spent_loss(s) for s in pair)),
            ("for", *(_relation(s).noun for s in pair)),
            ("attacker right in 100, at most", *(str(s.privacy.certified.right_in_100) for s in pair)),
            ("noisy numbers", *(f"{sum(level.n_numbers for level in s.levels):,}" for s in pair)),
            ("time, about", *(f"{max(1, round(s.needs.seconds)):,} s" for s in pair)),
            ("memory, about", *(figures.size(s.needs.memory_bytes) for s in pair)),
        ],
    )
    if found.here.neighbours != found.there.neighbours:
        screen.blank()
        screen.say("The two protect different changes: their losses do not compare.", indent=2, hang=4)
    record = _relation(found.here).unit.record
    _show_deviations(screen, f"Noise, standard deviation in {record}s", found.noise)
    _show_deviations(screen, f"Estimates, mean standard deviation in {record}s", found.estimates)


def _relation(s: PlanSummary) -> Relation:
    return Relation.named(s.neighbours, s.privacy.unit)


def _spent_loss(s: PlanSummary) -> str:
    privacy = s.privacy
    return figures.loss(privacy.loss_name, Fraction(privacy.loss), Fraction(privacy.delta or 0))


def _show_deviations(screen: Screen, title: str, rows: Sequence[DeviationBeside]) -> None:
    """Write the deviations that differ, with the ratio where both plans have one."""
    if not rows:
        return
    differ = [one for one in rows if one.stddev != one.other]
    equal = f"{len(rows) - len(differ):,} of {len(rows):,} are equal" if len(differ) < len(rows) else ""
    screen.heading(title, f"; {equal}" if equal else "")
    columns = [Column("level"), Column("query", wraps=True), *numbers("this plan", "the other", "ratio")]
    screen.table(columns, [(one.level, one.query, *_here_there_ratio(one)) for one in differ])


def _here_there_ratio(one: DeviationBeside) -> tuple[str, str, str]:
    here, there = (figures.two_digits(x) if x is not None else "-" for x in (one.stddev, one.other))
    ratio = f"{one.other / one.stddev:.2f}" if one.stddev and one.other is not None else "-"
    return here, there, ratio


_DIGITS = 4
_TAKE = 'A run file has the second kind with mechanism = "optimal"; shares split ε and δ.'
_HAS = "This plan has noise of the second kind; its shares split ε and δ."


def noise_comparison(planned: Planned, wish: str) -> NoiseCompared:
    """Compare as "EPSILON:DELTA" or "DELTA" says."""
    epsilon, colon, delta = wish.rpartition(":")
    return planned.compare_noise(rational(delta, "delta"), rational(epsilon, "epsilon") if colon else None)


def show_noise_comparison(screen: Screen, plan: Plan, found: NoiseCompared) -> None:
    """Write the variances of both kinds, what they keep, and which is better for the plan."""
    screen.heading("Noise compared", f", both at ε {found.epsilon}, δ {found.delta} for all queries together")
    columns = [Column("level"), Column("query", wraps=True), *numbers("Gaussian", "single counts", "ratio")]
    rows = [
        (
            *(one.level, one.query),
            *(_rounded_up(number) for number in (one.gaussian_variance, one.optimal_variance, one.ratio)),
        )
        for one in found.queries
    ]
    screen.table(columns, rows)
    screen.blank()
    for line in _noise_sentences(plan, found):
        screen.say(line, indent=2, hang=4)


def _rounded_up(number: Fraction) -> str:
    return significant(number, _DIGITS, up=True)


def _noise_sentences(plan: Plan, found: NoiseCompared) -> list[str]:
    change = plan.relation.unit_changed
    how = "composed losses" if found.method == "composed losses" else "sums of ε and δ"
    gaussian, optimal = _rounded_up(found.gaussian_delta), _rounded_up(found.optimal_delta)
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
