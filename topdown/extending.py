"""What has to hold of a release before it is extended."""

from __future__ import annotations

from pathlib import Path

from topdown.errors import BudgetError, CertificateError
from topdown.plan.prepare import Prepared
from topdown.progress import Event, Report, silent


def check_base(prepared: Prepared, base: Path, report: Report = silent) -> None:
    """Refuse an extension whose base fails its verification, was paid for elsewhere, or cannot be extended."""
    from topdown.publish.verify import verify
    from topdown.solve.extend.crossing import check_stages
    from topdown.solve.extend.patterns import find_patterns

    report(Event("base", 0, 1, "verifying the base release"))
    checks = verify(base)
    if not checks.ok:
        failed = ", ".join(check.name for check in checks.checks if not check.ok)
        raise CertificateError(
            f"the base release {base} fails its verification ({failed})",
            code="V164",
            fix=f"see: topdown verify {base}; nothing was spent",
        )
    check_one_ledger(prepared)
    check_stages(prepared.context, find_patterns(prepared.context))
    report(Event("base", 1, 1, f"{checks.n_checks} checks"))


def check_one_ledger(prepared: Prepared) -> None:
    """Refuse an extension whose base release another ledger paid for (BudgetError B020)."""
    from topdown.ledger.ledger import read_ledger

    plan, path = prepared.context.plan, prepared.ledger_path
    if plan.base is None:
        return
    book = read_ledger(path)
    paid = [book.intents[seq].plan_hash for seq in book.committed]
    if plan.base.plan_hash not in paid:
        raise BudgetError(
            f"the ledger {path} did not pay for the base release {plan.base.release}",
            code="B020",
            file=str(path),
            fix="name the ledger of the data set that the base release was made with: losses add up in one ledger",
        )
