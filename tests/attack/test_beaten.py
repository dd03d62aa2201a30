"""The attacker notices what is printed too favourably: each test tampers one statement that holds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers import attacked
from tests.helpers.attacked import shipped
from tests.helpers.attacked_land import MORE, make_extended, toy_run
from tests.helpers.attacker import Attacker
from tests.helpers.attacker_judge import beaten
from tests.helpers.published import Document
from tests.helpers.rule_texts import exact


@pytest.fixture(scope="module")
def totals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Attacker, Document]:
    """Return the toy land with exact totals of its blocks: rows of every status."""
    folder = tmp_path_factory.mktemp("totals")
    more = exact("blocks", "block", "total")
    run = toy_run(folder, "plain", "bounded", "discrete_gaussian", shipped("invariants", "toy") + more)
    return attacked.attacker_of(run)


def row_of(said: Document, name: str) -> Document:
    """Return one row."""
    return next(row for row in said["secrets"] if row["name"] == name)


def called_protected(said: Document) -> None:
    """Print the number of another row for what exact totals give away."""
    row = row_of(said, "place within one county")
    assert row["status"] == "disclosed"
    numbers = {k: v for k, v in row_of(said, "sex only").items() if k not in ("name", "kind")}
    row |= numbers


def called_conditional(said: Document) -> None:
    """Print a number beside the names of the exact statistics that alter every pair."""
    called_protected(said)
    row_of(said, "place within one county").update(status="conditional", exact=["blocks"])


def one_statistic_forgotten(said: Document) -> None:
    """Leave out one of the exact statistics that some pairs differ in."""
    row_of(said, "one person, everything")["exact"].remove("blocks")


def one_point_less(said: Document) -> None:
    """Print one right choice in 100 less."""
    row_of(said, "sex only")["right_in_100"] -= 1


def lower_guess(said: Document) -> None:
    """Lower the certified success rate by a thousandth."""
    low, high = row_of(said, "age only")["best_guess"]
    row_of(said, "age only")["best_guess"] = [low, str(Fraction(high) - Fraction(1, 1000))]


def lower_epsilon(said: Document) -> None:
    """Lower one epsilon by a hundredth."""
    low, high = row_of(said, "dwelling only")["epsilon"]["1e-10"]
    row_of(said, "dwelling only")["epsilon"]["1e-10"] = [low, str(Fraction(high) - Fraction(1, 100))]


def lower_rho(said: Document) -> None:
    """Halve the rho of one row."""
    row_of(said, "dwelling only")["rho"] = "7/16"


def not_conditional_on(said: Document) -> None:
    """Do not say that a statistic is exact."""
    said["conditional_on"].remove("blocks")


def larger_than_need_be(said: Document) -> None:
    """Print the larger number of another secret: true, but not the exact loss."""
    row_of(said, "dwelling only").update(
        {k: row_of(said, "age only")[k] for k in ("rho", "epsilon", "best_guess")}
    )


@pytest.mark.parametrize(
    "tamper",
    [
        called_protected,
        called_conditional,
        one_statistic_forgotten,
        one_point_less,
        lower_guess,
        lower_epsilon,
        lower_rho,
        not_conditional_on,
        larger_than_need_be,
    ],
)
def test_what_is_too_favourable_is_found(
    totals: tuple[Attacker, Document], tamper: Callable[[Document], None]
) -> None:
    """An attacker who would accept a wrong row proves nothing about the right ones."""
    attacker, said = totals
    slack = frozenset({"one person, everything"})  # within a block fewer counts differ
    assert beaten(attacker, said, slack=slack) == []
    changed = copy.deepcopy(said)
    tamper(changed)
    assert beaten(attacker, changed, slack=slack) != []


@pytest.mark.parametrize("relation", ["bounded", pytest.param("add_remove", marks=pytest.mark.slow)])
def test_a_base_that_is_left_out_is_found(tmp_path: Path, relation: str) -> None:
    """A statement of the extension alone is beaten in every row that the base release asks about."""
    made = make_extended(tmp_path, relation)
    attacker, said = attacked.attacker_of(made.more, made.base)
    alone = next(step for step in said["steps"] if step["release"] == MORE)
    found = beaten(attacker, said | {"secrets": alone["secrets"]})
    named = {finding.split(":")[0] for finding in found}
    assert named == {row["name"] for row in said["secrets"]} - {"job only"}  # which the base does not ask
