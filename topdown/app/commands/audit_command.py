"""`topdown audit`: the privacy loss of a plan, a release or a ledger, and what runs of the drawing code show."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import topdown
from topdown import app
from topdown.app.commands.command import command
from topdown.app.commands.options import ANY_PATH, FILE_THERE, FOLDER_THERE, Picture
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.figures import conditional_line, disclosed_lines
from topdown.app.screens.progress_bars import follow
from topdown.app.screens.text_layout import FAIL, OK, WARN, Column, bold, dim, numbers
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK, ConfigError
from topdown.formats.privacy_documents import AuditLedger, ReachedSecret
from topdown.output_paths import write_new
from topdown.privacy import accountant
from topdown.privacy.ledger import history_lines
from topdown.publish.release_certificate import change_statuses

if TYPE_CHECKING:
    from topdown import Audit
    from topdown.app.screens.text_layout import Chunk
    from topdown.formats.privacy_documents import AuditRuns, UnreachedSecret


PAIRS_SHOWN = 5  # pairs that beat their claim; --json lists them all


def audit_by_runs(screen: Screen, source: Path, base: Path | None, deltas: tuple[str, ...], runs: int) -> int:
    """Run the drawing code and show what it tells; opens no records and spends nothing."""
    if len(deltas) != 1:
        raise ConfigError("--runs takes one delta", code="C005", fix="give --delta once")
    with follow(screen) as progress:
        found = topdown.audit_runs(source, runs, base=base, delta=deltas[0], report=progress)
    made = found.document
    screen.document(made)
    _show_runs(screen, made, extends=found.extends)
    return EXIT_OK if made.passes else EXIT_CHECK_FAILED


def _show_runs(screen: Screen, made: AuditRuns, *, extends: bool) -> None:
    screen.say(
        bold("What the drawing code shows"),
        f", {made.runs:,} runs on each side of {made.n_pairs} pairs of made-up neighbours "
        f"(plan {made.plan_hash[:8]}; no records were opened)",
    )
    if extends:
        screen.say(dim("this step alone, not what it extends"), indent=2)
    screen.blank()
    columns = [Column("change", wraps=True), Column("pairs", right=True)]
    columns += numbers("attacker right in 100", "μ", f"ε at δ {_delta_words(made)}")
    screen.table(columns, [_test_row(secret) for secret in made.secrets])
    screen.say(dim("each: shown at least / claimed at most"), indent=2)
    for place in made.not_reached:
        screen.item(WARN, f"no pair found: {place.secret}, {place.query} at {place.level}")
    wrong = [pair for pair in made.pairs if pair.exceeds]
    for pair in wrong[:PAIRS_SHOWN]:
        tests = [(view, test) for view in pair.views for test in view.tests if test.exceeds]
        view, test = max(tests, key=lambda one: float(one[1].mu[0]) - float(one[1].mu[1]))
        of = "everything drawn" if view.of is None else f"{view.of.query} at {view.of.level}"
        low, high = test.mu
        screen.item(FAIL, f"{pair.secret}, by {of} ({view.score}): μ at least {low}, claimed at most {high}")
    if len(wrong) > PAIRS_SHOWN:
        screen.say(dim(f"({len(wrong) - PAIRS_SHOWN} more; --json lists them)"), indent=4)
    screen.blank()
    if made.passes:
        screen.last(
            f"None of {made.n_tests:,} tests beat the claim. That proves no claim right; a failure would prove "
            f"it wrong, but for {_false_alarm_words(made)} audits of true claims.",
            symbol=OK,
        )
        return
    screen.last(
        f"{made.code}: noise as it is drawn does not keep what is claimed. True claims fail in at most "
        f"{_false_alarm_words(made)} audits.",
        symbol=FAIL,
    )


def _delta_words(made: AuditRuns) -> str:
    delta = Fraction(made.delta)
    power = len(str(delta.denominator)) - 1
    return f"1e-{power}" if delta == Fraction(1, 10**power) else str(delta)


def _false_alarm_words(made: AuditRuns) -> str:
    rate = Fraction(made.false_alarm)
    return f"{rate.numerator:,} in {rate.denominator:,}"


def _test_row(secret: ReachedSecret | UnreachedSecret) -> tuple[str, ...]:
    if not isinstance(secret, ReachedSecret):
        return (secret.name, "0", "-", "-", "-")
    texts = []
    for (low, high), times, digits in (
        (secret.best_guess, 100, 1),
        (secret.mu, 1, 3),
        (secret.epsilon, 1, 2),
    ):
        most = high if high == "inf" else figures.decimal(times * Fraction(high), digits, up=True)
        texts.append(f"{figures.decimal(times * Fraction(low), digits, down=True)} / {most}")
    return (secret.name, str(secret.n_pairs), *texts)


def _show_ledger_audit(screen: Screen, said: AuditLedger) -> None:
    methods = {secret["method"] for secret in said.secrets}
    how = (
        ", composed: a bound"
        if accountant.BOUND_METHOD in methods
        else ", composed exactly"
        if methods
        else ""
    )
    screen.say(
        bold(f'Everything charged to "{said.data_set}"'),
        f"{how}, by ledger {said.ledger} ({said.neighbours}, one {said.unit})",
    )
    end = f"{{}} record {said.up_to.record} of {said.up_to.date}"
    if said.newest:
        screen.say(end.format("up to"), "; its registry knows no newer one", indent=2)
    else:
        screen.item(WARN, end.format("according to a copy that ends at"), "; no registry was found")
    screen.blank()
    columns = [Column("release", wraps=True), Column("plan"), Column("loss", right=True)]
    columns += numbers("charges", "unfinished")
    rows = [
        (
            r.release + (" (choice)" if r.what == "choice" else ""),
            r.plan_hash[:8],
            figures.loss(r.loss_name, Fraction(r.loss), Fraction(r.delta or 0)),
            str(r.n_charges),
            str(r.n_unfinished or "-"),
        )
        for r in said.releases
    ]
    screen.table(columns, rows)
    for secret in said.secrets:
        screen.blank()
        at = [
            (f"ε at δ {delta}", figures.decimal(Fraction(box[1]), 3, up=True))
            for delta, box in secret["epsilon"].items()
        ]
        screen.pairs([(secret["name"], f"at most {secret['right_in_100']} times in 100 (a coin: 50)"), *at])
    if said.conditional_on:
        screen.say(f"between data sets that agree on: {', '.join(said.conditional_on)}", indent=2)
    for line in history_lines(said):
        screen.item(WARN, line)
    screen.blank()
    screen.last(said.secrets[0]["sentence"] if said.secrets else "Nothing was ever charged.", symbol="")


MOST_SHOWN = 5  # contradictions on the screen; topdown verify lists them all


@command(
    "audit",
    examples=(
        ("topdown audit release/", "The loss of a release, and what its certificate states."),
        ("topdown audit run.toml --delta 1e-10 --delta 1e-15", "The loss of a plan, at two deltas."),
        ("topdown audit --ledger ledger/people.jsonl", "Everything charged to a data set, together."),
        ("topdown audit more.toml --base release/", "An extension, alone and together with its base."),
        ("topdown audit release/ --runs 100000", "The drawing code itself, on made-up neighbours."),
    ),
    exits=(0, 1, 2),
)
@click.argument("source", metavar="RUN.toml|plan.json|DIR", required=False, type=ANY_PATH)
@click.option(
    "--ledger",
    metavar="FILE",
    type=FILE_THERE,
    help="Everything charged to a data set, by its ledger, together.",
)
@click.option(
    "--registry",
    metavar="DIR",
    type=FOLDER_THERE,
    help="With --ledger: folder of its registry; default: looked for beside it and one folder above.",
)
@click.option(
    "--base", metavar="RELEASE", type=FOLDER_THERE, help="The published release that RUN.toml extends."
)
@click.option(
    "--delta", "deltas", multiple=True, default=("1e-10",), show_default=True, help="Repeat for more."
)
@click.option(
    "--runs",
    metavar="N",
    type=int,
    help="Draw N times on each of two made-up neighbours, many pairs; compare what it shows with the claim.",
)
@click.option("--plot", metavar="FILE.svg", type=Picture(), help="Draw the trade-off curve.")
@click.option("--force", is_flag=True, help="Replace an existing plot.")
def audit_command(
    screen: Screen,
    *,
    source: Path | None,
    ledger: Path | None,
    registry: Path | None,
    base: Path | None,
    deltas: tuple[str, ...],
    runs: int | None,
    plot: Path | None,
    force: bool,
) -> int:
    """Compute the privacy loss of a plan or release, in proved bounds.

    Together with the releases it extends. Every number is certified: it lies between two bounds that are
    printed or in the JSON document. It is the loss of all noise together, and so never less than what a change
    can cost. What exact statistics give away is named and has no number.

    With --runs, the code that draws a release is run on made-up neighbours; no records are opened.
    """
    if ledger is not None and not (source or base or plot or runs is not None):
        said = topdown.audit_ledger(ledger, deltas=deltas, registry=registry)
        screen.document(said)
        _show_ledger_audit(screen, said)
        return EXIT_OK
    if source is None or ledger is not None or registry is not None:
        raise ConfigError(
            "give a run file, plan or release, or --ledger FILE alone",
            code="C005",
            fix="see: topdown audit --help",
        )
    if runs is not None:
        if plot is not None:
            raise ConfigError("--runs draws no curve", code="C005", fix="give --plot without --runs")
        return audit_by_runs(screen, source, base, deltas, runs)
    found = topdown.audit(source, base=base, deltas=deltas)
    if plot is not None:
        policy = found.policy
        drawn = app.trade_off_svg(app.first_loss(policy), policy.plan.release.title)
        write_new(plot, drawn.encode(), force=force)
    screen.document(found.document)
    _show_audit(screen, found)
    return EXIT_CHECK_FAILED if found.agrees is False else EXIT_OK


def _show_audit(screen: Screen, found: Audit) -> None:
    policy, said, wrong = found.policy, found.statement, found.contradictions
    plan, changes = policy.plan, change_statuses(policy)
    based = ", with what it extends" if policy.bases else ""
    exact = "sums of ε and δ" if "composed" in said else "exact"
    screen.say(
        bold("What the plan costs"),
        f"{based}, {exact}, by plan {plan.plan_hash[:8]} ({plan.relation.made_by})",
    )
    for delta in said["deltas"]:
        screen.blank()
        screen.table(*(_loss_pairs(said) if "composed" in said else _change_table(said, delta)))
    for one in said.get("composed", [])[:-1]:
        screen.say(f"δ {one['delta']} at ε {one['epsilon']}, from composed losses", indent=2)
    if plan.loss_name == "rho" and not policy.bases:
        screen.say(dim("usual: rho + 2 sqrt(rho ln(1/delta)), never below the exact value"), indent=2)
    unmoved = [
        f"{m.query} of {level.name}"
        for level in plan.levels
        for m in level.measurements
        if level.n_nodes == plan.query(m.query).n_answers == 1
    ]
    if unmoved:
        screen.say(
            dim(f"counted, though no replaced record moves it: {', '.join(unmoved)}"), indent=2, hang=4
        )
    fits = conditional_line(changes, public_facts=policy.has_public_facts)
    if fits:
        screen.say(fits, indent=2)
    for line in disclosed_lines(changes):
        screen.item(WARN, line)
    if wrong is not None:
        symbol, word = (FAIL, "contradicts") if wrong else (OK, "agrees with")
        value = "what follows from the plan" if "composed" in said else "the exact value"
        screen.item(symbol, f"the certificate {word} {value}")
        for line in wrong[:MOST_SHOWN]:
            screen.say(line, indent=2)
    if screen.verbose:
        for secret in said["secrets"]:
            for delta, (low, high) in secret.get("epsilon", {}).items():
                screen.say(
                    f"{secret['name']}: ε in [{low}, {high}] at δ {delta}, {secret['method']}",
                    indent=2,
                    hang=4,
                )
    screen.blank()
    screen.last(said["sentence"], symbol="")


def _loss_pairs(said: dict[str, Any]) -> tuple[list[Column], list[tuple[Chunk, ...]]]:
    """Return columns and rows where losses are pairs: every secret has a delta of its own."""
    columns = [Column("change", wraps=True), Column("status")]
    columns += numbers("ε", "δ", "attacker right in 100")
    rows: list[tuple[Chunk, ...]] = []
    for secret in said["secrets"]:
        row: list[Chunk] = ["-"] * 3
        if secret["status"] != "disclosed":
            ((_, (_, high)),) = secret["epsilon"].items()
            row = [
                figures.decimal(Fraction(high), 3, up=True),
                figures.tiny(Fraction(secret["delta"])) if Fraction(secret["delta"]) else "0",
                str(secret["right_in_100"]),
            ]
        rows.append((secret["name"], secret["status"], *row))
    return columns, rows


def _change_table(said: dict[str, Any], delta: str) -> tuple[list[Column], list[tuple[Chunk, ...]]]:
    """Return columns and rows of one table: every secret, its status, and its numbers if it has any."""
    usual = "usual" in said["secrets"][0] and not said["steps"]
    alone = said["steps"][-1]["secrets"] if said["steps"] else [None] * len(said["secrets"])
    names = ["status", "ε at every δ" if delta == "0" else f"ε at δ {delta}"]
    names += ["usual"] if usual else []
    names += ["attacker right in 100"] + (["this step"] if said["steps"] else [])
    columns = [Column("change", wraps=True), *(Column(name, right=i > 0) for i, name in enumerate(names))]
    rows: list[tuple[Chunk, ...]] = []
    for secret, step in zip(said["secrets"], alone, strict=True):
        row: list[Chunk] = [secret["name"], secret["status"]]
        if secret["status"] == "disclosed":
            row += ["-"] * (len(columns) - 2)
        else:
            row.append(figures.decimal(Fraction(secret["epsilon"][delta][1]), 3, up=True))
            if usual:
                row.append(figures.decimal(Fraction(secret["usual"]["bun_steinke"][delta]), 3, up=True))
            row.append(str(secret["right_in_100"]))
            row += [] if step is None else [str(step["right_in_100"])]
        rows.append(tuple(row))
    return columns, rows
