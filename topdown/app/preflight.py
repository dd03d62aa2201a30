"""Everything that can fail without seeing noise, tried before the budget is touched.

Plan and public files are written and checked, then a copy of the ledger with the charge in it and what a certificate
would say then, then a release in miniature: a few leaves of the tree, made-up people, and the real code from measuring
to publishing. An extension keeps the published table of its base release at those leaves.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.errors import ConfigError, InternalError, TopdownError
from topdown.formats import json_bytes
from topdown.formats.release_documents import CertifiedPrivacy
from topdown.inputs.reading_process import LOST_READER
from topdown.measure import PLAIN_FORM, drawn_laws_by_level, ledger_location, measure
from topdown.measure.measurement import write_public_side
from topdown.measure.run_ledger import planned_spend
from topdown.model import Geography, Histogram, Level, PublicFacts
from topdown.plan import (
    BaseRelease,
    LevelPlan,
    Plan,
    PreparedRun,
    PublicContext,
    ReleaseChain,
    geography_sha256,
    load_context,
)
from topdown.plan.public_tables import public_sha256
from topdown.plan.release_chain import BASE_FOLDER, BaseFiles, describe_base, read_support
from topdown.plan.run_file import InputTable, LedgerTable
from topdown.practice.synth import people_fitted_to, without_exact, write_people
from topdown.privacy.ledger import (
    Disk,
    LedgerLocation,
    Limits,
    NoiseCharge,
    create_ledger,
    open_ledger,
    with_charge,
)
from topdown.progress import Event, Report, silent
from topdown.publish.publish_release import LEDGER
from topdown.publish.release_certificate import CERTIFICATE, stated_privacy
from topdown.publish.release_files import write_manifest
from topdown.publish.release_tables import write_microdata
from topdown.solve import extend
from topdown.verify import CheckResult, verify_planned

PREFLIGHT_FOLDER = ".rehearsal"  # inside the release folder, gone before anything is measured
PREFLIGHT_JOURNAL = "0" * 32  # of a measurement that never was


def write_as_charged(prepared: PreparedRun, privacy: CertifiedPrivacy, folder: Path) -> None:
    """Write a copy of the ledger with the charge of a run, and a certificate with its section `privacy` alone.

    Args:
        prepared: of the run; its ledger is only read.
        privacy: what is certified of the release (see `certified_privacy`).
        folder: of the copy.

    Cost: a few milliseconds, and for a ledger that holds other releases what the certificate takes anyway: the numbers
    of all of them together, which are kept for it.
    """
    path = ledger_location(prepared).path
    book, lines = with_charge(path.read_bytes(), path, planned_spend(prepared), PREFLIGHT_JOURNAL)
    (folder / LEDGER).write_bytes(lines)
    stated = stated_privacy(prepared.context.policy, privacy, book)
    document = {"type": "topdown.certificate", "version": 1, "privacy": stated}
    (folder / CERTIFICATE).write_bytes(json_bytes(document))


Answers = NDArray[np.int32]
PEOPLE = 3  # in every answer that the made-up people are fitted to


def made_up_people(context: PublicContext) -> Histogram:
    """Return people that fit the public facts: what the solver makes of a small answer to every query."""
    free = without_exact(context)
    found = _people_of_every_area(free, lambda level: np.full(level.answers_per_node, PEOPLE, dtype=np.int32))
    if found.count.any():
        return found
    # A small total, spread over many cells, is rounded to nobody: all of them in one cell then.
    is_open = context.rules.open[-1][np.argmax(context.inhabited[-1])]
    cell = int(np.argmax(is_open[context.rules.class_of_cell]))
    return _people_of_every_area(free, lambda level: _answers_of_cell(free.plan, level, cell))


def _people_of_every_area(context: PublicContext, answers_of: Callable[[LevelPlan], Answers]) -> Histogram:
    """Return what the solver makes of the same answers at every node of a level."""
    numbers = [int(inside.sum()) for inside in context.inhabited]
    return people_fitted_to(
        context,
        [np.tile(answers_of(level), (n, 1)) for n, level in zip(numbers, context.plan.levels, strict=True)],
    )


def _answers_of_cell(plan: Plan, level: LevelPlan, cell: int) -> Answers:
    """Return the answers of a level where everybody is in one cell, int32 (answers_per_node,)."""
    rows = []
    for m in level.measurements:
        query = plan.query(m.query)
        rows.append(np.where(np.arange(query.n_answers) == query.labels[cell], PEOPLE, 0))
    return np.concatenate(rows).astype(np.int32)


def made_up_extension(context: PublicContext) -> Histogram:
    """Return people that add up to the base table of an extension at every leaf and fit the public facts.

    Lower bounds are met by the people whom the solver would reserve for them; the others are spread over their open
    cells as evenly as may be.

    Raises:
        InfeasibleError: I020 a leaf's base table has no extension that meets the constraints there.
    """
    patterns, support = extend.find_patterns(context), context.support
    if support is None:
        raise InternalError("this plan extends no release")
    table, kept = patterns.tables[-1], patterns.reserves[-1]
    key, kind = np.divmod(kept.cell, patterns.n_classes)
    entry = np.searchsorted(table.node * table.n_cells + table.cell, kept.node * table.n_cells + key)
    found: list[Ints] = []
    for i, (leaf, here, total) in enumerate(zip(table.node, table.cell, table.count, strict=True)):
        cells = support.of_base(np.array([here // patterns.n_patterns]))
        cells = cells[patterns.open_in(np.full(len(cells), here), cells)]
        put = np.zeros(len(cells), dtype=np.int64)
        for r in np.flatnonzero(entry == i):
            put[np.argmax(patterns.class_of_cell[cells] == kind[r])] += kept.count[r]
        each, more = divmod(int(total - put.sum()), len(cells))
        put += each
        put[:more] += 1
        found.append(np.stack([np.full(len(cells), leaf), cells, put]))
    node, cell, count = np.concatenate(found, axis=1)
    return Histogram.build(table.n_nodes, context.plan.schema.n_cells, node, cell, count)


def thin_plan(plan: Plan, geography: Geography, facts: PublicFacts) -> Plan:
    """Return a plan for fewer leaves; how many nodes it measures is the least that can be said without rules."""
    levels = tuple(
        replace(level, n_nodes=len(here), n_measured=min(level.n_measured, len(here)))
        for level, here in zip(plan.levels, geography.levels, strict=True)
    )
    public, tree = public_sha256(geography, facts), geography_sha256(geography)
    return replace(plan, levels=levels, public_sha256=public, geography_sha256=tree)


def write_thin_base(
    prepared: PreparedRun, geography: Geography, leaves: NDArray[np.int64], folder: Path
) -> tuple[BaseRelease, ...]:
    """Write what an extension reads of its base release at a few leaves; return all that it extends, oldest first."""
    thin: list[BaseRelease] = []
    for base in prepared.context.bases:
        facts = base.facts.at(leaves)
        plan = thin_plan(base.plan, geography, facts)
        if plan.base is not None:
            plan = replace(plan, base=replace(plan.base, plan_hash=thin[-1].plan.plan_hash))
        thin.append(BaseRelease(plan, facts))
    here = folder
    for base in reversed(thin):
        write_public_side(
            here, replace(prepared, context=_thin_base_context(base, geography), base=None), Disk()
        )
        here /= BASE_FOLDER
    support = prepared.context.support
    if support is not None:
        write_microdata(
            folder, _thin_base_context(thin[-1], geography), only_nodes(support.levels[-1], leaves)
        )
    write_manifest(folder, thin[-1].plan.plan_hash)
    return tuple(thin)


def only_nodes(table: Histogram, nodes: NDArray[np.int64]) -> Histogram:
    """Return the counts of some nodes (int64, increasing), numbered anew."""
    here = np.isin(table.node, nodes)
    node = np.searchsorted(nodes, table.node[here])
    return Histogram.build(len(nodes), table.n_cells, node, table.cell[here], table.count[here])


def charge_base(place: LedgerLocation, plan: Plan, limits: Limits) -> None:
    """Charge a base release to a ledger that nobody keeps, as if it had been measured."""
    spend = NoiseCharge(
        plan.release.id,
        plan.plan_hash,
        drawn_laws_by_level(plan),
        tuple(e.name for e in plan.invariants.exact),
        limits,
        plan.neighbours,
    )
    with open_ledger(place) as ledger:
        intent = ledger.intent(spend.intent(tuple(spend.laws), 1, PREFLIGHT_JOURNAL), limits)
        ledger.commit((intent.seq,), plan.plan_hash, PREFLIGHT_JOURNAL, hashlib.sha256().hexdigest())


def _thin_base_context(base: BaseRelease, geography: Geography) -> PublicContext:
    return PublicContext(base.plan, geography, base.facts)


_LEDGER, _PEOPLE = "ledger.jsonl", "people.csv.gz"


def make_miniature(
    prepared: PreparedRun,
    folder: Path,
    solve_and_publish: Callable[[PreparedRun, Path, Report], None],
    report: Report = silent,
) -> None:
    """Measure, solve and publish a few leaves of the tree with people made up from what is public.

    An extension keeps the published table of its base release at these leaves. The noise is real, the people are not:
    it is charged to a ledger in `folder` that nobody keeps.

    Args:
        prepared: of the run; its records and its ledger are not touched.
        folder: is created.
        solve_and_publish: see `preflight`.
        report: called with the events of its stages.

    Raises:
        TopdownError: as measure, solve and publish do.
    """
    small = _thin_context(prepared, folder / "base")
    context = small.context
    found = made_up_people(context) if context.support is None else made_up_extension(context)
    folder.mkdir(parents=True, exist_ok=True)
    write_people(folder / _PEOPLE, found, context, PLAIN_FORM, 0)
    run = structs.replace(
        prepared.run,
        input=InputTable(records=_PEOPLE, leaves=prepared.run.input.leaves),
        ledger=_enough(context.policy),
    )
    small = replace(small, run=run, path=folder / "run.toml")
    place = create_ledger(ledger_location(small))
    small = replace(small, run=structs.replace(run, ledger=structs.replace(run.ledger, id=place.id)))
    if context.bases:
        charge_base(place, context.bases[-1].plan, run.ledger.limits)
    # Whether it may be measured is asked of the run's own ledger.
    measure(small, folder / "release", report, again=True)
    solve_and_publish(small, folder / "release", report)


def _enough(policy: ReleaseChain) -> LedgerTable:
    """Return a ledger with room for a release and what it extends, and no more."""
    loss = policy.loss
    if policy.plan.loss_name == "rho":
        return LedgerTable(path=_LEDGER, rho_limit=loss)
    return LedgerTable(path=_LEDGER, epsilon_limit=loss, delta_limit=policy.plan.delta)


def few_leaves(inhabited: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return at most three leaves: the first that holds people with the next one, and the last."""
    open_leaves = np.flatnonzero(inhabited)
    return np.unique(open_leaves[[0, min(1, len(open_leaves) - 1), -1]])


def only_these_leaves(geography: Geography, leaves: NDArray[np.int64]) -> Geography:
    """Return the tree of some leaves (int64, increasing)."""
    kept, levels = leaves, []
    for depth in range(len(geography.levels) - 1, -1, -1):
        level = geography.levels[depth]
        above = np.unique(level.parent[kept])
        parent = np.searchsorted(above, level.parent[kept]) if depth else np.zeros(1, dtype=np.int64)
        levels.append(Level(level.name, tuple(level.codes[i] for i in kept), parent.astype(np.int64)))
        kept = above
    return Geography(tuple(reversed(levels)))


def _thin_context(prepared: PreparedRun, folder: Path) -> PreparedRun:
    """Return a run at a few leaves; an extension's base release is written to `folder`."""
    context = prepared.context
    leaves = few_leaves(context.inhabited[-1])
    geography, facts = only_these_leaves(context.geography, leaves), context.facts.at(leaves)
    plan = thin_plan(context.plan, geography, facts)
    if plan.base is None:
        return replace(prepared, context=_measure_miniature(PublicContext(plan, geography, facts)))
    bases = write_thin_base(prepared, geography, leaves, folder)
    files = BaseFiles.of_release(folder)
    rules, names = context.rules.of_leaves(geography, leaves), dict(plan.base.map)
    support = read_support(plan.schema, rules, geography, bases[-1].plan.schema, names, files.table)
    base = describe_base(bases[-1].plan, files, support, plan, names)
    small = PublicContext(replace(plan, base=base), geography, facts, support, bases)
    return replace(prepared, context=_measure_miniature(small), base=files)


def _measure_miniature(context: PublicContext) -> PublicContext:
    levels = zip(context.plan.levels, context.inhabited, strict=True)
    counted = tuple(replace(level, n_measured=int(inside.sum())) for level, inside in levels)
    return replace(context, plan=replace(context.plan, levels=counted))


UNCHARGED = "this run has charged nothing"  # an earlier one that is resumed may have


def preflight(
    prepared: PreparedRun,
    out: Path,
    privacy: CertifiedPrivacy,
    solve_and_publish: Callable[[PreparedRun, Path, Report], None],
    report: Report = silent,
) -> None:
    """Write, read back and check what can be known of a release; leave nothing behind.

    Args:
        prepared: of the run.
        out: the release folder; created if missing.
        privacy: what is certified of the release (see `certified_privacy`).
        solve_and_publish: makes a release of a measured folder; called with the miniature's run, its folder and what
            is told of its stages.
        report: called before each part, and at each step of the miniature.

    Raises:
        TopdownError: what would have failed later; nothing was charged by this run.
        OSError: the folder cannot be written.

    Cost: Rhode Island (2,016 cells, 25,181 blocks) about a second.
    """
    remove_preflight(out)
    folder = out / PREFLIGHT_FOLDER
    try:
        folder.mkdir(parents=True)
        report(Event("preflight", 0, 2, "plan, public files and certificate"))
        _try_public_side(prepared, folder / "public side", privacy)
        text = "a few areas with made-up people"
        report(Event("preflight", 1, 2, text))
        _try_miniature(
            prepared,
            folder / "miniature",
            solve_and_publish,
            lambda event: report(Event("preflight", 1, 2, f"{text}: {event.stage}")),
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # the next run removes what is left
        raise
    remove_preflight(out)
    report(Event("preflight", 2, 2, "passed, uncharged"))


def remove_preflight(out: Path) -> None:
    """Remove what a preflight left behind that was killed; OSError if that cannot be: a release has no such folder."""
    if (out / PREFLIGHT_FOLDER).exists():
        shutil.rmtree(out / PREFLIGHT_FOLDER)


def _try_public_side(prepared: PreparedRun, folder: Path, privacy: CertifiedPrivacy) -> None:
    write_public_side(folder, prepared, Disk())
    plan_hash = prepared.plan.plan_hash
    try:
        same = load_context(folder, prepared.context).plan.plan_hash == plan_hash
    except TopdownError as error:
        raise _unusable_folder(f"cannot be read back: {error}", error) from None
    if not same:
        raise _unusable_folder("read as another plan")
    write_as_charged(prepared, privacy, folder)
    for check in verify_planned(folder).checks:
        if not check.ok and check.name == "plan":
            raise _unusable_folder(f"do not pass the check '{check.name}': {check.findings[0].text}")
        if not check.ok:
            raise _not_certified(check)


def _try_miniature(
    prepared: PreparedRun,
    folder: Path,
    solve_and_publish: Callable[[PreparedRun, Path, Report], None],
    report: Report,
) -> None:
    try:
        make_miniature(prepared, folder, solve_and_publish, report)
    except TopdownError as error:
        raise ConfigError(
            f"a few areas of this release, with made-up people, could not be released: {error}",
            code="C077",
            details=(("found", error.code),),
            fix=f"{_advice_if_lost(error) or error.fix or 'change the plan'}; {UNCHARGED}",
        ) from None


def _unusable_folder(text: str, error: TopdownError | None = None) -> ConfigError:
    return ConfigError(
        f"the plan and public files of this release {text}",
        code="C077",
        details=(("found", error.code),) if error else (),
        fix=f"{(error and _advice_if_lost(error)) or 'change what the message names'}; {UNCHARGED}",
    )


def _advice_if_lost(error: TopdownError) -> str:
    """Return what helps where a file of the preflight's own was not read to its end; nothing of any other error."""
    return "make room if memory was short, and start again" if error.code == LOST_READER else ""


def _not_certified(check: CheckResult) -> ConfigError:
    found = check.findings[0]
    details = (("found", found.code), ("due", found.expected), ("stated", found.found))
    return ConfigError(
        f"verify would refuse what this run charges and says of it, in the check '{check.name}': {found.text}",
        code="C079",
        details=tuple((key, value) for key, value in details if value),
        fix=f"use another mechanism or budget, and report this with the plan; {UNCHARGED}",
    )
