"""What the continuous and the dependent mode say: ends rounded outward, documents that fit their schema."""

from fractions import Fraction

import pytest
from msgspec import json

from tests.helpers.schemas import problems
from topdown.app.screens import continuous_document, counts_of, dependent_document, rules_of
from topdown.errors import ConfigError
from topdown.formats import document_schema
from topdown.optimal_noise import (
    Absolute,
    CountQuestion,
    Pinball,
    Promise,
    RealQuestion,
    Square,
    additive_law,
    best_kernel,
    default_cells,
    sandwich,
    worst_delta,
)


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_the_continuous_document(loss: str) -> None:
    """Ends printed to nearest would claim a little more than was proved."""
    found = sandwich(RealQuestion(Promise(Fraction(1), Fraction(1, 5)), Fraction(3, 2), 6), loss)
    document = json.decode(json.encode(continuous_document(found)))
    assert problems(document, document_schema("noise.continuous")) == []
    low, high = map(Fraction, document["least_loss"])
    assert low <= found.lower < found.upper <= high
    weights = list(map(int, document["lattice"]["weights"]))
    assert (
        worst_delta(weights, 6, Fraction(1))
        <= Fraction(document["lattice"]["delta_needed"])
        <= Fraction(1, 5)
    )
    assert Fraction(document["lattice_loss"]) >= found.on_lattice
    assert all(float(high) < other for other in document["compared"].values())
    text = " ".join(document["sentences"])
    assert "multiple of 1/4" in text
    assert "up to 3/2" in text
    assert "one release" in text


def test_noise_without_epsilon_has_an_enclosure() -> None:
    """The formula of truncated Laplace divides by epsilon; the mode must not."""
    found = sandwich(RealQuestion(Promise(Fraction(0), Fraction(1, 2)), Fraction(1), 4), "l1")
    assert found.lower <= Fraction(1, 2) <= found.upper
    assert list(continuous_document(found).compared) == ["analytic Gaussian"]


@pytest.mark.parametrize(
    ("delta", "worst_case"), [(Fraction(1, 50), False), (Fraction(1, 50), True), (Fraction(0), False)]
)
def test_the_dependent_document(delta: Fraction, worst_case: bool) -> None:
    """A rule printed as cheaper than it is, or a bound as higher, would be a false comparison."""
    question = CountQuestion(Fraction(1), delta, 7, Absolute(), 2, worst_case=worst_case)
    answer = best_kernel(question)
    rules = rules_of(question, additive_law(question))
    document = json.decode(json.encode(dependent_document(answer, rules)))
    assert problems(document, document_schema("noise.dependent")) == []
    low, high = map(Fraction, document["least_loss"])
    assert low <= answer.lower <= answer.loss <= high
    assert ["constant", "additive", "clamped", "remapped"][: 4 if delta else 1] == list(document["compared"])
    assert all(rules[name] <= Fraction(text) for name, text in document["compared"].items())
    assert min(rules.values()) >= answer.lower
    assert "at most 2 apart" in document["sentences"][0]
    assert ("Delta" in " ".join(document["sentences"])) == bool(delta)


@pytest.mark.parametrize(
    "loss", [Absolute(), Square(), Pinball(Fraction(2), Fraction(1))], ids=lambda x: x.name
)
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_additive_noise_to_compare_with_is_private(loss, sensitivity: int) -> None:
    """A rule that is not private would make every kernel look bad."""
    law = additive_law(CountQuestion(Fraction(1, 2), Fraction(1, 20), 6, loss, sensitivity))
    assert sum(law.values()) == 1
    unit = max(p.denominator for p in law.values())
    window = range(min(law), max(law) + 1)
    weights = [int(law.get(i, 0) * unit * 10**9) for i in window]
    assert worst_delta(weights, sensitivity, Fraction(1, 2)) <= Fraction(1, 20) * (1 + Fraction(1, 10**9))


def test_ranges_of_counts() -> None:
    """A range that is misread gives a kernel for other counts than the query has."""
    assert counts_of("0:40") == 40
    for text in ("40", "1:40", "0:0", "0:-3", "0:4.5", "0:9999999", " 0:40"):
        with pytest.raises(ConfigError, match="no range"):
            counts_of(text)


def test_default_cells_keep_programs_small() -> None:
    """A default that takes minutes, or is refused, is none."""
    for epsilon, delta in (("1", "1/5"), ("1/200", "1/200"), ("5", "3/4"), ("0", "1/2"), ("1", "1/1000000")):
        promise = Promise(Fraction(epsilon), Fraction(delta))
        assert 2 <= default_cells(promise) <= 40
    assert default_cells(Promise(Fraction(1), Fraction(1, 5))) >= 25
