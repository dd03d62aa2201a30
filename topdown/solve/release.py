"""Solve a measured release from its folder; what the folder holds decides the result to the last byte."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from topdown import __version__
from topdown.plan.prepare import Context
from topdown.progress import Report, silent
from topdown.solve.checkpoints import Checkpoints
from topdown.solve.descend import Descent
from topdown.solve.digest import inputs_sha256, records_sha256
from topdown.solve.exact import exact_tables, exact_totals
from topdown.solve.extend.answers import ListedAnswers
from topdown.solve.extend.descend import Extension
from topdown.solve.extend.patterns import find_patterns
from topdown.solve.measurements import MeasurementReader
from topdown.solve.solve import Solved, descend, numbers_of, said_of_estimates, solved
from topdown.solve.walk import Walk
from topdown.workers import Place

_COMPUTING = ("numpy", "scipy", "numba", "ortools")


def open_release(release: Path, context: Context) -> Walk:
    """Return the solver of a release, plain or extension, that reads its measurements.

    Raises:
        CertificateError: V020 measurements or exact statistics are missing, altered or of another plan.
        InfeasibleError: I020 the base table has no extension at some leaf.
    """
    if context.plan.base is not None:
        return Extension(context, ListedAnswers(release, context), find_patterns(context))
    reader = MeasurementReader(release, context)
    values = reader.exact()
    return Descent(context, reader, exact_totals(context, values), tables=exact_tables(context, values))


def solve_folder(
    release: Path,
    context: Context,
    *,
    descent: Walk | None = None,
    work: Path | None = None,
    workers: Place = 1,
    report: Report = silent,
) -> Solved:
    """Solve a measured release; its document names what it was made from and what came out.

    Writes nothing but finished parts to `work`, and goes on from those that lie there.

    Args:
        release: folder with plan, public facts and measurements. context: of that plan.
        descent: from `open_release`, if it is there already.
        work: folder of finished parts (`Checkpoints`); None: nothing is kept.
        workers, report: see `solve`.
    """
    descent = descent or open_release(release, context)
    inputs = inputs_sha256(release, context.plan)
    kept = None if work is None else Checkpoints(work, made_from(context.plan.plan_hash, inputs))
    leaves, tally = descend(descent, context, workers, report, kept)
    out = replace(solved(context, leaves, tally), numbers=numbers_of(descent))
    out.document.update(said_of_estimates(descent))
    out.document["inputs_sha256"] = inputs
    out.document["records_sha256"] = records_sha256(out.leaves)
    if context.plan.base is not None:
        out.document["staged"] = True
    return out


def made_from(plan_hash: str, inputs: str) -> dict[str, str]:
    """Return what decides a solve to the last byte on one machine: what it reads, and the programs that compute."""
    programs = ["topdown " + __version__, *(f"{name} {version(name)}" for name in _COMPUTING)]
    return {"plan_hash": plan_hash, "inputs_sha256": inputs, "programs": ", ".join(programs)}
