"""`topdown ledger`: make the ledger of a data set, once; show it; document what happened to it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from msgspec import UNSET, Struct, structs

from topdown import app
from topdown.app.commands.command import command, packed, with_options
from topdown.app.commands.options import FILE, FOLDER
from topdown.app.screens import figures
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import WARN, bold
from topdown.errors import EXIT_OK, BudgetError, ConfigError, quoted
from topdown.formats.command_documents import LedgerState
from topdown.formats.strict_toml import exact_text
from topdown.privacy.ledger import (
    Disk,
    FormerLedger,
    LedgerLocation,
    charged_fields,
    find_former_ledger,
    history_lines,
    ledger_history,
    take_over,
)
from topdown.privacy.ledger.ledger_file import attest, move_ledger, open_ledger, read_ledger
from topdown.privacy.ledger.registry import read_registry
from topdown.publish import spent_statement

if TYPE_CHECKING:
    from topdown.privacy.ledger import Limits, Registry

Action = Literal["new", "show", "move", "attest", "refund", "limit", "take-over"]
ACTIONS = ("new", "show", "move", "attest", "refund", "limit", "take-over")


@dataclass(frozen=True)
class Told:
    """What a person says of a ledger.

    Args:
        by, reason: who, and why.
        record: number of the charge that is refunded.
        before: folder where the registry was, or the witness of a former ledger is.
        former: ledger of a former format that is taken over.
        former_name: of its data set, if that is another one.
        head: show one line only.
    """

    by: str = ""
    reason: str = ""
    record: int | None = None
    before: Path | None = None
    former: Path | None = None
    former_name: str = ""
    head: bool = False

    @property
    def options(self) -> dict[str, object]:
        """Each by the name of its option."""
        return {
            "--from" if name == "before" else f"--{name.replace('_', '-')}": value
            for name, value in vars(self).items()
        }


told_options = with_options(
    click.option(
        "--by",
        default="",
        help="With attest and take-over: who attests; with limit: who decided; with refund: who saw the noise "
        "destroyed.",
    ),
    click.option("--reason", default="", help="With these: why. Both are published with releases."),
    click.option("--record", type=click.IntRange(1), help="With refund: number of the intent."),
    click.option(
        "--from",
        "before",
        metavar="DIR",
        type=FOLDER,
        help="With move: folder where the registry was; with take-over: of the former ledger's witness.",
    ),
    click.option("--former", metavar="FILE", type=FILE, help="With take-over: a ledger of a former format."),
    click.option(
        "--former-name", default="", help="With take-over: its name of the data set, if it is another one."
    ),
    click.option("--head", is_flag=True, help="With show: one line, to be kept apart."),
)
"""What actions on a ledger take, of either program."""


def examples_of_notes(program: str) -> tuple[tuple[str, str], ...]:
    """Return examples of what people write down in a ledger, with either program."""
    notes = {
        'attest run.toml --by "A. Person" --reason "disk lost"': "Go on although the ledger's registry is lost.",
        'refund run.toml --record 3 --reason burnt --by "A. Person"': "Refund a charge whose noise was destroyed "
        "unseen.",
        "limit run.toml --by NAME --reason WHY": "Let everything cost what the run file's limit says from now on.",
        "take-over run.toml --former old.jsonl --by NAME --reason WHY": "Count what a ledger of a former format holds.",
    }
    return tuple((f"{program} ledger {line}", about) for line, about in notes.items())


@command(
    "ledger",
    examples=(
        ("topdown ledger new run.toml", "Make the ledger; its id is written into the run file."),
        ("topdown ledger show run.toml --head", "One line to print with a release and keep apart."),
        (
            "topdown ledger move run.toml --from /old/secure",
            "Write down that ledger, records or registry were moved.",
        ),
        *examples_of_notes("topdown"),
    ),
)
@click.argument("action", metavar="|".join(ACTIONS), type=click.Choice(ACTIONS))
@click.argument("source", metavar="RUN.toml", type=FILE)
@told_options
@packed("told", Told)
def ledger_command(screen: Screen, *, action: Action, source: Path, told: Told) -> int:
    """Make the ledger of a data set, show it, or write down what happened to it.

    A data set has one ledger: the book of every privacy loss ever spent on it. Only this command and init make one. Its
    registry, a small file beside the records, says which ledger that is and how far it has come.
    """
    refuse_other_options(action, told, "topdown ledger --help")
    if action == "new":
        place = app.create_run_ledger(source)
    elif action == "take-over":
        former = former_of(app.ledger_location_of_file(source), told)
        place = app.create_run_ledger(source, instead_of=former.ledger)
        document_ledger(place, action, told)
    else:
        place, limits = app.ledger_location_of_file(source), app.load_run_file(source).ledger.limits
        document_ledger(place, action, told, limits)
    state = ledger_state(place, action, app.load_run_file(source).ledger.limits)
    show_ledger(screen, place, state, head=told.head)
    if action == "new":
        screen.next((f"topdown plan {quoted(source)}", "what a release would cost"))
    return EXIT_OK


_TAKEN = {
    "attest": {"--by", "--reason"},
    "refund": {"--by", "--reason", "--record"},
    "limit": {"--by", "--reason"},
    "take-over": {"--by", "--reason", "--former"},
}
_MAY = {"move": {"--from"}, "show": {"--head"}, "take-over": {"--from", "--former-name"}}


def refuse_other_options(action: str, told: Told, see: str) -> None:
    """Refuse options that an action does not take, or that it lacks (ConfigError C005)."""
    there = {name for name, value in told.options.items() if value not in (None, "", False)}
    taken = _TAKEN.get(action, set())
    if not taken <= there <= taken | _MAY.get(action, set()):
        raise ConfigError(
            "attest and limit take --by and --reason; refund --record, --by and --reason; take-over --former, --by "
            "and --reason, and may take --from and --former-name; move takes --from; show takes --head; new takes none",
            code="C005",
            fix=f"see: {see}",
        )


def former_of(place: LedgerLocation, told: Told) -> FormerLedger:
    """Read the former ledger that is to be taken over, with its witness; see `find_former_ledger`."""
    folders = () if told.before is None else (told.before,)
    return find_former_ledger(place, told.former or Path(), folders=folders, data_set=told.former_name)


def document_ledger(place: LedgerLocation, action: str, told: Told, limits: Limits | None = None) -> None:
    """Write down what happened to a ledger; `show` checks it only.

    Args:
        action: show, move, attest, refund, limit or take-over.
        told: what the action takes.
        limits: of the run file, if it states any.

    Raises:
        ConfigError: no limit to change to (C158).
        BudgetError: see `open_ledger`, `attest`, `move_ledger`, `take_over`.
    """
    if action == "move":
        move_ledger(place, told.before)
    elif action == "attest":
        attest(place, told.by, told.reason)
    elif action == "take-over":
        take_over(place, former_of(place, told), told.by, told.reason)
    else:
        with open_ledger(place) as opened:
            if action == "refund":
                opened.void(told.record or 0, told.reason, told.by)
            elif action == "limit":
                if limits is None:
                    raise ConfigError(
                        "there is no limit to change to",
                        code="C158",
                        fix="give rho_limit, or epsilon_limit and delta_limit",
                    )
                opened.change_limits(limits, told.by, told.reason)


def show_head(screen: Screen, place: LedgerLocation, state: Struct) -> None:
    """Show in one unbroken line how far a ledger has come, to be kept apart; or the document `state`."""
    screen.document(state)
    if screen.json:
        return
    book = read_ledger(place.path)
    end = ledger_history(book).up_to
    line = f"{place.binding.data_set}: ledger {place.id}, record {end.record} of {end.date}, head {book.head}"
    screen.out.raw((f"{line}, registry {registry_of_ledger(place).head}",))


def registry_of_ledger(place: LedgerLocation) -> Registry:
    """Return the registry of a ledger that was just opened (BudgetError B016: it was removed meanwhile)."""
    found = read_registry(place.registry, Disk())
    if found is None:
        raise BudgetError(
            f"the registry {place.registry} was removed meanwhile",
            code="B016",
            file=str(place.registry),
            fix="put it back, and run the same command again",
        )
    return found


def ledger_state(place: LedgerLocation, action: Action, limits: Limits | None) -> LedgerState:
    """Return what a ledger is bound to and holds, after an action on it."""
    book, bound = read_ledger(place.path), place.binding
    limits = book.limits or limits
    fields = {} if limits is None else limits.fields
    stated: dict[str, Any] = {name: exact_text(one) for name, one in fields.items() if one}
    return LedgerState(
        **structs.asdict(ledger_history(book)),
        action=action,
        path=str(place.path),
        registry=str(place.registry),
        registry_head=registry_of_ledger(place).head,
        head=book.head,
        **vars(bound),
        **charged_fields(book),
        **stated,
        secrets=spent_statement(book).secrets if action == "show" else UNSET,
        n_records=len(book.entries),
    )


def show_ledger(screen: Screen, place: LedgerLocation, state: LedgerState, *, head: bool) -> None:
    """Show what a ledger is bound to and holds, and on `show` what everything in it costs together; or its `head`."""
    if head:
        show_head(screen, place, state)
        return
    screen.document(state)
    done = {
        "new": "is the ledger of",
        "show": "is the ledger of",
        "move": "is at its place:",
        "attest": "was attested to be complete:",
        "refund": "has one charge less:",
        "limit": "has the limit that the run file states:",
        "take-over": "holds what the former ledger held:",
    }[state.action]
    screen.last("Ledger ", bold(place.id), f' {done} data set "{state.data_set}"')
    screen.pairs(
        [
            ("file", str(place.path)),
            ("registry", str(place.registry)),
            ("up to", f"record {state.up_to.record} of {state.up_to.date}"),
            ("protects", f"one {state.unit}, {state.neighbours}"),
            ("charged", figures.charged(state)),
            ("limit", figures.limits(state) or "none: one release alone"),
        ]
    )
    for secret in state.secrets or ():
        at = ", ".join(
            f"ε {figures.decimal(Fraction(box[1]), 3, up=True)} at δ {delta}"
            for delta, box in secret["epsilon"].items()
        )
        screen.say(f"{secret['name']}: at most {secret['right_in_100']} times in 100, {at}", indent=2)
    if state.action == "show":
        for time, path in registry_of_ledger(place).moves:
            screen.say(f"{time[:10]}: lies at {path}, seen from the registry", indent=2)
    for line in history_lines(ledger_history(read_ledger(place.path))):
        screen.item(WARN, line)
