"""Simulate and synth: try a plan on people nobody is, or on public records. Nothing is ever charged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from topdown.api.call import PathText, place, public, source
from topdown.api.planned import Planned, opened_again
from topdown.errors import ConfigError
from topdown.progress import Event, Report, silent

if TYPE_CHECKING:
    from topdown.documents.simulation import SimulationErrors
    from topdown.frames import ArrowTable
    from topdown.simulate import Replicate
    from topdown.synth import SynthResult


@public
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
    from topdown.pipeline import warm_up
    from topdown.simulate import DEFAULT_SEED, open_simulation
    from topdown.simulate import write as folder
    from topdown.simulate.summary import ErrorSums

    target = None if out is None else place(out, "out")
    if target is not None:
        folder.check_new(target)
    elif keep:
        raise ConfigError("there is no folder to keep replicates in", code="C005", fix="give out too")
    simulation = open_simulation(
        (run if isinstance(run, Planned) else opened_again(place(run, "run"))).prepared,
        source(truth, "truth"),
        seed=DEFAULT_SEED if seed is None else seed,
        truth_is_public=truth_is_public,
    )
    warm_up(report)
    if target is not None:
        folder.begin(target)
    errors, n_failsafe = ErrorSums(simulation), 0
    for replicate in simulation.run(replicates, workers=workers):
        errors.add(replicate)
        n_failsafe += replicate.n_failsafe
        if target is not None and keep:
            folder.keep(target, simulation, replicate)
        if each is not None:
            each(replicate)
        report(Event("simulate", replicate.number + 1, replicates, "replicates"))
    made = folder.document(simulation, errors, replicates, n_failsafe)
    if target is not None:
        folder.finish(target, made)
    return made


@public
def synth(
    out: PathText,
    *,
    people: int = 50_000,
    schema: str = "pl94",
    seed: int = 1,
    settings: str = "",
    levels: Sequence[str] = (),
    release_id: str = "made-up",
    force: bool = False,
) -> SynthResult:
    """Write made-up records and areas to practise with, their run file and its ledger. Nobody in them is real.

    The same arguments give the same tables on every machine.

    Args:
        out: folder, made if absent.
        people: records, 1 to 2^31 - 1.
        schema: bundled name, or path of a schema file.
        seed: nonnegative; another seed, another census.
        settings: bundled name or path; chosen by the schema if empty.
        levels: level names, root first; those of the settings if empty. "county:10000000" gives the first county
            ten million residents.
        release_id: id of the release and data set in the run file.
        force: replace files that are there.

    Raises:
        ConfigError: C080 a file is there, C065 or C066 a size or level cannot be; or a file is wrong.
        BudgetError: the ledger that is there belongs to something else.
    """
    from topdown.measure.run_ledger import create_for_run
    from topdown.synth import synth as make

    folder = place(out, "out")
    names = ["persons.csv.gz", "blocks.csv.gz", "run.toml"]
    if (
        schema.endswith(".toml")
        and not settings
        and not (place(schema, "schema").parent / "settings.toml").exists()
    ):
        names += ["settings.toml", "invariants.toml"]  # may be drafted
    here = [name for name in names if (folder / name).exists()]
    if here and not force:
        raise ConfigError(
            f"{folder / here[0]} exists", code="C080", fix="give another --out, or replace it with --force"
        )
    made = make(
        folder,
        people=people,
        schema=schema,
        seed=seed,
        settings=settings,
        levels=tuple(levels),
        release_id=release_id,
    )
    for run_file in filter(None, (made.base_run_file, made.run_file)):
        create_for_run(run_file)
    return made
