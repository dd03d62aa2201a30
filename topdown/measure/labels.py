"""Labels for a draft of a schema, out of the records: none leaves this file before a person said that it is public."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from topdown.columns import TooLargeError, UnreadableError, header_of, is_text
from topdown.measure.records import Form, Refused, kind_of, read_records
from topdown.measure.refusals import read_or_refuse
from topdown.stores.place import StoreError, Table

MOST_LABELS = 200  # a column with more values is no list of labels
MOST_CHARACTERS = 80  # of a label that a person reads before confirming it

Ask = Callable[[str, tuple[str, ...]], tuple[str, ...] | None]


@dataclass(frozen=True)
class Confirmed:
    """What a person confirmed.

    Args:
        labels: of every attribute, all of them public. left_out: columns that are no attributes.
    """

    labels: dict[str, tuple[str, ...]]
    left_out: tuple[str, ...]


def confirmed_labels(table: Table, form: Form, ask: Ask) -> Confirmed:
    """Ask for every column of the records whether the labels in it are public, and return those that are.

    No count is kept, and the order is that of the alphabet. Nothing is shown of a column with more than `MOST_LABELS`
    values, or with one that cannot be shown as it is: it is left out. What `ask` is given is confidential.

    Args:
        table: the records. form: its columns beside attributes; those ignored are not read.
        ask: gets a column and its labels, none for a column that is left out; returns the labels of the published
            list, or None to leave the column out. What it raises is passed on, and nothing was kept.

    Raises:
        DataError: as `load_records`; D031 a row without a label, D024 a column of another kind.
        InternalError: X023 what nobody foresaw, and nothing of it but its kind.
    """
    found = read_or_refuse(
        table,
        lambda: _found(table, form),
        "the labels could not be read",
        "nothing was written",
        list_errors=False,
    )
    asked = {name: ask(name, labels) for name, labels in found.items()}
    return Confirmed(
        {name: labels for name, labels in asked.items() if labels is not None},
        tuple(name for name, labels in asked.items() if labels is None),
    )


def _found(table: Table, form: Form) -> dict[str, tuple[str, ...]]:
    own = {"geocode", "count"} if form.has_count else {"geocode"}
    taken = own | {form.called.get(name, name) for name in own} | set(form.ignored)
    names = tuple(name for name in _header(table) if name not in taken)
    values: dict[str, set[str] | None] = {name: set() for name in names}
    for batch in read_records(table, ("geocode", *names), form):
        for name in names:
            known = values[name]
            if known is not None:
                known |= _labels(name, batch.column(name))
                values[name] = None if len(known) > MOST_LABELS or not all(map(_readable, known)) else known
    return {name: tuple(sorted(held or (), key=_order)) for name, held in values.items()}


def _header(table: Table) -> list[str]:
    try:
        return header_of(table)
    except (UnreadableError, TooLargeError, StoreError):
        return []  # read_records says what is wrong


def _labels(name: str, column: pa.Array) -> set[str]:
    unique = column.unique()
    if pa.types.is_dictionary(unique.type):
        unique = unique.dictionary_decode()
    if pa.types.is_integer(unique.type):
        unique = unique.cast(pa.string())
    if not is_text(unique.type) and not pa.types.is_null(unique.type):
        fix = "write the column as text"
        raise Refused(
            "D024", f"column {name!r} of the records holds {kind_of(column)}, not text", column=name, fix=fix
        )
    held = unique.to_pylist()
    if None in held or "" in held:
        fix = "give every record a label, such as unknown"
        raise Refused("D031", "some records have no label", column=name, fix=fix)
    return set(held)


def _readable(label: str) -> bool:
    return label.isprintable() and len(label) <= MOST_CHARACTERS and label == label.strip()


def _order(label: str) -> tuple[int, int, str]:
    """Order numbers by value, then texts."""
    number = label.isascii() and label.isdigit()
    return (0, int(label), label) if number else (1, 0, label)
