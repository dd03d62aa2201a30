"""The relation household: a whole group of any size, said as such, paid for as such, or refused."""

import json
from fractions import Fraction

import pytest

from pgsr import verify
from tests.helpers.failing import fails_with
from tests.helpers.groups import GROUPS, REGIONS, WHY, book, codes, edit_document, released
from topdown.errors import BudgetError, ConfigError

WHOLE = {"relations": ("household",), "unit": "household"}
SIMULATED = {"sizes": 4, "simulate": 1, "truth_is_public": WHY}


def release_from(folder, **options):
    """Release the groups under the relation household; return the folder and what its certificate promises."""
    named = book(folder, relations=("household",), unit="household") if "ledger" not in options else {}
    released(
        GROUPS, REGIONS, "M_H^dp", "1/2", **{"sizes": 4, "out": folder / "out", **WHOLE, **named, **options}
    )
    return folder / "out", json.loads((folder / "out" / "certificate.json").read_text())["privacy"]


def test_a_release_protects_whole_households_and_says_so(tmp_path):
    """Two cells of a level change: noise for one person's step would cost twice what is stated."""
    folder, stated = release_from(tmp_path)
    row, other = stated["secrets"]
    assert set() == codes(verify(folder))
    assert (row["kind"], row["status"]) == ("size", "conditional")
    assert (row["n_counts_moved"], row["loss"]) == (4, "1/2")
    assert stated["unit_means"] == "one household is one whole group, whatever its size"
    assert "which of two sizes one group has" in row["sentence"]
    assert "presence" not in row["name"]
    assert (other["relation"], other["status"]) == ("appears", "disclosed")
    assert other["sentence"] == "disclosed by: number of groups"
    assert "loss" not in other


def test_noise_may_cover_groups_that_appear(tmp_path):
    """A group of size 4 stands in four tail counts of a level: noise for three would cost more than is stated."""
    both = {"relations": ("household", "appears"), "unit": "household"}
    named = book(tmp_path, **both)
    released(GROUPS, REGIONS, "tracking", "1/2", sizes=4, out=tmp_path / "out", **both, **named)
    stated = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert set() == codes(verify(tmp_path / "out"))
    assert [level["sensitivity"] for level in stated["levels"]] == [4, 4]
    assert [row.get("n_counts_moved") for row in stated["privacy"]["secrets"]] == [6, None]
    assert stated["privacy"]["relations"] == ["household", "appears"]


@pytest.mark.parametrize(("mechanism", "moved"), [("M_H^dp", 2), ("posterior", 3), ("M_c^ch", 3)])
def test_noise_is_for_the_longest_change(mechanism, moved):
    """From size 1 to 4 a group passes three tail counts of each level, and two cells of a histogram."""
    made = released(GROUPS, REGIONS, mechanism, 1, **SIMULATED, **WHOLE)
    n_regions = (1, 2) if mechanism == "M_c^ch" else (1, 1)
    assert made.calibration.sensitivities == tuple(moved * n for n in n_regions)
    assert (
        sum(
            Fraction(s) / p
            for s, p in zip(made.calibration.sensitivities, made.calibration.parameters, strict=True)
        )
        == 1
    )


def test_where_all_units_are_listed_their_numbers_stay_exact():
    """A household that leaves its dwelling is a change to size 0: the number of dwellings of a region never moves."""
    made = released(GROUPS, REGIONS, "posterior", 1, **SIMULATED | {"sizes": 5}, smallest=0, **WHOLE)
    assert made.prepared.sections["public_totals"] == {"GA": 3, "NY": 3}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"relations": ("household",)}, "C185"),
        ({"relations": ("move", "household"), "unit": "household"}, "C168"),
        ({"relations": ("move", "appears"), "unit": "household"}, "C168"),
        ({"relations": ("appears",), "unit": "household"}, "C168"),
        ({**WHOLE, "sizes": 1, "too_large": "top-code"}, "C169"),
    ],
)
def test_what_cannot_be_said_of_households_is_refused(options, code):
    """A person as unit, a second unit beside the household, and one size all would make a sentence untrue."""
    options = SIMULATED | options
    with fails_with(code, ConfigError):
        released(GROUPS, REGIONS, options.pop("mechanism", "M_H^dp"), 1, **options)


def test_a_ledger_of_persons_takes_no_household(tmp_path):
    """Losses to persons and to households do not add up in one book."""
    with fails_with("B007", BudgetError):
        release_from(tmp_path, **book(tmp_path))


@pytest.mark.parametrize(
    "edit",
    [
        lambda p: p.update(relations=["move"]),
        lambda p: p.update(unit_means="one household adds at most one to the size of one group"),
        lambda p: p["secrets"][0].update(kind="presence"),
        lambda p: p["secrets"].pop(),
        lambda p: p.update(relations=["household", "appears"]),
        lambda p: p["secrets"][0].update(n_counts_moved=2, loss="1/4"),
    ],
)
def test_other_words_or_numbers_are_found(tmp_path, edit):
    """A household's release that is passed off as a person's, or as cheaper, must not pass."""
    folder, _ = release_from(tmp_path)
    edit_document(folder, "certificate.json", lambda d: edit(d["privacy"]))
    assert "privacy" in codes(verify(folder))
