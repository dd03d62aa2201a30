"""What a person decides before a release, as frozen values: the plan, what is read, the ledger, what may be charged.

A run file is strict TOML with paths relative to the file; the command line wins over it. All of it is public, so none
of it may be taken from the data.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct, ValidationError, convert, structs

from pgsr.estimators import COVERAGES, DEFAULT, Mechanism, mechanism_named, vector_kind
from pgsr.exact_arguments import fraction
from pgsr.formats import Names
from pgsr.group_tables import (
    check_lengths,
    leaf_counts,
    public_totals,
    read_groups,
    read_hierarchy,
    refuse_other,
)
from pgsr.hierarchy import Hierarchy, Sizes
from pgsr.level_noise import Budget
from pgsr.neighbours import Relation, bound_relation, default_steps, steps_in_order
from pgsr.vectors import Kind
from topdown.arrays import Ints
from topdown.errors import ConfigError
from topdown.file_names import checked_name
from topdown.formats.common import is_answered
from topdown.formats.strict_toml import read_toml
from topdown.inputs import NO_TOTALS, ArrowTable, ControlTotals, MemoryTable
from topdown.notebook import card
from topdown.privacy.ledger import (
    Disk,
    LedgerBinding,
    LedgerLocation,
    Limits,
    RecordsFile,
    make_or_find_ledger,
)

DATA_SET, UNIT = "groups", "person"
FOLDER = "ledger"  # of the ledger, beside the groups; its registry lies with the groups


@dataclass(frozen=True)
class LedgerFile:
    """Which ledger is charged.

    >>> from pgsr import LedgerFile
    >>> LedgerFile("office/groups.jsonl").id
    ''

    Args:
        path: its file; by default in a folder `ledger` beside the groups, whatever folder a release is written to.
        id: its random id; empty if it is not known yet.
        registry: folder of its registry; by default that of the groups.

    Raises:
        ConfigError: a path that no file can have (C172).
    """

    path: Path | str | None = None
    id: str = ""
    registry: Path | str | None = None

    def __post_init__(self) -> None:
        _refuse_odd_path("ledger", self.path)
        _refuse_odd_path("registry", self.registry)


def binding_of(
    data_set: str = DATA_SET, relations: Sequence[Relation] | None = None, smallest: int = 1, unit: str = UNIT
) -> LedgerBinding:
    """Return what the ledger of a data set is bound to; see `Plan` for the arguments.

    >>> from pgsr import binding_of
    >>> binding_of("firms").data_set
    'firms'

    Raises:
        ConfigError: unknown steps (C168), or a data set or unit whose name is no file's (C130).
    """
    checked_name(data_set, "data set")
    checked_name(unit, "unit of privacy")
    steps = steps_in_order(default_steps(smallest) if relations is None else relations)
    return LedgerBinding(data_set, bound_relation(steps, smallest), unit)


def ledger_place(groups: Path | None, binding: LedgerBinding, file: LedgerFile) -> LedgerLocation:
    """Return where the ledger of a data set lies, which one it must be, and what its losses are about.

    >>> from pgsr import LedgerFile, binding_of, ledger_place
    >>> str(ledger_place(None, binding_of(), LedgerFile("office/groups.jsonl")).path)
    'office/groups.jsonl'

    Args:
        groups: file of groups; None if they are in memory.
        binding: what the ledger is bound to.
        file: which ledger it is.

    Raises:
        ConfigError: groups in memory and no ledger (C163).
    """
    if groups is None and file.path is None:
        raise ConfigError(
            "groups in memory have no place for their ledger",
            code="C163",
            fix="name a ledger, give the groups as a file, or simulate",
        )
    home = (Path(str(file.path)) if groups is None else groups).absolute().parent
    path = home / FOLDER / f"{binding.data_set}.ledger.jsonl" if file.path is None else Path(file.path)
    folder = home if file.registry is None else Path(file.registry)
    return LedgerLocation(path, folder, file.id, binding, None if groups is None else RecordsFile(groups))


def new_ledger(place: LedgerLocation, limits: Limits | None = None, instead_of: str = "") -> str:
    """Make the ledger of a data set, once, or find the one that is there; return its random id.

    >>> from pgsr import LedgerFile, binding_of, ledger_place, new_ledger
    >>> len(new_ledger(ledger_place(None, binding_of(), LedgerFile("office/first.jsonl"))))
    16

    Args:
        place: the ledger.
        limits: the most that everything may cost together; None: one release alone.
        instead_of: id of a former ledger of the same data set, which will be taken over.

    Raises:
        BudgetError: the ledger that is there is another one, bound to something else (B007), damaged (B006), at
            odds with its registry (B008, B016), or has another limit (B066); the named one is not there (B011); the
            data set has another (B017); the registry has no folder (B019).
    """
    return make_or_find_ledger(place, limits, instead_of=instead_of).id


def refuse_unnamed(place: LedgerLocation) -> None:
    """Refuse to spend on a ledger that nobody has named (ConfigError C170): a lost one must be noticed."""
    if not place.id:
        raise ConfigError(
            f"no ledger is named for the data set {place.binding.data_set!r}",
            code="C170",
            fix="make it once, or find its id: pgsr ledger new RUN.toml, or pgsr ledger new --groups FILE and "
            "--ledger-id ID",
        )


def _refuse_odd_path(what: str, path: Path | str | None) -> None:
    """Refuse a path that no file can have (ConfigError C172)."""
    try:
        odd = path is not None and (not str(path) or b"\0" in os.fsencode(path))
    except UnicodeEncodeError:
        odd = True
    if odd:
        raise ConfigError(
            f"{what} {ascii(str(path))[1:-1]} is no path that can be written",
            code="C172",
            fix="give the path of a file; nothing was spent",
        )


NAMELESS = Names()


@dataclass(frozen=True, repr=False)
class Plan:
    """What is released and how it is measured; all of it public, so none of it may be taken from the data.

    >>> from pgsr import Budget, Plan, Sizes
    >>> Plan(Sizes(10), Budget(rho="1/8"))
    Plan(sizes 1 .. 10, rho 1/8, posterior)

    Args:
        sizes: public range of sizes.
        budget: how much may be lost, and how it is divided.
        mechanism: see `mechanism.MECHANISMS`.
        direction: sums over sizes from the largest ("tail", default) or the smallest ("cumulative").
        relations: neighbour steps that the noise covers: "move" (a group's size changes by one), "new" (one person
            founds a group), "dropped" (a group of the last size disappears). G is published exactly, so only
            "move" is protected; it must be among them. Or "household": a group has any other size; with it, if at
            all, "appears": a group of any size appears or disappears. Default: move, and new where groups of size
            0 are not listed.
        unit: who adds one to the size of a group, in one word; with "household" what a group is, such as "household".
        total: number of groups G, checked against the data; None to publish the data's own.
        public: number of groups of some regions, checked against the data; what is released agrees with them.
        names: what only people can say of it.
        coverage: of the intervals beside every count, exact: some of 1/2, 9/10, 19/20, 99/100.

    Raises:
        ConfigError: unknown mechanism (C153), direction (C154) or step (C168); "household" without a unit
            of its own (C185); another coverage, or none (C320); a name that is not one line (C015).
    """

    sizes: Sizes
    budget: Budget
    mechanism: str = DEFAULT
    direction: str = "tail"
    relations: Sequence[Relation] | None = None
    unit: str = UNIT
    total: int | None = None
    public: Mapping[str, int] = field(default_factory=dict)
    names: Names = NAMELESS
    coverage: Sequence[Fraction | str] = (Fraction(19, 20),)

    def __post_init__(self) -> None:
        if not self.coverages or not set(self.coverages) <= set(COVERAGES):
            raise ConfigError(
                f"coverage is {', '.join(map(str, self.coverages)) or 'not given'}",
                code="C320",
                fix=f"use some of {', '.join(map(str, COVERAGES))}: how often others hold is not known",
            )
        vector_kind(mechanism_named(self.mechanism), self.direction)
        for name, text in structs.asdict(self.names).items():
            try:
                convert({name: text}, Names)
            except ValidationError:
                raise ConfigError(
                    f"{name} has a line break or another control character, or more than 2,000 characters",
                    code="C015",
                    fix=f"README.txt has a line for it: write {name} in one line",
                ) from None
        if "household" in self.steps and self.unit == UNIT:
            raise ConfigError(
                f"household protects whole groups, so that no {UNIT} is its unit",
                code="C185",
                fix="name what a group is: --unit household",
            )

    def __repr__(self) -> str:
        last, amount = self.sizes.largest, self.budget
        loss = f"rho {amount.rho}" if amount.epsilon is None else f"epsilon {amount.epsilon}"
        return f"Plan(sizes {self.sizes.smallest} .. {last}, {loss}, {self.mechanism})"

    def _repr_html_(self) -> str:
        rows = [("mechanism", self.mechanism), ("steps", ", ".join(self.steps)), ("unit", self.unit)]
        return card(repr(self), rows, note="Nothing was read, drawn or charged.")

    @property
    def post_processing(self) -> Mechanism:
        """The mechanism that the plan names."""
        return mechanism_named(self.mechanism)

    @property
    def kind(self) -> Kind:
        """What is measured."""
        whole_groups = not {"dropped", "household"}.isdisjoint(self.steps)
        return vector_kind(self.post_processing, self.direction, whole_groups=whole_groups)

    @property
    def coverages(self) -> tuple[Fraction, ...]:
        """The levels of coverage, each once, ascending."""
        return tuple(sorted({fraction("coverage", value) for value in self.coverage}))

    @property
    def steps(self) -> tuple[Relation, ...]:
        """The neighbour steps that the noise covers."""
        chosen = default_steps(self.sizes.smallest) if self.relations is None else self.relations
        return steps_in_order(chosen)

    def binding(self, data_set: str = DATA_SET) -> LedgerBinding:
        """Return what the ledger of a data set must be bound to (ConfigError C130: a name that is no file's)."""
        return binding_of(data_set, self.steps, self.sizes.smallest, self.unit)


@dataclass(frozen=True, eq=False)
class Source:
    """What is read.

    Args:
        groups: file, data frame (pandas, polars, Arrow) or mapping of columns: user, unit, region, quantity; or unit,
            region, size; or region, size, count. Nothing of a frame is written or shown.
        hierarchy: a Hierarchy, or a file, data frame or mapping with columns region, parent, level.
        data_set: name of the confidential data set, which its ledger is bound to.
        ignore: columns of the tables that are there and not read; any other is refused.
        totals: what the owner of the groups says of them; checked before anything is charged.

    >>> import pgsr
    >>> regions = {"region": ["land", "N", "S"], "parent": ["", "land", "land"], "level": ["land", "part", "part"]}
    >>> source = pgsr.Source({"region": ["N", "S"], "size": [1, 2], "count": [9, 4]}, regions)
    >>> source.regions().level_names
    ('land', 'part')

    Raises:
        ConfigError: C280 a control total that is none, C250 what is neither file, frame nor mapping.
    """

    groups: Path | str | Mapping[str, Sequence[Any]] | ArrowTable = field(repr=False)
    hierarchy: Hierarchy | Path | str | Mapping[str, Sequence[Any]] | ArrowTable = field(repr=False)
    data_set: str = DATA_SET
    ignore: Sequence[str] = ()
    totals: ControlTotals = NO_TOTALS

    def __post_init__(self) -> None:
        for what, given in (("groups", self.groups), ("hierarchy", self.hierarchy)):
            if not isinstance(given, str | os.PathLike | Mapping | Hierarchy):
                MemoryTable(given, what)  # C250
        if self.totals.malformed:
            raise ConfigError(
                f"{self.totals.malformed[0]} is no control total",
                code="C280",
                fix="give rows and people as whole numbers from 0, sha256 as the 64 digits that sha256sum prints",
            )

    @property
    def file(self) -> Path | None:
        """The file of groups; None if they are in memory."""
        return Path(self.groups) if isinstance(self.groups, str | os.PathLike) else None

    @property
    def files(self) -> list[Path]:
        """Every file that is read."""
        return [Path(one) for one in (self.groups, self.hierarchy) if isinstance(one, str | os.PathLike)]

    def regions(self) -> Hierarchy:
        """Return the regions (DataError: see `read_hierarchy`)."""
        if isinstance(self.hierarchy, Hierarchy):
            return self.hierarchy
        return read_hierarchy(_table_of(self.hierarchy, "hierarchy"), self.ignore)

    def leaves(self, regions: Hierarchy, sizes: Sizes) -> Ints:
        """Return the counts [size][leaf], completely checked; confidential (DataError: see `leaf_counts`)."""
        refuse_other(lambda: self.totals.check_file(self.file), self.file)
        given = self.table
        table = given if isinstance(given, Mapping) else read_groups(given, self.ignore)
        return leaf_counts(table, regions, sizes, self.file, self.ignore, self.totals)

    @cached_property
    def table(self) -> Path | Mapping[str, Sequence[Any]]:
        """The file of groups, or their columns; a data frame is read once. Confidential."""
        found = _table_of(self.groups, "groups")
        if isinstance(found, Mapping):
            check_lengths(found, list(found))
        return read_groups(found, self.ignore) if isinstance(found, MemoryTable) else found


def _table_of(
    given: Path | str | Mapping[str, Sequence[Any]] | ArrowTable, what: str
) -> Path | Mapping[str, Sequence[Any]] | MemoryTable:
    """Return a file, columns, or a data frame in its box (ConfigError C250: none of them)."""
    if isinstance(given, str | os.PathLike):
        return Path(given)
    return given if isinstance(given, Mapping) else MemoryTable(given, what)


MOST_TEXT = 500


@dataclass(frozen=True)
class Policy:
    """What may be charged.

    >>> from pgsr import Policy
    >>> str(Policy(epsilon_limit="2").limits.epsilon)
    '2'

    Args:
        rho_limit, epsilon_limit, delta_limit: the most that everything charged to the data set may cost together, exact
            (see `topdown.privacy.ledger.Limits`); none: this release alone, what a crash tore included.
        reason: why, if someone wrote it down.
        again: release although the ledger holds this very plan already.
        resume: go on with a run that was interrupted in the folder, with the noise that is whole; a part that was
            begun and is not whole is charged again.

    Raises:
        ConfigError: a limit that is no exact number above 0 (C142-C144), or a reason no ledger can hold (C166).
    """

    rho_limit: object = None
    epsilon_limit: object = None
    delta_limit: object = None
    reason: str = ""
    again: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        _ = self.limits
        if len(self.reason) > MOST_TEXT or not self.reason.isprintable():
            raise ConfigError(
                f"the reason of the limit is longer than {MOST_TEXT} characters, or has one that cannot be printed",
                code="C166",
                fix="say it in one line",
            )

    @property
    def limits(self) -> Limits | None:
        """The exact limits, if any."""
        given = {
            name: fraction(f"{name} limit", value)
            for name, value in (
                ("rho", self.rho_limit),
                ("epsilon", self.epsilon_limit),
                ("delta", self.delta_limit),
            )
            if value is not None
        }
        if not given:
            return None
        try:
            return Limits(**given, reason=self.reason)
        except ValueError:
            raise ConfigError(
                "a delta limit is one of epsilon at that delta, below 1",
                code="C166",
                fix="give an epsilon limit beside it",
            ) from None


PATHS = ("groups", "hierarchy", "public", "ledger", "registry", "out")
if TYPE_CHECKING:
    Exact = Fraction | str
else:
    Exact = Fraction  # in a run file; options are texts, which `Budget`, `Plan` and `Policy` read


class PlanSettings(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys of a run file that say what is released, and how it is measured."""

    mechanism: str = DEFAULT
    epsilon: Exact | None = None
    rho: Exact | None = None
    sizes: int | None = None
    smallest: int = 1
    too_large: str = "refuse"
    total: int | None = None
    public: str | None = None
    shares: tuple[Exact, ...] | None = None
    relations: tuple[str, ...] | None = None
    coverage: tuple[Exact, ...] = (Fraction(19, 20),)
    unit: str = UNIT
    direction: str = "tail"
    calibration: str = "correct"
    title: str = ""
    agency: str = ""
    contact: str = ""
    licence: str = ""

    def needed(self, key: str) -> Any:
        """Return a value that has no default (ConfigError C165: it is missing)."""
        if getattr(self, key) is None:
            raise ConfigError(
                f"{key} is missing", code="C165", fix=f"add --{key}, or give it in the run file"
            )
        return getattr(self, key)

    def plan(self, ignored: Sequence[str] = ()) -> Plan:
        """Return the plan; `ignored`: columns of `public`. DataError: see `public_totals`; ConfigError: see `Plan`."""
        return Plan(
            Sizes(self.needed("sizes"), self.smallest, self.too_large),
            Budget(self.epsilon, self.rho, self.shares, self.calibration),
            self.mechanism,
            self.direction,
            cast("tuple[Relation, ...] | None", self.relations),
            self.unit,
            self.total,
            {} if self.public is None else public_totals(Path(self.public), ignored),
            Names(**{key: text for key in _NAMES if is_answered(text := getattr(self, key))}),
            self.coverage,
        )


_NAMES = ("title", "agency", "contact", "licence")


class RunFile(PlanSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every key a run file may have; the command line has an option for each."""

    groups: str | None = None
    hierarchy: str | None = None
    data_set: str = DATA_SET
    ledger: str | None = None
    ledger_id: str = ""
    registry: str | None = None
    rho_limit: Exact | None = None
    epsilon_limit: Exact | None = None
    delta_limit: Exact | None = None
    limit_reason: str = ""
    ignore: tuple[str, ...] = ()
    rows: int | None = None
    people: int | None = None
    sha256: str = ""
    simulate: int | None = None
    truth_is_public: str = ""
    out: str | None = None

    def source(self) -> Source:
        """Return what is read."""
        totals = ControlTotals(self.rows, self.people, self.sha256)
        return Source(self.needed("groups"), self.needed("hierarchy"), self.data_set, self.ignore, totals)

    def ledger_file(self) -> LedgerFile:
        """Return which ledger is charged."""
        ledger, registry = (None if at is None else Path(at) for at in (self.ledger, self.registry))
        return LedgerFile(ledger, self.ledger_id, registry)

    def policy(self, *, again: bool = False, resume: bool = False) -> Policy:
        """Return what may be charged."""
        return Policy(self.rho_limit, self.epsilon_limit, self.delta_limit, self.limit_reason, again, resume)


def settings_of(run: Path | None, given: Mapping[str, Any]) -> RunFile:
    """Return the settings of a run file, with those of the command line put over them.

    Args:
        run: TOML file with the keys of `RunFile`, or None.
        given: settings of the command line, by key.

    Raises:
        ConfigError: unreadable file, unknown key (with the one that was meant), or a value of the wrong type.
    """
    read = RunFile() if run is None else read_toml(run, RunFile, None)
    found = structs.asdict(read)
    if run is not None:
        found |= {key: run.parent / found[key] for key in PATHS if found[key] is not None}
    found |= given
    found |= {key: str(found[key]) for key in PATHS if found[key] is not None}
    return RunFile(**found)


def plan(**settings: Any) -> Plan:
    """Return a plan by the keys that a run file has; numbers and text are read as in one.

    >>> import pgsr
    >>> planned = pgsr.plan(sizes=4, epsilon="1/2", too_large="top-code")
    >>> planned
    Plan(sizes 1 .. 4, epsilon 1/2, posterior)

    Args:
        settings: sizes, and epsilon or rho; others as `pgsr explain` lists them. `public` may be a mapping of region
            to number of groups.

    Raises:
        ConfigError: C348 an unknown key, or sizes are missing; and as `Plan`. TypeError: a float as a budget.
    """
    known = PlanSettings.__struct_fields__
    odd = sorted(set(settings).difference(known))
    if odd or "sizes" not in settings:
        what = f"has no {odd[0]!r}" if odd else "needs sizes"
        raise ConfigError(
            f"a plan of group sizes {what}", code="C348", fix=f"use: {', '.join(sorted(known))}"
        )
    public = settings.pop("public", None)
    if isinstance(public, Mapping):
        return replace(PlanSettings(**settings).plan(), public=public)
    return PlanSettings(**settings, public=public).plan()


def write_settings(run: Path, found: dict[str, str]) -> None:
    """Set keys of a run file to texts, in one durable step; a key that is there is replaced, others go to its end.

    Raises:
        ConfigError: C166 the file does not say so after all; it is left as it was.
    """
    if not found:
        return
    text = run.read_text(encoding="utf-8")
    for key, value in found.items():
        line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        there = re.search(rf"^{key}[ \t]*=.*$", text, re.MULTILINE)
        if there is None:
            text += ("\n" if text and not text.endswith("\n") else "") + line + "\n"
        else:
            text = text[: there.start()] + line + text[there.end() :]
    said = tomllib.loads(text)
    if any(said.get(key) != value for key, value in found.items()):
        raise ConfigError(
            f"{run} could not be told about its ledger",
            code="C166",
            fix="; ".join(f"write {key} = {value!r} into it" for key, value in found.items()),
        )
    try:
        Disk().replace(run, text.encode("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{run} cannot be written: {error.strerror}", code="C166", file=str(run), fix="correct its rights"
        ) from None
