"""Check `measured`: the plan differs from the one that was measured in how it is solved, and in nothing else."""

from __future__ import annotations

from typing import Any

import msgspec

from topdown.publish.verify.measurement_files import MEASURED_PLAN
from topdown.publish.verify.plan_doc import PlanDoc
from topdown.publish.verify.plan_file import canonical, load_plan
from topdown.publish.verify.result import Finding, Findings
from topdown.publish.verify.session import Session

CODE = "V181"
HOW_SOLVED = ("passes", "rounding")  # of a level
_WHY = (
    "the noise would be read as answers to other questions, or the release would promise what nobody measured"
)


def check_measured(session: Session, out: Findings) -> str:
    """Read the plan that was measured, and compare it with this one key by key."""
    measured = session.plan.doc.measured
    first = session.once("measured plan", "measured", lambda: load_plan(session.root, MEASURED_PLAN, CODE))
    if measured is None:
        return "measured under this plan"
    name = first.doc.release.id
    _expect(out, "the hash of the plan that was measured", measured.plan_hash, first.computed_hash)
    _expect(out, "the hash stated in it", first.computed_hash, first.doc.plan_hash)
    _expect(out, "the id of the release that was measured", measured.release, name)
    before, after = _asked(first.doc), _asked(session.plan.doc)
    for key in sorted({*before, *after}):
        _expect(out, f"its {key}", before.get(key), after.get(key))
    out.n_checked += 1
    if not session.plan.doc.release.id.startswith(f"{name}-") or first.doc.measured is not None:
        text = f"the release does not bear the name of the release {name[:80]!r}, which was measured"
        out.add(Finding(CODE, text, file="plan.json", why=_WHY))
    if out.ok:
        return f"solves the measurement of {name}, plan {first.computed_hash[:8]}, and asks for nothing else"
    return f"{out.n_failed} of {out.n_checked} values are not those that were measured"


def _asked(doc: PlanDoc) -> dict[str, Any]:
    """Return what decides a measurement and what is said of it: all of a plan but its names and how it is solved."""
    found: dict[str, Any] = msgspec.to_builtins(doc)
    for key in ("settings", "estimates", "measured", "plan_hash"):
        found.pop(key, None)
    found["release"].pop("id")
    for level in found["levels"]:
        for key in HOW_SOLVED:
            level.pop(key)
    return found


def _expect(out: Findings, what: str, expected: Any, found: Any) -> None:
    out.n_checked += 1
    if canonical(expected) != canonical(found):
        shown = [canonical(value).decode()[:80] for value in (expected, found)]
        text = f"{what} is not what was measured"
        out.add(Finding(CODE, text, "plan.json", None, None, shown[0], shown[1], _WHY))
