"""Simulations: on whose word they are made, and that none passes for a release."""

import json
from fractions import Fraction

import pytest

from pgsr.level_noise import NOT_A_RELEASE
from tests.helpers.groups import GROUPS, REGIONS, WHY, book, released
from topdown.errors import ConfigError


def test_published_calibration_is_stamped(tmp_path):
    """Numbers made to reproduce the paper must never pass for a release."""
    made = released(
        GROUPS,
        REGIONS,
        "M_c^ch",
        1,
        sizes=5,
        simulate=1,
        truth_is_public=WHY,
        calibration="published",
        out=tmp_path / "out",
    )
    assert Fraction(3, 2) == made.calibration.loss
    assert not made.is_release
    stated = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert (stated["stamp"], stated["privacy"]["private_as_claimed"]) == (NOT_A_RELEASE, False)


def test_a_simulation_on_unmarked_groups_is_refused(tmp_path):
    """The mean of many uncharged runs on real groups is the groups; nothing may be drawn or written."""
    table = tmp_path / "groups.csv"
    table.write_text("region,size,count\nGA,1,3\nNY,2,2\n")
    options = {"sizes": 4, "simulate": 1}
    for groups, reason in ((GROUPS, ""), (table, ""), (GROUPS, "public"), (table, "public")):
        with pytest.raises(ConfigError) as caught:
            released(groups, REGIONS, "tracking", 1, truth_is_public=reason, out=tmp_path / "out", **options)
        assert caught.value.code == "C121"
        assert not (tmp_path / "out").exists()
    made = released(table, REGIONS, "tracking", 1, truth_is_public=WHY, **options)
    assert (made.origin.kind, made.origin.name, made.origin.reason) == ("public", "groups.csv", WHY)


def test_a_release_has_no_origin_and_a_simulation_states_its_own(tmp_path):
    """Who reads a simulated certificate must see on what, and on whose word, it was made."""
    for name, options in (("real", {}), ("made-up", {"simulate": 1, "truth_is_public": WHY})):
        settings = book(tmp_path) | options
        released(GROUPS, REGIONS, "tracking", 1, sizes=4, out=tmp_path / name, **settings)
    real, simulated = (
        json.loads((tmp_path / name / "certificate.json").read_text())["truth"]
        for name in ("real", "made-up")
    )
    assert real is None
    assert (simulated["kind"], simulated["name"], simulated["reason"]) == ("public", "columns in memory", WHY)
