"""Synth and simulate: make people up, and try a plan on them or on public records.

Nothing is ever charged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import to_builtins

from topdown.app.calls import PathText, path_of, public_function, records_source
from topdown.app.planned import Planned, opened_again
from topdown.errors import ConfigError
from topdown.formats import json_bytes
from topdown.formats.decision_pages import simulation_html
from topdown.made_up import SIMULATION, WARNING_FILE
from topdown.measure import records_form
from topdown.measure.run_ledger import create_run_ledger
from topdown.output_paths import new_folder, refuse_filled, refuse_needed, write_new
from topdown.plan.preparation import prepare
from topdown.practice import simulation as folder
from topdown.practice.simulation import DEFAULT_SEED, ErrorSums, open_simulation
from topdown.practice.synth import SynthResult, people_of_plan, write_people
from topdown.practice.synth.write_census import check_size
from topdown.practice.synth.write_census import synth as make
from topdown.progress import Event, Report, silent
from topdown.publish import written
from topdown.publish.release_files import write_bytes
from topdown.resources import report_slow_kernels
from topdown.solve.solved_parts import Tally

if TYPE_CHECKING:
    from topdown.formats.accuracy_documents import SimulationErrors
    from topdown.inputs import ArrowTable
    from topdown.practice.simulation import Replicate


@public_function
def simulate(
    run: PathText | Planned,
    truth: PathText | ArrowTable,
    *,
    seed: int | None = None,
    replicates: int = 1,
    workers: int = 1,
    truth_is_public: str = "",
    out: PathText | None = None,
    keep: bool = False,
    each: Callable[[Replicate], object] | None = None,
    report: Report = silent,
) -> SimulationErrors:
    """Show the error that releases of a plan would have; nothing is charged and nothing written is a release.

    The same seed gives the same replicates on the same library versions, with any number of workers.

    >>> import topdown
    >>> tried = topdown.simulate("town/run.toml", "town/persons.csv.gz", replicates=2)
    >>> [level.level for level in tried.levels]
    ['land', 'county', 'block']

    Args:
        run: run file, plan.json or what `topdown.plan` returned; its own records are not read.
        truth: a table that `topdown.synth` marked, the folder of a published release, or a public table: a file, a
            data frame, or anything with an Arrow C stream.
        seed: any integer; None takes 1, and the result says so.
        replicates, workers: 1 or more.
        truth_is_public: why a table without a mark is public, at least three words; stamped on the result. A data
            frame has no mark.
        out: new folder for the result; None writes nothing.
        keep: also write the microdata of each replicate there.
        each: gets every replicate, in order: its microdata as counts, its noisy answers.
        report: see `generate`.

    Returns:
        mean absolute error and bias by level and query.

    Raises:
        ConfigError: C121 the truth is not known to be made up or public, C085 `out` is not new, C097 the plan extends
            a release, C005 fewer than one replicate or worker, or `keep` without `out`, C250 `truth` is no
            table.
        DataError: the truth breaks a rule.
        InfeasibleError: the constraints contradict each other.
    """
    target = None if out is None else path_of(out, "out")
    if target is not None:
        refuse_filled(target)
    elif keep:
        raise ConfigError("there is no folder to keep replicates in", code="C005", fix="give out too")
    simulation = open_simulation(
        (run if isinstance(run, Planned) else opened_again(path_of(run, "run"))).prepared,
        records_source(truth, "truth"),
        seed=DEFAULT_SEED if seed is None else seed,
        truth_is_public=truth_is_public,
    )
    report_slow_kernels("topdown", report)
    report(Event("simulate", 0, replicates, "replicates"))
    if target is not None:
        refuse_filled(target)  # once more: it may have been filled since
        write_bytes(target / WARNING_FILE, folder.WARNING.encode("utf-8"))  # the first file there
    errors, solved = ErrorSums(simulation), Tally()
    for replicate in simulation.run(replicates, workers=workers, report=report):
        errors.add(replicate)
        solved.merge(replicate.tally)
        if target is not None and keep:
            folder.keep_replicate(target, simulation, replicate)
        if each is not None:
            each(replicate)
        report(Event("simulate", replicate.number + 1, replicates, "replicates"))
    made = folder.simulation_document(simulation, errors, replicates, solved)
    if target is not None:
        write_bytes(target / SIMULATION, json_bytes(made))
    return made


def write_simulation(made: SimulationErrors, out: Path) -> None:
    """Write the errors of a simulation as a page that says it is no release; ConfigError C080 if `out` exists."""
    documents = {"simulation.json": to_builtins(made)}
    write_new(out, simulation_html(documents, "en", written).encode())


@public_function
def synth(
    out: PathText,
    *,
    run: PathText | None = None,
    people: int = 50_000,
    schema: str = "",
    seed: int = 1,
    settings: str = "",
    levels: Sequence[str] = (),
    release_id: str = "",
    force: bool = False,
) -> SynthResult:
    """Write made-up records and areas to practise with, their run file and its ledger. Nobody in them is real.

    With `run`, the records alone: people for the areas and public facts of a run file, who keep its rules, to try its
    plan on before anything is spent. The same arguments give the same tables on every machine.

    >>> import topdown
    >>> made = topdown.synth("town", schema="toy", people=400, seed=3)
    >>> made, made.run_file.name
    (SynthResult('town', 400 made-up people), 'run.toml')
    >>> topdown.simulate(made.run_file, topdown.synth("others", run=made.run_file, people=300).records).replicates
    1

    Args:
        out: folder, made if absent.
        run: run file whose areas get people; its records are not opened. Not with schema, settings, levels or
            release_id.
        people: records, 1 to 2^31 - 1; about as many for a run file, as its rules allow.
        schema: bundled name, or path of a schema file; pl94 if empty.
        seed: nonnegative; another seed, another census.
        settings: bundled name or path; chosen by the schema if empty.
        levels: level names, root first; those of the settings if empty. "county:10000000" gives the first county
            ten million residents.
        release_id: id of the release and data set in the run file; made-up if empty.
        force: replace files that are there.

    Raises:
        ConfigError: C080 a file is there, C065 or C066 a size or level cannot be, C005 `run` beside what it says
            itself; or a file is wrong.
        BudgetError: the ledger that is there belongs to something else.
    """
    folder = path_of(out, "out")
    if run is not None:
        if schema or settings or levels or release_id:
            raise ConfigError(
                "a run file says itself which schema, settings and levels it has",
                code="C005",
                fix="leave them out, or leave the run file out",
            )
        return _people_for_run(folder, path_of(run, "run"), people, seed, force=force)
    schema = schema or "pl94"
    names = ["persons.csv.gz", "blocks.csv.gz", "run.toml"]
    if (
        schema.endswith(".toml")
        and not settings
        and not (path_of(schema, "schema").parent / "settings.toml").exists()
    ):
        names += ["settings.toml", "invariants.toml"]  # may be drafted
    _refuse_there(folder, names, force=force)
    made = make(
        folder,
        people=people,
        schema=schema,
        seed=seed,
        settings=settings,
        levels=tuple(levels),
        release_id=release_id or "made-up",
    )
    for run_file in filter(None, (made.base_run_file, made.run_file)):
        create_run_ledger(run_file)
    return made


def _refuse_there(folder: Path, names: Sequence[str], *, force: bool) -> None:
    here = [name for name in names if (folder / name).exists()]
    if here and not force:
        raise ConfigError(
            f"{folder / here[0]} exists", code="C080", fix="give another --out, or replace it with --force"
        )


def _people_for_run(folder: Path, run: Path, people: int, seed: int, *, force: bool) -> SynthResult:
    """Write people for the areas of a run file; its records and ledger are not opened."""
    check_size(people, seed)
    records = folder / "persons.csv.gz"
    _refuse_there(folder, [records.name], force=force)
    prepared = prepare(run)
    refuse_needed(records, "--out", prepared.needed)
    context, levels = prepared.context, prepared.context.geography.levels
    made = people_of_plan(context, people, seed)
    with new_folder(folder, beside_others=True) as part:
        n_rows = write_people(part / records.name, made, context, records_form(prepared.run), seed)
    return SynthResult(
        records,
        run.parent / prepared.run.input.leaves,
        run,
        made.n_records,
        tuple((level.name, len(level)) for level in levels),
        made.n_nodes - len(np.unique(made.node)),
        n_rows,
    )
