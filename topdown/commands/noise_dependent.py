"""`topdown noise --dependent`: the best law of the answer for every count of a range."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from topdown.decimals import significant
from topdown.errors import EXIT_OK, ConfigError
from topdown.noise.optimal.additive import additive_law
from topdown.noise.optimal.dependent import BestKernel, CountQuestion, baselines, best_kernel
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from fractions import Fraction

    from topdown.documents.noise_dependent import NoiseDependent

DIGITS = 6
_RULES = {
    "constant": "one answer for every count",
    "additive": "best additive noise",
    "clamped": "the same, moved to the range",
    "remapped": "the same, each outcome answered by what costs least on average",
}


def counts_of(text: str) -> int:
    """Return M of `0:M`.

    Raises:
        ConfigError: C161 for anything else.

    """
    found = re.fullmatch("0:([1-9][0-9]{0,5})", text)
    if found is None:
        raise ConfigError(
            f"{text!r} is no range of counts", code="C161", fix="give 0:M, with the largest count M: 0:40"
        )
    return int(found[1])


@dataclass(frozen=True)
class CountWish:
    """What was asked on the command line of noise that depends on a count."""

    epsilon: str
    delta: str
    sensitivity: int
    loss: str
    large_delta: bool
    counts: str
    worst_case: bool


def make_dependent(screen: Screen, wish: CountWish, *, plot: Path | None, force: bool) -> int:
    """Find the best kernel for a range of counts, draw it where asked, and show it beside the simple rules.

    Raises:
        ConfigError: C080, C132, C150, C151, C152, C154, C161. NoSolutionError, InternalError: nothing is shown.

    """
    from topdown.accountant.exact import rational
    from topdown.commands.noise_modes import refuse_large
    from topdown.noise.optimal.losses import parse_loss

    delta = rational(wish.delta, "delta")
    refuse_large(delta, large_delta=wish.large_delta)
    question = CountQuestion(
        rational(wish.epsilon, "epsilon"),
        delta,
        counts_of(wish.counts),
        parse_loss(wish.loss),
        wish.sensitivity,
        worst_case=wish.worst_case,
    )
    return show_dependent(screen, question, plot=plot, force=force)


def show_dependent(
    screen: Screen, question: CountQuestion, *, plot: Path | None = None, force: bool = False
) -> int:
    """Find the best kernel, draw it where asked, and show it beside the simple rules.

    Raises:
        NoSolutionError, InternalError: nothing is shown.

    """
    from topdown.screen.layout import Column

    answer = best_kernel(question)
    law = additive_law(question)
    document = dependent_document(answer, rules_of(question, law))
    if plot is not None:
        from topdown.commands.files import write_new
        from topdown.noise.optimal.picture import kernel_svg

        title = (
            f"Answers that depend on the count: \u03b5 {question.epsilon} at \u03b4 {question.delta}, "
            f"counts up to {question.sensitivity} apart"
        )
        write_new(plot, kernel_svg(answer.kernel.weights, title), force=force)
    screen.document(document)
    kind = (
        "largest expected loss of a count"
        if question.worst_case
        else "expected loss, averaged over the counts"
    )
    screen.heading("Answers that depend on the count", f", {question.loss.name}: {kind}")
    low, high = document.least_loss
    rows = [("best kernel", low, high), *((_RULES[n], "", text) for n, text in document.compared.items())]
    screen.table([Column("", wraps=True), Column("not below"), Column("not above")], rows)
    screen.blank()
    for sentence in document.sentences:
        screen.say(sentence)
    return EXIT_OK


def rules_of(question: CountQuestion, law: dict[int, Fraction] | None) -> dict[str, Fraction]:
    """Return the loss of every simple rule; of the constant answer alone where there is no additive noise."""
    if law is not None:
        return baselines(question, law)
    return {"constant": baselines(question, {0: question.delta + 1})["constant"]}


def dependent_document(answer: BestKernel, compared: dict[str, Fraction]) -> NoiseDependent:
    """Return what was found as a document; every end is rounded away from what it claims."""
    from topdown.documents.noise_dependent import NoiseDependent

    question = answer.question
    return NoiseDependent(
        epsilon=str(question.epsilon),
        delta=str(question.delta),
        sensitivity=question.sensitivity,
        loss=question.loss.name,
        largest_count=question.top,
        minimised="largest" if question.worst_case else "average",
        least_loss=(
            significant(answer.lower, DIGITS, up=False),
            significant(answer.loss, DIGITS, up=True),
        ),
        bits=answer.kernel.bits,
        weights=[[str(w) for w in row] for row in answer.kernel.weights],
        delta_needed=significant(answer.excess, 12, up=True),
        row_losses=[significant(loss, DIGITS, up=True) for loss in answer.row_losses],
        compared={name: significant(loss, DIGITS, up=True) for name, loss in compared.items()},
        sentences=sentences(question),
    )


def sentences(question: CountQuestion) -> list[str]:
    """Say what is certified, and of what."""
    apart = "1 apart" if question.sensitivity == 1 else f"at most {question.sensitivity} apart"
    found = [
        (
            f"For counts in 0 .. {question.top} that are {apart}, every set of answers is at most e^{question.epsilon} "
            f"times as likely under the one as under the other, plus {question.delta}: checked in integers. A count "
            "outside the range is refused."
        ),
        (
            f"No kernel that keeps this and answers whole numbers in 0 .. {question.top} costs less than the "
            "best one's lower bound."
        ),
    ]
    if question.delta:
        found.append(
            f"This is the guarantee of one release. Delta = {question.delta} allows that with this probability a "
            "release gives the count away."
        )
    else:
        found.append("This is the guarantee of one release.")
    return found
