"""The ledger of a run: where it lies, what it is bound to, and the laws that a plan draws."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from topdown.errors import BudgetError, ConfigError
from topdown.laws import law_of_mechanism
from topdown.ledger.drawn_law import DrawnLaw
from topdown.ledger.durable import Disk
from topdown.ledger.ledger import check_ledger, create_ledger, read_ledger
from topdown.ledger.place import Place
from topdown.ledger.protocol import Spend
from topdown.ledger.records import Binding
from topdown.plan.plan import Plan
from topdown.plan.prepare import Prepared, schema_of
from topdown.plan.runfile import RunFile, load_runfile
from topdown.stores.place import file_of, table_at

_TABLE = re.compile(r"^\[ledger\][^\n]*\n", re.MULTILINE)
_ID = re.compile(r'^id[ \t]*=[ \t]*"[^"\n]*"[^\n]*\n', re.MULTILINE)


def place_of(prepared: Prepared) -> Place:
    """Return the ledger that a prepared run must spend on."""
    plan = prepared.context.plan
    binding = Binding(plan.release.data_set, plan.neighbours, plan.schema.unit, plan.loss_name)
    return _place(prepared.path, prepared.run, binding)


def place_of_file(path: Path) -> Place:
    """Return the ledger that a run file describes, without making its plan."""
    run = load_runfile(path)
    loss_name = law_of_mechanism(run.mechanism).loss_name
    unit = schema_of(run, path).unit
    return _place(path, run, Binding(run.release.data_set, run.neighbours, unit, loss_name))


def drawn_laws(plan: Plan) -> dict[str, tuple[DrawnLaw, ...]]:
    """Return what every level draws: the laws on the counts that one change of a record moves, by one each."""
    found: dict[str, tuple[DrawnLaw, ...]] = {}
    for level in plan.levels:
        if level.n_measured:
            queries = [plan.query(m.query) for m in level.measurements]
            found[level.name] = tuple(
                DrawnLaw(
                    law=m.law,
                    parameter=m.parameter,
                    shift=1,
                    coordinates=q.sensitivity_l1(plan.neighbours),
                    level=level.name,
                    query=m.query,
                    attributes=tuple(sorted(q.attributes)),
                    delta=m.count_delta,
                )
                for m, q in zip(level.measurements, queries, strict=True)
            )
    return found


def spend_of(prepared: Prepared) -> Spend:
    """Return what a run charges: the laws of the levels that are measured, and the policy of its ledger."""
    plan, policy = prepared.context.plan, prepared.run.ledger
    exact = tuple(e.name for e in plan.invariants.exact)
    delta = policy.delta_limit or Fraction(0)
    return Spend(plan.release.id, plan.plan_hash, drawn_laws(plan), exact, policy.limit, policy.reason, delta)


def create_for_run(path: Path, disk: Disk | None = None) -> Place:
    """Create the ledger of a run file's data set, or join the one that is there, and name it in the run file.

    Args:
        path: the run file; gets `id` in its table [ledger].

    Raises:
        BudgetError: the ledger that is there is bound to something else (B007), is damaged (B006), older than its
            witness (B008) or without it (B012); the run file names another one already (B007).
        ConfigError: the run file's text has no line [ledger] to write the id under (C110).
    """
    run, place = load_runfile(path), place_of_file(path)
    text = path.read_text(encoding="utf-8")
    if not _TABLE.search(text):
        raise ConfigError(
            f"{path} has no line [ledger] under which the ledger's id could be written",
            code="C110",
            file=str(path),
            fix="write the table as a line [ledger] with path and limit below it",
        )
    there = read_ledger(place.path)
    if there.opened is not None:
        place = replace(place, id=place.id or there.opened.ledger)
        check_ledger(place, there)
    elif place.id:
        raise BudgetError(
            f"{path} names ledger {place.id}, but there is none at {place.path}",
            code="B011",
            file=str(place.path),
            fix="put the ledger back where it was; a data set has one ledger, made once",
        )
    else:
        place = replace(place, id=create_ledger(place.path, place.witness_folder, place.binding, disk))
    if run.ledger.id != place.id:
        _write_id(path, text, place.id)
    return place


def check_named(prepared: Prepared) -> None:
    """Refuse a run whose ledger is missing or another one, without locking it or writing anything.

    Raises:
        BudgetError: as `open_ledger` does.
    """
    from topdown.ledger.refusals import missing

    place = place_of(prepared)
    book = read_ledger(place.path)
    if book.opened is None and not place.path.exists():
        raise missing(place.path, place.binding.data_set)
    check_ledger(place, book)


def _place(path: Path, run: RunFile, binding: Binding) -> Place:
    beside = path.parent
    folder = (
        beside / run.ledger.witness
        if run.ledger.witness
        else file_of(table_at(run.input.records, beside)).parent
    )
    return Place(beside / run.ledger.path, folder, run.ledger.id, binding)


def _write_id(path: Path, text: str, ledger: str) -> None:
    head = _TABLE.search(text)
    if head is None:
        raise ValueError("no table [ledger]")
    rest = text[head.end() :]
    end = rest.find("\n[")
    table, after = (rest, "") if end < 0 else (rest[: end + 1], rest[end + 1 :])
    line = f'id = "{ledger}"  # the ledger of the data set; made once, never by generate\n'
    table = _ID.sub(line, table, count=1) if _ID.search(table) else line + table
    Disk().replace(path, (text[: head.end()] + table + after).encode("utf-8"))
    if load_runfile(path).ledger.id != ledger:
        raise ConfigError(
            f"the id of the ledger could not be written into {path}",
            code="C110",
            file=str(path),
            fix=f'add to [ledger]: id = "{ledger}"',
        )
