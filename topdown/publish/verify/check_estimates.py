"""What solve.json says of the tree estimate: there if the plan asks for one, every level named, and how it came out."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from topdown.publish.verify.reader import unreadable
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session

FILE = "solve.json"
MOST_PERSONS = 1e-6  # of distance from the normal equations


class StatedTargets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the splits into one level were fitted to."""

    level: str
    targets: Literal["own", "tree"]
    why: str


class StatedEstimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tree estimate; the last three only where it covers a level."""

    targets: tuple[StatedTargets, ...]
    dense: tuple[str, ...] | None = None
    product: tuple[str, ...] | None = None
    residual_persons: float | None = None


def check_estimates(session: Session, document: dict[str, Any], out: Findings) -> None:
    """Expect the plan's levels in order, a reason for each that is left to its own measurements, and a small residual.

    Raises:
        UnreadableError: V120 the part of solve.json is not as documented.
    """
    plan, stated = session.plan, document.get("statistics")
    if (stated is not None) != plan.fits_tree:
        out.add(
            Finding(
                "V122", "solve.json and plan.json disagree on whether there is a tree estimate", file=FILE
            )
        )
    if stated is None:
        return
    try:
        found = msgspec.convert(stated, StatedEstimate, strict=True)
    except (ValueError, TypeError) as error:
        raise unreadable("V120", FILE, f"is not as documented: {str(error)[:120]}") from None
    covered = any(at.targets == "tree" for at in found.targets)
    whole = all(part is not None for part in (found.dense, found.product, found.residual_persons))
    names = tuple(at.level for at in found.targets)
    if names != tuple(level.name for level in plan.doc.levels) or covered != whole:
        out.add(Finding("V122", "solve.json does not say of every level what it was fitted to", file=FILE))
    if any((at.targets == "tree") == bool(at.why) for at in found.targets):
        out.add(Finding("V122", "solve.json leaves out why a level has its own measurements only", file=FILE))
    far = found.residual_persons
    if far is not None and not 0 <= far <= MOST_PERSONS:
        out.warnings.append(f"the tree estimate is {far:.1e} persons from its normal equations")
