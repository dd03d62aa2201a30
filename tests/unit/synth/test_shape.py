"""The made-up pl94 census has the shape of the real blocks of Rhode Island 2010."""

from collections.abc import Callable
from pathlib import Path

import pytest

RHODE_ISLAND = Path(__file__).resolve().parents[4] / "shared" / "data" / "rhode_island_2010"

# figure: (real Rhode Island 2010, least and most of a made-up census)
FIGURES = {
    "people per populated block": (59.66, 54, 66),
    "share of empty blocks": (0.299, 0.27, 0.32),
    "largest group share": (0.862, 0.79, 0.88),
    "nonzero of 16 coarse cells": (4.352, 4.0, 4.8),
    "cells per block": (6.015, 4.9, 7.0),
    "dissimilarity of block groups": (0.214, 0.16, 0.26),
    "median block": (36, 30, 42),
    "90th percentile of blocks": (126, 110, 155),
    "99th percentile of blocks": (410.9, 330, 520),
    "household": (0.9646, 0.955, 0.975),
    "voting age": (0.7872, 0.76, 0.81),
    "hispanic": (0.1241, 0.10, 0.15),
    "white alone": (0.8220, 0.79, 0.85),
    "people per housing unit": (2.337, 2.2, 2.5),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_made_up_blocks_look_real(
    figure: str, census: Path, shape_of: Callable[[Path], dict[str, float]]
) -> None:
    """A demo or benchmark on made-up data would be easier or harder than a real census."""
    _, least, most = FIGURES[figure]
    assert least <= shape_of(census)[figure] <= most


@pytest.mark.skipif(
    not RHODE_ISLAND.is_dir(), reason="the real blocks of Rhode Island are not beside the project"
)
def test_stated_figures_are_the_real_ones(shape_of: Callable[[Path], dict[str, float]]) -> None:
    """The bands above would be drawn around wrong numbers."""
    real = shape_of(RHODE_ISLAND)
    assert {name: pytest.approx(stated, rel=2e-3) for name, (stated, _, _) in FIGURES.items()} == real
