"""The `topdown.audit.runs` document: what was shown, rounded down, beside what is claimed, rounded up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from topdown import __version__
from topdown.audit_runs.audit_runs import Audited, AuditRuns, View
from topdown.audit_runs.judge import Shown
from topdown.decimals import fixed
from topdown.documents import audit_runs as form
from topdown.model.changes import Change, Kind
from topdown.plan.prepare import Context

CODE: Final = "A053"
_DIGITS = 6


def runs_document(context: Context, found: AuditRuns, secrets: Sequence[Mapping[str, Any]]) -> form.AuditRuns:
    """Return the document of an audit by runs.

    Args:
        context: plan and public facts.
        found: by the runs.
        secrets: what is certified of each secret, in the order of the policy's changes.
    """
    changes = context.policy.changes
    name = {(c.kind, c.of): str(row["name"]) for c, row in zip(changes, secrets, strict=True)}
    rows = [_secret(c, row, found) for c, row in zip(changes, secrets, strict=True)]
    passes = found.passes and not any(isinstance(row, form.ReachedSecret) and row.exceeds for row in rows)
    return form.AuditRuns(
        engine=__version__,
        plan_hash=context.plan.plan_hash,
        neighbours=context.plan.neighbours,
        runs=found.runs,
        delta=str(found.delta),
        false_alarm=str(found.false_alarm),
        n_pairs=len(found.pairs),
        n_tests=found.n_tests,
        passes=passes,
        code=None if passes else CODE,
        secrets=rows,
        not_reached=[
            form.NotReached(secret=name[change.kind, change.of], **_place(context, target))
            for change, target in found.missing
        ],
        pairs=[_pair(context, audited, name) for audited in found.pairs],
    )


def _secret(
    change: Change, certified: Mapping[str, Any], found: AuditRuns
) -> form.ReachedSecret | form.UnreachedSecret:
    mine = [a for a in found.pairs if (a.pair.kind, a.pair.of) == (change.kind, change.of)]
    if not mine:
        return form.UnreachedSecret(name=certified["name"], status=change.status, n_pairs=0)
    tests = _tests(v for a in mine for v in a.views)
    guess = max(t.best_guess[0] for t in tests)
    epsilon = max(Fraction(t.epsilon[0]) for t in tests)
    most_guess = Fraction(certified["best_guess"][1])
    ((_, stated),) = certified["epsilon"].values()  # at one delta, or at every one
    most_epsilon = Fraction(stated)
    furthest = max(tests, key=lambda t: t.mu[0])
    return form.ReachedSecret(
        name=certified["name"],
        status=change.status,
        n_pairs=len(mine),
        exceeds=any(a.exceeds for a in mine) or guess > most_guess or epsilon > most_epsilon,
        best_guess=_both(guess, most_guess),
        mu=_both(*furthest.mu),
        epsilon=_both(epsilon, most_epsilon),
    )


def _tests(views: Iterable[View]) -> list[Shown]:
    return [t for v in views for t in v.shown]


def _pair(context: Context, audited: Audited, name: dict[tuple[Kind, str], str]) -> form.Pair:
    pair = audited.pair
    return form.Pair(
        secret=name[pair.kind, pair.of],
        from_=_record(context, pair.gone),
        to=None if pair.come is None else _record(context, pair.come),
        exceeds=audited.exceeds,
        views=[
            form.View(
                of=None if v.target is None else form.Target(**_place(context, v.target)),
                score=v.score,
                tests=[_test(t) for t in v.shown],
            )
            for v in audited.views
        ],
    )


def _record(context: Context, place: tuple[int, int]) -> form.MadeUpRecord:
    """Return a made-up record in the words of the schema."""
    leaf, cell = place
    schema, values = context.plan.schema, []
    for attribute in reversed(schema.attributes):
        cell, value = divmod(cell, len(attribute.labels))
        values.append((attribute.name, attribute.labels[value]))
    return form.MadeUpRecord(geocode=context.geography.leaves.codes[leaf], values=dict(reversed(values)))


def _place(context: Context, target: tuple[int, int]) -> dict[str, str]:
    level = context.plan.levels[target[0]]
    return {"level": level.name, "query": level.measurements[target[1]].query}


def _test(test: Shown) -> form.ThresholdTest:
    return form.ThresholdTest(
        false_alarms=fixed(test.alpha, 9, up=True),
        hits=(fixed(test.power, 9, up=False), fixed(test.most, 9, up=True)),
        best_guess=_both(*test.best_guess),
        mu=_both(*test.mu),
        epsilon=_both(*test.epsilon),
        exceeds=test.exceeds,
    )


def _both(shown: Fraction | float, claimed: Fraction | float) -> tuple[str, str]:
    """Return what is shown, rounded down, and what is claimed, rounded up: "inf" where it bounds nothing."""
    most = "inf" if claimed == math.inf else fixed(Fraction(claimed), _DIGITS, up=True)
    return fixed(Fraction(shown), _DIGITS, up=False), most
