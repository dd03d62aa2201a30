"""What is released: consistent counts of every mechanism, charged once."""

from fractions import Fraction

import numpy as np
import pytest

from pgsr import verify
from pgsr.estimators import MECHANISMS
from pgsr.group_checks import check_folder
from pgsr.level_noise import NOT_A_RELEASE
from pgsr.released_groups import read_certificate
from tests.helpers.groups import (
    GROUPS,
    PEOPLE,
    REGIONS,
    WHY,
    book,
    change_limits,
    changed,
    codes,
    released,
    seal,
)
from topdown.errors import BudgetError
from topdown.privacy.ledger import Limits


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_keeps_its_promises(tmp_path, name):
    """Consistency, validity and faithfulness of the written files, for each mechanism by its published name."""
    known = {"GA": 3, "NY": 3} if MECHANISMS[name].family == "rows" else {}
    options = {"sizes": 4, "simulate": 5, "truth_is_public": WHY, "public": known}
    made = released(GROUPS, REGIONS, name, "1/2", **options, out=tmp_path / "out")
    assert set() == codes(check_folder(tmp_path / "out"))
    assert made.stamp == NOT_A_RELEASE
    if MECHANISMS[name].consistent:
        assert np.array_equal(made.counts[:, 0], made.counts[:, 1:].sum(axis=1))
        assert made.counts[:, 0].sum() == 6
        assert made.counts.min() >= 0


@pytest.mark.parametrize("name", ["M_H^dp", "M_c^dp", "M_c^ch", "tracking"])
def test_tiny_noise_returns_the_truth(name):
    """Any slip in sizes, regions or directions shows when the noise is gone."""
    for direction in ("tail", "cumulative"):
        made = released(
            GROUPS, REGIONS, name, 4000, sizes=4, simulate=1, truth_is_public=WHY, direction=direction
        )
        assert made.counts.tolist() == [[2, 1, 1], [3, 1, 2], [1, 1, 0], [0, 0, 0]]


def test_microdata_and_counts_say_the_same_as_groups():
    """Three input forms, one histogram."""
    counts = {"region": ["GA", "NY", "GA"], "size": [1, 0, 2], "count": [1, 1, 1]}
    found = [
        released(
            data, REGIONS, "tracking", 4000, sizes=3, smallest=0, simulate=1, truth_is_public=WHY
        ).counts.tolist()
        for data in (PEOPLE, counts)
    ]
    assert found == [[[1, 0, 1], [1, 1, 0], [1, 1, 0]]] * 2


def test_top_coding_keeps_the_number_of_groups():
    """Dropping large groups would change G and the tail counts by N."""
    made = released(
        changed(size=[1, 2, 9, 1, 2, 2]),
        REGIONS,
        "tracking",
        4000,
        sizes=3,
        too_large="top-code",
        simulate=1,
        truth_is_public=WHY,
    )
    assert made.counts[:, 0].tolist() == [2, 3, 1]


def test_a_release_is_charged_once_and_checks_out(tmp_path):
    """Ledger, manifest and certificate must agree on the loss; a second release needs a higher limit."""
    named = {"sizes": 5} | book(tmp_path)
    made = released(GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "out", total=6, **named)
    assert made.is_release
    assert set() == codes(verify(tmp_path / "out"))
    files = {"counts.parquet", "measurements", "certificate.json", "ledger.jsonl", "manifest.json"}
    files |= {"README.txt"}
    assert files == {path.name for path in (tmp_path / "out").iterdir()}
    assert (Fraction(1, 2), 1) == (made.charged, made.n_attempts)
    with pytest.raises(BudgetError):
        released(GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "again", **named)
    change_limits({key: named[key] for key in ("ledger", "ledger_id")}, Limits(epsilon=Fraction(1)))
    again = released(
        GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "again", epsilon_limit=1, again=True, **named
    )
    assert Fraction(1, 2) == again.calibration.loss
    assert set() == codes(verify(tmp_path / "again"))


def test_readme_says_whose_release_it_is_and_verify_holds_it_to_the_certificate(tmp_path):
    """Whoever gets the folder reads README.txt first: it must name whom to ask, and say no more than is certified."""
    said = {"title": "Farms", "agency": "Office", "contact": "ask@office.example", "licence": "CC-BY-4.0"}
    released(GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "out", sizes=5, **said, **book(tmp_path))
    text, stated = (tmp_path / "out" / "README.txt").read_text(), read_certificate(tmp_path / "out")
    assert said == stated["names"]
    assert all(value in text for value in said.values())
    row = stated["privacy"]["secrets"][0]
    assert row["sentence"] in " ".join(text.split())
    assert f"Epsilon is at most {row['epsilon']['0'][1]} " in text
    for line in (f"From:      {said['agency']}\n", "Published without noise: number of groups"):
        assert line in text
        (tmp_path / "out" / "README.txt").write_text(text.replace(line, "From:      Nobody\n"))
        seal(tmp_path / "out")
        assert codes(verify(tmp_path / "out")) == {"manifest"}


def test_tracking_ends_at_the_public_total():
    """Targets that end elsewhere must not change the number of groups."""
    from pgsr.estimators import track

    counts = track(REGIONS.tree, np.array([[1.0, 1.0, 0.0], [4.2, 3.0, 1.0]]), 6)
    assert counts[:, 0].sum() == 6
