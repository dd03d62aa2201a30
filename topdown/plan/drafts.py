"""Drafts for people to complete: a commented run file from bundled settings, or all files from a public list of codes.

Records are never looked at.
"""

from __future__ import annotations

import os
import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from pathlib import Path

import msgspec

from topdown.errors import ConfigError, DataError
from topdown.file_names import checked_name
from topdown.formats.common import Targets
from topdown.formats.strict_toml import dec_hook, exact_text, toml_text
from topdown.inputs import (
    BLANK,
    TableLocation,
    ValueLabels,
    bands_among,
    containing_file,
    header_if_readable,
    location_text,
    printable,
    read_table,
    text_columns,
)
from topdown.model import Attribute, Recode, Schema
from topdown.plan.settings import Settings, load_settings
from topdown.privacy.laws import law_of_mechanism
from topdown.resources import find

CENSUS_PREFIXES = {"us": 0, "state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}


@dataclass(frozen=True)
class RunFileAnswers:
    """What the caller knows already; empty fields get a default, or "?" where only a person can answer.

    Args:
        release_id, title, data_set, agency, contact: of the release.
        prefix_lengths: characters of the geocode that name each level.
        schema, invariants: as they are to stand in the run file; the settings' own if empty.
        ignore, has_count: columns of the tables that are not read; whether the records have a column count.
        already: what other releases of the data set may have spent, for the ledger's limit.
        registry: folder of the ledger's registry; the records' if None.
        columns: of the leaves, that hold the codes of the areas above. called: other names of columns.
        values: by attribute, what the values in the records mean.
    """

    release_id: str = ""
    title: str = ""
    data_set: str = ""
    agency: str = "?"
    contact: str = "?"
    prefix_lengths: tuple[int, ...] = ()
    schema: str = ""
    invariants: str = ""
    ignore: tuple[str, ...] = ()
    has_count: bool = True
    already: Fraction = Fraction(0)  # what the ledger must have room for besides
    registry: Path | None = None
    columns: tuple[str, ...] = ()
    called: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, ValueLabels] = field(default_factory=dict)


def default_levels(settings: Settings) -> tuple[str, ...]:
    """Return the levels of the settings below "us"; of a census spine only those with a known geocode length."""
    names = [t.name for t in settings.level if t.name != "us"]
    census = bool(names) and {names[0], names[-1]} <= set(CENSUS_PREFIXES)
    return tuple(name for name in names if not census or name in CENSUS_PREFIXES)


def suggest_limit(settings: Settings, levels: tuple[str, ...]) -> Fraction:
    """Return a round limit with room for one release at these levels and one interrupted measurement."""
    budget = settings.budget.rho or settings.budget.epsilon or Fraction(1)
    shares = [t.share for t in settings.level if t.name in levels]
    spent = budget * sum(shares, Fraction(0))
    return Fraction(ceil(2 * (spent + budget * max(shares, default=Fraction(0)))), 2)


def run_file_text(
    schema: str,
    settings_name: str,
    records: TableLocation,
    leaves: TableLocation,
    out: Path,
    levels: tuple[str, ...] = (),
    answers: RunFileAnswers = RunFileAnswers(),
    *,
    settings_text: str = "",
) -> str:
    """Return the text of a run file.

    Args:
        schema: bundled schema name or path; must be the settings' schema.
        settings_name: bundled settings name or path.
        records, leaves: input tables; written relative to the run file's folder where possible.
        out: where the run file will be.
        levels: levels of the geography, root first; all levels of the settings below "us" if empty.
        answers: what is known already.
        settings_text: of settings that are no file yet; they are read instead of `settings_name`.

    Raises:
        ConfigError: schema and settings do not belong together, or a level has no known geocode length.
    """
    if settings_text:
        body = settings_text
        settings = msgspec.convert(tomllib.loads(body), Settings, dec_hook=dec_hook)
    else:
        path = find("settings", settings_name, Path.cwd())
        body, settings = path.read_text(encoding="utf-8"), load_settings(path)
    if schema != settings.schema:
        raise ConfigError(
            f"settings {settings.name!r} are for schema {settings.schema!r}, not {schema!r}",
            code="C060",
            fix=f"use --schema {settings.schema}, or other settings",
        )
    numbers = re.search(r"^\[budget\]", body, re.MULTILINE)
    if numbers is None:
        raise ConfigError(
            f"settings {settings.name!r} have no line [budget], from which on they are copied into the run file",
            code="C286",
            fix="write the budget as a table of its own, before the levels: [budget], and rho or epsilon below it",
        )
    chosen = levels or default_levels(settings)
    for name in chosen:
        checked_name(name, "level")
    head = _run_file_head(settings, chosen, records, leaves, out, answers)
    base = (
        f"\n[base]  # extends a release of schema {settings.extends}: topdown extend\n"
        if settings.extends
        else ""
    )
    return head + "\n" + body[numbers.start() :] + base


def _run_file_head(
    settings: Settings,
    levels: tuple[str, ...],
    records: TableLocation,
    leaves: TableLocation,
    out: Path,
    answers: RunFileAnswers,
) -> str:
    folder = out.resolve().parent
    census = all(name in CENSUS_PREFIXES for name in levels)
    usual = [CENSUS_PREFIXES[name] for name in levels] if census else []
    lengths = list(answers.prefix_lengths) or usual
    places = f"prefix_lengths = {lengths}  # characters of the geocode that name each level"
    if answers.columns:
        places = f"columns = {_wrapped_list(answers.columns)}  # of the leaves: codes of the areas above"
    pairs = ", ".join(f"{_bare_or_quoted(name)} = {toml_quote(of)}" for name, of in answers.called)
    called = f"columns = {{ {pairs} }}  # what columns are called in the tables\n" if pairs else ""
    limit = suggest_limit(settings, levels) + answers.already
    unit = "rho" if law_of_mechanism(settings.mechanism).loss_name == "rho" else "epsilon"
    delta = settings.budget.delta
    beside = "" if delta is None else f'delta_limit = "{exact_text(2 * delta)}"  # at this delta\n'
    data_set = answers.data_set or containing_file(records).name.split(".")[0]
    registry = ""
    if answers.registry is not None:
        place = toml_quote(os.path.relpath(answers.registry.resolve(), folder))
        registry = (
            f"registry = {place}  # folder of the small file that knows this ledger and how far it has come\n"
        )
    return f"""\
# A release, from records to microdata. Check it with: topdown plan {out.name}
# Paths are relative to this file. Exact numbers are whole, or fractions in quotes.
type = "topdown.run"
version = 1
schema = {toml_quote(answers.schema or settings.schema)}
invariants = {toml_quote(answers.invariants or settings.invariants)}
settings = {toml_quote(settings.name)}  # where the numbers below came from; they may be changed here
neighbours = "{settings.neighbours}"  # bounded: one record replaced; add_remove: one record more or less
mechanism = "{settings.mechanism}"

[release]
id = {toml_quote(answers.release_id or data_set + "-r1")}
title = {toml_quote(answers.title or settings.title)}
data_set = {toml_quote(data_set)}  # privacy loss adds up over all releases from one data set
agency = {toml_quote(answers.agency)}  # only a person can answer; while it is "?", the release is stamped DRAFT
contact = {toml_quote(answers.contact)}

[input]
records = {toml_quote(location_text(records, folder))}  # confidential; only the measure stage opens it
leaves = {toml_quote(location_text(leaves, folder))}  # public facts, one row a leaf
count = {"true" if answers.has_count else "false"}  # false: the records have no column count, each row is one
# Columns of the tables that are not read; any other that nobody asked for is refused.
ignore = {_wrapped_list(answers.ignore)}
{called}# Control totals from whoever made the records, any of them: what is read must agree before anything is spent.
# rows =
# people =
# sha256 = ""
{_values_text(answers.values)}
[geography]
levels = [{", ".join(toml_quote(name) for name in levels)}]
{places}

[ledger]
path = {toml_quote(f"ledger/{_ledger_file_name(data_set)}.jsonl")}
{registry}{unit}_limit = "{exact_text(limit)}"  # most {unit} of everything ever charged to this data set together
{beside}"""


def _values_text(values: Mapping[str, ValueLabels]) -> str:
    """Return the tables that say what the values in the records mean; values that are labels stay as they are."""
    text = ""
    for name, of in values.items():
        text += f"\n[input.values.{_bare_or_quoted(name)}]  # what the values in the records mean\n"
        text += f"bands = {_wrapped_list(of.bands)}\n" if of.bands else ""
        pairs = ", ".join(
            f"{_bare_or_quoted(value)} = {toml_quote(label)}" for value, label in of.labels.items()
        )
        text += f"labels = {{ {pairs} }}\n" if pairs else ""
        text += f"blank = {toml_quote(of.blank)}  # of empty values\n" if of.blank else ""
    return text


def _bare_or_quoted(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").isalnum() else toml_quote(name)


def _ledger_file_name(data_set: str) -> str:
    try:
        return checked_name(data_set, "data set")
    except ConfigError:
        return "data"


def _wrapped_list(names: tuple[str, ...]) -> str:
    line = ", ".join(toml_quote(name) for name in names)
    lines = textwrap.wrap(line, 100, break_long_words=False, break_on_hyphens=False)
    return f"[{line}]" if len(lines) < 2 else "\n  ".join(["[", *lines]) + ",\n]"


def toml_quote(text: str) -> str:
    """Return a text as TOML has it; ConfigError C061 for control characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if any(ord(c) < 32 for c in escaped):
        raise ConfigError(f"{text!r} has a control character", code="C061", fix="rename the file")
    tomllib.loads(f'x = "{escaped}"')
    return f'"{escaped}"'


_WHOLE, _CODED, _GROUPED = (
    ("attribute", "label"),
    ("code",),
    ("recode", "group"),
)  # columns of a list of codes


@dataclass(frozen=True)
class DraftFiles:
    """Texts of three files."""

    schema: str
    invariants: str
    settings: str


def read_code_list(path: Path, name: str) -> tuple[Schema, dict[str, ValueLabels]]:
    """Return the schema that a list of codes describes, and what the values of records mean by it.

    Args:
        path: CSV(.gz) or Parquet with columns attribute and label, one row a label in its order; with columns recode
            and group too, one row a label and recode. `topdown tables` writes such a file. A column code may say how
            the records write a label, such as M for male, or (blank) for an empty value.
        name: of the schema, whose records are persons.

    Raises:
        DataError: as `read_table`; D065 a row is there twice, or a label is in no group or in two of a recode.
        ConfigError: C020-C023, C130 as every schema.
    """
    header = header_if_readable(path)
    columns = (*_WHOLE, *(_CODED if "code" in header else ()), *(_GROUPED if "recode" in header else ()))
    table = read_table(path, text_columns(*columns, integers=True), of_run=False)
    n_rows = len(table.texts("label"))
    texts = {
        name: table.texts(name) if name in columns else [""] * n_rows
        for name in (*_WHOLE, *_CODED, *_GROUPED)
    }
    labels: dict[str, dict[str, None]] = {}
    groups: dict[tuple[str, str], dict[str, str]] = {}
    codes: dict[str, dict[str, str]] = {}
    seen: set[tuple[str, str, str]] = set()
    for number, (attribute, label, code, recode, group) in enumerate(
        zip(*texts.values(), strict=True), start=1
    ):
        if (attribute, label, recode) in seen:
            raise _code_list_error(
                path, f"row {number}: {_describe_row(attribute, label, recode)} is there twice"
            )
        if bool(recode) != bool(group):
            raise _code_list_error(path, f"row {number}: recode and group are given together, or neither")
        seen.add((attribute, label, recode))
        labels.setdefault(attribute, {})[label] = None
        if recode:
            groups.setdefault((attribute, recode), {})[label] = group
        if code and codes.setdefault(attribute, {}).setdefault(code, label) != label:
            raise _code_list_error(path, f"row {number}: code {printable(code)!r} has two labels")
    schema = Schema(
        name, name, "person", tuple(_listed_attribute(path, a, tuple(of), groups) for a, of in labels.items())
    )
    values = values_by_rule(schema)
    for attribute, of in codes.items():
        bands = values[attribute].bands if attribute in values else ()
        blank = of.pop(BLANK, "")
        values[attribute] = ValueLabels(
            bands=bands, labels={code: label for code, label in of.items() if code != label}, blank=blank
        )
    return schema, values


def values_by_rule(schema: Schema) -> dict[str, ValueLabels]:
    """Return what whole numbers in the records mean, for every attribute with labels such as 0-17 and 65+."""
    bands = {attribute.name: bands_among(attribute.labels) for attribute in schema.attributes}
    return {name: ValueLabels(bands=of) for name, of in bands.items() if of}


def _listed_attribute(
    path: Path, name: str, labels: tuple[str, ...], groups: dict[tuple[str, str], dict[str, str]]
) -> Attribute:
    recodes = []
    for (attribute, recode), group_of in groups.items():
        if attribute != name:
            continue
        left = [label for label in labels if label not in group_of]
        if left:
            raise _code_list_error(path, f"{_describe_row(name, left[0], recode)} has no group")
        order = tuple(dict.fromkeys(group_of.values()))
        recodes.append(Recode(recode, order, tuple(order.index(group_of[label]) for label in labels)))
    return Attribute(name, labels, tuple(recodes))


def _describe_row(attribute: str, label: str, recode: str) -> str:
    return f"{printable(attribute)} {printable(label)!r}" + (
        f" in recode {printable(recode)}" if recode else ""
    )


def _code_list_error(path: Path, text: str) -> DataError:
    return DataError(
        f"{path}: {text}",
        code="D065",
        file=str(path),
        fix="give one row a label, or one row a label and recode with its group",
    )


def draft_files(schema: Schema, levels: Sequence[str], source: str, targets: Targets = "own") -> DraftFiles:
    """Return schema, empty invariants and settings by rule for a schema of one's own.

    The rule is that of `Settings.from_shares`.

    Args:
        schema: of the codes. levels: root first. source: where the codes came from.
        targets: what areas are fitted to, where the estimate of the whole tree exists.
    """
    settings = _settings_text(schema, levels, targets)
    return DraftFiles(_schema_text(schema, source), _invariants_text(schema), settings)


def _schema_text(schema: Schema, source: str) -> str:
    lines = [
        "# What a record can say: attributes and their labels. All of it is public.",
        'type = "topdown.schema"',
        "version = 1",
        f"name = {toml_quote(schema.name)}",
        f"title = {toml_quote(schema.title)}",
        f"unit = {toml_quote(schema.unit)}",
        f"source = {toml_quote(source)}",
    ]
    for attribute in schema.attributes:
        lines += ["", "[[attribute]]", f"name = {toml_quote(attribute.name)}", "labels = ["]
        lines += [f"  {toml_quote(label)}," for label in attribute.labels] + ["]"]
        for recode in attribute.recodes:
            lines += ["", f"[attribute.recodes.{toml_quote(recode.name)}]"]
            for i, group in enumerate(recode.group_labels):
                inside = [
                    toml_quote(at)
                    for at, of in zip(attribute.labels, recode.group_of, strict=True)
                    if of == i
                ]
                lines.append(f"{toml_quote(group)} = [{', '.join(inside)}]")
    return "\n".join(lines) + "\n"


def _invariants_text(schema: Schema) -> str:
    return f"""\
# What stays exactly true. Nothing yet: every number is protected. docs/how-to/your-own-invariants.md shows the kinds.
type = "topdown.invariants"
version = 1
name = "none"
title = "No invariants"
schema = {toml_quote(schema.name)}

# [[exact]]
# name = "population of the country"
# level = "the first level"
# query = "total"
# legal_basis = "the law that asks for it"
"""


_COMMENTS = {  # before or after a line of drafted settings
    "[[level]]": (
        "# passes: each entry solves `table` for the best fit and fixes it for the entries that follow.\n"
        "# rounding: tables from coarse to fine, each with the weight of one person of rounding error in it.\n"
        "\n[[level]]"
    ),
    'rho = "1"': 'rho = "1"  # people decide this: topdown plan run.toml --budget-for 5 says what epsilon 5 would be',
    'epsilon = "1"': 'epsilon = "1"  # people decide this, for all records of one unit together',
    'targets = "tree"': (
        'targets = "tree"  # areas are fitted to what is measured in the whole tree; own: to their own measurements'
    ),
    'coverage = "19/20"': 'coverage = "19/20"  # every count in the tables with an interval',
}


def _settings_text(schema: Schema, levels: Sequence[str], targets: Targets) -> str:
    settings = Settings.from_shares(schema, levels, source="drafted by topdown init")
    if settings.estimates is not None:
        estimates = msgspec.structs.replace(settings.estimates, targets=targets)
        settings = msgspec.structs.replace(settings, estimates=estimates)
    text = toml_text(settings)
    for line, said in _COMMENTS.items():
        text = text.replace(f"\n{line}\n", f"\n{said}\n", 1)
    text = text.replace("large_delta = false\n", "", 1)
    rule = "equal shares by level; total 1/4, every attribute by itself 1/4 together, every combination 1/2."
    return f"# A draft by rule: {rule}\n{text}"
