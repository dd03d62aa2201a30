"""Make one release of group sizes: check, charge, measure, estimate, certify, write."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pgsr import _engine
from pgsr.budget import NOT_A_RELEASE, Calibration, Noise, calibrate
from pgsr.charge import tells_what_was_spent
from pgsr.groups import Sizes, check_totals, leaf_counts
from pgsr.hierarchy import Hierarchy, Ints
from pgsr.ledger import DATA_SET, UNIT, default_steps, ledger_place, spend
from pgsr.mechanism import Estimate, Mechanism, estimate, mechanism_named, vector_kind
from pgsr.numbers import fraction
from pgsr.read import origin_of_groups, read_groups, read_hierarchy
from pgsr.statement import privacy, refuse_empty_promise
from pgsr.vectors import Kind, Relation, measure_exactly
from pgsr.write import MEASUREMENTS, hash_of, plan_sections, write_release
from topdown.errors import ConfigError, InternalError
from topdown.made_up import Origin
from topdown.outputs import refuse_inside, refuse_needed
from topdown.progress import Event, Report, silent


@dataclass(frozen=True, eq=False)
class Release:
    """A release in memory.

    Args:
        counts: released counts [size][node].
        noisy: noisy answers [size][node]; public once the ledger holds the commit.
        hierarchy: the regions.
        sizes: public range of sizes.
        total: public number of groups G.
        mechanism, kind: what was run, and what it measured.
        calibration: noise and exact loss.
        estimate: counts with their certificate.
        seed: of a simulation; None for a release.
        plan: sections of the certificate that were decided before noise was drawn.
        plan_hash: SHA-256 of them.
        journal: id under which the ledger holds the charge; empty in a simulation.
        folder: where it was written, if it was.
        origin: of a simulation: why its groups may be simulated on; None for a release.
    """

    counts: Ints
    noisy: Ints
    hierarchy: Hierarchy
    sizes: Sizes
    total: int
    mechanism: Mechanism
    kind: Kind
    calibration: Calibration
    estimate: Estimate
    seed: int | None
    plan: dict[str, Any]
    plan_hash: str
    journal: str
    folder: Path | None = None
    origin: Origin | None = None

    @property
    def is_release(self) -> bool:
        """Whether the counts may leave the house as a private release."""
        return self.seed is None and self.calibration.private

    @property
    def stamp(self) -> str:
        """NOT-A-RELEASE, or empty."""
        return "" if self.is_release else NOT_A_RELEASE


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
    ignore: Sequence[str] = (),
    report: Report = silent,
) -> Release:
    """Release the number of groups of every size in every region of a hierarchy.

    The data are checked completely before the ledger is opened; the ledger holds a durable intent before the
    first bit of noise is drawn, and a commit after the files exist.

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
        out: folder to write; None keeps the release in memory.
        ledger, ledger_id, witness, data_set: ledger of the data set, which must exist (see `new_ledger`), by default
            beside the file of groups.
        limit, limit_reason: the most that may ever be charged to it (default: this release's loss), and why.
        simulate: seed of a simulation, stamped NOT-A-RELEASE and not charged: of made-up groups (a file marked
            by `pgsr synth`) or public ones only.
        truth_is_public: of a simulation: why groups without a mark are public; stamped on the result.
        again: release although the ledger holds this very plan already.
        ignore: columns of the tables that are there and not read; any other is refused.
        report: called with progress.

    Raises:
        ConfigError, DataError, BudgetError: nothing was drawn or charged; C121 if a simulation's groups are not
            known to be made up or public.
    """
    chosen = mechanism_named(mechanism)
    budget = _budget(noise, epsilon, rho)
    sizes = Sizes(n_sizes, smallest, too_large)
    regions = hierarchy if isinstance(hierarchy, Hierarchy) else read_hierarchy(Path(hierarchy), ignore)
    kind = vector_kind(chosen, direction)
    noise_plan = calibrate(
        kind,
        regions.tree,
        n_sizes,
        budget,
        noise=noise,
        shares=shares,
        relations=default_steps(smallest) if relations is None else relations,
        smallest=smallest,
        calibration=calibration,
    )
    refuse_empty_promise(kind, noise_plan.relations, regions.tree, n_sizes)
    source = None if isinstance(groups, Mapping) else Path(groups)
    _refuse_unsafe(noise_plan, simulate)
    most = noise_plan.loss if limit is None else fraction("limit", limit)
    folder = _empty_folder(out)
    origin = None if simulate is None else origin_of_groups(groups, truth_is_public)
    report(Event("check", 0, 1))
    table = groups if isinstance(groups, Mapping) else read_groups(Path(groups), ignore)
    leaves = leaf_counts(table, regions, sizes, source, ignore)
    exact_total = check_totals(leaves, regions, total, public)
    report(Event("check", 1, 1))
    stated = privacy(kind, regions.tree, sizes, noise_plan, public or {}, unit)
    plan = plan_sections(regions, sizes, exact_total, public or {}, chosen, kind, noise_plan, stated)

    def run(seed: int | None, journal: str) -> Release:
        truth = measure_exactly(kind, regions.tree, regions.tree.sums(leaves))
        report(Event("measure", 0, 1))
        noisy = _engine.NoiseSource(seed).add(truth, noise_plan, regions.tree)
        report(Event("measure", 1, 1))
        found = estimate(chosen, regions.tree, noisy, exact_total, kind, noise_plan)
        report(Event("solve", 1, 1))
        made = Release(
            counts=found.counts,
            noisy=noisy,
            hierarchy=regions,
            sizes=sizes,
            total=exact_total,
            mechanism=chosen,
            kind=kind,
            calibration=noise_plan,
            estimate=found,
            seed=seed,
            plan=plan,
            plan_hash=hash_of(plan),
            journal=journal,
            folder=folder,
            origin=origin,
        )
        _check_promises(made)
        return made

    if simulate is not None:
        made = run(simulate, "")
        if folder is not None:
            write_release(made, folder, None)
        return made
    _rehearse(chosen, regions, sizes, kind, noise_plan, exact_total)
    journal = secrets.token_hex(16)
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
    read = [source] if source else []
    read += [] if isinstance(hierarchy, Hierarchy) else [Path(hierarchy)]
    if folder is not None:
        refuse_inside(folder, "out", (place.path, place.witness_folder, *read))
    refuse_needed(place.path, "ledger", read)
    with spend(
        place,
        plan_hash=hash_of(plan),
        calibration=noise_plan,
        levels=regions.level_names,
        exact=tuple(stated["conditional_on"]),
        journal=journal,
        limit=most,
        limit_reason=limit_reason,
        file=MEASUREMENTS,
        again=again,
    ) as charge:
        made = run(None, journal)
        write_release(made, folder, charge)
    return made


def _rehearse(
    chosen: Mechanism, regions: Hierarchy, sizes: Sizes, kind: Kind, plan: Calibration, total: int
) -> None:
    """Run the estimator on made-up answers of the same shape, so that whatever it refuses is refused uncharged."""
    leaves = np.zeros((sizes.n_sizes, regions.tree.n_leaves), dtype=np.int64)
    leaves[0, 0] = total
    answers = measure_exactly(kind, regions.tree, regions.tree.sums(leaves))
    noisy = _engine.NoiseSource(0).add(answers, plan, regions.tree)
    estimate(chosen, regions.tree, noisy, total, kind, plan)


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


def _empty_folder(out: Path | str | None) -> Path | None:
    if out is None:
        return None
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists and is not an empty folder", code="C164", fix="give a new folder")
    return folder


def _check_promises(made: Release) -> None:
    """Stop before anything is published if a promised property fails."""
    if not made.mechanism.keeps:
        return
    counts, tree = made.counts, made.hierarchy.tree
    consistent = np.array_equal(counts, tree.sums(counts[:, tree.n_inner :]))
    if not consistent or counts.min() < 0 or int(counts[:, 0].sum()) != made.total:
        raise InternalError(f"{made.mechanism.name} broke its promise; nothing was written", code="X145")
