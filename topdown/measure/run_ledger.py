"""The ledger of a run: where it lies, what it is bound to, and the laws that a plan draws."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from os.path import normpath
from pathlib import Path

from msgspec import convert

from topdown.errors import BudgetError, ConfigError
from topdown.formats.strict_toml import dec_hook
from topdown.inputs import DatabaseTable, containing_file, locate_table
from topdown.plan import Plan, PreparedRun, RunFile, load_run_file
from topdown.plan.preparation import load_run_schema
from topdown.privacy.ledger import (
    REAL_DISK,
    Disk,
    DrawnLaw,
    LedgerBinding,
    LedgerLocation,
    NoiseCharge,
    RecordsFile,
    check_ledger,
    make_or_find_ledger,
    read_ledger,
)
from topdown.privacy.ledger.ledger_file import ledger_missing, refuse_another_ledger

_TABLE = re.compile(r"^\[ledger\][^\n]*\n", re.MULTILINE)
_ID = re.compile(r'^id[ \t]*=[ \t]*"[^"\n]*"[^\n]*\n', re.MULTILINE)


def ledger_location(prepared: PreparedRun) -> LedgerLocation:
    """Return the ledger that a prepared run must spend on."""
    plan = prepared.plan
    binding = LedgerBinding(plan.release.data_set, plan.neighbours, plan.schema.unit)
    return _locate_ledger(prepared.path, prepared.run, binding)


def ledger_location_of_file(path: Path) -> LedgerLocation:
    """Return the ledger that a run file describes, without making its plan."""
    run = load_run_file(path)
    unit = load_run_schema(run, path).unit
    return _locate_ledger(path, run, LedgerBinding(run.release.data_set, run.neighbours, unit))


def drawn_laws_by_level(plan: Plan) -> dict[str, tuple[DrawnLaw, ...]]:
    """Return what every level draws: the laws on the counts that neighbours move, and by how much each."""
    found: dict[str, tuple[DrawnLaw, ...]] = {}
    queries = {m.query: plan.query(m.query) for level in plan.levels for m in level.measurements}
    for level in plan.levels:
        if level.n_measured:
            found[level.name] = tuple(
                DrawnLaw(
                    law=m.law,
                    parameter=m.parameter,
                    shift=plan.relation.most_records * queries[m.query].record_weight(),
                    coordinates=plan.relation.n_counts,
                    level=level.name,
                    query=m.query,
                    attributes=tuple(sorted(queries[m.query].attributes)),
                    delta=m.count_delta,
                    weights=m.weights,
                )
                for m in level.measurements
            )
    return found


def planned_spend(prepared: PreparedRun) -> NoiseCharge:
    """Return what a run charges: the laws of the levels that are measured, and the policy of its ledger."""
    plan, limits = prepared.plan, prepared.run.ledger.limits
    exact = tuple(e.name for e in plan.invariants.exact)
    return NoiseCharge(
        plan.release.id, plan.plan_hash, drawn_laws_by_level(plan), exact, limits, plan.neighbours
    )


def create_run_ledger(path: Path, disk: Disk = REAL_DISK, *, instead_of: str = "") -> LedgerLocation:
    """Create the ledger of a run file's data set, or join the one that is there, and name it in the run file.

    Args:
        path: the run file; gets `id` in its table [ledger].
        disk: another model of the disk, for tests.
        instead_of: id of a former ledger of the same data set, which will be taken over.

    Raises:
        BudgetError: as `make_or_find_ledger`.
        ConfigError: the run file's text has no line [ledger] to write the id under (C110), or states no limit (C158).
    """
    run, place = load_run_file(path), ledger_location_of_file(path)
    limits = run.ledger.limits  # refuses a ledger without one
    text = path.read_text(encoding="utf-8")
    if not _TABLE.search(text):
        raise ConfigError(
            f"{path} has no line [ledger] under which the ledger's id could be written",
            code="C110",
            file=str(path),
            fix="write the table as a line [ledger] with path and rho_limit below it",
        )
    place = make_or_find_ledger(place, limits, disk, instead_of=instead_of)
    if run.ledger.id != place.id:
        _write_ledger_id(path, text, place.id)
    return place


def refuse_second_ledger(path: Path, text: str, unit: str | None) -> None:
    """Refuse a run file that is not written yet, if its data set has a ledger that the file does not name (B017).

    Args:
        path: where it will be. text: what it will say. unit: of its schema; that of the schema file if None.
    """
    run = convert(tomllib.loads(text), RunFile, dec_hook=dec_hook)
    of = load_run_schema(run, path).unit if unit is None else unit
    place = _locate_ledger(path, run, LedgerBinding(run.release.data_set, run.neighbours, of))
    if place.records is not None:  # the folder of the run file may not be there, so that ".." leads nowhere
        records = replace(place.records, path=Path(normpath(place.records.path)))
        folder, at = Path(normpath(place.registry_folder)), Path(normpath(place.path))
        place = replace(place, path=at, registry_folder=folder, records=records)
    if not place.id and read_ledger(place.path).opened is None:
        refuse_another_ledger(place)


def check_ledger_of_run(prepared: PreparedRun) -> None:
    """Refuse a run whose ledger is missing or another one, without locking it or writing anything.

    Raises:
        BudgetError: as `open_ledger` does.
    """
    place = ledger_location(prepared)
    book = read_ledger(place.path)
    if book.opened is None and not place.path.exists():
        raise ledger_missing(place.path, place.binding.data_set)
    check_ledger(place, book)


def _locate_ledger(path: Path, run: RunFile, binding: LedgerBinding) -> LedgerLocation:
    beside, table = path.parent, locate_table(run.input.records, path.parent)
    records = RecordsFile(containing_file(table), table.table if isinstance(table, DatabaseTable) else "")
    folder = beside / run.ledger.registry if run.ledger.registry else records.path.parent
    return LedgerLocation(beside / run.ledger.path, folder, run.ledger.id, binding, records)


def _write_ledger_id(path: Path, text: str, ledger: str) -> None:
    head = _TABLE.search(text)
    if head is None:
        raise ValueError("no table [ledger]")
    rest = text[head.end() :]
    end = rest.find("\n[")
    table, after = (rest, "") if end < 0 else (rest[: end + 1], rest[end + 1 :])
    line = f'id = "{ledger}"  # the ledger of the data set; made once, never by generate\n'
    table = _ID.sub(line, table, count=1) if _ID.search(table) else line + table
    Disk().replace(path, (text[: head.end()] + table + after).encode("utf-8"))
    if load_run_file(path).ledger.id != ledger:
        raise ConfigError(
            f"the id of the ledger could not be written into {path}",
            code="C110",
            file=str(path),
            fix=f'add to [ledger]: id = "{ledger}"',
        )


def check_one_ledger(prepared: PreparedRun) -> None:
    """Refuse an extension whose base release another ledger paid for (BudgetError B020)."""
    plan, path = prepared.plan, prepared.ledger_path
    if plan.base is None:
        return
    book = read_ledger(path)
    paid = [book.intents[seq].plan_hash for seq in book.committed]
    if plan.base.plan_hash not in paid:
        raise BudgetError(
            f"the ledger {path} did not pay for the base release {plan.base.release}",
            code="B020",
            file=str(path),
            fix="name the ledger of the data set that the base release was made with: losses add up in one ledger",
        )
