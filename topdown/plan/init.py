"""Write a complete, commented run file from bundled settings."""

from __future__ import annotations

import os
import textwrap
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path

from topdown.errors import ConfigError
from topdown.laws import law_of_mechanism
from topdown.names import checked_name
from topdown.plan.document import exact_text
from topdown.plan.files import SettingsFile, load_settings, parse_settings
from topdown.resources import find
from topdown.stores.place import Table, file_of, text_from

CENSUS_PREFIXES = {"us": 0, "state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}


@dataclass(frozen=True)
class Answers:
    """What the caller knows already; empty fields get a default, or "?" where only a person can answer.

    Args:
        release_id, title, data_set, agency, contact: of the release.
        prefix_lengths: characters of the geocode that name each level.
        schema, invariants: as they are to stand in the run file; the settings' own if empty.
        ignore, has_count: columns of the tables that are not read; whether the records have a column count.
        already: what other releases of the data set may have spent, for the ledger's limit.
        witness: folder of the ledger's witness; the records' if None.
        columns: of the leaves, that hold the codes of the areas above. called: other names of columns.
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
    witness: Path | None = None
    columns: tuple[str, ...] = ()
    called: tuple[tuple[str, str], ...] = ()


def default_levels(settings: SettingsFile) -> tuple[str, ...]:
    """Return the levels of the settings below "us"; of a census spine only those with a known geocode length."""
    names = [t.name for t in settings.level if t.name != "us"]
    census = bool(names) and {names[0], names[-1]} <= set(CENSUS_PREFIXES)
    return tuple(name for name in names if not census or name in CENSUS_PREFIXES)


def usual_limit(settings: SettingsFile, levels: tuple[str, ...]) -> Fraction:
    """Return a round limit with room for one release at these levels and one interrupted measurement."""
    budget = settings.budget.rho or settings.budget.epsilon or Fraction(1)
    shares = [t.share for t in settings.level if t.name in levels]
    spent = budget * sum(shares, Fraction(0))
    return Fraction(ceil(2 * (spent + budget * max(shares, default=Fraction(0)))), 2)


def run_file_text(
    schema: str,
    settings_name: str,
    records: Table,
    leaves: Table,
    out: Path,
    levels: tuple[str, ...] = (),
    answers: Answers = Answers(),
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
        body, settings = settings_text, parse_settings(settings_text)
    else:
        path = find("settings", settings_name, Path.cwd())
        body, settings = path.read_text(encoding="utf-8"), load_settings(path)
    if schema != settings.schema:
        raise ConfigError(
            f"settings {settings.name!r} are for schema {settings.schema!r}, not {schema!r}",
            code="C060",
            fix=f"use --schema {settings.schema}, or other settings",
        )
    chosen = levels or default_levels(settings)
    for name in chosen:
        checked_name(name, "level")
    head = _head(settings, chosen, records, leaves, out, answers)
    base = (
        f"\n[base]  # extends a release of schema {settings.extends}: topdown extend\n"
        if settings.extends
        else ""
    )
    return head + "\n" + body[body.index("[budget]") :] + base


def _head(
    settings: SettingsFile,
    levels: tuple[str, ...],
    records: Table,
    leaves: Table,
    out: Path,
    answers: Answers,
) -> str:
    folder = out.resolve().parent
    census = all(name in CENSUS_PREFIXES for name in levels)
    usual = [CENSUS_PREFIXES[name] for name in levels] if census else list(range(len(levels)))
    lengths = list(answers.prefix_lengths) or usual
    known = census or answers.prefix_lengths
    note = "characters of the geocode that name each level" if known else "CORRECT THESE: characters a level"
    places = f"prefix_lengths = {lengths}  # {note}"
    if answers.columns:
        places = f"columns = {_list(answers.columns)}  # of the leaves: codes of the areas above"
    pairs = ", ".join(f"{_key(name)} = {quote(of)}" for name, of in answers.called)
    called = f"columns = {{ {pairs} }}  # what columns are called in the tables\n" if pairs else ""
    limit = usual_limit(settings, levels) + answers.already
    unit = "rho" if law_of_mechanism(settings.mechanism).loss_name == "rho" else "epsilon"
    delta = settings.budget.delta
    beside = "" if delta is None else f'delta_limit = "{exact_text(2 * delta)}"  # most delta, beside it\n'
    data_set = answers.data_set or file_of(records).name.split(".")[0]
    witness = ""
    if answers.witness is not None:
        place = quote(os.path.relpath(answers.witness.resolve(), folder))
        witness = f"witness = {place}  # folder of the small file that notices an older ledger\n"
    return f"""\
# A release, from records to microdata. Check it with: topdown plan {out.name}
# Paths are relative to this file. Exact numbers are whole, or fractions in quotes.
type = "topdown.run"
version = 1
schema = {quote(answers.schema or settings.schema)}
invariants = {quote(answers.invariants or settings.invariants)}
settings = {quote(settings.name)}  # where the numbers below came from; they may be changed here
neighbours = "{settings.neighbours}"  # bounded: one record replaced; add_remove: one record more or less
mechanism = "{settings.mechanism}"

[release]
id = {quote(answers.release_id or data_set + "-r1")}
title = {quote(answers.title or settings.title)}
data_set = {quote(data_set)}  # privacy loss adds up over all releases from one data set
agency = {quote(answers.agency)}  # only a person can answer; while it is "?", the release is stamped DRAFT
contact = {quote(answers.contact)}

[input]
records = {quote(text_from(records, folder))}  # confidential; only the measure stage opens it
leaves = {quote(text_from(leaves, folder))}  # public facts, one row a leaf
count = {"true" if answers.has_count else "false"}  # false: the records have no column count, each row is one
# Columns of the tables that are not read; any other that nobody asked for is refused.
ignore = {_list(answers.ignore)}
{called}
[geography]
levels = [{", ".join(quote(name) for name in levels)}]
{places}

[ledger]
path = {quote(f"ledger/{_file_name(data_set)}.jsonl")}
{witness}limit = "{exact_text(limit)}"  # most {unit} ever spent on this data set; room for one interrupted measurement
{beside}"""


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").isalnum() else quote(name)


def _file_name(data_set: str) -> str:
    try:
        return checked_name(data_set, "data set")
    except ConfigError:
        return "data"


def _list(names: tuple[str, ...]) -> str:
    line = ", ".join(quote(name) for name in names)
    lines = textwrap.wrap(line, 100, break_long_words=False, break_on_hyphens=False)
    return f"[{line}]" if len(lines) < 2 else "\n  ".join(["[", *lines]) + ",\n]"


def quote(text: str) -> str:
    """Return a text as TOML has it; ConfigError C061 for control characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if any(ord(c) < 32 for c in escaped):
        raise ConfigError(f"{text!r} has a control character", code="C061", fix="rename the file")
    tomllib.loads(f'x = "{escaped}"')
    return f'"{escaped}"'
