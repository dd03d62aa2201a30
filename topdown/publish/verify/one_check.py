"""Run one check; whatever the files hold, the answer is a result and never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from topdown.errors import InternalError
from topdown.publish.verify.once import NotAvailableError
from topdown.publish.verify.reader import UnreadableError
from topdown.publish.verify.result import CheckResult, Finding, Findings
from topdown.publish.verify.session import Session

Check = Callable[[Session, Findings], str]
KILLED = "X046"  # a process that looked at a section, too often


def run_check(session: Session, name: str, check: Check) -> CheckResult:
    """Return what a check found; a file it cannot use is a finding, reported once by the check that owns it."""
    start, out = perf_counter(), Findings()
    try:
        text = check(session, out)
    except NotAvailableError as error:
        text = _not_available(name, error, out)
    except UnreadableError as error:
        out.add(error.finding)
        text = error.finding.text
    except Exception as error:  # the promise: a finding, never a traceback
        if isinstance(error, InternalError) and error.code == KILLED:  # that says nothing of the files
            raise
        text = f"not checked because the files cannot be read as documented ({type(error).__name__})"
        out.add(Finding("V199", text, why="the files are damaged, or this verifier has a fault"))
    out.n_checked = max(out.n_checked, out.n_failed, 1 if out.n_findings else 0)
    return out.close(name, text, perf_counter() - start + out.seconds)


def _not_available(name: str, error: NotAvailableError, out: Findings) -> str:
    if error.owner == name:
        out.add(error.finding)
        return error.finding.text
    text = f"not checked because {error.finding.text}"
    why = f"it needs what the check '{error.owner}' found unusable ({error.finding.code})"
    fix = f"look at the check '{error.owner}' first"
    out.add(Finding("V150", text, file=error.finding.file, why=why, fix=fix))
    return text
