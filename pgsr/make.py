"""Make one release of group sizes: check, rehearse, then simulate, or charge and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgsr import _engine
from pgsr.budget import Calibration, Noise, calibrate
from pgsr.charge import tells_what_was_spent
from pgsr.folder import MEASUREMENTS, check_folder
from pgsr.groups import Sizes, check_totals, leaf_counts
from pgsr.hierarchy import Hierarchy, Ints
from pgsr.ledger import DATA_SET, UNIT, default_steps, ledger_place, refuse_unnamed
from pgsr.mechanism import mechanism_named, vector_kind
from pgsr.numbers import fraction
from pgsr.prepared import Prepared, Release, check_shape
from pgsr.read import origin_of_groups, read_groups, read_hierarchy
from pgsr.rehearse import refuse_unverifiable
from pgsr.run import Policy, run_release
from pgsr.statement import privacy, refuse_empty_promise
from pgsr.vectors import Relation
from pgsr.write import contents, hash_of, plan_sections, publish
from topdown.errors import ConfigError, DataError
from topdown.held import held
from topdown.ledger.durable import Disk
from topdown.made_up import Origin
from topdown.outputs import refuse_inside, refuse_needed
from topdown.progress import Event, Report, silent

MOST_TEXT = 500


@tells_what_was_spent
def release(
    groups: Path | str | Mapping[str, Sequence[Any]],
    hierarchy: Hierarchy | Path | str,
    mechanism: str = "tracking",
    epsilon: object = None,
    *,
    n_sizes: int,
    smallest: int = 1,
    too_large: str = "refuse",
    total: int | None = None,
    public: Mapping[str, int] | None = None,
    shares: Sequence[object] | None = None,
    noise: Noise = "geometric",
    rho: object = None,
    relations: tuple[Relation, ...] | None = None,
    unit: str = UNIT,
    direction: str = "tail",
    calibration: str = "correct",
    out: Path | str | None = None,
    ledger: Path | str | None = None,
    ledger_id: str = "",
    witness: Path | str | None = None,
    data_set: str = DATA_SET,
    limit: object = None,
    limit_reason: str = "",
    simulate: int | None = None,
    truth_is_public: str = "",
    again: bool = False,
    resume: bool = False,
    ignore: Sequence[str] = (),
    report: Report = silent,
    disk: Disk | None = None,
) -> Release:
    """Release the number of groups of every size in every region of a hierarchy.

    The data are checked completely before the ledger is opened; the ledger holds a durable intent before the
    first bit of noise is drawn, the hash of every noisy part before it may be read, and a commit before anything is
    made of them (see `run.run_release`).

    Args:
        groups: file or columns: user, unit, region, quantity; or unit, region, size; or region, size, count.
        hierarchy: a Hierarchy, or a file with columns region, parent, level.
        mechanism: see `mechanism.MECHANISMS`.
        epsilon: exact budget ("1/2", Fraction) of pure differential privacy; with Gaussian noise give `rho`.
        n_sizes, smallest, too_large: see `Sizes`; public, so never taken from the data.
        total, public: number of groups G and of some regions, public; checked against the data.
        shares: share of the budget of each level, root first; default equal.
        noise, rho: "gaussian" measures with discrete Gaussian noise under a zCDP budget.
        relations: neighbour steps that the noise covers: "move" (a group's size changes by one), "new" (one person
            founds a group), "dropped" (a group of the last size disappears). G is published exactly, so only
            "move" is protected; it must be among them. Default: move, and new where groups of size 0 are not listed.
        unit: who adds one to the size of a group, in one word.
        direction: sums over sizes from the largest ("tail", default) or the smallest ("cumulative").
        calibration: "published" reproduces the paper's noise for M_c^ch, which is NOT private as claimed; only
            with `simulate`, and stamped NOT-A-RELEASE.
        out: folder to write; only a simulation may stay in memory (None).
        ledger, ledger_id, witness, data_set: ledger of the data set, which must exist (see `new_ledger`), by default
            beside the file of groups.
        limit, limit_reason: the most that may ever be charged to it (default: this release's loss, parts that a
            crash tore included), and why.
        simulate: seed of a simulation, stamped NOT-A-RELEASE and not charged: of made-up groups (a file marked
            by `pgsr synth`) or public ones only.
        truth_is_public: of a simulation: why groups without a mark are public; stamped on the result.
        again: release although the ledger holds this very plan already.
        resume: go on with a run that was interrupted in `out`, with the noise that is whole; a part that was begun and
            is not whole is charged again.
        ignore: columns of the tables that are there and not read; any other is refused.
        report: called with progress.
        disk: another model of the disk, for tests.

    Raises:
        TopdownError: its details say what this run has spent: nothing, unless noise may have been drawn. C121 if a
            simulation's groups are not known to be made up or public.
        KeyboardInterrupt: between two parts; its note says what is spent.
    """
    chosen = mechanism_named(mechanism)
    budget = _budget(noise, epsilon, rho)
    sizes = Sizes(n_sizes, smallest, too_large)
    regions = hierarchy if isinstance(hierarchy, Hierarchy) else read_hierarchy(Path(hierarchy), ignore)
    check_shape(regions, sizes)
    kind = vector_kind(chosen, direction)
    steps = default_steps(smallest) if relations is None else relations
    noise_plan = calibrate(
        kind,
        regions.tree,
        n_sizes,
        budget,
        noise=noise,
        shares=shares,
        relations=steps,
        smallest=smallest,
        calibration=calibration,
    )
    refuse_empty_promise(kind, noise_plan.relations, regions.tree, n_sizes)
    _refuse_unsafe(noise_plan, simulate)
    source = None if isinstance(groups, Mapping) else Path(groups)
    policy = Policy(
        None if limit is None else fraction("limit", limit), checked_reason(limit_reason), again, resume
    )
    folder = None if out is None else Path(out)
    if folder is not None:
        check_folder(folder, resumable=simulate is None)
    origin = None if simulate is None else origin_of_groups(groups, truth_is_public)
    report(Event("check", 0, 1))
    table = groups if isinstance(groups, Mapping) else read_groups(Path(groups), ignore)
    leaves = leaf_counts(table, regions, sizes, source, ignore)
    exact_total = check_totals(leaves, regions, total, public)
    report(Event("check", 1, 1))
    stated = privacy(kind, regions.tree, sizes, noise_plan, public or {}, unit)
    sections = plan_sections(regions, sizes, exact_total, public or {}, chosen, kind, noise_plan, stated)
    plan = Prepared(regions, sizes, exact_total, chosen, kind, noise_plan, sections, hash_of(sections))
    if simulate is not None:
        return _simulated(plan, leaves, simulate, origin, folder, report)
    place = ledger_place(
        source,
        data_set=data_set,
        relations=noise_plan.relations,
        smallest=smallest,
        unit=unit,
        noise=noise,
        ledger=ledger,
        ledger_id=ledger_id,
        witness=witness,
    )
    refuse_unnamed(place)
    if folder is None:
        raise ConfigError(
            "a release that is charged needs a folder: what is paid for must outlive a crash",
            code="C174",
            fix="give out=, or simulate=SEED",
        )
    read = [source] if source else []
    read += [] if isinstance(hierarchy, Hierarchy) else [Path(hierarchy)]
    refuse_inside(folder, "out", (place.path, place.witness_folder, *read))
    refuse_needed(place.path, "ledger", read)
    refuse_unverifiable(plan)
    return run_release(plan, plan.truth(leaves), place, folder, policy, report, disk or Disk())


def _simulated(
    plan: Prepared, leaves: Ints, seed: int, origin: Origin | None, folder: Path | None, report: Report
) -> Release:
    """Draw seeded noise, which protects nobody and is not charged, and write it to a folder that says so."""
    report(Event("measure", 0, 1))
    noisy = _engine.NoiseSource(seed).add(plan.truth(leaves), plan.calibration, plan.hierarchy.tree)
    report(Event("measure", 1, 1))
    made = plan.made_of(noisy, seed=seed, origin=origin)
    report(Event("solve", 1, 1))
    if folder is None:
        return made
    disk = Disk()
    try:
        with held(folder, disk, MEASUREMENTS):
            publish(made, folder, contents(made), disk)
    except OSError as error:
        where = str(error.filename or folder)
        raise DataError(
            f"cannot write {where}: {error.strerror}",
            code="D050",
            file=where,
            fix="make room or correct the rights",
        ) from None
    return replace(made, folder=folder)


def _budget(noise: str, epsilon: object, rho: object) -> object:
    wanted, other = (rho, epsilon) if noise == "gaussian" else (epsilon, rho)
    name = "rho" if noise == "gaussian" else "epsilon"
    if wanted is None or other is not None:
        raise ConfigError(
            f"{noise} noise needs {name} and nothing else", code="C161", fix=f'give {name}="1/2"'
        )
    return wanted


def _refuse_unsafe(plan: Calibration, simulate: int | None) -> None:
    if plan.name == "published" and simulate is None:
        raise ConfigError(
            f"the published calibration claims {plan.claimed} but costs {plan.loss}: it is not private",
            code="C162",
            fix="use the correct calibration; to reproduce the paper add a simulation seed (--simulate 1)",
        )


def checked_reason(text: str) -> str:
    """Return why a limit is what it is, if a ledger can hold it (ConfigError C166)."""
    if len(text) > MOST_TEXT or not text.isprintable():
        raise ConfigError(
            f"the reason of the limit is longer than {MOST_TEXT} characters, or has one that cannot be printed",
            code="C166",
            fix="say it in one line",
        )
    return text
