"""The screen of `topdown plan`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from topdown.commands.right_choices import choices, disclosed, fitting, rounded
from topdown.laws import law_of_mechanism
from topdown.screen import figures
from topdown.screen.console import Screen
from topdown.screen.layout import Column
from topdown.screen.look import EXACT, PLUS, WARN, Chunk, bold, dim

_GAUSSIAN = {  # for a plan of mechanism "optimal"
    "less": "better: discrete Gaussian noise; some of no more variance keeps this ε and δ",
    "more": "discrete Gaussian noise in these proportions needs more variance for this ε and δ",
    "open": "discrete Gaussian noise may need less variance for this ε and δ",
}
SOFT = "no_more_than"  # kept where possible, not promised


def show_plan(screen: Screen, s: dict[str, Any], *, details: bool) -> None:
    """Write a plan summary; see the transcript in the documentation of the command line."""
    screen.say(bold(f'Plan for "{s["title"]}"'), "   no confidential file is opened", hang=5)
    screen.blank()
    empty = " empty in the base release, free" if "base" in s else " empty by public facts, free"
    screen.say(
        *(PLUS, " measured with noise   ", EXACT, " exact by policy   "),
        *(dim("0"), empty),
        indent=2,
    )
    if "base" in s:
        from topdown.commands.plan_extension import show_base

        show_base(screen, s["base"])
    _levels(screen, s)
    _noise(screen, s, details)
    _exact(screen, s, details)
    _privacy(screen, s)
    _solving(screen, s)


def _levels(screen: Screen, s: dict[str, Any]) -> None:
    screen.heading("Areas and numbers")
    loss = figures.SYMBOL[s["privacy"]["loss_name"]]
    columns = [
        Column("level"),
        *(Column(n, right=True) for n in ("+ areas", "0 areas", "numbers", loss, "share")),
    ]
    rows = [
        (
            level["level"],
            f"{level['n_measured']:,}",
            f"{level['n_empty']:,}" if level["n_empty"] else "-",
            f"{level['n_numbers']:,}",
            figures.decimal(Fraction(level["loss"]), up=True),
            figures.percent(Fraction(level["share"])),
        )
        for level in s["levels"]
    ]
    screen.table(columns, rows)
    for warning in s["warnings"]:
        if warning["code"] == "B010":
            screen.item(WARN, warning["text"])


def _noise(screen: Screen, s: dict[str, Any], details: bool) -> None:
    queries = s["queries"]
    names = list(dict.fromkeys(q["query"] for q in queries))
    shown = names if details else top_queries(queries)
    hint = f" (all {len(names)} queries: --details)" if len(shown) < len(names) else ""
    screen.heading("Noise", f", standard deviation in {s['privacy']['unit'].split()[-1]}s{hint}")
    levels = [level["level"] for level in s["levels"]]
    of = {(q["query"], q["level"]): figures.two_digits(q["stddev"]) for q in queries}
    columns = [Column("query"), *(Column(level, right=True) for level in levels)]
    screen.table(columns, [(name, *(of.get((name, level), "-") for level in levels)) for name in shown])
    if details:
        exact = [
            Column("query"),
            Column("numbers", right=True),
            Column("rho" if s["privacy"]["loss_name"] == "rho" else "epsilon"),
            Column(_parameter(s)),
        ]
        for level in levels:
            screen.heading(f"Exact noise, {level}")
            here = [q for q in queries if q["level"] == level]
            screen.table(
                exact, [(q["query"], f"{q['n_answers']:,}", q["loss"], q["parameter"]) for q in here]
            )


def _parameter(s: dict[str, Any]) -> str:
    return law_of_mechanism(s["mechanism"]).parameter_name


def top_queries(queries: list[dict[str, Any]]) -> list[str]:
    """Choose the total, the detailed table, and the query with the largest loss between them."""
    names = list(dict.fromkeys(q["query"] for q in queries))
    loss: dict[str, Fraction] = dict.fromkeys(names, Fraction(0))
    for q in queries:
        loss[q["query"]] += Fraction(q["loss"])
    between = sorted((n for n in names if n not in ("total", "detailed")), key=lambda n: -loss[n])[:1]
    return [n for n in ("total", *between, "detailed") if n in names]


def _exact(screen: Screen, s: dict[str, Any], details: bool) -> None:
    soft = any(rule["kind"] == SOFT for rule in s["invariants"])
    screen.heading("Exact", " by policy or by public facts" + ("; ~ kept wherever possible" if soft else ""))
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for i, rule in enumerate(s["invariants"]):
        key = (rule["kind"], rule["level"], rule["legal_basis"] if not details else str(i))
        groups.setdefault(key, []).append(rule)
    rows: list[tuple[Chunk, ...]] = []
    notes: list[tuple[Chunk, Chunk]] = []
    marks: dict[str, str] = {}
    for rules in groups.values():
        first = rules[0]
        name = first["name"] + (f", and {len(rules) - 1} more like it" if len(rules) > 1 else "")
        basis = first["legal_basis"] or "?"
        mark = marks.setdefault(basis, f"[{len(marks) + 1}]")
        sign = "~" if first["kind"] == SOFT else "="
        rows.append((f"{sign} {name}", first["level"], f"{sum(r['n'] for r in rules):,}", mark))
    notes = [(dim(mark), basis) for basis, mark in marks.items()]
    columns = [Column("", wraps=True), Column("level"), Column("places", right=True), Column("basis")]
    screen.table(columns, rows)
    screen.pairs(notes)


def _privacy(screen: Screen, s: dict[str, Any]) -> None:
    p, ledger = s["privacy"], s["ledger"]
    change = {"bounded": "replace one record", "add_remove": "add or remove one record"}[p["neighbours"]]
    screen.heading("Privacy", f" of {p['unit']} ({change})")
    symbol, loss, both = figures.SYMBOL[p["loss_name"]], Fraction(p["loss"]), Fraction(p["loss_with_base"])
    based = "" if loss == both else f" this step, {figures.both(both)} with its base"
    certified = p["certified"]
    rows: list[tuple[Chunk, Chunk]] = [(symbol, figures.both(loss) + based)]
    if "delta" in p:
        rows.append(("δ", figures.both_tiny(Fraction(p["delta"]))))
        rows += [("", f"δ {one['delta']} at ε {one['epsilon']}, composed") for one in p["composed"][:-1]]
    if p["usual"]:
        rows.append(("ε", f"{rounded(certified, 9)}, certified"))
        rows.append(("", f"{p['usual']['1e-10']} at δ\u00a01e-10, usual formula"))
    screen.pairs(rows)
    for line in choices(certified):
        screen.say(line, indent=2, hang=4)
    fits = fitting(p["changes"], public_facts=p["public_facts"])
    if fits:
        screen.say(fits, indent=2, hang=4)
    for line in disclosed(p["changes"]):
        screen.item(WARN, line)
    if "gaussian_needs" in p:
        compared = "" if p["gaussian_needs"] == "more" else f": --compare-noise {p['loss']}:{p['delta']}"
        screen.say(_GAUSSIAN[p["gaussian_needs"]] + compared, indent=2, hang=4)
    spent = Fraction(ledger["spent"])
    screen.say(f"ledger limit {ledger['limit']}, spent so far {figures.both(spent)}", indent=2)
    if "delta_limit" in ledger:
        beside = figures.both_tiny(Fraction(ledger["spent_delta"]))
        screen.say(f"ledger limit of δ {ledger['delta_limit']}, spent so far {beside}", indent=2)


def _solving(screen: Screen, s: dict[str, Any]) -> None:
    screen.heading("Solves", ", one for each area with the areas below it")
    columns = [
        Column("level"),
        *(Column(n, right=True) for n in ("solves", "areas in one", "unknowns in one")),
    ]
    rows = [
        (x["level"], f"{x['n_solves']:,}", f"≤ {x['most_children']:,}", f"≤ {x['most_unknowns']:,}")
        for x in s["levels"]
    ]
    screen.table(columns, rows)
    screen.blank()
    _fitted(screen, s.get("estimates", []))
    _accuracy(screen, s.get("accuracy", []))
    _feasible(screen, s["feasible"]["verdicts"])
    n = s["needs"]
    screen.say(
        bold("Needs"), f"  about {_about(n['seconds'])} of one core, {figures.size(n['memory_bytes'])} memory with one "
        f"worker, {figures.size(n['disk_bytes'])} disk", hang=7,
    )  # fmt: skip
    for warning in s["warnings"]:
        if warning["code"] != "B010":
            screen.item(WARN, warning["text"], indent=0)


def _fitted(screen: Screen, levels: list[dict[str, str]]) -> None:
    """Say which levels are fitted to the tree estimate, and why the others are not, where one was asked for."""
    covered = [at["level"] for at in levels if at["targets"] == "tree"]
    if covered:
        text = f"to one estimate of the whole tree at {', '.join(covered)}"
        screen.say(bold("Fitted"), f"  {text}", hang=8)
    reasons = dict.fromkeys(at["why"] for at in levels if at["targets"] == "own")
    for why in reasons:
        names = ", ".join(at["level"] for at in levels if at["why"] == why)
        screen.say(bold("Fitted"), f"  to own measurements only at {names}: {why}", hang=8)


def _accuracy(screen: Screen, found: list[dict[str, Any]]) -> None:
    """Say how far estimates will be off, query by level, before anything is spent."""
    if not found:
        return
    levels = list(dict.fromkeys(at["level"] for at in found))
    shown = {(at["query"], at["level"]): f"{at['stddev']:,.1f}" for at in found}
    screen.heading(
        "Estimates", ", mean standard deviation; an interval of 95 in 100 is about twice that each way"
    )
    rows = [[q, *(shown[q, level] for level in levels)] for q in dict.fromkeys(at["query"] for at in found)]
    screen.table([Column("table", wraps=True), *(Column(level, right=True) for level in levels)], rows)
    screen.blank()


def _feasible(screen: Screen, verdicts: list[dict[str, Any]]) -> None:
    always = next((v for v in verdicts if v["kind"] == "always_splits"), None)
    if always is not None:
        screen.say(bold("Feasible"), f"  always splits: {always['sentence']}", hang=10)
        return
    open_levels = [v for v in verdicts if v["kind"] == "not_guaranteed"]
    if not open_levels:
        theorems = sorted({name for v in verdicts for name in v["theorems"]}, key=lambda t: (len(t), t))
        proof = f" ({', '.join(theorems)})" if theorems else ""
        screen.say(bold("Feasible"), f"  yes, for every noise draw{proof}", hang=10)
    for v in open_levels:
        screen.say(bold("Feasible"), f"  not proved at level {v['level']}: {v['sentence']}", hang=10)
    for v in verdicts:
        if v["kind"] == "complete":
            reason = v["sentence"].rpartition("because ")[2]
            screen.say(bold("Rounding"), f"  by an integer program at level {v['level']}: {reason}", hang=10)


def _about(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def plan_line(s: dict[str, Any]) -> list[Chunk]:
    """Return the line that sums a plan up."""
    numbers = sum(level["n_numbers"] for level in s["levels"])
    rules = sum(rule["n"] for rule in s["invariants"] if rule["kind"] != SOFT)
    p = s["privacy"]
    loss = figures.loss(p["loss_name"], Fraction(p["loss"]), Fraction(p.get("delta", 0)))
    return [
        "Plan ", bold(s["plan_hash"][:8]), ": ", PLUS, f" {numbers:,} numbers, ", EXACT,
        f" {rules:,} exact, {loss} to spend.",
    ]  # fmt: skip
