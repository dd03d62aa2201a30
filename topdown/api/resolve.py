"""Resolve: another release from the same measurement, solved in another way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from topdown.api.call import PathText, checked, place, public
from topdown.progress import Report, silent

if TYPE_CHECKING:
    from topdown.accountant.exact import Exact
    from topdown.run_result import GenerateResult
    from topdown.workers import Where


@public
def resolve(
    release: PathText,
    out: PathText,
    *,
    settings: PathText | None = None,
    targets: Literal["own", "tree"] | None = None,
    coverage: Exact | None = None,
    name: str = "resolved",
    ledger: PathText | None = None,
    workers: Where = 1,
    csv: bool = False,
    report: Report = silent,
) -> GenerateResult:
    """Make another release from the measurement of one: other passes, rounding or estimates, the same noisy numbers.

    Nothing is drawn or charged, and no confidential file is opened. What is said of privacy is what is said of the
    first release; whoever reads both learns nothing that the measurement in both does not tell. The new release says
    whose measurement it is, carries the plan that was charged, and `verify` compares the two. If you choose settings by
    looking at results, the chances of its intervals are no longer what they say.

    Args:
        release: folder of a release, or of a measurement that is whole.
        out: new or empty folder; after an interrupt the same call goes on in it.
        settings: settings file, or bundled name: passes, rounding chains and [estimates] are taken from it. Its budget,
            shares and queries must be those that were measured; its invariants are not read.
        targets: "own" fits every area to its own numbers, "tree" to the estimate of the whole tree.
        coverage: of intervals in the tables, exact, 1/2 .. 9999/10000.
        name: the new release is called by the id of the one that was measured, "-" and this.
        ledger: of the data set; the copy in `release` if None.
        workers, csv, report: see `generate`.

    Raises:
        ConfigError: C251 the settings ask for another measurement, C252 nothing would be different, C253 the release
            extends another one, C085 `out` is not empty, C088 no release or no ledger, C122 a simulation.
        CertificateError: the measurement is damaged or was not paid for; V900 the new release fails its verification.
        InfeasibleError: the constraints contradict each other.
    """
    from topdown.accountant.exact import rational
    from topdown.interrupt import stops_interrupt
    from topdown.made_up import refuse_simulation
    from topdown.plan.files import load_settings
    from topdown.plan.resolve import HowSolved
    from topdown.resolving import resolve as run
    from topdown.resources import find

    source, target = place(release, "release"), place(out, "out")
    refuse_simulation(source)
    found = None
    if settings is not None:
        found = load_settings(find("settings", str(place(settings, "settings")), Path.cwd()))
    wanted = None if coverage is None else rational(coverage, "coverage")
    wish = HowSolved(settings=found, targets=targets, coverage=wanted, name=name)
    book = None if ledger is None else place(ledger, "ledger")
    with stops_interrupt():
        return run(source, target, wish, ledger=book, workers=checked(workers), csv=csv, report=report)
