"""Check `comparisons`: soft rules between two sets of cells are kept at every leaf, or named where they are not."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topdown.publish.verify.areas import Areas
from topdown.publish.verify.check_solver import FILE, load_solved
from topdown.publish.verify.parquet_file import TEXT
from topdown.publish.verify.reader import unreadable
from topdown.publish.verify.result import MAX_FINDINGS, Finding, Findings
from topdown.publish.verify.session import Session


class _Doc(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ComparedLevel(_Doc, frozen=True):
    """How many splits of a level were solved again for soft rules, without them, and which nodes broke one."""

    level: str
    n_enforced: int
    n_dropped: int
    n_broken: int


class Repair(_Doc, frozen=True):
    """A leaf whose records were changed, as few as possible, so that it keeps the rules."""

    node: str
    distance: int
    marginals_kept: bool
    proved: bool
    constraints: tuple[str, ...]


class Broken(_Doc, frozen=True):
    """A leaf that no change could make keep the rules, or, if that is not proved, none that was found."""

    node: str
    proved: bool
    constraints: tuple[str, ...]


class Compared(_Doc, frozen=True):
    """The section `comparisons` of solve.json."""

    levels: tuple[ComparedLevel, ...]
    repairs: tuple[Repair, ...]
    broken: tuple[Broken, ...]


def load_compared(session: Session) -> Compared:
    """Read what solve.json says about soft rules; UnreadableError (V120) if it is damaged."""
    document, _ = session.once("solved", "solver", lambda: load_solved(session))
    try:
        found = msgspec.convert(document.get("comparisons"), Compared, strict=True)
    except (ValueError, TypeError) as error:
        raise unreadable("V120", FILE, f"is not as documented: {str(error)[:120]}") from None
    counts = [n for level in found.levels for n in (level.n_enforced, level.n_dropped, level.n_broken)]
    if min(counts, default=0) < 0 or any(repair.distance < 1 for repair in found.repairs):
        raise unreadable("V120", FILE, "has an impossible number under comparisons")
    return found


def check_comparisons(session: Session, out: Findings) -> str:
    """Compare both sides of every soft rule at every leaf; a leaf that breaks one must be listed as such."""
    tree, stated = session.tree, _compared(session)
    if tuple(level.level for level in stated.levels) != tree.names:
        out.add(Finding("V122", "solve.json does not compare the plan's levels in order", file=FILE))
    rules = {rule.name for rule in session.plan.doc.invariants.no_more_than}
    named = [(r.node, r.constraints) for r in stated.repairs] + [
        (b.node, b.constraints) for b in stated.broken
    ]
    asked = pa.array([node for node, _ in named], TEXT)
    leaves = set(tree.geocodes[-1].filter(pc.is_in(tree.geocodes[-1], value_set=asked)).to_pylist())
    for node, names in named:
        if node not in leaves or not set(names) <= rules:
            text = "solve.json speaks of a leaf or a soft rule that does not exist"
            out.add(Finding("V122", text, FILE, node=node))
    session.looked("comparisons", out)
    n_broken = out.counts["broken"]
    if n_broken:
        out.warnings.append(f"{n_broken:,} soft rules at leaves could not be kept; solve.json lists them")
    if not out.ok:
        return f"{out.n_failed:,} of {out.n_checked:,} soft rules are not as solve.json says"
    kept = f"{out.n_checked - n_broken:,} of {out.n_checked:,} soft rules kept"
    return kept + (f", {len(stated.repairs):,} leaves repaired" if stated.repairs else "")


def _compared(session: Session) -> Compared:
    return session.once("compared", "comparisons", lambda: load_compared(session))


def comparisons_of(session: Session, areas: Areas, out: Findings) -> None:
    """Compare the sides of soft rules at some leaves."""
    rules = areas.plan.doc.invariants.no_more_than
    if not rules or not areas.has_leaves:
        return
    tree, population, stated = areas.tree, areas.population, _compared(session)
    place = {code: i for i, code in enumerate(tree.geocodes[-1].to_pylist())}
    for rule in rules:
        some = population.totals(tree, areas.n_levels - 1, areas.plan.schema.select(dict(rule.cells)))
        others = population.totals(tree, areas.n_levels - 1, areas.plan.schema.select(dict(rule.than)))
        out.n_checked += tree.n_leaves
        over = some > rule.times * others
        listed = np.zeros(tree.n_leaves, dtype=bool)
        listed[[place[b.node] for b in stated.broken if b.node in place and rule.name in b.constraints]] = (
            True
        )
        out.counts["broken"] += int((over & listed).sum())
        nodes = np.flatnonzero(over != listed)
        findings = [_differs(areas, int(i), rule.name, broken=bool(over[i])) for i in nodes[:MAX_FINDINGS]]
        out.add_many(len(nodes), findings, len(nodes))


def _differs(areas: Areas, leaf: int, name: str, *, broken: bool) -> Finding:
    node = areas.tree.code(-1, leaf)
    text = f"{node} breaks {name!r}, which is not reported" if broken else f"{node} keeps {name!r} after all"
    why = "soft rules are kept, or named where no population could keep them"
    return Finding("V112", text, areas.persons, None, node, why=why)
