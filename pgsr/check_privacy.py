"""Check what a certificate says about privacy: every number again, with code of its own, and the words.

Sensitivities come from the closed forms of the definitions, not from positions in vectors; epsilon and rho from
the stated noise; the best guess of geometric noise from two-point laws in whole numbers, of Gaussian noise from
the accountant with more digits. Shared with the code that made them are the words and the half widths, which promise
nothing about privacy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any

from pgsr.check import Check
from pgsr.intervals import half_width
from pgsr.sizes import Sizes
from pgsr.verify_files import Files
from pgsr.words import sentence, unit_means
from pgsr.words import step as step_in_words

HASHED = ("mechanism", "privacy", "total", "public_totals", "sizes", "levels", "regions")
STEPS = ("move", "new", "dropped", "household", "appears")
SETS_OF_WHOLE_GROUPS = (["household"], ["household", "appears"])
UNIT = 1 << 400
TERMS = 100
MOST_ATOMS = 500
MORE_DIGITS = 25
MOST_LOSS, MOST_SPREAD = 40_000, 2**54
Pair = tuple[Fraction, Fraction]


def check_privacy(files: Files) -> Check:
    """Recompute plan hash, sensitivities, loss, and what is said about every neighbour step."""
    document = files.certificate
    stated, levels = document["privacy"], document["levels"]
    check = Check("privacy", n_checked=3 + len(levels))
    plan = json.dumps({name: document[name] for name in HASHED}, sort_keys=True, ensure_ascii=False)
    if hashlib.sha256(plan.encode()).hexdigest() != document["plan_hash"]:
        check.fail("the certificate is not that of the plan whose hash it states")
    relations = stated["relations"]
    if relations != [step for step in STEPS if step in relations] or not (
        relations in SETS_OF_WHOLE_GROUPS
        if {"household", "appears"} & set(relations)
        else "move" in relations
    ):
        check.fail(f"the neighbour steps {', '.join(map(str, relations))} promise nothing")
        return check
    regions = [int((files.level == level).sum()) for level in range(len(levels))]
    kind, sizes = document["mechanism"]["measures"], document["sizes"]
    if kind == "tail_rows" and not {"dropped", "household"}.isdisjoint(relations):
        check.fail("rows do not cover steps of more than one person")
        return check
    by_step = {step: [_moved(kind, step, n, sizes) for n in regions] for step in relations}
    derived = [max(column) for column in zip(*by_step.values(), strict=True)]
    for level, expected in zip(levels, derived, strict=True):
        if level["sensitivity"] != expected:
            check.fail(f"level {level['name']}: sensitivity {level['sensitivity']}, derived {expected}")
    noise, parameters = stated["noise"], [Fraction(level["parameter"]) for level in levels]
    loss = _loss(noise, parameters, derived)
    if loss > MOST_LOSS or max(parameters) > MOST_SPREAD:
        check.fail("no release is made with a loss or noise of this size")
        return check
    _widths_and_unit(check, document, parameters)
    name = {"geometric": "epsilon", "gaussian": "rho"}.get(noise)
    if loss != Fraction(stated["loss"]) or name != stated["loss_name"]:
        check.fail(
            f"the noise costs {name} {loss}, the certificate states {stated['loss_name']} {stated['loss']}"
        )
    honest = loss <= Fraction(stated["claimed"])
    if honest != stated["private_as_claimed"]:
        check.fail("the certificate misstates whether the claim holds")
    if document["release"] and not honest:
        check.fail("a release must be private as claimed")
    known = _known(document)
    if stated["conditional_on"] != known:
        check.fail(f"what is exact is {', '.join(known)}; the certificate states {stated['conditional_on']}")
    spoken_of = SETS_OF_WHOLE_GROUPS[1] if "household" in relations else relations
    if [row["relation"] for row in stated["secrets"]] != spoken_of:
        check.fail("the certificate does not state one row for every neighbour step")
        return check
    for row in stated["secrets"]:
        check.n_checked += 1
        _row(check, row, known, noise, parameters, by_step.get(row["relation"], []))
        _words(check, row, known, Sizes(**sizes), document["public_totals"], stated["unit"])
    check.summary = f"{name} {loss} from the noise of {len(levels)} levels, {len(relations)} neighbour steps"
    return check


def _widths_and_unit(check: Check, document: dict[str, Any], parameters: Sequence[Fraction]) -> None:
    """Check how far noise reaches at every level, and the words for the unit."""
    stated, accumulates = document["privacy"], document["mechanism"]["measures"] != "histogram"
    for level, parameter in zip(document["levels"], parameters, strict=True):
        width = half_width(stated["noise"], parameter, accumulates=accumulates)
        if level["half_width_95"] != width:
            check.fail(f"level {level['name']}: half width {level['half_width_95']}, derived {width}")
    if stated["unit_means"] != unit_means(stated["unit"], stated["relations"]):
        check.fail("what a unit means is described in other words than the format has")


def _moved(kind: str, step: str, n_regions: int, sizes: dict[str, Any]) -> int:
    """Return how many answers of a level one step moves at most, each by one.

    A group that grows by one leaves one running sum of its own region, or, in a chain, one of every region. A group
    that appears in row s stands in all running sums from there on: N - s of them upwards, s + 1 downwards.
    """
    n, smallest = int(sizes["n_sizes"]), int(sizes["smallest"])
    several = n_regions if kind in ("chain", "tail_chain") else 1
    if step == "move":
        return 0 if n == 1 else 2 if kind == "histogram" else several
    if step == "household":
        return 0 if n == 1 else 2 if kind == "histogram" else several * (n - 1)
    if step == "appears":
        return 1 if kind == "histogram" else several * n
    lowest, highest = (0, min(1 - smallest, n - 1)) if step == "new" else (n - 1, n - 1)
    if kind == "histogram":
        return 1
    return several * (highest + 1 if kind in ("tail", "tail_rows", "tail_chain") else n - lowest)


def _loss(noise: str, parameters: Sequence[Fraction], moved: Sequence[int]) -> Fraction:
    half = 2 if noise == "gaussian" else 1
    return sum((n / (half * p) for n, p in zip(moved, parameters, strict=True)), Fraction(0))


def _known(document: dict[str, Any]) -> list[str]:
    sizes = document["sizes"]
    known = ["number of groups"]
    if sizes["too_large"] != "top-code":
        known.append(f"no group larger than {sizes['smallest'] + sizes['n_sizes'] - 1}")
    return known + (["public numbers of groups of regions"] if document["public_totals"] else [])


def _row(
    check: Check,
    row: dict[str, Any],
    known: list[str],
    noise: str,
    parameters: Sequence[Fraction],
    moved: Sequence[int],
) -> None:
    """Check one neighbour step: its status, and no number but its own where it is not disclosed."""
    step = row["relation"]
    if step not in ("move", "household"):
        exact = [name for name in known if step == "appears" or not name.startswith("no group")]
        expected = {"status": "disclosed", "exact": exact}
        numbers = {"loss", "epsilon", "best_guess", "right_in_100", "n_counts_moved"} & set(row)
        if numbers or any(row[key] != value for key, value in expected.items()):
            check.fail(
                f"step {step} alters the number of groups, which is exact: it is disclosed, without numbers"
            )
        return
    exact = [name for name in known if name.startswith("no group")]
    if (row["status"], row["exact"]) != ("conditional" if exact else "protected", exact):
        check.fail(
            f"step {step} is misstated as {row['status']}, exact: {', '.join(row['exact']) or 'nothing'}"
        )
    parts = [(p, n) for p, n in zip(parameters, moved, strict=True) if n]
    loss = _loss(noise, parameters, moved)
    if Fraction(row["loss"]) != loss or row["n_counts_moved"] != sum(moved):
        check.fail(f"step {step} costs {loss}, the certificate states {row['loss']}")
    epsilon, guess = _gaussian(parts) if noise == "gaussian" else ({"0": (loss, loss)}, _guess(parts, loss))
    if set(row["epsilon"]) != set(epsilon):
        check.fail(
            f"step {step} states epsilon at delta {', '.join(row['epsilon'])}, not {', '.join(epsilon)}"
        )
    for delta in set(row["epsilon"]) & set(epsilon):
        _encloses(check, f"epsilon at delta {delta}", row["epsilon"][delta], epsilon[delta])
    _encloses(check, "the best guess", row["best_guess"], guess)
    times = min(-(-100 * Fraction(row["best_guess"][1]) // 1), 100)
    if row["right_in_100"] != times:
        check.fail(f"step {step} is guessed rightly at most {times} times in 100, not {row['right_in_100']}")


def _words(
    check: Check,
    row: dict[str, Any],
    known: list[str],
    sizes: Sizes,
    public: dict[str, int],
    unit: str,
) -> None:
    """Compare the words of a step with those that belong to its numbers."""
    this = step_in_words(row["relation"], sizes, public, unit)
    said = (
        "disclosed by: number of groups" if this.always else sentence(this, row["right_in_100"], tuple(known))
    )
    if (row["name"], row["kind"], row["neighbours"], row["sentence"]) != (
        this.name,
        this.kind,
        this.neighbours,
        said,
    ):
        check.fail(f"step {this.relation} is described in other words than its numbers allow")


def _encloses(check: Check, what: str, stated: list[str], own: Pair) -> None:
    low, high = (Fraction(end) for end in stated)
    if not low <= own[0] <= own[1] <= high:
        check.fail(f"{what} is stated as [{low}, {high}], which does not hold what the noise gives")


def _gaussian(parts: Sequence[tuple[Fraction, int]]) -> tuple[dict[str, Pair], Pair]:
    from topdown.accountant.composition import Composition

    whole = Composition.of([(variance, 1, n) for variance, n in parts])
    options: dict[str, Any] = {"engine": whole.certifying()}
    if options["engine"] != "auto":
        options["digits"] = MORE_DIGITS
    epsilon, guess = whole.epsilon("1e-10", **options), whole.best_guess(**options)
    return {"1e-10": (epsilon.lower, epsilon.upper)}, (guess.lower, guess.upper)


def _guess(parts: Sequence[tuple[Fraction, int]], loss: Fraction) -> Pair:
    """Enclose the best guess: each moved answer is right with odds 1 to exp(-1/scale), one after the other."""
    counts: dict[Fraction, int] = {}
    for scale, n in parts:
        counts[scale] = counts.get(scale, 0) + n
    if prod(n + 1 for n in counts.values()) > MOST_ATOMS:
        low, _ = _exp(loss)
        return Fraction(1, 2), Fraction(UNIT, UNIT + low)
    law: dict[Fraction, tuple[int, int]] = {Fraction(0): (UNIT, UNIT)}
    for scale, n in counts.items():
        low, high = _exp(1 / scale)
        right = UNIT * UNIT // (UNIT + high), -(-UNIT * UNIT // (UNIT + low))
        wrong = UNIT - right[1], UNIT - right[0]
        for _ in range(n):
            after: dict[Fraction, tuple[int, int]] = {}
            for value, mass in law.items():
                for sign, p in ((1, right), (-1, wrong)):
                    old = after.get(value + sign / scale, (0, 0))
                    more = mass[0] * p[0] // UNIT, -(-mass[1] * p[1] // UNIT)
                    after[value + sign / scale] = old[0] + more[0], old[1] + more[1]
            law = after
    ends = [
        sum((2 if value > 0 else 1) * mass[end] for value, mass in law.items() if value >= 0)
        for end in (0, 1)
    ]
    return Fraction(ends[0], 2 * UNIT), min(Fraction(ends[1], 2 * UNIT), Fraction(1))


def _exp(x: Fraction) -> tuple[int, int]:
    """Enclose exp(-x) for x > 0 in units: the alternating series of a small part of x, squared back up."""
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 1)
    small, term, low = Fraction(x, 1 << halvings), Fraction(1), Fraction(0)
    for i in range(TERMS):
        low += term
        term *= -small / (i + 1)
    low, high = sorted((low, low + term))
    ends = int(low * UNIT // 1), int(-(-high * UNIT // 1))
    for _ in range(halvings):
        ends = ends[0] * ends[0] // UNIT, -(-ends[1] * ends[1] // UNIT)
    return ends
