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
    Schema, Geography   values that a plan is made of without files: Schema.from_lists, Geography.from_table
    Settings, Budget, Invariants   shares and queries, how much in all, what stays exact: what a run file says
    plan           levels, queries, noise and exact cost (Planned: summary, compare, errors, budget_grid, tune,
                   implied, write)
    simulate       errors by level and query over replicates of a seed, on made-up or public records
    noise          noise for one answer, apart from any release: Gaussian, geometric, or the best there is (Noise)
    account        what mechanisms of any kinds cost together: noise, choices, pure epsilons (Account)
    select         a private choice: planned by it, charged and drawn by what it returns (PlannedChoice)
    Composition    exact privacy loss of any measurements; every answer is an Enclosure of the true value

The release
    generate       spends the budget once, and writes a release that passes its own checks
    extend         adds attributes to a release and keeps its table
    resolve        solves the measurement of a release in another way: no noise, no charge
    Release        reads one: table, measurements, estimates, interval, microdata, certificate

Checks
    verify         every check of a release, from its files alone; solve=True also solves it again
    audit          privacy loss of a plan or release, in proved bounds; audit_ledger: of everything charged
    audit_runs     runs the drawing code and holds what an attacker gets right against the claim
    evaluate       errors against the confidential records; the result is CONFIDENTIAL

Records, leaves and truths may be data frames (pandas, polars, Arrow) in place of files; nothing of a frame is written.
Counts and standard deviations are in records; losses, budgets and variances are exact numbers, never floats; what is
only asked about may be a float, and is the decimal that was typed: 0.95 is 19/20. What is
wrong is raised as a TopdownError: code, fix and details say what, where and what to do, and a note what was spent.
`report` is a function that gets each Event, or a class of bars such as tqdm's.

help(topdown.generate) prints the arguments and errors of a function. docs/how-to/python.md shows them at work, and
examples/gallery.ipynb is a notebook of it.
"""

from __future__ import annotations

import sys
from types import ModuleType

from topdown.lazy import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from topdown.app.audits import Account, Audit, account, audit, audit_ledger, audit_runs
    from topdown.app.check_release import evaluate, verify
    from topdown.app.make_release import extend, generate
    from topdown.app.noise_law import Noise, noise
    from topdown.app.planned import Planned, plan
    from topdown.app.private_choice import PlannedChoice, select
    from topdown.app.read_release import Release
    from topdown.app.resolve_release import resolve
    from topdown.app.trials import simulate, synth
    from topdown.errors import TopdownError
    from topdown.formats.accuracy_documents import Evaluation, SimulationErrors
    from topdown.formats.command_documents import GenerateResult
    from topdown.formats.privacy_documents import AuditLedger
    from topdown.model import Geography, Invariants, Schema
    from topdown.plan.settings import Budget, Settings
    from topdown.practice.synth import SynthResult
    from topdown.privacy import Enclosure
    from topdown.privacy.accountant import Composition
    from topdown.progress import Event
    from topdown.verify import VerifyResult

__version__ = "0.1.0"

__all__ = [
    "Account",
    "Audit",
    "AuditLedger",
    "Budget",
    "Composition",
    "Enclosure",
    "Evaluation",
    "Event",
    "GenerateResult",
    "Geography",
    "Invariants",
    "Noise",
    "Planned",
    "PlannedChoice",
    "Release",
    "Schema",
    "Settings",
    "SimulationErrors",
    "SynthResult",
    "TopdownError",
    "VerifyResult",
    "account",
    "audit",
    "audit_ledger",
    "audit_runs",
    "evaluate",
    "extend",
    "generate",
    "noise",
    "plan",
    "resolve",
    "select",
    "simulate",
    "synth",
    "verify",
]


__getattr__ = lazy_face(__name__, __file__)


def __dir__() -> list[str]:
    """List the public names."""
    return [*__all__, "__version__"]


class _Front(ModuleType):
    """Keeps public names what they are: importing the room `topdown/plan` would put it in the place of `plan`."""

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, but put no room in the place of a function."""
        if name not in __all__ or not isinstance(value, ModuleType):
            ModuleType.__setattr__(self, name, value)


sys.modules[__name__].__class__ = _Front
