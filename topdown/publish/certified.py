"""The certified privacy loss of a plan together with the releases it extends: enclosures, never a bare number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from topdown.errors import InternalError
from topdown.plan.secrets import ReleaseChain

if TYPE_CHECKING:
    from topdown.accountant.semantics import Claim, Loss
    from topdown.accountant.statements import ChainStep, Words

DELTA = "1e-10"


def statement_of(policy: ReleaseChain, deltas: Sequence[str] = (DELTA,)) -> dict[str, Any]:
    """Return every row that can be said of a release (see `statement`), and `conditional_on`."""
    from topdown.accountant.statements import statement

    said = statement(steps_of(policy), claims_of(policy), deltas, words=words_of(policy))
    return said | {"conditional_on": list(policy.conditional_on)}


def certified_privacy(policy: ReleaseChain) -> dict[str, Any]:
    """Return what the certificate adds to the plan's exact loss.

    `epsilon` (of the first secret) by delta, `curve` (power of the best attack on it by false-alarm rate), `secrets`,
    `steps`, `conditional_on` and `sentence`, every number an enclosure [low, high] of decimal strings; of a pair also
    `composed`.
    """
    said = statement_of(policy)
    kept = ("curve", "secrets", "steps", "conditional_on", "sentence")
    more = {key: said[key] for key in ("composed",) if key in said}
    return {"epsilon": said["secrets"][0]["epsilon"]} | {key: said[key] for key in kept} | more


def certified_loss(policy: ReleaseChain) -> dict[str, Any]:
    """Return the row of the neighbours' own secret with the releases that are extended.

    Two more keys: `alone`, the same without those releases (None if there are none), and `replaced`, the row of a
    replaced record (None where that is the first row).
    """
    from topdown.accountant.statements import secret_rows

    steps, claims, words = steps_of(policy), claims_of(policy), words_of(policy)
    n = 2 if claims[0].kind == "presence" else 1
    everything = [m for s in steps for m in s.measurements]
    rows = secret_rows(everything, claims[:n], (DELTA,), words=words.of_all(len(steps)))
    alone = (
        secret_rows(steps[-1].measurements, claims[:1], (DELTA,), words=words.of_one())
        if len(steps) > 1
        else [None]
    )
    return rows[0] | {"alone": alone[0], "replaced": rows[1] if n == 2 else None}


def composed_loss(policy: ReleaseChain) -> dict[str, Any]:
    """Return what `statement` says of composed losses, of a pair; nothing for another loss."""
    from topdown.accountant.approximate import PairLoss
    from topdown.accountant.statements import composed

    first = first_loss(policy) if policy.plan.delta else None
    return composed(first) if isinstance(first, PairLoss) else {}


def first_loss(policy: ReleaseChain) -> Loss:
    """Return the loss that the trade-off curve is drawn of."""
    from topdown.accountant.semantics import secrets

    steps = steps_of(policy)
    loss = secrets([m for s in steps for m in s.measurements], claims_of(policy)[:1])[0].loss
    if loss is None:
        raise InternalError("a plan whose neighbours all differ in what is exact was not refused")
    return loss


def steps_of(policy: ReleaseChain) -> tuple[ChainStep, ...]:
    """Return what each release measures, in attributes of the newest; oldest first."""
    from topdown.accountant.semantics import Measurement
    from topdown.accountant.statements import ChainStep

    out = []
    for plan, reading in policy.steps:
        rows = []
        for depth, level in enumerate(plan.levels):
            for m in level.measurements:
                touched = frozenset(reading[name][0] for name in plan.query(m.query).attributes)
                noise = (m.parameter, m.law, m.count_delta, m.whole_weights)
                rows.append(Measurement(depth, level.name, m.query, touched, *noise))
        out.append(ChainStep(plan.release.id, plan.plan_hash, tuple(rows)))
    return tuple(out)


def claims_of(policy: ReleaseChain) -> tuple[Claim, ...]:
    """Return what exact statistics say of each change."""
    from topdown.accountant.semantics import Claim

    depth = {name: i for i, name in enumerate(policy.geography.level_names)}
    return tuple(
        Claim(c.kind, c.of, c.status, c.exact, depth[c.of] if c.kind == "within_level" else -1)
        for c in policy.changes
    )


def words_of(policy: ReleaseChain) -> Words:
    """Return what sentences about a release speak of."""
    from topdown.accountant.statements import Words

    return Words(policy.plan.schema.unit, policy.has_public_facts)
