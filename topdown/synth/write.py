"""Make up a census and write it as input of a release: records, public facts, run file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from topdown.errors import ConfigError
from topdown.made_up import write_mark
from topdown.model.constraint import Invariants
from topdown.model.schema import Schema
from topdown.names import checked_name, refuse_same_file
from topdown.plan.draft import draft
from topdown.plan.files import SettingsFile, load_schema, load_settings
from topdown.plan.init import default_levels
from topdown.plan.invariants_file import load_invariants
from topdown.resources import bundled_names, bundled_root, find
from topdown.synth.facilities import housing, settle, sizes
from topdown.synth.facts import PeopleIn, dwellings
from topdown.synth.people import Population
from topdown.synth.profile import level_shapes, load_profile
from topdown.synth.run_text import Chosen, synth_run_text
from topdown.synth.table import Counted, RecordsTable, leaf_rows, write_line, write_rows, written
from topdown.synth.together import Crowd, together
from topdown.synth.tree import grow

MOST_PEOPLE = 2**31 - 1
BASE_RUN = "base.toml"  # run file of the release that the made-up one extends
_PEOPLE = re.compile(r"[1-9][0-9]{0,9}")
PLAIN_LEVELS = ("region", "district", "block")  # where there are no settings to say otherwise


@dataclass(frozen=True)
class SynthResult:
    """What was written.

    Args:
        records, leaves: the tables.
        run_file: run.toml.
        n_people: records in all.
        nodes: (level, number of nodes), root first.
        n_empty: leaves without records.
        n_rows: rows of the records table.
        base_run_file: run file of the release that run.toml extends; None if it extends none.
    """

    records: Path
    leaves: Path
    run_file: Path
    n_people: int
    nodes: tuple[tuple[str, int], ...]
    n_empty: int
    n_rows: int
    base_run_file: Path | None = None

    def __repr__(self) -> str:
        return f"SynthResult({str(self.records.parent)!r}, {self.n_people:,} made-up people)"

    def _repr_html_(self) -> str:
        from topdown.shown import card

        rows = [("records", self.records), ("leaves", self.leaves), ("run file", self.run_file)]
        areas = ", ".join(f"{n:,} {name}" for name, n in self.nodes)
        return card(f"{self.n_people:,} made-up people", [*rows, ("areas", areas)])


def synth(
    out: Path,
    *,
    people: int = 50_000,
    schema: str = "pl94",
    seed: int = 1,
    settings: str = "",
    invariants: str = "",
    levels: tuple[str, ...] = (),
    release_id: str = "made-up",
) -> SynthResult:
    """Make up a census and write persons.csv.gz with its mark, blocks.csv.gz and run.toml into a folder.

    Where the schema extends another one, base.toml is written too; both run files read the same tables. Where no
    settings belong to the schema, settings.toml and invariants.toml are written by rule.

    The same arguments give the same tables on every machine. The records meet the invariants; the public
    columns agree with the records. Nobody in it is real, and the state code 99 does not exist.

    Args:
        out: folder, made if absent; files of the same names are replaced.
        people: records, 1 to 2^31 - 1.
        schema: bundled name, or path of a schema file.
        seed: nonnegative; another seed, another census.
        settings: bundled name or path; chosen by the schema if empty.
        invariants: bundled name or path; if empty, the profile's for its own settings, else those the settings name.
        levels: level names, root first; those of the settings below "us" if empty. "county:10000000" gives the
            first county ten million residents.
        release_id: id of the release and data set in run.toml.

    Raises:
        ConfigError: a file or argument is wrong.

    Cost: about 1.3 s and 4 MB a million people of schema pl94.
    """
    if not 1 <= people <= MOST_PEOPLE or seed < 0:
        raise ConfigError(
            f"cannot make up {people} people with seed {seed}",
            code="C065",
            fix=f"give 1 to {MOST_PEOPLE:,} people and a seed of 0 or more",
        )
    here = Path.cwd()
    noun = load_schema(find("schemas", schema, here))
    profile = load_profile(noun)
    usual = "" if settings else profile.invariants
    settings = settings or profile.settings or _settings_for(noun.name) or _settings_beside(schema, noun.name)
    chosen = load_settings(find("settings", settings, here)) if settings else None
    rules_name = invariants or usual or (_rules_of(settings, chosen.invariants) if chosen else "")
    rules = load_invariants(find("invariants", rules_name, here), noun) if rules_name else _none(noun)
    names, largest = _largest(levels or _levels(chosen))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigError(
            f"cannot make up a geography with the levels {', '.join(names)}",
            code="C066",
            fix="name at least two levels, each once, from the root down",
        )
    for name in names:
        checked_name(name, "level")
    refuse_same_file(names, "level")
    who = housing(noun, rules, profile)
    size = sizes(profile, who, people, seed)
    lodged = sum(int(s.sum()) for s in size.values())
    tree = grow(level_shapes(profile, names), people - lodged, profile.empty, seed, largest)
    population = Population(noun, profile, tree, seed)
    facilities, groups = settle(profile, who, size, tree.n_leaves, seed)
    lived = np.flatnonzero(tree.residents)
    groups.insert(0, Crowd("residents", lived, tree.residents[lived], who.residents, households=True))
    drawn = together(tree.n_leaves, noun.n_cells, [population.draw(group) for group in groups])
    base = load_schema(find("schemas", profile.base, here)) if profile.base else None
    out.mkdir(parents=True, exist_ok=True)
    records, leaves, run = out / "persons.csv.gz", out / "blocks.csv.gz", out / "run.toml"
    table = RecordsTable(noun, base, tree)
    counted = Counted(PeopleIn(noun, rules, tree.n_leaves))
    with written(records) as file:
        write_line(file, table.columns)
        for part in drawn:
            counted.add(part)
            write_rows(file, table.rows(part))
        facts = dwellings(rules, profile, counted.people, facilities, seed)
    known = facilities | facts
    facts |= {name: np.sum([known[one] for one in those], axis=0) for name, those in profile.sums.items()}
    columns = (*table.columns, *facts)
    write_mark(records, "topdown synth", seed)
    with written(leaves) as file:
        write_line(file, ("geocode", *facts))
        for rows in leaf_rows(tree, facts):
            write_rows(file, rows)
    if chosen is None:
        settings, rules_name = _drafted(out, noun, names)
    named = Chosen(schema, noun.name, settings, rules_name, profile.base_settings)
    text = synth_run_text(run, named, release_id, tree, ignore=_unread(columns, noun, rules))
    run.write_text(text, encoding="utf-8")
    if base is not None and chosen is not None:
        plain_rules = load_settings(find("settings", profile.base_settings, here)).invariants
        unread = _unread(columns, base, load_invariants(find("invariants", plain_rules, here), base))
        named = Chosen(base.name, base.name, profile.base_settings)
        plain = synth_run_text(out / BASE_RUN, named, release_id, tree, title=" (base)", ignore=unread)
        (out / BASE_RUN).write_text(plain, encoding="utf-8")
    return SynthResult(
        records,
        leaves,
        run,
        counted.n_people,
        tuple((name, len(parent)) for name, parent in zip(tree.names, tree.parent, strict=True)),
        tree.n_leaves - counted.n_lived,
        counted.n_rows,
        out / BASE_RUN if base is not None and chosen is not None else None,
    )


def _largest(levels: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return level names, and the residents of the first area of those that say so: "county:10000000"."""
    split = [level.partition(":") for level in levels]
    wrong = next((people for _, colon, people in split if colon and not _PEOPLE.fullmatch(people)), None)
    if wrong is not None or (split and split[0][1]):
        raise ConfigError(
            f"{wrong!r} is no number of people" if wrong is not None else "all people live in the root",
            code="C066",
            fix='write "county:10000000" for ten million residents of the first county',
        )
    return tuple(name for name, _, _ in split), {name: int(people) for name, colon, people in split if colon}


def _settings_for(schema: str) -> str:
    for name in bundled_names("settings"):
        if load_settings(bundled_root() / "settings" / f"{name}.toml").schema == schema:
            return name
    return ""


def _settings_beside(schema: str, name: str) -> str:
    """Return the settings that lie beside a schema file, as `topdown init` drafts them; empty if there are none."""
    beside = Path(schema).parent / "settings.toml"
    fits = schema.endswith(".toml") and beside.is_file() and load_settings(beside).schema == name
    return str(beside) if fits else ""


def _drafted(out: Path, schema: Schema, levels: tuple[str, ...]) -> tuple[str, str]:
    """Write settings and invariants by rule for a schema that has none; return where they are."""
    made = draft(schema, levels, "")
    for name, text in (("settings.toml", made.settings), ("invariants.toml", made.invariants)):
        (out / name).write_text(text, encoding="utf-8")
    return str(out / "settings.toml"), str(out / "invariants.toml")


def _rules_of(settings: str, invariants: str) -> str:
    """Return where the invariants are that settings name: a file beside settings that are a file."""
    beside = Path(settings).parent / invariants
    own = settings.endswith(".toml") and invariants.endswith(".toml") and beside.is_file()
    return str(beside) if own else invariants


def _none(schema: Schema) -> Invariants:
    return Invariants("none", "no invariants", schema.name)


def _levels(settings: SettingsFile | None) -> tuple[str, ...]:
    return default_levels(settings) if settings else PLAIN_LEVELS


def _unread(columns: tuple[str, ...], schema: Schema, rules: Invariants) -> tuple[str, ...]:
    """Return the columns of both tables that a run of this schema with these rules does not read."""
    read = {"geocode", "count", *(a.name for a in schema.attributes), *rules.columns}
    return tuple(dict.fromkeys(name for name in columns if name not in read))
