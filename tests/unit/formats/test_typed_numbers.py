"""Exact numbers as people type them, in files, options and functions alike."""

from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.small_release import run_file
from topdown import Composition
from topdown.errors import ConfigError
from topdown.formats import typed_number
from topdown.plan import load_run_file


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/2", Fraction(1, 2)),
        ("0.95", Fraction(19, 20)),
        (".5", Fraction(1, 2)),
        ("95%", Fraction(19, 20)),
        ("95 %", Fraction(19, 20)),
        ("12 034", Fraction(12034)),
        ("12'034.5", Fraction(24069, 2)),
        ("1_000", Fraction(1000)),
        ("1e-10", Fraction(1, 10**10)),
    ],
)
def test_a_typed_number_is_the_number_that_was_meant(text, value):
    """A rule that differs between a file and an option makes one of two equal texts another budget."""
    assert value == typed_number(text)
    assert Composition.from_rho({text: 1}, "bounded").rho == Composition.from_rho({value: 1}, "bounded").rho


@pytest.mark.parametrize(
    "text", ["0,95", "1,500", "1 00", "12 0345", "", "%", "1/0", "1..5", "\u0661", "50 % %", "1e"]
)
def test_what_can_be_read_in_two_ways_is_refused(text):
    """1,500 is a thousand and a half in one office and fifteen hundred in another."""
    with pytest.raises(ValueError, match="write"):
        typed_number(text)
    with pytest.raises(ConfigError) as refused:
        Composition.from_rho({text: 1}, "bounded")
    assert refused.value.code == "A001"


def test_a_run_file_reads_the_same_numbers(tmp_path: Path) -> None:
    """A budget typed without quotes is a binary number that nobody typed; a coverage sets no noise."""
    run = tmp_path / "run.toml"
    text = run_file().replace('rho = "2"', 'rho = "50 %"') + "\n[estimates]\ncoverage = 0.95\n"
    run.write_text(text)
    found = load_run_file(run)
    assert (found.budget.rho, found.estimates.coverage) == (Fraction(1, 2), Fraction(19, 20))
    run.write_text(text.replace('"50 %"', "0.5"))
    with pytest.raises(ConfigError, match='write "1/2"'):
        load_run_file(run)
