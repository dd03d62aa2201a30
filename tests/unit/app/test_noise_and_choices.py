"""Noise and choices from a program: what they show is true, and nothing is drawn from records without a charge."""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import topdown
from topdown.errors import ConfigError

NOISES = [
    {"gaussian": "1/3"},
    {"gaussian": 9},
    {"geometric": "1/4"},
    {"geometric": 2, "sensitivity": 3},
    {"epsilon": 1, "delta": "1e-6"},
    {"epsilon": "1/2", "delta": "1/1000", "sensitivity": 2, "loss": "l2"},
    {"epsilon": 1, "delta": "1/1000", "loss": "pinball:3:1"},
    {"epsilon": 1, "delta": "1/1000", "sensitivity": "3/2", "real": True},
]
WALL = re.compile(r"\d{20}|Fraction\(")


def masses(made: topdown.Noise) -> dict[int, Fraction]:
    """Return probabilities of nearly all values, not above the true ones: the slow way."""
    law = made.law
    if hasattr(law, "half_width"):
        reach = law.half_width(60)
        return {k: law.pmf(k, 128)[0] for k in range(-reach, reach + 1)}
    if hasattr(law, "question"):
        return dict(law.law.items())
    return {k: law.mass(k) for k in range(law.first, law.last + 1)}


@pytest.mark.parametrize("given", NOISES)
@pytest.mark.parametrize("coverage", [0.5, "9/10", 0.999])
def test_intervals_hold_what_they_promise_and_no_more(given, coverage):
    """An interval that misses more often than it says is false; one that is wider than it must be is of no use."""
    made, due = topdown.noise(**given), Fraction(str(coverage))
    low, high = made.interval(100, coverage)
    unit = made.law.question.width if given.get("real") else Fraction(1)
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
    unit = made.law.question.width if given.get("real") else 1
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
        ({"gaussian": 1, "real": True}, "C347"),
        ({"epsilon": 1, "delta": "1e-6", "cells": 4}, "C347"),
        ({"gaussian": 0}, "A002"),
        ({"geometric": 1, "sensitivity": "3/2"}, "C153"),
        ({"epsilon": 1, "delta": "1/10"}, "C154"),
        ({"epsilon": 1, "delta": "1/10", "real": True}, "C154"),
    ],
)
def test_other_noise_is_refused(given, code):
    """Words of two kinds of noise would make one of them, whichever was meant."""
    with pytest.raises(ConfigError) as refused:
        topdown.noise(**given)
    assert code == refused.value.code


def test_what_is_not_composed_is_refused():
    """An account of noise that it does not know would say too little."""
    for given in NOISES[5:]:
        with pytest.raises(ConfigError) as refused:
            topdown.account(topdown.noise(**given))
        assert refused.value.code == "C345"
    with pytest.raises(ConfigError) as refused:
        topdown.noise(gaussian=2**60).sample(1, seed=1)
    assert refused.value.code == "C346"
    with pytest.raises(ConfigError) as refused:
        topdown.noise(gaussian=1).interval(0, 1)
    assert refused.value.code == "A006"
    own = topdown.account(optimal=[(1, "1/1000")])
    with pytest.raises(ConfigError) as refused:
        own.epsilon("1e-9")
    assert refused.value.code == "A018"
    with pytest.raises(ConfigError) as refused:
        topdown.account()
    assert refused.value.code == "A007"
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
        with pytest.raises(ConfigError) as refused:
            topdown.select(made.run_file, question, "1/2", **words)
        assert refused.value.code == "C005"
    with pytest.raises(TypeError, match="float"):
        topdown.select(made.run_file, "frequent", 0.5, query=["sex"])
