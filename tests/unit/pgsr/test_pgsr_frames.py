"""Groups and regions as data frames and mappings: the same numbers as from files, and nothing of them shown."""

from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest

import pgsr
from topdown.errors import TopdownError

REGIONS = {
    "region": ["land", "N", "S"],
    "parent": ["", "land", "land"],
    "level": ["land", "part", "part"],
}
GROUPS = {"region": ["N", "N", "S"], "size": [1, 2, 3], "count": [917, 40, 4]}
PLAN = pgsr.plan(sizes=4, epsilon="1/2", too_large="top-code")
PUBLIC = "made up for this test"


def sources(folder: Path) -> list[pgsr.Source]:
    """Return the same groups as files, frames and mappings."""
    pd.DataFrame(GROUPS).to_csv(folder / "groups.csv", index=False)
    pd.DataFrame(REGIONS).to_csv(folder / "hierarchy.csv", index=False)
    frames = pd.DataFrame(GROUPS, index=[7, 8, 9]), pd.DataFrame(REGIONS).replace("", None)
    return [
        pgsr.Source(folder / "groups.csv", folder / "hierarchy.csv"),
        pgsr.Source(*frames),
        pgsr.Source(GROUPS, REGIONS),
    ]


def test_frames_files_and_mappings_are_released_alike(tmp_path: Path) -> None:
    """A frame that is read otherwise than the file it was saved as gives two truths of one data set."""
    made = [pgsr.simulate(PLAN, one, 3, truth_is_public=PUBLIC).counts.tolist() for one in sources(tmp_path)]
    assert made[0] == made[1] == made[2]
    for one in sources(tmp_path):
        assert "917" not in repr(one)


def test_a_release_of_a_frame_is_charged_and_verified(tmp_path: Path) -> None:
    """A frame must not be a way around the ledger."""
    frame = sources(tmp_path)[1]
    with pytest.raises(TopdownError) as refused:
        pgsr.release(PLAN, frame, tmp_path / "out")
    assert refused.value.code == "C163"
    (tmp_path / "led").mkdir()
    place = pgsr.ledger_place(None, PLAN.binding(), pgsr.LedgerFile(tmp_path / "led" / "g.jsonl"))
    ledger = pgsr.LedgerFile(tmp_path / "led" / "g.jsonl", pgsr.new_ledger(place))
    made = pgsr.release(PLAN, frame, tmp_path / "out", ledger, pgsr.Policy(epsilon_limit=1))
    assert made.charged == Fraction(1, 2)
    assert all(check.ok for check in pgsr.verify(tmp_path / "out"))
    assert not [path for path in (tmp_path / "led").iterdir() if path.suffix == ".csv"]


def test_mechanisms_are_compared_on_a_frame(tmp_path: Path) -> None:
    """A researcher who has to write files first compares on the command line."""
    beside = pgsr.compare(
        sources(tmp_path)[1], ["1/2", 1], 4, mechanisms=["TopDown", "posterior"], truth_is_public=PUBLIC
    )
    frame = beside.frame()
    assert set(frame["level"]) == {"land", "part"}
    assert set(frame["claimed"]) == {"1/2", "1"}
    assert frame["private"].all()
    assert len(frame) == 2 * len(beside.rows)
    assert "TopDown" in beside._repr_html_()
    with pytest.raises(TopdownError) as refused:
        pgsr.compare(sources(tmp_path)[1], [1], 4)
    assert refused.value.code == "C121"


@pytest.mark.parametrize(
    ("groups", "code"),
    [
        (5, "C250"),
        ([1, 2], "C250"),
        (pd.DataFrame({"a": [917]}), "D132"),
        (pd.DataFrame([[917, 2], [3, 4]]), "D132"),
        (pd.DataFrame(GROUPS).assign(x=917), "D040"),
        (pd.DataFrame(GROUPS).assign(size=917.5), "D024"),
        (pd.DataFrame(GROUPS).assign(size=[None, 917, 1]), "D024"),
        (pd.DataFrame(GROUPS).assign(region=917), "D024"),
        ({"region": "N", "size": 917, "count": 2}, "D132"),
        ({**GROUPS, "size": [917]}, "D132"),
    ],
)
def test_a_table_of_the_wrong_shape_is_refused_in_a_message(groups: object, code: str) -> None:
    """A bare TypeError from inside names no column, and may quote what is confidential."""
    with pytest.raises(TopdownError) as refused:
        pgsr.simulate(PLAN, pgsr.Source(groups, REGIONS), 1, truth_is_public=PUBLIC)  # type: ignore[arg-type]
    assert code == refused.value.code
    assert "917" not in f"{refused.value} {refused.value.fix} {refused.value.details}"


@pytest.mark.parametrize(
    ("regions", "code"), [(5, "C250"), ({"region": ["a"]}, "D132"), (pd.DataFrame({"x": [1]}), "D132")]
)
def test_regions_of_the_wrong_shape_are_refused(regions: object, code: str) -> None:
    """Regions are typed in by hand: what is wrong with them must be said."""
    with pytest.raises(TopdownError) as refused:
        pgsr.simulate(PLAN, pgsr.Source(GROUPS, regions), 1, truth_is_public=PUBLIC)  # type: ignore[arg-type]
    assert code == refused.value.code


def test_a_plan_takes_the_keys_of_a_run_file() -> None:
    """A key that is misspelt must not be left out in silence."""
    assert pgsr.plan(sizes=4, rho="1/8", public={"N": 957}).public == {"N": 957}
    for wrong in ({"epsilon": 1}, {"sizes": 4, "epsilom": 1}):
        with pytest.raises(TopdownError) as refused:
            pgsr.plan(**wrong)
        assert refused.value.code == "C348"
    assert "Fraction" not in repr(PLAN) + PLAN._repr_html_()
