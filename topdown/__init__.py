"""Private, consistent census releases: generate, enforce, audit.

    import topdown

    made = topdown.synth("town", schema="toy", people=2000)
    planned = topdown.plan(made.run_file)  # what a release would measure, at what cost
    topdown.generate(planned, "release")  # spends the budget once: the call is the approval
    release = topdown.Release("release")
    release.table("total", release.levels[-1])  # a pandas data frame

Every function takes paths, raises a TopdownError that says what is wrong, where and how to fix it, and does what the
command of its name does. docs/how-to/python.md shows more.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from topdown.lazy import first_use

if TYPE_CHECKING:
    from topdown.accountant.composition import Composition
    from topdown.accountant.enclosure import Enclosure
    from topdown.api.audits import Audit, audit, audit_ledger, audit_runs
    from topdown.api.checks import evaluate, verify
    from topdown.api.noise import optimal_noise
    from topdown.api.planned import Planned, plan
    from topdown.api.release import Release
    from topdown.api.releases import extend, generate
    from topdown.api.resolve import resolve
    from topdown.api.trials import simulate, synth
    from topdown.documents.audit_ledger import AuditLedger
    from topdown.documents.evaluation import Evaluation
    from topdown.documents.simulation import SimulationErrors
    from topdown.errors import TopdownError
    from topdown.progress import Event
    from topdown.publish.verify import VerifyResult
    from topdown.run_result import GenerateResult
    from topdown.synth import SynthResult

__version__ = "0.1.0"

_PLACES = {
    "Audit": "api.audits",
    "AuditLedger": "documents.audit_ledger",
    "Composition": "accountant.composition",
    "Enclosure": "accountant.enclosure",
    "Evaluation": "documents.evaluation",
    "Event": "progress",
    "GenerateResult": "run_result",
    "Planned": "api.planned",
    "Release": "api.release",
    "SimulationErrors": "documents.simulation",
    "SynthResult": "synth",
    "TopdownError": "errors",
    "VerifyResult": "publish.verify",
    "audit": "api.audits",
    "audit_ledger": "api.audits",
    "audit_runs": "api.audits",
    "evaluate": "api.checks",
    "extend": "api.releases",
    "generate": "api.releases",
    "optimal_noise": "api.noise",
    "plan": "api.planned",
    "resolve": "api.resolve",
    "simulate": "api.trials",
    "synth": "api.trials",
    "verify": "api.checks",
}

__all__ = [
    "Audit",
    "AuditLedger",
    "Composition",
    "Enclosure",
    "Evaluation",
    "Event",
    "GenerateResult",
    "Planned",
    "Release",
    "SimulationErrors",
    "SynthResult",
    "TopdownError",
    "VerifyResult",
    "audit",
    "audit_ledger",
    "audit_runs",
    "evaluate",
    "extend",
    "generate",
    "optimal_noise",
    "plan",
    "resolve",
    "simulate",
    "synth",
    "verify",
]


__getattr__ = first_use(__name__, _PLACES)


def __dir__() -> list[str]:
    """List the public names."""
    return [*__all__, "__version__"]


class _Front(ModuleType):
    """Keeps public names what they are: importing the room `topdown/plan` would put it in the place of `plan`."""

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, but put no room in the place of a function."""
        if name not in _PLACES or not isinstance(value, ModuleType):
            ModuleType.__setattr__(self, name, value)


sys.modules[__name__].__class__ = _Front
