"""Make up a census and write it as input of a release: records, public facts, run file.

The tables are written as they are drawn: nothing keeps all rows. The run file is that of the settings, with names,
levels and answers filled in.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from topdown.errors import ConfigError
from topdown.file_names import checked_name, refuse_same_file
from topdown.made_up import write_mark
from topdown.model import Histogram, Invariants, Schema, base_labels
from topdown.notebook import card
from topdown.output_paths import new_folder
from topdown.plan import (
    RunFileAnswers,
    draft_files,
    load_invariants,
    load_schema,
    load_settings,
    run_file_text,
)
from topdown.plan.drafts import default_levels, suggest_limit
from topdown.practice.synth import public_columns
from topdown.practice.synth.made_up_people import Crowd, Population, people_together
from topdown.practice.synth.made_up_tree import MadeUpTree, grow_tree
from topdown.practice.synth.profile import level_shapes, load_profile
from topdown.resources import bundled_names, bundled_root, find

LEAVES_AT_ONCE = 1 << 16  # whose rows are made at once
Columns = list[Iterable[str]]


@dataclass(eq=False)
class CountedLeaves:
    """What is counted of people as they go by."""

    people: public_columns.PeopleIn
    n_people: int = 0
    n_rows: int = 0
    n_lived: int = 0

    def add(self, people: Histogram) -> None:
        """Count people of leaves that were not seen before."""
        self.people.add(people)
        self.n_people += people.n_records
        self.n_rows += len(people.count)
        self.n_lived += len(np.unique(people.node))


class RecordsTable:
    """The records of a made-up census as text."""

    def __init__(self, schema: Schema, base: Schema | None, tree: MadeUpTree) -> None:
        self._schema, self._base, self._tree = schema, base, tree
        own = [a.name for a in schema.attributes]
        self._more = [] if base is None else [a for a in base.attributes if a.name not in {*own, "count"}]
        self._of_base = None if base is None else base_labels(schema, base, {})
        self.columns = ["geocode", *own, "count", *(a.name for a in self._more)]

    def rows(self, people: Histogram) -> Columns:
        """Return the columns of some people, a row a leaf and cell."""
        columns: Columns = [_row_texts(self._tree.codes[people.node])]
        for attribute, value in zip(
            self._schema.attributes, self._schema.coordinates(people.cell), strict=True
        ):
            columns.append(map(attribute.labels.__getitem__, value.tolist()))
        columns.append(map(str, people.count.tolist()))
        if self._base is not None and self._of_base is not None:
            found = self._base.coordinates(self._of_base[people.cell])
            for attribute, value in zip(self._base.attributes, found, strict=True):
                if attribute in self._more:  # one table serves both runs: each reads its own columns
                    columns.append(map(attribute.labels.__getitem__, value.tolist()))
        return columns


def leaf_rows(tree: MadeUpTree, facts: Mapping[str, public_columns.Counts]) -> Iterator[Columns]:
    """Yield the columns of the table of leaves, a range of leaves at a time."""
    for first in range(0, tree.n_leaves, LEAVES_AT_ONCE):
        here = slice(first, first + LEAVES_AT_ONCE)
        yield [_row_texts(tree.codes[here]), *(map(str, fact[here].tolist()) for fact in facts.values())]


@contextmanager
def open_packed(path: Path) -> Iterator[gzip.GzipFile]:
    """Open a gzip file without name and time: the same rows are the same bytes."""
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
        yield file


def write_line(file: gzip.GzipFile, values: Iterable[str]) -> None:
    """Write one row."""
    file.write((",".join(values) + "\n").encode())


def write_rows(file: gzip.GzipFile, columns: Columns) -> None:
    """Write rows that are given by columns."""
    rows = map(",".join, zip(*columns, strict=True))
    file.write("".join(f"{row}\n" for row in rows).encode())


def _row_texts(codes: np.ndarray[tuple[int], np.dtype[np.bytes_]]) -> list[str]:
    return [code.decode("ascii") for code in codes.tolist()]


@dataclass(frozen=True)
class RunChoices:
    """What a run is made of, as the user named it.

    Args:
        schema: bundled name or path.
        schema_name: name inside the schema file.
        settings: bundled name or path.
        invariants: bundled name or path; the settings' own if empty.
        base_settings: of the release that this one extends; both are of one data set and share its ledger.
    """

    schema: str
    schema_name: str
    settings: str
    invariants: str = ""
    base_settings: str = ""


def synth_run_text(
    out: Path,
    chosen: RunChoices,
    release_id: str,
    tree: MadeUpTree,
    *,
    title: str = "",
    ignore: tuple[str, ...] = (),
    already: Fraction = Fraction(0),
) -> str:
    """Return the text of run.toml, beside which the tables lie.

    Args:
        release_id: id of the release and of its data set.
        title: added to the title.
        ignore: columns of the tables that this run does not read.
        already: room under the limit of the ledger for the release that extends this one; one for the release that
            this one extends is added.
    """
    if chosen.base_settings:
        already = suggest_limit(load_settings(find("settings", chosen.base_settings, Path.cwd())), tree.names)
    nobody = "nobody: made-up data"
    answers = RunFileAnswers(
        release_id=f"{release_id}-{chosen.schema_name}" if chosen.base_settings else release_id,
        title="A made-up census: nobody in it is real" + title,
        ignore=ignore,
        already=already,
        data_set=release_id,
        agency=nobody,
        contact=nobody,
        prefix_lengths=tree.prefix_lengths,
        schema=_relative_path(chosen.schema, out) if chosen.schema.endswith(".toml") else "",
        invariants=_relative_path(chosen.invariants, out)
        if chosen.invariants.endswith(".toml")
        else chosen.invariants,
    )
    people, blocks = out.parent / "persons.csv.gz", out.parent / "blocks.csv.gz"
    return run_file_text(chosen.schema_name, chosen.settings, people, blocks, out, tree.names, answers)


def _relative_path(name: str, out: Path) -> str:
    return os.path.relpath(Path(name).resolve(), out.resolve().parent)


MOST_PEOPLE = 2**31 - 1
BASE_RUN = "base.toml"  # run file of the release that the made-up one extends
_PEOPLE = re.compile(r"[1-9][0-9]{0,9}")
PLAIN_LEVELS = ("region", "district", "block")  # where there are no settings to say otherwise


@dataclass(frozen=True)
class SynthResult:
    """What was written.

    >>> import topdown
    >>> topdown.synth("village", schema="toy", people=50)
    SynthResult('village', 50 made-up people)

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
    """Make up a census and write persons.csv.gz with its mark, blocks.csv.gz and run.toml: see `topdown.synth`.

    Where the schema extends another one, base.toml is written too; both run files read the same tables. Where no
    settings belong to the schema, settings.toml and invariants.toml are written by rule. The records meet the
    invariants; the public columns agree with the records. The state code 99 does not exist.

    Args:
        invariants: bundled name or path; if empty, the profile's for its own settings, else those the settings name.

    Cost: about 1.3 s and 4 MB a million people of schema pl94.
    """
    check_size(people, seed)
    here = Path.cwd()
    noun = load_schema(find("schemas", schema, here))
    profile = load_profile(noun)
    usual = "" if settings else profile.invariants
    settings = settings or profile.settings or _settings_for(noun.name) or _settings_beside(schema, noun.name)
    chosen = load_settings(find("settings", settings, here)) if settings else None
    rules_name = invariants or usual or (_rules_of(settings, chosen.invariants) if chosen else "")
    rules = (
        load_invariants(find("invariants", rules_name, here), noun)
        if rules_name
        else Invariants("none", "no invariants", noun.name)
    )
    names, largest = _largest_leaf(levels or (default_levels(chosen) if chosen else PLAIN_LEVELS))
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigError(
            f"cannot make up a geography with the levels {', '.join(names)}",
            code="C066",
            fix="name at least two levels, each once, from the root down",
        )
    for name in names:
        checked_name(name, "level")
    refuse_same_file(names, "level")
    who = public_columns.housing_of_schema(noun, rules, profile)
    size = public_columns.facility_sizes(profile, who, people, seed)
    lodged = sum(int(s.sum()) for s in size.values())
    tree = grow_tree(level_shapes(profile, names), people - lodged, profile.empty, seed, largest)
    population = Population(noun, profile, tree, seed)
    facilities, groups = public_columns.settle_facilities(profile, who, size, tree.n_leaves, seed)
    lived = np.flatnonzero(tree.residents)
    groups.insert(0, Crowd("residents", lived, tree.residents[lived], who.residents, households=True))
    drawn = people_together(tree.n_leaves, noun.n_cells, [population.draw(group) for group in groups])
    base = load_schema(find("schemas", profile.base, here)) if profile.base else None
    records, leaves, run = out / "persons.csv.gz", out / "blocks.csv.gz", out / "run.toml"
    table = RecordsTable(noun, base, tree)
    counted = CountedLeaves(public_columns.PeopleIn(noun, rules, tree.n_leaves))
    with new_folder(out, beside_others=True) as part:
        with open_packed(part / records.name) as file:
            write_line(file, table.columns)
            for some in drawn:
                counted.add(some)
                write_rows(file, table.rows(some))
            facts = public_columns.dwellings(rules, profile, counted.people, facilities, seed)
        known = facilities | facts
        facts |= {name: np.sum([known[one] for one in those], axis=0) for name, those in profile.sums.items()}
        columns = (*table.columns, *facts)
        write_mark(part / records.name, "topdown synth", seed)
        with open_packed(part / leaves.name) as file:
            write_line(file, ("geocode", *facts))
            for rows in leaf_rows(tree, facts):
                write_rows(file, rows)
        if chosen is None:
            settings, rules_name = _drafted_invariants(part, out, noun, names)
        named = RunChoices(schema, noun.name, settings, rules_name, profile.base_settings)
        text = synth_run_text(run, named, release_id, tree, ignore=_unread_file(columns, noun, rules))
        (part / run.name).write_text(text, encoding="utf-8")
        if base is not None and chosen is not None:
            plain_rules = load_settings(find("settings", profile.base_settings, here)).invariants
            unread = _unread_file(columns, base, load_invariants(find("invariants", plain_rules, here), base))
            named = RunChoices(base.name, base.name, profile.base_settings)
            room = suggest_limit(chosen, tree.names)
            plain = synth_run_text(
                out / BASE_RUN, named, release_id, tree, title=" (base)", ignore=unread, already=room
            )
            (part / BASE_RUN).write_text(plain, encoding="utf-8")
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


def check_size(people: int, seed: int) -> None:
    """Refuse a number of people or a seed that cannot be (ConfigError C065)."""
    if not 1 <= people <= MOST_PEOPLE or seed < 0:
        raise ConfigError(
            f"cannot make up {people} people with seed {seed}",
            code="C065",
            fix=f"give 1 to {MOST_PEOPLE:,} people and a seed of 0 or more",
        )


def _largest_leaf(levels: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, int]]:
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


def _drafted_invariants(part: Path, out: Path, schema: Schema, levels: tuple[str, ...]) -> tuple[str, str]:
    """Write settings and invariants by rule for a schema that has none; return where they are, and will be."""
    made = draft_files(schema, levels, "")
    for name, text in (("settings.toml", made.settings), ("invariants.toml", made.invariants)):
        (part / name).write_text(text, encoding="utf-8")
    return str(part / "settings.toml"), str(out / "invariants.toml")


def _rules_of(settings: str, invariants: str) -> str:
    """Return where the invariants are that settings name: a file beside settings that are a file."""
    beside = Path(settings).parent / invariants
    own = settings.endswith(".toml") and invariants.endswith(".toml") and beside.is_file()
    return str(beside) if own else invariants


def _unread_file(columns: tuple[str, ...], schema: Schema, rules: Invariants) -> tuple[str, ...]:
    """Return the columns of both tables that a run of this schema with these rules does not read."""
    read = {"geocode", "count", *(a.name for a in schema.attributes), *rules.columns}
    return tuple(dict.fromkeys(name for name in columns if name not in read))
