"""Private, consistent census releases: generate, enforce, audit.

From person records, a tree of areas and rules that must hold exactly, to tables and microdata of whole people that add
up at every level. Noise is drawn once, after an exact charge to a ledger; what follows needs no confidential file.

    import topdown

    made = topdown.synth("town", schema="toy", people=2000)  # nobody in it is real
    planned = topdown.plan(made.run_file)  # what a release would measure, at what cost
    topdown.simulate(planned, made.records, replicates=20)  # how far off it would be
    topdown.generate(planned, "release")  # spends the budget once: the call is the approval
    release = topdown.Release("release")
    release.table("total", release.levels[-1])  # a pandas data frame

Before anything is spent
    synth          made-up records and areas to practise with, with their run file and ledger
    plan           levels, queries, noise and exact cost of a run file (Planned: summary, compare, budget_for)
    simulate       errors by level and query over replicates of a seed, on made-up or public records
    optimal_noise  the best noise for one answer, apart from any release
    Composition    exact privacy loss of any measurements; every answer is an Enclosure of the true value

The release
    generate       spends the budget once, and writes a release that passes its own checks
    extend         adds attributes to a release and keeps its table
    resolve        solves the measurement of a release in another way: no noise, no charge
    Release        reads one: table, arrow, microdata, estimates with standard deviations, certificate

Checks
    verify         every check of a release, from its files alone; solve=True also solves it again
    audit          exact privacy loss of a plan or release; audit_ledger: of everything ever released
    audit_runs     runs the drawing code and holds what an attacker gets right against the claim
    evaluate       errors against the confidential records; the result is CONFIDENTIAL

Records, leaves and truths may be data frames (pandas, polars, Arrow) in place of files; nothing of a frame is written.
Counts and standard deviations are in records; losses, budgets and variances are exact numbers, never floats. What is
wrong is raised as a TopdownError: code, fix and details say what, where and what to do, and a note what was spent.
`report` is a function that gets each Event, or a class of bars such as tqdm's.

help(topdown.generate) prints the arguments and errors of a function. docs/how-to/python.md shows them at work, and
examples/gallery.ipynb is a notebook of it.
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
