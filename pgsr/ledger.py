"""The seam to topdown's ledger: where it lies, how it is made, how a release is charged, what a checker finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from pgsr.budget import Calibration, steps_in_order
from pgsr.charge import charged, laws_drawn, relation_name
from pgsr.vectors import Relation
from topdown.errors import BudgetError, ConfigError
from topdown.names import checked_name

if TYPE_CHECKING:
    from topdown.ledger.ledger import Ledger, Place
    from topdown.ledger.records import DrawnLaw

DATA_SET, UNIT = "groups", "person"
LOSS_NAMES = {"geometric": "epsilon", "gaussian": "rho"}
QUERY = "group sizes"
WITNESS_FAILED = "B014"


def default_steps(smallest: int) -> tuple[Relation, ...]:
    """Return the neighbour steps covered unless others are named: where size 0 is listed, no group is new."""
    return ("move", "new") if smallest else ("move",)


def ledger_place(
    groups: Path | None,
    *,
    data_set: str = DATA_SET,
    relations: Sequence[Relation] | None = None,
    smallest: int = 1,
    unit: str = UNIT,
    noise: str = "geometric",
    ledger: Path | str | None = None,
    ledger_id: str = "",
    witness: Path | str | None = None,
) -> Place:
    """Return where the ledger of a data set lies, which one it must be, and what its losses are about.

    Args:
        groups: file of groups; None if they are in memory.
        data_set, relations, smallest, unit, noise: what the ledger is bound to; see `release`.
        ledger: its path; by default beside the groups, whatever folder a release is written to.
        ledger_id: its random id; empty if it is not known yet.
        witness: folder of its witness; by default that of the groups.

    Raises:
        ConfigError: groups in memory and no ledger (C163), unknown steps (C168), or a data set whose name is no
            file's (C130).
    """
    from topdown.ledger.ledger import Place
    from topdown.ledger.records import Binding

    if groups is None and ledger is None:
        raise ConfigError(
            "groups in memory have no place for their ledger",
            code="C163",
            fix="give ledger=, or the groups as a file, or simulate=SEED",
        )
    checked_name(data_set, "data set")
    home = Path(str(ledger)).absolute().parent if groups is None else groups.absolute().parent
    path = home / f"{data_set}.ledger.jsonl" if ledger is None else Path(ledger)
    steps = steps_in_order(default_steps(smallest) if relations is None else relations)
    binding = Binding(data_set, relation_name(steps, smallest), unit, LOSS_NAMES[noise])
    return Place(path, home if witness is None else Path(witness), ledger_id, binding)


def new_ledger(place: Place) -> str:
    """Make the ledger of a data set, once, or find the one that is there; return its random id.

    Raises:
        BudgetError: the ledger that is there is another one, bound to something else (B007), damaged (B006), or at
            odds with its witness (B008, B012); the named one is not there (B011).
    """
    from dataclasses import replace

    from topdown.ledger.ledger import check_ledger, create_ledger, read_ledger
    from topdown.ledger.refusals import missing

    there = read_ledger(place.path)
    if there.opened is not None:
        place = replace(place, id=place.id or there.opened.ledger)
        check_ledger(place, there)
        return place.id
    if place.id:
        raise missing(place.path, place.binding.data_set)
    return create_ledger(place.path, place.witness_folder, place.binding)


class Spend:
    """An open intent of a ledger: noise may be drawn, and is committed once its files exist."""

    def __init__(
        self, ledger: Ledger, intent: int, plan_hash: str, journal: str, parts: tuple[str, ...]
    ) -> None:
        self._ledger, self._intent, self._plan_hash, self._journal = ledger, intent, plan_hash, journal
        self._parts = parts

    def commit(self, files_digest: str) -> bytes:
        """Record durably which file the noise of every level became; return the ledger's bytes."""
        from topdown.ledger.records import Commit

        for part in self._parts:
            self._ledger.drawn(self._intent, part, files_digest)
        self._ledger.commit(Commit((self._intent,), self._plan_hash, self._journal, files_digest))
        return self._ledger.path.read_bytes()


@contextmanager
def spend(
    place: Place,
    *,
    plan_hash: str,
    calibration: Calibration,
    levels: tuple[str, ...],
    exact: tuple[str, ...],
    journal: str,
    limit: Fraction,
    limit_reason: str,
    file: str,
    again: bool = False,
) -> Iterator[Spend]:
    """Lock the ledger, write a durable intent, and begin every level; raises before anything is drawn.

    Args:
        place: the ledger.
        plan_hash, calibration, levels: what will be drawn, once.
        exact: names of the statistics published exactly.
        journal: random id of this run.
        limit, limit_reason: the most that may ever be charged to the data set, and why.
        file: name of the file that the noise will become.
        again: although the ledger holds this very plan already.

    Raises:
        ConfigError: no ledger is named (C170).
        BudgetError: the ledger refuses, is missing or is another one.
    """
    from topdown.ledger.ledger import open_ledger
    from topdown.ledger.records import Intent

    if not place.id:
        raise ConfigError(
            f"no ledger is named for the data set {place.binding.data_set!r}",
            code="C170",
            fix="make it once, or find its id: pgsr ledger RUN.toml, or pgsr ledger --groups FILE and --ledger-id ID",
        )
    release = f"{place.binding.data_set}-{plan_hash[:8]}"
    intent = Intent(release, plan_hash, ledger_laws(calibration, levels), exact, 1, levels, journal)
    with open_ledger(place) as ledger:
        ledger.check_first(intent, again=again)
        ledger.check_affordable(intent, limit)
        with charged(intent.loss_name, intent.loss, code=WITNESS_FAILED):
            seq = ledger.intent(intent, limit, limit_reason).seq
        with charged(intent.loss_name, intent.loss):
            parts = tuple(f"{level}/{file}" for level in levels)
            for part in parts:
                ledger.begin(seq, part)
            yield Spend(ledger, seq, plan_hash, journal, parts)


def ledger_laws(calibration: Calibration, levels: tuple[str, ...]) -> tuple[DrawnLaw, ...]:
    """Return the laws drawn as the ledger records them."""
    from topdown.ledger.records import DrawnLaw

    return tuple(DrawnLaw(*law, level, QUERY) for level, law in laws_drawn(calibration, levels).items())


@dataclass(frozen=True)
class Charged:
    """What a ledger says about one release.

    Args:
        problem: why it cannot be believed; empty if it can.
        summary: the ledger in numbers.
        neighbours, unit, loss_name: what its losses are about.
        laws: (level, law, parameter, shift, coordinates) drawn.
        exact: names of the statistics published exactly.
        loss: charged for the release, exact.
        files: digest of the committed files.
    """

    problem: str = ""
    summary: str = ""
    neighbours: str = ""
    unit: str = ""
    loss_name: str = ""
    laws: tuple[tuple[str, str, Fraction, int, int], ...] = ()
    exact: tuple[str, ...] = ()
    loss: Fraction = Fraction(0)
    files: str = ""


def find_charge(path: Path, plan_hash: str, journal: str) -> Charged:
    """Check a ledger's chain and find the intent and the commit of one release.

    Args:
        path: the ledger.
        plan_hash: what the release said it would do.
        journal: id under which its noise was drawn.
    """
    from topdown.ledger.ledger import read_ledger

    try:
        book = read_ledger(path)
    except BudgetError as error:
        return Charged(error.text)
    intents = [intent for intent in book.of_journal(journal).values() if intent.plan_hash == plan_hash]
    commit = book.commit_of(journal)
    if commit is None or len(intents) != 1:
        return Charged("the ledger has no commit of this release")
    intent, binding = intents[0], book.binding
    return Charged(
        "",
        f"{len(book.intents)} intents, chain unbroken, {book.charged} charged so far",
        binding.neighbours,
        binding.unit,
        binding.loss_name,
        tuple((x.level, x.law, x.parameter, x.shift, x.coordinates) for x in intent.laws),
        intent.exact,
        intent.loss,
        commit.files,
    )
