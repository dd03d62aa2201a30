"""`topdown audit --ledger`: everything charged to a data set, as one composition."""

from fractions import Fraction
from math import ceil, exp
from pathlib import Path

import pytest

from topdown.privacy.accountant import Composition
from topdown.privacy.ledger import (
    DrawnLaw,
    Intent,
    LedgerBinding,
    LedgerLocation,
    Limits,
    create_ledger,
    open_ledger,
)

LEDGER = Path("toy") / "ledger" / "persons.jsonl"


@pytest.fixture
def twice(topdown, toy) -> Path:
    """Release the toy land twice, the second time under another id and budget; return its ledger."""
    for number, edit in enumerate(
        (str, lambda text: text.replace('rho = "2"', 'rho = "1"').replace("-r1", "-r2"))
    ):
        run = toy(Path("toy"), edit)
        topdown("generate", run, "--out", f"release{number}", "--yes", "--workers", 1).ok()
    return LEDGER


def test_two_releases_are_one_composition(topdown, twice, check):
    """Losses stated apart do not add up to what both together tell about a person."""
    said = topdown("audit", "--ledger", twice, "--json").ok()
    check(said.document)
    (row,) = said.document["secrets"]
    assert [r["loss"] for r in said.document["releases"]] == ["2", "1"]
    assert (said.document["charged"], row["rho"]) == ({"rho": "3"}, "3")
    apart = [topdown("audit", f"release{n}", "--json").document["secrets"][0] for n in (0, 1)]
    low, high = map(Fraction, row["epsilon"]["1e-10"])
    assert max(Fraction(a["epsilon"]["1e-10"][1]) for a in apart) < low
    assert high < sum(Fraction(a["epsilon"]["1e-10"][1]) for a in apart)
    assert said.document["conditional_on"] == ["population of the land"]
    assert "everything charged to data set" in row["sentence"]
    assert "population of the land" in row["sentence"]
    assert f"{row['right_in_100']} times in 100" in row["sentence"]
    text = topdown("audit", "--ledger", twice).out
    assert str(row["right_in_100"]) in text


def test_a_certificate_quotes_what_its_ledger_holds(topdown, twice):
    """A reader of the second release must see what it costs together with the first."""
    import json

    whole = topdown("audit", "--ledger", twice, "--json").document
    quoted = json.loads(Path("release1/certificate.json").read_text())["privacy"]["everything_released"]
    assert quoted["secrets"] == whole["secrets"]
    first = json.loads(Path("release0/certificate.json").read_text())["privacy"]
    assert first["everything_released"]["secrets"][0]["best_guess"] == first["secrets"][0]["best_guess"]


def ledger_of(
    folder: Path, neighbours: str, laws: list[tuple[DrawnLaw, ...]], exact: tuple[str, ...] = ()
) -> Path:
    """Write a ledger with one charge for each tuple of laws; the last one is not finished."""
    folder.mkdir()
    binding = LedgerBinding("people", neighbours, "household")
    path = folder / "ledger.jsonl"
    place = create_ledger(LedgerLocation(path, folder, "", binding))
    with open_ledger(place) as ledger:
        for number, drawn in enumerate(laws):
            intent = Intent(f"r{number}", "ab" * 32, drawn, exact, 1, ("block",), f"j{number}", neighbours)
            ledger.intent(intent, Limits(Fraction(1000)))
    return path


def test_presence_has_a_row_for_replacement_beside_it(topdown, tmp_path):
    """Whoever changes an answer moves two counts where one more person moves one."""
    law = DrawnLaw("discrete_gaussian", Fraction(5, 2), 1, 1, "block", "total")
    said = topdown("audit", "--ledger", ledger_of(tmp_path / "l", "add_remove", [(law,), (law,)]), "--json")
    presence, replaced = said.document["secrets"]
    assert (presence["kind"], replaced["kind"]) == ("presence", "everything")
    for row, count in ((presence, 2), (replaced, 4)):
        exact = Composition.of([(Fraction(5, 2), 1, count)]).best_guess()
        low, high = map(Fraction, row["best_guess"])
        assert low <= exact.upper
        assert exact.lower <= high
    assert "household" in presence["sentence"]
    assert said.document["releases"][0]["n_unfinished"] == 2


def test_shifts_other_than_one_are_composed_as_they_are(topdown, tmp_path):
    """A count that one change moves by two loses four times the rho of one moved by one."""
    law = DrawnLaw("discrete_gaussian", Fraction(8), 2, 3, "block", "sizes")
    said = topdown("audit", "--ledger", ledger_of(tmp_path / "l", "household", [(law,)]), "--json")
    (row,) = said.document["secrets"]
    assert (row["kind"], row["rho"], said.document["charged"]) == ("step", "3/4", {"rho": "3/4"})


def test_pure_losses_add_up(topdown, tmp_path, check):
    """Epsilons of pure releases are added, and hold for every delta."""
    law = DrawnLaw("two_sided_geometric", Fraction(4), 1, 2, "block", "total")
    path = ledger_of(tmp_path / "l", "bounded", [(law,), (law,)], ("total",))
    said = topdown("audit", "--ledger", path, "--json")
    check(said.document)
    (row,) = said.document["secrets"]
    assert row["epsilon"] == {"0": ["1", "1"]}
    right = 1 / (1 + exp(-1 / 4))  # of each of four counts: which of two, and it is the majority that tells
    assert row["right_in_100"] == ceil(
        100 * (right**4 + 4 * right**3 * (1 - right) + 3 * (right * (1 - right)) ** 2)
    )


def test_an_empty_ledger_and_no_ledger(topdown, tmp_path):
    """A book without a charge has no number; a file that is no ledger is refused."""
    binding = LedgerBinding("people", "bounded", "person")
    create_ledger(LedgerLocation(tmp_path / "new.jsonl", tmp_path, "", binding))
    assert "Nothing was ever charged" in topdown("audit", "--ledger", tmp_path / "new.jsonl").out
    (tmp_path / "x").write_text("")
    assert topdown("audit", "--ledger", tmp_path / "x").refusal == "B006"
    assert topdown("audit").code == 2
    assert topdown("audit", "toy.toml", "--ledger", tmp_path / "x").code == 2
