"""Drawing from whole weights: the fast sampler against its slow twin, on the same bytes."""

from fractions import Fraction

import numpy as np
import pytest

from topdown.optimal_noise import (
    Absolute,
    NoiseRequest,
    Pinball,
    Promise,
    WeightSampler,
    draw_by_inversion,
    optimal_law,
)
from topdown.privacy import AesBits, BitSource, SimulationBits

LAW = optimal_law(NoiseRequest((Promise(Fraction(1), Fraction(1, 1000)),), 2, Absolute()))


class Chosen(BitSource):
    """Gives the 128-bit numbers it was made with, and counts bytes."""

    is_release = False

    def __init__(self, numbers: list[int]) -> None:
        self.left = b"".join(number.to_bytes(16, "big") for number in numbers)
        self.n_read = 0

    def read(self, n_bytes: int) -> bytes:
        """Return the next of the numbers."""
        taken, self.left = self.left[:n_bytes], self.left[n_bytes:]
        self.n_read += n_bytes
        return taken


@pytest.mark.parametrize("loss", [Absolute(), Pinball(Fraction(3), Fraction(1))])
def test_fast_and_slow_draw_the_same(loss: object) -> None:
    """The same bytes must give the same outcomes, or one of the two samples another law."""
    law = optimal_law(NoiseRequest((Promise(Fraction(1), Fraction(1, 1000)),), 2, loss))
    fast = WeightSampler(law, SimulationBits(3)).draw(3000)
    source = SimulationBits(3)
    assert [draw_by_inversion(law, source) for _ in range(3000)] == fast.tolist()


def test_the_ends_of_every_weight() -> None:
    """A number at a cumulative weight belongs to the next value; the high 64 bits alone cannot tell."""
    numbers, outcomes, total = [], [], 0
    for k, weight in enumerate(LAW.weights):
        numbers += [total, total + weight - 1]
        outcomes += [LAW.first + k] * 2
        total += weight
    assert outcomes == WeightSampler(LAW, Chosen(numbers)).draw(len(numbers)).tolist()
    source = Chosen(numbers)
    assert outcomes == [draw_by_inversion(LAW, source) for _ in numbers]


def test_every_draw_takes_sixteen_bytes() -> None:
    """A number of bytes that depends on the outcome would show in the time it takes."""
    source = Chosen(list(range(10)))
    drawn = WeightSampler(LAW, source).draw(10)
    assert source.n_read == 160
    assert drawn.dtype == np.int32
    assert WeightSampler(LAW, AesBits()).draw(0).size == 0


def test_wrong_sources_are_refused() -> None:
    """Bytes of an unknown source may be anything; a seeded one marks what it draws."""
    with pytest.raises(TypeError):
        WeightSampler(LAW, None)
    assert WeightSampler(LAW, AesBits()).is_release
    assert not WeightSampler(LAW, SimulationBits(1)).is_release
