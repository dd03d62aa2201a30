"""`topdown noise --continuous` and `--dependent`: the best noise for a real query and for counts of a range."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from math import sqrt
from pathlib import Path

from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import Column
from topdown.errors import EXIT_OK, ConfigError
from topdown.formats.noise_documents import LatticeLaw, NoiseContinuous, NoiseDependent
from topdown.optimal_noise import (
    LATTICE_BITS,
    BestKernel,
    CountQuestion,
    RealNoise,
    additive_law,
    analytic_gaussian_sigma,
    best_kernel,
    kernel_baselines,
    truncated_laplace,
)
from topdown.optimal_noise.law_picture import kernel_svg, lattice_svg
from topdown.output_paths import write_new
from topdown.privacy.exact_values import rational, significant


def refuse_mixed(
    modes: Mapping[str, bool], whole_numbers_only: Mapping[str, bool], others_only: Mapping[str, bool]
) -> None:
    """Refuse two modes at once, and options of a mode that was not asked for.

    Raises: ConfigError (C005).
    """
    chosen = [name for name, given in modes.items() if given]
    if len(chosen) > 1:
        raise ConfigError(
            f"{' and '.join(chosen)} are different queries", code="C005", fix="give one of them"
        )
    mode = chosen[0] if chosen else "--integer"
    of = {"--cells": "--continuous", "--worst-case": "--dependent"}
    stray = [name for name, given in whole_numbers_only.items() if given and mode != "--integer"]
    stray += [name for name, given in others_only.items() if given and mode != of[name]]
    if stray:
        raise ConfigError(f"{stray[0]} does not go with {mode}", code="C005", fix=f"leave out {stray[0]}")


def whole_number(text: str) -> int:
    """Return the sensitivity of a whole-number answer.

    Raises: ConfigError (C153) for another number.
    """
    number = rational(text, "the sensitivity")
    if number.denominator != 1:
        raise ConfigError(
            f"the sensitivity is {number}, not whole", code="C153", fix="give a whole number, or --continuous"
        )
    return int(number)


REAL_DIGITS = 6
_LOSS_WORDS = {"l1": "|x|", "l2": "x^2"}


def show_continuous(screen: Screen, found: RealNoise, *, plot: Path | None, force: bool) -> int:
    """Draw the lattice law of the best noise for a real query where asked (C080, C132), and show its bounds."""
    question, promise = found.question, found.question.promise
    if plot is not None:
        title = (
            f"Noise on multiples of {question.width} for a real query: \u03b5 {promise.epsilon} "
            f"at \u03b4 {promise.delta}"
        )
        drawn = lattice_svg(found.law.first, found.law.weights, question.width, title)
        write_new(plot, drawn.encode(), force=force)
    document = continuous_document(found)
    screen.document(document)
    screen.heading("Least expected loss", f" of noise for a real query, {_LOSS_WORDS[found.loss]}")
    rows = [("best noise", *document.least_loss), ("noise on the lattice alone", "", document.lattice_loss)]
    rows += [(f"{name}, not certified", "", f"{value:.6g}") for name, value in document.compared.items()]
    _show_losses(screen, rows, document.sentences)
    return EXIT_OK


def _show_losses(screen: Screen, rows: list[tuple[str, str, str]], sentences: list[str]) -> None:
    screen.table([Column("", wraps=True), Column("not below"), Column("not above")], rows)
    screen.blank()
    for sentence in sentences:
        screen.say(sentence)


def continuous_document(found: RealNoise) -> NoiseContinuous:
    """Return what was found as a document; every end is rounded away from what it claims."""
    question, promise = found.question, found.question.promise
    epsilon, delta, move = float(promise.epsilon), float(promise.delta), float(question.sensitivity)
    sigma = analytic_gaussian_sigma(epsilon, delta, move)
    beside = {"analytic Gaussian": sigma * sigma if found.loss == "l2" else sigma * sqrt(0.6366197723675814)}
    if epsilon > 0:
        beside["truncated Laplace"] = truncated_laplace(epsilon, delta, move)[found.loss == "l2"]
    return NoiseContinuous(
        epsilon=str(promise.epsilon),
        delta=str(promise.delta),
        sensitivity=str(question.sensitivity),
        loss="l1" if found.loss == "l1" else "l2",
        cells=question.cells,
        width=str(question.width),
        least_loss=(
            significant(found.lower, REAL_DIGITS, up=False),
            significant(found.upper, REAL_DIGITS, up=True),
        ),
        lattice=LatticeLaw(
            first=found.law.first,
            weights=[str(w) for w in found.law.weights],
            bits=LATTICE_BITS,
            delta_needed=significant(found.law.excess, 12, up=True),
        ),
        lattice_loss=significant(found.on_lattice, REAL_DIGITS, up=True),
        compared=beside,
        sentences=real_noise_sentences(found),
    )


def real_noise_sentences(found: RealNoise) -> list[str]:
    """Say what is certified, and of what."""
    question, promise = found.question, found.question.promise
    low, high = (
        significant(found.lower, REAL_DIGITS, up=False),
        significant(found.upper, REAL_DIGITS, up=True),
    )
    return [
        (
            f"Additive noise that keeps epsilon = {promise.epsilon} and delta = {promise.delta} for every move of the "
            f"answer by up to {question.sensitivity}, both ways, has an expected {_LOSS_WORDS[found.loss]} of {low} "
            f"or more; some noise that keeps them has {high} or less."
        ),
        (
            f"To release, round the answer to the nearest multiple of {question.width}, halves up, and add the lattice "
            "law: that keeps epsilon and delta exactly where the answer itself is exact. Rounding adds an error of up "
            f"to {question.width / 2} that the losses here do not count."
        ),
        (
            f"This is the guarantee of one release. Delta = {promise.delta} allows that with this probability a "
            "release discloses the answer."
        ),
    ]


KERNEL_DIGITS = 6
_KERNEL_RULES = {
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


def make_dependent(screen: Screen, question: CountQuestion, *, plot: Path | None, force: bool) -> int:
    """Find the best kernel for a range of counts, draw it where asked, and show it beside the simple rules.

    Raises:
        ConfigError: C080, C132, C151, C152, C161. NoSolutionError, InternalError: nothing is shown.
    """
    answer = best_kernel(question)
    law = additive_law(question)
    document = dependent_document(answer, rules_of(question, law))
    if plot is not None:
        title = (
            f"Answers that depend on the count: \u03b5 {question.epsilon} at \u03b4 {question.delta}, "
            f"counts up to {question.sensitivity} apart"
        )
        write_new(plot, kernel_svg(answer.kernel.weights, title).encode(), force=force)
    screen.document(document)
    kind = (
        "largest expected loss of a count"
        if question.worst_case
        else "expected loss, averaged over the counts"
    )
    screen.heading("Answers that depend on the count", f", {question.loss.name}: {kind}")
    rows = [("best kernel", *document.least_loss)]
    rows += [(_KERNEL_RULES[n], "", text) for n, text in document.compared.items()]
    _show_losses(screen, rows, document.sentences)
    return EXIT_OK


def rules_of(question: CountQuestion, law: dict[int, Fraction] | None) -> dict[str, Fraction]:
    """Return the loss of every simple rule; of the constant answer alone where there is no additive noise."""
    if law is not None:
        return kernel_baselines(question, law)
    return {"constant": kernel_baselines(question, {0: question.delta + 1})["constant"]}


def dependent_document(answer: BestKernel, compared: dict[str, Fraction]) -> NoiseDependent:
    """Return what was found as a document; every end is rounded away from what it claims."""
    question = answer.question
    return NoiseDependent(
        epsilon=str(question.epsilon),
        delta=str(question.delta),
        sensitivity=question.sensitivity,
        loss=question.loss.name,
        largest_count=question.top,
        minimised="largest" if question.worst_case else "average",
        least_loss=(
            significant(answer.lower, KERNEL_DIGITS, up=False),
            significant(answer.loss, KERNEL_DIGITS, up=True),
        ),
        bits=answer.kernel.bits,
        weights=[[str(w) for w in row] for row in answer.kernel.weights],
        delta_needed=significant(answer.excess, 12, up=True),
        row_losses=[significant(loss, KERNEL_DIGITS, up=True) for loss in answer.row_losses],
        compared={name: significant(loss, KERNEL_DIGITS, up=True) for name, loss in compared.items()},
        sentences=kernel_sentences(question),
    )


def kernel_sentences(question: CountQuestion) -> list[str]:
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
            "release discloses the count."
        )
    else:
        found.append("This is the guarantee of one release.")
    return found
