"""Noise and choices from a program: what they show is true, and nothing is drawn from records without a charge."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given as drawn_from
from hypothesis import strategies as st

import topdown
from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.privacy.accountant import worst_shift

NOISES = [
    {"gaussian": "1/3"},
    {"gaussian": 9},
    {"geometric": "1/4"},
    {"geometric": 2, "sensitivity": 3},
    {"epsilon": 1, "delta": "1e-6"},
    {"epsilon": "1/2", "delta": "1/1000", "sensitivity": 2, "loss": "l2"},
    {"epsilon": 1, "delta": "1/1000", "loss": "pinball:3:1"},
    {"epsilon": 1, "delta": "1/1000", "sensitivity": "3/2", "real": True},
    {"gaussian": "9/4", "sensitivity": "1/3", "real": True},
    {"geometric": 8, "sensitivity": "5/2", "real": True},
    {"geometric": "1/2", "sensitivity": 3, "real": True, "cells": 2},
]
WALL = re.compile(r"\d{20}|Fraction\(")


def masses(made: topdown.Noise) -> dict[int, Fraction]:
    """Return probabilities of nearly all values, not above the true ones: the slow way."""
    law = made.law
    if hasattr(law, "half_width"):
        reach = law.half_width(60)
        at = {k: law.pmf(k, 128)[0] for k in range(reach + 1)}
        return {k: at[abs(k)] for k in range(-reach, reach + 1)}
    if hasattr(law, "question"):
        return dict(law.law.items())
    return {k: law.mass(k) for k in range(law.first, law.last + 1)}


@pytest.mark.parametrize("given", NOISES)
@pytest.mark.parametrize("coverage", [0.5, "9/10", 0.999])
def test_intervals_hold_what_they_promise_and_no_more(given, coverage):
    """An interval that misses more often than it says is false; one that is wider than it must be is of no use."""
    made, due = topdown.noise(**given), Fraction(str(coverage))
    low, high = made.interval(100, coverage)
    unit = made.width or Fraction(1)
    spare = unit / 2 if given.get("real") else Fraction(0)
    below, above = Fraction(0), Fraction(0)
    for k, mass in masses(made).items():
        truth = 100 - k * unit  # of the noisy answer 100
        below += mass if truth + spare > Fraction(high) else 0
        above += mass if truth - spare < Fraction(low) else 0
    assert below <= (1 - due) / 2
    assert above <= (1 - due) / 2
    narrower = 100 - (made.interval(100, coverage)[1] - unit)
    missed = sum(mass for k, mass in masses(made).items() if k * unit < narrower)
    assert high == 100 or missed > (1 - due) / 2 - Fraction(1, 10**9)


@pytest.mark.parametrize("given", NOISES)
def test_variances_hold_the_true_one(given):
    """A variance that is too small promises too narrow intervals."""
    made = topdown.noise(**given)
    unit = made.width or 1
    probabilities = masses(made)
    mean = sum(k * mass for k, mass in probabilities.items())
    slow = float(unit * unit * (sum(k * k * mass for k, mass in probabilities.items()) - mean * mean))
    assert float(made.variance.lower) <= slow * (1 + 1e-9)
    assert slow * (1 - 1e-9) <= float(made.variance.upper)
    assert float(made.variance.upper) <= slow + max(0.02, 1e-3 * slow) or "gaussian" in given


@pytest.mark.parametrize("given", NOISES)
def test_draws_are_those_of_the_law_and_of_their_seed(given):
    """Draws that differ between runs of a study cannot be repeated; others than the law's show other errors."""
    made = topdown.noise(**given)
    drawn = made.sample(4000, seed=3)
    assert drawn.tolist() == made.sample(4000, seed=3).tolist()
    assert drawn.tolist() != made.sample(4000, seed=4).tolist()
    assert np.std(drawn) == pytest.approx(made.stddev, rel=0.1)
    with pytest.raises(TypeError):
        made.sample(3)  # a draw without a seed would look like protection
    with pytest.raises(TypeError):
        made.sample(3, seed=None)


@pytest.mark.parametrize("given", NOISES)
def test_noise_is_shown_in_a_line(given):
    """A wall of integers fills the notebook of whoever looks at a law."""
    made = topdown.noise(**given)
    for text in (repr(made), made._repr_html_(), repr(made.law), repr(made.variance)):
        assert len(text) < 700
        assert not WALL.search(text)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "C347"),
        ({"gaussian": 1, "geometric": 1}, "C347"),
        ({"epsilon": 1}, "C347"),
        ({"gaussian": 1, "cells": 2}, "C347"),
        ({"gaussian": 1, "real": True, "cells": 0}, "C162"),
        ({"geometric": 10**7, "real": True}, "C162"),
        ({"epsilon": 1, "delta": "1e-6", "cells": 4}, "C347"),
        ({"gaussian": 0}, "A002"),
        ({"geometric": 1, "sensitivity": "3/2"}, "C153"),
        ({"epsilon": 1, "delta": "1/10"}, "C154"),
        ({"epsilon": 1, "delta": "1/10", "real": True}, "C154"),
    ],
)
def test_other_noise_is_refused(given, code):
    """Words of two kinds of noise would make one of them, whichever was meant."""
    with fails_with(code, ConfigError):
        topdown.noise(**given)


def test_impossible_questions_are_refused():
    """A number that does not exist would be read as one that does."""
    with fails_with("C346", ConfigError):
        topdown.noise(gaussian=2**60).sample(1, seed=1)
    with fails_with("A006", ConfigError):
        topdown.noise(gaussian=1).interval(0, 1)
    own = topdown.account(optimal=[(1, "1/1000")])
    with fails_with("A018", ConfigError):
        own.epsilon("1e-9")
    with fails_with("A007", ConfigError):
        topdown.account()
    for one in (own, topdown.account(gaussian=[4]), topdown.account(pure=["1/2"])):
        assert len(repr(one)) < 300
        assert not WALL.search(repr(one) + one._repr_html_())


def test_ten_mechanisms_are_bounded_by_those_of_each_kind():
    """Kinds that are composed together must cost no less than one of them, and no more than their sums."""
    ten = topdown.account(
        gaussian=[100, 225, 400],
        geometric=["1/10", "1/5"],
        pure=["1/20", "1/8", "1/4"],
        optimal=[(1, "1e-7"), ("1/2", "1e-8")],
    )
    gaussian = topdown.account(gaussian=[100, 225, 400])
    others = (
        Fraction(1, 10) + Fraction(1, 5) + Fraction(1, 20) + Fraction(1, 8) + Fraction(1, 4) + Fraction(3, 2)
    )
    own = Fraction("1.1e-7")
    assert gaussian.epsilon("1e-6").lower <= ten.epsilon("1e-6").upper
    assert ten.epsilon("1e-6").upper < others + gaussian.epsilon(Fraction("1e-6") - own).upper
    assert ten.delta(1).upper >= gaussian.delta(1).lower
    assert ten.delta(0).upper < 1
    assert topdown.account(pure=["1/2"] * 2).epsilon(0).upper == 1


def moves(weights: tuple[int, ...], most: int) -> list[list[tuple[int, int]]]:
    """Return the weights of every value before and after each move up to the most, both ways."""
    found = []
    for shift in range(1, most + 1):
        before, after = (*weights, *(0,) * shift), (*(0,) * shift, *weights)
        found += [list(zip(before, after, strict=True)), list(zip(after, before, strict=True))]
    return found


def delta_of_pairs(pairs: list[tuple[Fraction, Fraction]], odds: Fraction) -> Fraction:
    """Return the sum of (p - odds q)+ in parts of the whole: the slow way."""
    return sum((max(p - odds * q, Fraction(0)) for p, q in pairs), Fraction(0)) / sum(p for p, _ in pairs)


@drawn_from(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.booleans(), st.integers(1, 4))
def test_no_move_of_an_answer_has_more_loss_than_its_pair(drawn, mirrored, most):
    """A move that the accountant's pair does not dominate would be charged too little."""
    weights = tuple(drawn + drawn[::-1]) if mirrored else tuple(drawn)
    if not sum(weights):
        return
    worst, every = worst_shift(weights, most), moves(weights, most)
    bends = {Fraction(p, q) for pairs in every for p, q in pairs if q} | {Fraction(0)}
    between = {(a + b) / 2 for a, b in pairwise(sorted(bends))} | {max(bends) + 1}
    for odds in bends | between:
        largest = max(delta_of_pairs(pairs, odds) for pairs in every)
        found = delta_of_pairs(list(worst.outcomes.outcomes), odds)
        assert largest <= found
        assert found == largest or not worst.exact
    at = {Fraction(p, q) for p, q in every[-1] + every[-2] if q}  # there nothing is lost but rounding
    for odds in at:
        largest = max(delta_of_pairs(pairs, odds) for pairs in every)
        assert delta_of_pairs(list(worst.outcomes.outcomes), odds) <= largest + Fraction(1, 2**180)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"epsilon": 1, "delta": "1/100", "sensitivity": 2}, {"epsilon": 1, "delta": "1/100"}),
        ({"epsilon": 2, "delta": "1/100", "sensitivity": 3, "loss": "l2"}, {"epsilon": 2, "delta": "1/50"}),
        (
            {"epsilon": 1, "delta": "1/50", "loss": "pinball:3:1"},
            {"epsilon": 1, "delta": "1/50", "sensitivity": 2},
        ),
        (
            {"epsilon": 1, "delta": "1/50", "sensitivity": "1/2", "real": True, "cells": 2},
            {"epsilon": 1, "delta": "1/50", "also": [(2, "1/100")]},
        ),
    ],
)
def test_optimal_noise_of_any_sensitivity_is_composed(one, two):
    """Two answers that move by more than 1, each its own way, must cost no more than the account says."""
    pair = [topdown.noise(large_delta=True, **given) for given in (one, two)]
    held = topdown.account(*pair)
    weights = [made.law.law.weights if made.width else made.law.weights for made in pair]
    widest = [made.law.question.cells if made.width else int(made.sensitivity) for made in pair]
    first, second = (moves(w, most) for w, most in zip(weights, widest, strict=True))
    for odds in (Fraction(1), Fraction(3, 2), Fraction(4)):
        largest = max(
            delta_of_pairs([(p * r, q * s) for p, q in a for r, s in b], odds) for a in first for b in second
        )
        epsilon = Fraction(math.log(odds)).limit_denominator(10**12)
        found = held.delta(epsilon)
        assert float(largest) <= float(found.upper) * (1 + 1e-9)
        assert float(found.upper) <= float(largest) * 1.01 + 1e-4
        assert float(found.lower) <= float(largest) * (1 + 1e-9)
    alone = topdown.account(pair[0])
    promise = Fraction(one["delta"])
    assert promise * Fraction(9, 10) <= alone.delta(one["epsilon"]).upper <= promise


def test_a_planned_choice_reads_and_charges_nothing(tmp_path: Path):
    """What can be asked without a ledger must not be a release."""
    made = topdown.synth(tmp_path / "town", schema="toy", people=100)
    records, ledger = made.records, sorted((tmp_path / "town").rglob("*.jsonl"))
    held = [path.read_bytes() for path in ledger]
    kept = Path(records).read_bytes()
    Path(records).unlink()
    asked = topdown.select(made.run_file, "frequent", "1/2", query=["sex"])
    assert held == [path.read_bytes() for path in ledger]
    assert "1/2" in repr(asked)
    assert not WALL.search(repr(asked) + asked._repr_html_())
    with pytest.raises(topdown.TopdownError):
        asked.choose(tmp_path / "out")  # no records
    assert held == [path.read_bytes() for path in ledger]
    Path(records).write_bytes(kept)
    chosen = asked.choose(tmp_path / "out", resume=(tmp_path / "out").exists())
    assert held != [path.read_bytes() for path in ledger]
    assert topdown.verify(tmp_path / "out").ok
    assert {answer.query for answer in chosen.frequent} <= {"sex"}
    for question, words in (("sites", {"k": 2}), ("frequent", {"query": ["sex"], "k": 2}), ("odd", {})):
        with fails_with("C005", ConfigError):
            topdown.select(made.run_file, question, "1/2", **words)
    with pytest.raises(TypeError, match="float"):
        topdown.select(made.run_file, "frequent", 0.5, query=["sex"])


PEOPLE = {"geocode": ["1", "1", "2", "3"] * 50, "sex": ["f", "m", "f", "m"] * 50}
PLACES = {"region": ["N", "N", "S"], "town": ["1", "2", "3"]}


@pytest.mark.parametrize("table", [pd.DataFrame, pa.table])
def test_a_choice_is_made_from_data_frames(tmp_path: Path, table: Callable[[dict], Any]):
    """Whoever has candidates, places and records as frames had to write four files before the first question."""
    planned = topdown.plan(
        schema=topdown.Schema.from_lists({"sex": ["f", "m"]}),
        geography=topdown.Geography.from_table(PLACES, ["land", "region", "town"]),
        rho=1,
        records=table(PEOPLE),
    ).write(tmp_path / "office")
    places = {"latitude": [46.5, 46.75, 47], "longitude": [6.5, 7, 7.125]}
    near, centres = {"candidate": ["A", "B", "C"], **places}, {"geocode": ["1", "2", "3"], **places}
    for name, held in (("c", near), ("m", centres)):
        pd.DataFrame(held).to_csv(tmp_path / f"{name}.csv", index=False)
    frames = {"candidates": table(near), "centres": table(centres)}
    files = {"candidates": tmp_path / "c.csv", "centres": tmp_path / "m.csv"}
    by_frames, by_files = (
        topdown.select(planned, "order", "1/2", **given, radius=50).request.question
        for given in (frames, files)
    )
    assert by_frames.files == by_files.files
    assert by_frames.files["public/coverage.csv"].count(b"A,") == 2
    listed = table({"candidate": ["A", "B", "B"], "geocode": ["1", "2", "3"]})
    asked = topdown.select(planned, "sites", "1/2", candidates=listed, k=1)
    assert asked.choose(tmp_path / "choice").chosen in (["A"], ["B"])
    assert topdown.verify(tmp_path / "choice").ok
    for wrong, code in (({"candidate": ["A"]}, "C250"), (table({"geocode": ["1"]}), "D004")):
        with fails_with(code) as refused:
            topdown.select(planned, "sites", "1/2", candidates=wrong, k=1)
    assert "the candidates given as a data frame" in str(refused.value)
