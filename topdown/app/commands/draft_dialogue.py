"""A draft of a run and its files: labels from a public list or confirmed by a person, levels from the public table.

Of the records only the names of their columns are looked at, unless a person is asked about labels.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from topdown.app.commands.command import can_ask
from topdown.app.resource_needs import tree_fits
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import bold
from topdown.errors import ConfigError, DataError
from topdown.inputs import (
    BLANK,
    TableLocation,
    ValueLabels,
    bands_from,
    containing_file,
    header_if_readable,
    printable,
)
from topdown.measure import (
    ColumnValues,
    ConfirmedColumn,
    RecordsForm,
    confirmed_labels,
    counts_records,
    unread_columns,
)
from topdown.model import Attribute, Schema
from topdown.output_paths import is_same_file
from topdown.plan import (
    RunFileAnswers,
    draft_files,
    find_level_columns,
    load_invariants,
    load_schema,
    load_settings,
    read_code_list,
    values_by_rule,
)
from topdown.plan.drafts import CENSUS_PREFIXES, DraftFiles
from topdown.resources import find

if TYPE_CHECKING:
    from topdown.formats.common import Targets
    from topdown.model import Invariants
    from topdown.plan.settings import Settings


def ask_column(screen: Screen, column: ColumnValues) -> ConfirmedColumn | None:
    """Show the labels of a column, take those that are missing, and ask whether the list is published.

    Of a column of whole numbers with many values, bands are asked for instead, and no value is shown.

    Returns: the list, and what the values mean; None to leave the column out.

    Raises:
        ConfigError: C242 the answer is neither, C335 bands that are none; nothing was written.
        click.Abort: the person left.
    """
    out, name = screen.err, bold(printable(column.name))
    out.line()
    if column.are_whole and len(column.labels) not in range(1, FEW_NUMBERS):
        return _ask_bands(screen, column)
    if not column.labels:
        out.line(
            "Column ", name, " has too many values for a list of labels, or one that cannot be "
            "shown as it is. Press Enter to leave it out: the run file then names it under ignore."
        )  # fmt: skip
        if _read_answer(screen):
            raise _unconfirmed_labels(column.name)
        return None
    blank = f", and {BLANK}: empty values" if column.has_blank else ""
    out.line("Column ", name, ":")
    out.line(", ".join(f'"{label}"' for label in column.labels) + blank, indent=2)
    out.line(
        "Type a label of the published list that is missing here, one a line; VALUE = LABEL to call a value "
        "otherwise, such as M = male; Enter when there is none."
    )
    added, meant = _read_labels(screen, column)
    known = dict.fromkeys(meant.get(label, label) for label in column.labels)
    labels = tuple(known | dict.fromkeys(added) | dict.fromkeys(meant.values()))
    if meant:
        out.line("The labels are then ", ", ".join(f'"{label}"' for label in labels), ".")
    blank_label = meant.pop(BLANK, "")
    return _confirmed(screen, column.name, labels, ValueLabels(labels=meant, blank=blank_label))


FEW_NUMBERS = 13  # different whole numbers that are shown as labels; bands are asked for more


def _read_labels(screen: Screen, column: ColumnValues) -> tuple[list[str], dict[str, str]]:
    added, meant = list[str](), dict[str, str]()
    values = {*column.labels, *([BLANK] if column.has_blank else [])}
    while answer := _read_answer(screen):
        value, equals, label = (part.strip() for part in answer.partition("="))
        if equals and label and value in values:
            meant[value] = label
        elif answer not in column.labels and answer not in added:
            added.append(answer)
    return added, meant


def _ask_bands(screen: Screen, column: ColumnValues) -> ConfirmedColumn | None:
    """Ask for bands of a column of whole numbers; see `ask_column`."""
    out = screen.err
    out.line(
        "Column ", bold(printable(column.name)), " holds whole numbers. Type the first number of each band of the "
        "published list, the last without an end: 0 18 65 makes 0-17, 18-64 and 65+. Press Enter to leave the "
        "column out."
    )  # fmt: skip
    answer = _read_answer(screen).replace(",", " ").split()
    if not answer:
        return None
    firsts = [int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1 for text in answer]
    if min(firsts) < 0 or any(a >= b for a, b in pairwise(firsts)):
        raise _unconfirmed_labels(column.name)
    bands, meant = bands_from(firsts), dict[str, str]()
    if column.has_blank:
        out.line(f"Some values are empty. Type {BLANK} = LABEL for the label of these.")
        meant = _read_labels(screen, column)[1]
    blank = meant.get(BLANK, "")
    labels = (*bands, *([blank] if blank and blank not in bands else []))
    out.line("The labels are then ", ", ".join(f'"{label}"' for label in labels), ".")
    return _confirmed(screen, column.name, labels, ValueLabels(bands=bands, blank=blank))


def _confirmed(
    screen: Screen, name: str, labels: tuple[str, ...], values: ValueLabels
) -> ConfirmedColumn | None:
    screen.err.line(
        "Is this the whole published list, whoever is in the records? "
        'Type "public" to take it, "skip" to leave the column out.'
    )
    answer = _read_answer(screen)
    if answer == "skip":
        return None
    if answer != "public":
        raise _unconfirmed_labels(name)
    return ConfirmedColumn(labels, values)


def _unconfirmed_labels(column: str) -> ConfigError:
    return ConfigError(
        f"the labels of column {printable(column)!r} were not confirmed",
        code="C242",
        fix="write the public labels into a table attribute,label and give it with --codes; nothing was written",
    )


def _read_answer(screen: Screen) -> str:
    screen.err.put("> ")
    line = sys.stdin.readline()
    if not line:
        raise click.Abort
    return line.strip()


@dataclass(frozen=True)
class DraftRequest:
    """What is to be drafted.

    Args:
        codes: the public list. given: a schema file. If both are None, a person is asked.
        name: of the schema, where it is drafted. levels: root first.
    """

    codes: Path | None
    given: Path | None
    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True)
class Drafted:
    """What was drafted: texts, the schema, columns of the records that are not read, what values mean."""

    draft: DraftFiles
    schema: Schema
    ignore: tuple[str, ...]
    values: dict[str, ValueLabels]


def settings_beside(schema: str) -> tuple[str | None, Path | None]:
    """Return settings for a schema file: those that lie beside it, or none and the file, for which they are drafted.

    None and None for a bundled schema, and for one that the usual settings are for.
    """
    path = Path(schema)
    if path.suffix != ".toml" or not path.is_file():
        return None, None
    name, beside = load_schema(path).name, path.parent / "settings.toml"
    if beside.is_file() and load_settings(beside).schema == name:
        return str(beside), None
    return (None, None) if name == "pl94" else (None, path)


def check_request(screen: Screen, wish: DraftRequest, records: TableLocation) -> None:
    """Refuse what cannot be drafted before anything is read.

    Raises:
        ConfigError: C139 no levels, C241 nobody can be asked. DataError: D065 the list is the table of records.
    """
    if wish.codes is not None and is_same_file(wish.codes, containing_file(records)):
        raise DataError(
            f"{wish.codes} is the table of records, and labels are never taken from records",
            code="D065",
            fix="write the public labels into a table attribute,label",
        )
    if not wish.levels:
        raise ConfigError(
            "a schema of your own needs --levels", code="C139", fix="name them, root first: --levels A,B,C"
        )
    if wish.given is None and wish.codes is None and not can_ask(screen):
        raise ConfigError(
            "labels of records can be confirmed by a person only, and there is no terminal to ask on",
            code="C241",
            fix="write the public labels into a table attribute,label and give it with --codes",
        )


def drafted_by(screen: Screen, wish: DraftRequest, records: TableLocation, places: FromTables) -> Drafted:
    """Return the draft. Nothing is written.

    Areas are fitted to the estimate of the whole tree, unless that takes twice the memory (`tree_fits`).

    Raises:
        ConfigError: C242 labels were not confirmed. DataError: D065 the list is wrong; as `confirmed_labels`.
        click.Abort: the person left.
    """
    answers = places.answers
    if wish.codes is not None:
        schema, values = read_code_list(wish.codes, wish.name)
        source, ignore = f"drafted by topdown init from {wish.codes.name}", answers.ignore
    elif wish.given is not None:
        schema, source, ignore = load_schema(wish.given), "", answers.ignore
        values = values_by_rule(schema)
    else:
        screen.err.line(
            f"Labels of {records.name} are confidential until you confirm them. They are shown here only; nothing is "
            "written before your last answer. Look at the published list, not at the screen alone."
        )
        form = RecordsForm(answers.ignore, answers.has_count, dict(answers.called))
        found = confirmed_labels(records, form, lambda column: ask_column(screen, column))
        attributes = tuple(Attribute(name, of.labels) for name, of in found.columns.items())
        schema = Schema(wish.name, wish.name, "person", attributes)
        values = {name: of.values for name, of in found.columns.items() if of.values.meant()}
        ignore = (*answers.ignore, *found.left_out)
        source = "drafted by topdown init; a person confirmed that these labels are public"
    targets: Targets = "tree" if tree_fits(schema, places.n_areas) else "own"
    return Drafted(draft_files(schema, wish.levels, source, targets), schema, ignore, values)


def levels_asked(text: str) -> dict[str, str]:
    """Return level -> column of the leaves, or number of characters of the geocode, "" where nothing is said.

    >>> levels_asked("country, canton=kt, village=code")
    {'country': '', 'canton': 'kt', 'village': 'code'}
    """
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    return {name.strip(): column.strip() for name, _, column in parts}


@dataclass(frozen=True)
class FromTables:
    """What the public table of leaves says; `n_areas`: of all levels together, 0 where it was not looked at."""

    answers: RunFileAnswers
    told: tuple[str, ...]
    n_areas: int = 0


def read_leaves_columns(
    leaves: TableLocation, records: TableLocation, levels: Mapping[str, str], *, no_count: bool
) -> FromTables:
    """Find the columns of the levels, and how the records are counted. No row of the records is read.

    Args:
        leaves: public. records: confidential; only the names of their columns are looked at.
        levels: see `levels_asked`, root first. no_count: each row is one record, whatever the names say.

    Raises:
        ConfigError: C338 a level has no column. DataError: as `read_table`.
    """
    names, lengths, n_areas = tuple(levels), tuple(levels.values()), 0
    header = header_if_readable(leaves)
    if lengths and all(length.isdigit() for length in lengths):
        answers = RunFileAnswers(prefix_lengths=tuple(map(int, lengths)))
        told: tuple[str, ...] = ()
    elif set(names) <= set(CENSUS_PREFIXES) and not any(lengths) and not set(names) & set(header):
        answers, told = RunFileAnswers(), ()
    elif not leaves.is_file():
        raise ConfigError(
            f"levels are looked up in the table of leaves, and {leaves} does not exist",
            code="C338",
            fix="give the table, or say how many characters of the geocode name each level: "
            "--levels " + ",".join(f"{name}={2 * depth}" for depth, name in enumerate(names)),
        )
    else:
        found = find_level_columns(leaves, names, {name: column for name, column in levels.items() if column})
        called = (("geocode", found.key),) if found.key != "geocode" else ()
        answers = RunFileAnswers(columns=found.above, called=called)
        told, n_areas = found.told, found.n_areas
    key = dict(answers.called).get("geocode", "geocode")
    counted = not no_count and counts_records(records, key)
    if not counted and not no_count:
        told = (*told, "The records have no column count: each row is one record.")
    ignore = tuple(name for name in header if name != key)
    return FromTables(replace(answers, ignore=ignore, has_count=counted), told, n_areas)


def ignoring_the_rest(
    answers: RunFileAnswers, records: TableLocation, schema: Schema, invariants: Invariants | None = None
) -> RunFileAnswers:
    """Return answers that ignore the columns of both tables that are not read, and none that is."""
    needed = ["geocode", *(attribute.name for attribute in schema.attributes)]
    if schema.privacy_unit.column:
        needed.append(schema.privacy_unit.column)
    read = {*needed, *(() if invariants is None else invariants.columns)}
    read |= {"count"} if answers.has_count else set()
    kept = tuple(name for name in answers.ignore if name not in read)
    form = RecordsForm(kept, answers.has_count, dict(answers.called))
    return replace(answers, ignore=(*kept, *unread_columns(records, form, needed)))


@dataclass(frozen=True)
class FittingInvariants:
    """Bundled invariants that a geography can keep.

    Args:
        invariants: those of the settings.
        text: of a file with those that fit; "" where all do.
        left_out: names of those that name a level the geography lacks.
    """

    invariants: Invariants
    text: str
    left_out: tuple[str, ...]


def fitting_invariants(
    settings: Settings, schema: Schema, levels: Sequence[str], beside: Path
) -> FittingInvariants:
    """Return the invariants of settings without the exact statistics of levels that are not there."""
    path = find("invariants", settings.invariants, beside)
    whole = load_invariants(path, schema)
    left = {rule.name: rule.level for rule in whole.exact if rule.level not in levels}
    if not left:
        return FittingInvariants(whole, "", ())
    head, *tables = re.split(r"^(?=\[\[)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    absent = {name for name in left if f'name = "{name}"' in "".join(tables)}
    kept = [t for t in tables if not any(f'name = "{name}"' in t for name in absent)]
    suffix = "_without_" + "_".join(dict.fromkeys(left.values()))
    head = re.sub(r'^name = "(.*)"$', rf'name = "\1{suffix}"', head, flags=re.MULTILINE)
    return FittingInvariants(whole, head + "".join(kept), tuple(left))


def changes_to(path: Path, text: str) -> list[str]:
    """Return what would change in a file that is there, as lines with - and +; none where nothing would."""
    before = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return list(difflib.unified_diff(before, text.splitlines(), str(path), "the draft", lineterm="", n=0))


def with_ledger_id(path: Path, text: str) -> str:
    """Return a run file's text with the ledger's id that the file at a path names, if it is there and names one."""
    named = re.compile(r'^\[ledger\]\n(id = "[^"\n]*"[^\n]*\n)', re.MULTILINE)
    found = named.search(path.read_text(encoding="utf-8", errors="replace")) if path.is_file() else None
    return text if found is None else text.replace("[ledger]\n", f"[ledger]\n{found.group(1)}", 1)


def kept_copy(path: Path) -> Path:
    """Return the first free name beside a file that is about to be replaced: run.toml.1, run.toml.2, ..."""
    number = 1
    while path.with_name(f"{path.name}.{number}").exists():
        number += 1
    return path.with_name(f"{path.name}.{number}")
