"""Check `privacy`: every statement about privacy, derived anew from plans, public files and ledger.

A certificate may state nothing more favourable than what is derived, and nothing vague.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain, count
from typing import Any

from topdown.formats.verify_documents import Finding
from topdown.verify.change_losses import ChangeLoss, MovedCounts, composed_loss, delta_between, loss_of
from topdown.verify.exact_arithmetic import (
    ROUNDED,
    digits_of,
    exact_text,
    fraction,
    read_decimal,
    twelve_digits,
    usual_formula,
)
from topdown.verify.findings import Findings
from topdown.verify.ledger_reader import Charge, Choice, LedgerFile, Opened
from topdown.verify.neighbour_changes import Closing, DerivedChange, Limit, Statistic, derive_changes
from topdown.verify.noise_laws import RELATIONS, changes_needed, n_counts_moved, unit_of
from topdown.verify.plan_reader import PlanFile
from topdown.verify.public_tree import Facts, Tree
from topdown.verify.query_labels import Reading, identity_reading, query_groups, read_below, selected_values
from topdown.verify.session import Session
from topdown.verify.stated_losses import FILE, Comparison, StatedRow
from topdown.verify.strict_reader import unreadable


@dataclass(frozen=True)
class Measured:
    """One query at one level: what can change its answers, and the noise on each of them."""

    depth: int
    attributes: frozenset[str]
    parameter: Fraction
    delta: Fraction
    weights: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ChainedRelease:
    """One release of a chain, how its attributes read in the newest, and the places with its own public facts."""

    plan: PlanFile
    reading: Reading
    tree: Tree

    @property
    def measured(self) -> list[Measured]:
        """What it measures."""
        return [
            Measured(
                self.tree.names.index(level.name),
                frozenset(query_groups(self.plan.schema, m.query, self.reading)),
                fraction(m.parameter),
                self.plan.delta_of_count(m),
                tuple(m.weights or ()),
            )
            for level in self.plan.doc.levels
            for m in level.measurements
        ]


@dataclass(frozen=True, eq=False)
class DerivedPrivacy:
    """All that a certificate may say of secrets.

    Args:
        changes: the kinds of change and what exact statistics say of them.
        conditional_on: names of all exact statistics.
        public_facts: whether rules narrow what an answer can be.
        steps: release id, plan hash, and the loss of each kind of change, for each release of the chain, oldest first.
        losses: of each kind of change, of the chain together; None where it is disclosed.
        first: weights and epsilon of one count of what the first kind of change moves, and how many counts.
    """

    changes: tuple[DerivedChange, ...]
    conditional_on: tuple[str, ...]
    public_facts: bool
    steps: tuple[tuple[str, str, tuple[ChangeLoss | None, ...]], ...]
    losses: tuple[ChangeLoss | None, ...]
    first: tuple[tuple[tuple[str, ...], Fraction, int], ...]


Below = dict[str, tuple[PlanFile, Facts]]  # newest first, by path: a plan and its public facts


def steps_of(plan: PlanFile, below: Below, tree: Tree) -> tuple[ChainedRelease, ...]:
    """Return every release of the chain, oldest first; UnreadableError (V160) if a base does not fit its extension."""
    out = [ChainedRelease(plan, identity_reading(plan.schema), tree)]
    for path, (base, facts) in below.items():
        above = out[-1]
        names = above.plan.base.map if above.plan.base is not None else ()
        try:
            reading = read_below(above.plan.schema, above.reading, base.schema, names)
        except (ValueError, KeyError) as error:
            raise unreadable("V160", path, f"does not fit the release above it: {error}") from None
        out.append(ChainedRelease(base, reading, replace(tree, facts=facts)))
    return tuple(reversed(out))


def derive_privacy(plan: PlanFile, below: Below, tree: Tree) -> DerivedPrivacy:
    """Derive everything anew; UnreadableError (V160) if the plans of the chain do not fit together."""
    steps = steps_of(plan, below, tree)
    for step, path in zip(steps, [*reversed(below), "plan.json"], strict=True):
        strange = [level.name for level in step.plan.doc.levels if level.name not in tree.names]
        strange += [e.level for e in step.plan.rules.exact if e.level not in tree.names]
        if strange:
            raise unreadable("V160", path, f"has a level {strange[0]!r} that the geography lacks")
    statistics = _statistics(steps, tree)
    whole = [kind for kind, _ in plan.relation.stated]
    changes = derive_changes(plan.schema, tree, *_closings_and_limits(steps), statistics, whole=whole)
    measured, shift = [step.measured for step in steps], plan.relation.shift

    def each(rows: Sequence[Measured]) -> tuple[ChangeLoss | None, ...]:
        return tuple(
            None if c.status == "disclosed" else loss_of(plan.law, _counts_moved(c, rows, tree, shift))
            for c in changes
        )

    return DerivedPrivacy(
        changes,
        tuple(s.name for s in statistics),
        any(s.plan.rules.closing or s.plan.rules.bounds for s in steps),
        tuple(
            (s.plan.doc.release.id, s.plan.computed_hash, each(rows))
            for s, rows in zip(steps, measured, strict=True)
        ),
        each([m for rows in measured for m in rows]),
        tuple(
            (m.weights, moved.parameter, moved.n)
            for rows in measured
            for m in rows
            for moved in _counts_moved(changes[0], [m], tree, shift)
        ),
    )


def _counts_moved(
    change: DerivedChange, rows: Sequence[Measured], tree: Tree, shift: int
) -> Iterable[MovedCounts]:
    """Return the counts that a change moves by `shift`: one it leaves and one it enters, or one alone for presence."""
    n_counts = n_counts_moved(change.kind)
    for m in rows:
        if change.kind == "attribute" and change.of not in m.attributes:
            continue
        if change.kind == "within_level" and m.depth <= tree.names.index(change.of):
            continue
        yield MovedCounts(m.parameter, shift, n_counts, m.delta, m.weights)


def _statistics(steps: Sequence[ChainedRelease], tree: Tree) -> list[Statistic]:
    out: list[Statistic] = []
    for step in steps:
        release = step.plan.doc.release.id
        for e in step.plan.rules.exact:
            taken = {s.name for s in out}
            more = (f"{e.name} ({release}, {n})" for n in count(2))
            name = next(x for x in chain([e.name, f"{e.name} ({release})"], more) if x not in taken)
            groups = query_groups(step.plan.schema, e.query, step.reading)
            out.append(Statistic(name, tree.names.index(e.level), groups))
    return out


def _closings_and_limits(steps: Sequence[ChainedRelease]) -> tuple[list[Closing], list[Limit]]:
    """Return the rules that close cells and those that bound counts, of every release by its own public facts."""
    closings, limits = list[Closing](), list[Limit]()
    for step in steps:
        for rule in step.plan.rules.closing:
            values = selected_values(step.plan.schema, rule.cells, step.reading)
            closings.append(Closing(rule.name, values, rule.closed(step.tree.facts, step.tree.n_leaves)))
        for bound in step.plan.rules.bounds:
            values = selected_values(step.plan.schema, bound.cells, step.reading)
            ends = [False] * bound.is_least + [True] * bound.is_most
            limits += [Limit(bound.name, values, bound.numbers(step.tree.facts), end) for end in ends]
    return closings, limits


def row_name(kind: str, of: str, unit: str) -> str:
    """Return the name of a row."""
    if kind == "attribute":
        return f"{of} only"
    if kind == "within_level":
        return f"place within one {of}"
    if kind == "step":
        return f"one step of {of}"
    return f"one {unit}, {kind}"


def change_sentence(
    kind: str, of: str, unit: str, exact: Sequence[str], times: int, *, public_facts: bool, reads: str
) -> str:
    """Return the sentence of a secret that noise protects.

    Args:
        exact: names of the exact statistics that some change alters.
        times: right choices in 100.
        public_facts: whether public facts narrow what an answer can be.
        reads: "release", "chain" (with what it extends) or "step" (of a chain).
    """
    read = {
        "release": "this release",
        "chain": "this release and what it extends",
        "step": "the measurements of this step",
    }[reads]
    facts = [f"what is exact ({', '.join(exact)})"] if exact else []
    fits, owner = " and ".join(facts + ["the public facts"] * public_facts), f"{unit_of(unit).name}'s"
    which = f", both of which fit {fits}," if fits else ","
    if kind == "presence":
        which = f", where both fit {fits}," if fits else ","
        middle = f", and must tell whether one {owner} answers were there at all"
    elif kind == "everything":
        middle = f", and must tell which of two answers one {unit} gave"
    elif kind == "attribute":
        middle = f" and all of one {owner} but {of}, and must tell which of two values that is"
    else:
        middle = f" and all of one {owner} but the place within one {of}, and must tell which of two places that is"
    return (
        f"Someone who reads only {read}, knows every other {owner} answers{middle}{which} chooses rightly at most "
        f"{times} times in 100; a coin gives 50."
    )


def ledger_sentence(kind: str, of: str, readers: str, unit: str, exact: Sequence[str], times: int) -> str:
    """Return the sentence about everything charged to a ledger.

    Args:
        of: the relation of the ledger. readers: see `LedgerFile.readers`. exact, times: see `change_sentence`.
    """
    owner = f"{unit_of(unit).name}'s"
    if kind == "presence":
        asked = f"whether one {owner} answers were there at all, where both fit"
    elif kind == "step":
        asked = f"which of two data sets one step apart ({of}) is the true one, both of which fit"
    else:
        asked = f"which of two answers one {unit} gave, both of which fit"
    published = f"what was published exactly ({', '.join(exact)}) and " if exact else ""
    return (
        f"{readers}, knows every other {owner} answers, and must tell {asked} {published}the public facts, chooses "
        f"rightly at most {times} times in 100; a coin gives 50."
    )


USUAL_SLACK = Fraction(1, 10**6)  # a usual epsilon may be rounded up by this much, not more

_KEYS = (
    "conditional_on",
    "curve",
    "epsilon",
    "everything_released",
    "loss",
    "loss_name",
    "loss_with_base",
    "neighbours",
    "secrets",
    "sentence",
    "steps",
    "unit",
    "unspent",
    "usual",
)

_LEDGER_KEYS = (
    *("attestations", "charged", "conditional_on", "data_set", "ledger", "limits", "neighbours"),
    *("refunds", "secrets", "unit", "up_to"),
)

_USUAL = {
    "rho": {"label": "usual formula", "formula": "rho + 2 sqrt(rho ln(1/delta))"},
    "epsilon": {"label": "usual formula", "formula": "epsilon"},
    "epsilon_delta": {"label": "usual formula", "formula": "sums of epsilon and delta"},
}

_OF_PAIRS = ("composed", "delta")
QUARTERS = tuple(Fraction(n, 4) for n in (1, 2, 3, 4))


def check_privacy(session: Session, out: Findings) -> str:
    """Refuse every number, secret, sentence or step that does not follow from the files, or was left out."""
    plan, stated = session.plan, session.certificate.get("privacy")
    if not isinstance(stated, dict):
        out.add(Finding("V130", "the certificate states no privacy loss", file=FILE))
        return "the certificate states no privacy loss"
    compare = Comparison(out)
    pairs = plan.loss_name == "epsilon_delta"
    compare.same("V130", "privacy: its keys", sorted((*_KEYS, *(_OF_PAIRS * pairs))), sorted(stated))
    if pairs:
        compare.same("V130", "privacy.delta", exact_text(plan.delta), stated.get("delta"))
    below = session.plans_below
    total = plan.loss + sum(base.loss for base in below.values())
    for key, expected in (
        ("loss", exact_text(plan.loss)),
        ("loss_with_base", exact_text(total)),
        ("loss_name", plan.loss_name),
        ("neighbours", plan.doc.neighbours),
        ("unit", plan.schema.unit),
    ):
        compare.same("V130", f"privacy.{key}", expected, stated.get(key))
    with compare.reading("V131", "privacy.usual"):
        _check_usual(compare, plan, total, stated["usual"])
    plans, facts = session.plans_below, session.facts_below
    own = derive_privacy(session.plan, {p: (plans[p], facts[p]) for p in plans}, session.tree)
    _check_secrets(compare, plan, own, stated)
    with compare.reading("V136", "privacy.everything_released"):
        copy = session.plan.measured is not None
        check_everything_released(compare, session.ledger, stated["everything_released"], copy=copy)
    if not out.ok:
        return f"{out.n_failed} of {out.n_checked} statements about privacy do not follow from the files"
    open_rows = sum(change.status != "disclosed" for change in own.changes)
    loss = exact_text(plan.loss)
    said = f"{plan.loss_name} {loss}" if len(loss) < 40 else plan.loss_name
    if pairs:
        said = "epsilon and delta"
    return (
        f"{said} as planned; {open_rows} of {len(own.changes)} secrets have a loss, the first at most "
        f"{stated['secrets'][0]['right_in_100']} right choices in 100, computed anew"
    )


def _check_usual(compare: Comparison, plan: PlanFile, loss: Fraction, stated: dict[str, Any]) -> None:
    literal = {key: stated[key] for key in stated if key != "epsilon"}
    compare.same("V131", "privacy.usual", _USUAL[plan.loss_name], literal)
    at = exact_text(plan.delta) if plan.loss_name == "epsilon_delta" else "1e-10"
    if at not in stated["epsilon"] or (at != "1e-10" and len(stated["epsilon"]) > 1):
        raise ValueError(f"it states no epsilon at delta {at}, or at others")
    for delta, text in stated["epsilon"].items():
        true = usual_formula(loss, digits_of(delta)) if plan.loss_name == "rho" else loss
        if not true * (1 - ROUNDED) <= read_decimal(text) <= true + USUAL_SLACK:
            line = "is not what the plan's loss implies"
            compare.wrong("V131", f"privacy.usual at {delta}", line, twelve_digits(true), text)


def _check_secrets(compare: Comparison, plan: PlanFile, own: DerivedPrivacy, stated: dict[str, Any]) -> None:
    compare.same("V133", "privacy.conditional_on", list(own.conditional_on), stated.get("conditional_on"))
    compare.read_deltas(stated.get("secrets"), pure=plan.loss_name != "rho")
    if own.losses[0] is None:
        compare.wrong("V133", "privacy", "speaks of neighbours that no two data sets can be")
        return
    whole = "chain" if len(own.steps) > 1 else "release"
    rows = _expected_statements(plan, own, own.losses, whole)
    compare.rows("V133", "privacy.secrets", stated.get("secrets"), rows)
    with compare.reading("V132", "privacy.secrets[0]"):
        first = stated["secrets"][0]
        compare.same("V132", "privacy.epsilon", first["epsilon"], stated.get("epsilon"))
        compare.same("V134", "privacy.sentence", first["sentence"], stated.get("sentence"))
        compare.curve(stated.get("curve"), own.losses[0], first["method"])
    if plan.loss_name == "epsilon_delta":
        with compare.reading("V132", "privacy.composed"):
            _check_composed(compare, own, stated["composed"])
    with compare.reading("V135", "privacy.steps"):
        steps = own.steps if len(own.steps) > 1 else ()
        heads = [{"release": release, "plan_hash": plan_hash} for release, plan_hash, _ in steps]
        found = [{key: step[key] for key in step if key != "secrets"} for step in stated["steps"]]
        if compare.same("V135", "privacy.steps", heads, found):
            for i, (_, _, losses) in enumerate(steps):
                rows = _expected_statements(plan, own, losses, "step")
                compare.rows("V135", f"privacy.steps[{i}].secrets", stated["steps"][i].get("secrets"), rows)


def _check_composed(compare: Comparison, own: DerivedPrivacy, stated: list[dict[str, str]]) -> None:
    """Refuse deltas at quarters of epsilon that composed losses do not give: too small ones, and vague ones."""
    total = sum((epsilon * count for _, epsilon, count in own.first), Fraction(0))
    points = [total * quarter for quarter in QUARTERS]
    heads = [{key: one[key] for key in one if key != "delta"} for one in stated]
    if not compare.same(
        "V132", "privacy.composed: its epsilons", [{"epsilon": exact_text(p)} for p in points], heads
    ):
        return
    parts = [(weights, count) for weights, _, count in own.first]
    shares = [epsilon / total for _, epsilon, _ in own.first]
    for point, one in zip(points, stated, strict=True):
        low, high = delta_between(parts, shares, total, point)
        compare.out.n_checked += 1
        if not low <= float(read_decimal(one["delta"])) <= high:
            line, place = "is not between the sums found here", f"privacy.composed at {exact_text(point)}"
            compare.wrong("V132", place, line, f"{low:.6g} .. {high:.6g}", one["delta"])


def _expected_statements(
    plan: PlanFile, own: DerivedPrivacy, losses: tuple[ChangeLoss | None, ...], reads: str
) -> list[StatedRow]:
    unit, out = plan.schema.unit, []
    for change, loss in zip(own.changes, losses, strict=True):
        head = {
            "name": row_name(change.kind, change.of, unit),
            "kind": change.kind,
            "status": change.status,
            "exact": list(change.exact),
        }
        exact = change.exact if change.status == "conditional" else ()
        said = f"disclosed by: {', '.join(change.exact)}"
        say = partial(
            change_sentence, change.kind, change.of, unit, exact, public_facts=own.public_facts, reads=reads
        )
        out.append(StatedRow(head, loss, said if loss is None else say))
    return out


def check_everything_released(
    compare: Comparison,
    ledger: LedgerFile,
    stated: dict[str, Any],
    place: str = "privacy.everything_released",
    *,
    copy: bool = False,
) -> None:
    """Refuse what is stated of a whole ledger and does not follow from it.

    Args:
        compare: collects findings.
        ledger: as read.
        stated: the section of a certificate.
        place: its name there.
        copy: whether the ledger may be an older copy, as that of a release that solves another's measurement.
    """
    first = next(line for line in ledger.lines if isinstance(line, Opened))
    live = ledger.live
    exact = list(dict.fromkeys(name for intent in live for name in intent.exact))
    charged = {kind: exact_text(loss) for kind, loss in ledger.charged.items()}
    more = {"charged_delta": exact_text(ledger.charged_delta)} if ledger.charged_delta else {}
    compare.same("V136", f"{place}: its keys", sorted((*_LEDGER_KEYS, *more)), sorted(stated))
    for key, expected in (
        *more.items(),
        ("ledger", first.ledger),
        ("up_to", ledger.up_to),
        ("limits", ledger.limits),
        ("attestations", ledger.attestations),
        ("refunds", ledger.refunds),
        ("data_set", first.data_set),
        ("neighbours", first.neighbours),
        ("unit", first.unit),
        ("charged", charged),
        ("conditional_on", exact),
    ):
        compare.same("V136", f"{place}.{key}", expected, stated.get(key))
    rows = []
    known = RELATIONS.get(first.neighbours)
    of_steps = (("step", first.neighbours),)  # a relation that is named by its steps has itself alone
    for kind, about in (known.stated if known else of_steps) if live else ():
        loss = _everything(live, about)
        if loss is not None:
            head = {"name": row_name(kind, about, first.unit), "kind": kind}
            said = partial(ledger_sentence, kind, about, ledger.readers(first, copy=copy), first.unit, exact)
            rows.append(StatedRow(head, loss, said, loss.stated_at))
    compare.rows("V136", f"{place}.secrets", stated.get("secrets"), rows)


def _everything(live: Sequence[Charge], about: str) -> ChangeLoss | None:
    """Return the loss of all charges to a change of one relation; None where one of them says nothing of it."""
    moved, responses = [], []
    for charge in live:
        times = changes_needed(about, charge.neighbours)
        if times is None:
            return None
        moved += [
            (x.law, MovedCounts(x.scale, x.shift, times * x.coordinates, fraction(x.delta), x.weights))
            for x in charge.laws
        ]
        if isinstance(charge, Choice):
            responses.append(charge.response(times))
    return composed_loss(moved, responses)
