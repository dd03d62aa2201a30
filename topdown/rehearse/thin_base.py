"""The release that an extension builds on, at a few leaves: its published table there, its plan, a charge for it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topdown.ledger.durable import Disk
from topdown.ledger.ledger import open_ledger
from topdown.ledger.place import Place
from topdown.ledger.protocol import Spend
from topdown.ledger.records import Commit
from topdown.measure.public_side import write_public_side
from topdown.measure.run_ledger import drawn_laws
from topdown.model.geography import Geography
from topdown.model.histogram import Histogram
from topdown.model.public import PublicFacts
from topdown.plan.base import FOLDER
from topdown.plan.plan import Plan
from topdown.plan.prepare import Context, Prepared
from topdown.plan.public_files import geography_sha256, public_sha256
from topdown.plan.secrets import Extended
from topdown.publish.manifest import write_manifest
from topdown.publish.microdata import write_microdata
from topdown.rehearse import JOURNAL


def only_facts(facts: PublicFacts, leaves: NDArray[np.int64]) -> PublicFacts:
    """Return the public facts of some leaves."""
    return facts.at(leaves)


def thin_plan(plan: Plan, geography: Geography, facts: PublicFacts) -> Plan:
    """Return a plan for fewer leaves; how many nodes it measures is the least that can be said without rules."""
    levels = tuple(
        replace(level, n_nodes=len(here), n_measured=min(level.n_measured, len(here)))
        for level, here in zip(plan.levels, geography.levels, strict=True)
    )
    public, tree = public_sha256(geography, facts), geography_sha256(geography)
    return replace(plan, levels=levels, public_sha256=public, geography_sha256=tree)


def write_thin_base(
    prepared: Prepared, geography: Geography, leaves: NDArray[np.int64], folder: Path
) -> tuple[Extended, ...]:
    """Write what an extension reads of its base release, at a few leaves; return it and all it extends, oldest first.

    Args:
        prepared: of the extension.
        geography: the tree of `leaves`, int64, increasing.
        folder: of the thinned base release; is created.
    """
    thin: list[Extended] = []
    for base in prepared.context.bases:
        facts = only_facts(base.facts, leaves)
        plan = thin_plan(base.plan, geography, facts)
        if plan.base is not None:
            plan = replace(plan, base=replace(plan.base, plan_hash=thin[-1].plan.plan_hash))
        thin.append(Extended(plan, facts))
    here = folder
    for base in reversed(thin):
        write_public_side(here, replace(prepared, context=_context(base, geography), base=None), Disk())
        here /= FOLDER
    support = prepared.context.support
    if support is not None:
        write_microdata(folder, _context(thin[-1], geography), only_nodes(support.levels[-1], leaves))
    write_manifest(folder, thin[-1].plan.plan_hash)
    return tuple(thin)


def only_nodes(table: Histogram, nodes: NDArray[np.int64]) -> Histogram:
    """Return the counts of some nodes (int64, increasing), numbered anew."""
    here = np.isin(table.node, nodes)
    node = np.searchsorted(nodes, table.node[here])
    return Histogram.build(len(nodes), table.n_cells, node, table.cell[here], table.count[here])


def charge_base(place: Place, plan: Plan, limit: Fraction) -> None:
    """Charge a base release to a ledger that nobody keeps, as if it had been measured."""
    spend = Spend(
        plan.release.id, plan.plan_hash, drawn_laws(plan), tuple(e.name for e in plan.invariants.exact), limit
    )
    with open_ledger(place) as ledger:
        intent = ledger.intent(spend.intent(tuple(spend.laws), 1, JOURNAL), limit)
        ledger.commit(Commit((intent.seq,), plan.plan_hash, JOURNAL, hashlib.sha256().hexdigest()))


def _context(base: Extended, geography: Geography) -> Context:
    return Context(base.plan, geography, base.facts)
