"""`topdown noise` for whole-number answers: makes or checks a law, and says what it keeps and costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.noise.optimal.law import OptimalLaw

_SHOWN = 8  # values beside 0 whose probabilities are shown


@dataclass(frozen=True)
class Wish:
    """What was asked on the command line."""

    epsilon: str
    delta: str
    sensitivity: int
    loss: str
    also: tuple[str, ...]
    large_delta: bool


def make(
    screen: Screen, wish: Wish, *, compare: bool, out: Path | None, plot: Path | None, force: bool
) -> int:
    """Make a law, save it where asked, and show it."""
    import json

    import topdown
    from topdown.commands.files import write_new

    law = topdown.optimal_noise(
        wish.epsilon,
        wish.delta,
        sensitivity=wish.sensitivity,
        loss=wish.loss,
        also=[_pair(text) for text in wish.also],
        large_delta=wish.large_delta,
    )
    document = _document(law, compare)
    if out is not None:
        write_new(out, json.dumps(document["law"], indent=1) + "\n", force=force)
    _draw(law, plot, force)
    screen.document(document)
    _show(screen, law, document)
    return EXIT_OK


def check(screen: Screen, path: Path, *, compare: bool, plot: Path | None, force: bool) -> int:
    """Read a saved law, which checks it, and show it."""
    from topdown.api.noise_file import read_law

    law = read_law(path)
    document = _document(law, compare)
    _draw(law, plot, force)
    screen.document(document)
    _show(screen, law, document)
    return EXIT_OK


def _pair(text: str) -> tuple[str, str]:
    epsilon, colon, delta = text.partition(":")
    if not colon:
        raise ConfigError(f"{text!r} is no epsilon:delta", code="C005", fix="write e.g. --also 2:1/10000000")
    return epsilon, delta


def _document(law: OptimalLaw, compare: bool) -> dict[str, Any]:
    from topdown.api.noise import noise_document

    return noise_document(law, compare=compare)


def _draw(law: OptimalLaw, plot: Path | None, force: bool) -> None:
    if plot is not None:
        from topdown.commands.files import write_new
        from topdown.noise.optimal.picture import law_svg

        write_new(plot, law_svg(law, f"Noise for one answer: {_promises(law)}"), force=force)


def _promises(law: OptimalLaw) -> str:
    return ", ".join(f"ε {p.epsilon} at δ {p.delta}" for p in law.ask.promises)


def _show(screen: Screen, law: OptimalLaw, document: dict[str, Any]) -> None:
    from topdown.decimals import significant
    from topdown.screen.layout import Column
    from topdown.screen.look import bold

    moved = law.ask.sensitivity
    screen.say(
        bold("Noise for one whole-number answer"),
        f", {_promises(law)}, where one record moves it by at most {moved}",
    )
    screen.say(f"expected loss {law.ask.loss.name[:60]}, not above {document['expected_loss']}", indent=2)
    screen.say(
        f"no noise on the integers that keeps the same is below {document['least_possible_loss']}: "
        f"a gap of at most {document['gap']} of it",
        indent=2,
        hang=4,
    )
    screen.say(f"variance not above {document['variance']}", indent=2)
    screen.say(f"values {law.first} to {law.last}, {law.bits} random bits a draw", indent=2)
    screen.blank()
    near = range(max(law.first, -_SHOWN), min(law.last, _SHOWN) + 1)
    screen.table(
        [Column("value", right=True), Column("probability", right=True)],
        [(str(v), significant(law.mass(v), 6, up=False)) for v in near],
    )
    screen.blank()
    screen.table(
        [Column("at ε", right=True), Column("it needs δ, not above", right=True)],
        [(epsilon, delta) for epsilon, delta in document["delta_at"].items()],
    )
    if document["others"]:
        screen.blank()
        columns = [
            Column("other noise", wraps=True),
            Column("expected loss", right=True),
            Column("saved", right=True),
        ]
        rows = [
            (
                ", ".join(filter(None, (o["name"], o["parameter"]))),
                o["expected_loss"],
                f"{o['saved_percent']} %",
            )
            for o in document["others"]
        ]
        screen.table(columns, rows)
    _show_several(screen, document["several"])
    screen.blank()
    screen.last(
        "For one answer only: n answers with this noise keep n times ε at n times δ; a ledger of rho never books it.",
        symbol="",
    )


def _show_several(screen: Screen, rows: list[dict[str, Any]]) -> None:
    from topdown.screen.layout import Column

    if not rows:
        return
    screen.blank()
    names = ("answers that share the promise", "variance, this kind", "Gaussian", "ratio")
    keys = ("n_answers", "variance", "gaussian_variance", "ratio")
    screen.table(
        [Column(name, right=True) for name in names], [tuple(str(row[key]) for key in keys) for row in rows]
    )
    lost = [row["n_answers"] for row in rows if float(row["ratio"]) > 1]
    if lost:
        screen.say(
            f"of these, Gaussian noise has less variance for {', '.join(map(str, lost))} answers", indent=2
        )
