"""What `topdown plan --base` says of the release that is extended."""

from __future__ import annotations

from typing import Any

from topdown.errors import BudgetError, InternalError
from topdown.plan.bases import read_plan_document
from topdown.plan.plan import plan_from_document
from topdown.plan.prepare import Prepared
from topdown.solve.extend.patterns import Patterns


def base_summary(prepared: Prepared, patterns: Patterns) -> dict[str, Any]:
    """Describe the base release and what it leaves open."""
    base, files = prepared.context.plan.base, prepared.base
    if base is None or files is None:
        raise InternalError("this plan extends no release")
    there = plan_from_document(read_plan_document(files.plan))
    return {
        "release_id": base.release,
        "plan_hash": base.plan_hash,
        "schema": there.schema.name,
        "map": [{"base": name, "here": here} for name, here in base.map],
        "n_records": patterns.tables[0].n_records,
        "n_patterns": patterns.n_patterns,
        "n_reserved": patterns.reserves[0].n_records,
    }


def ledger_warning(prepared: Prepared) -> list[dict[str, str]]:
    """Warn if the ledger did not pay for the base release, as `topdown extend` would refuse (B020)."""
    from topdown.extending import check_one_ledger

    try:
        check_one_ledger(prepared)
    except BudgetError as error:
        return [{"code": str(error.code), "text": f"{error.text}: extend will refuse it"}]
    return []
