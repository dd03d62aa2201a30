"""Groups and regions as files, frames and mappings: the same numbers, and nothing that can be read in two ways."""

import importlib
import pkgutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pgsr
from pgsr import Budget, Plan, Sizes, hierarchy_of, tree_of
from pgsr.comparison import Run, compare_runs
from pgsr.level_noise import calibrate
from tests.helpers.failing import fails_with
from tests.helpers.groups import REGIONS, WHY, released
from topdown.errors import ConfigError, DataError

FRAMED_REGIONS = {
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
    pd.DataFrame(FRAMED_REGIONS).to_csv(folder / "hierarchy.csv", index=False)
    frames = pd.DataFrame(GROUPS, index=[7, 8, 9]), pd.DataFrame(FRAMED_REGIONS).replace("", None)
    return [
        pgsr.Source(folder / "groups.csv", folder / "hierarchy.csv"),
        pgsr.Source(*frames),
        pgsr.Source(GROUPS, FRAMED_REGIONS),
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
    with fails_with("C163"):
        pgsr.release(PLAN, frame, tmp_path / "out")
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
    with fails_with("C121"):
        pgsr.compare(sources(tmp_path)[1], [1], 4)


@pytest.mark.parametrize(
    ("groups", "regions", "code"),
    [
        (GROUPS, 5, "C250"),
        (GROUPS, {"region": ["a"]}, "D132"),
        (GROUPS, pd.DataFrame({"x": [1]}), "D132"),
        (5, FRAMED_REGIONS, "C250"),
        ([1, 2], FRAMED_REGIONS, "C250"),
        (pd.DataFrame({"a": [917]}), FRAMED_REGIONS, "D132"),
        (pd.DataFrame([[917, 2], [3, 4]]), FRAMED_REGIONS, "D132"),
        (pd.DataFrame(GROUPS).assign(x=917), FRAMED_REGIONS, "D040"),
        (pd.DataFrame(GROUPS).assign(size=917.5), FRAMED_REGIONS, "D024"),
        (pd.DataFrame(GROUPS).assign(size=[None, 917, 1]), FRAMED_REGIONS, "D024"),
        (pd.DataFrame(GROUPS).assign(region=917), FRAMED_REGIONS, "D024"),
        ({"region": "N", "size": 917, "count": 2}, FRAMED_REGIONS, "D132"),
        ({**GROUPS, "size": [917]}, FRAMED_REGIONS, "D132"),
    ],
)
def test_a_table_of_the_wrong_shape_is_refused_in_a_message(
    groups: object, regions: object, code: str
) -> None:
    """A bare TypeError from inside names no column, and may quote what is confidential."""
    with fails_with(code) as refused:
        pgsr.simulate(PLAN, pgsr.Source(groups, regions), 1, truth_is_public=PUBLIC)  # type: ignore[arg-type]
    assert "917" not in f"{refused.value} {refused.value.fix} {refused.value.details}"


def test_a_plan_takes_the_keys_of_a_run_file() -> None:
    """A key that is misspelt must not be left out in silence."""
    assert pgsr.plan(sizes=4, rho="1/8", public={"N": 957}).public == {"N": 957}
    for wrong in ({"epsilon": 1}, {"sizes": 4, "epsilom": 1}):
        with fails_with("C348"):
            pgsr.plan(**wrong)
    assert "Fraction" not in repr(PLAN) + PLAN._repr_html_()


ROWS = [("US", "", "nation"), ("GA", "US", "state"), ("NY", "US", "state")]


@pytest.mark.parametrize(
    ("rows", "words", "code"),
    [
        ([*ROWS, ("A", "B", "state"), ("B", "A", "state")], "A -> B -> A", "D017"),
        ([*ROWS, ("X", "X", "state")], None, "D017"),
        ([*ROWS, ("X", "FR", "state")], None, "D014"),
        ([*ROWS, ("GA", "US", "state")], None, "D012"),
        ([*ROWS, ("CA", "", "nation")], None, "D013"),
        ([*ROWS, ("county", "GA", "county")], None, "D016"),
    ],
)
def test_broken_hierarchies_are_refused(rows, words, code):
    """A cycle or a lost branch would make sums meaningless; nobody finds a loop that is not spelled out."""
    with fails_with(code, DataError, match=words) as caught:
        hierarchy_of(rows)
    assert caught.value.fix


@pytest.mark.parametrize(
    "levels", [[], [[-1, -1]], [[-1], [0, 1]], [[-1], [0, 0], [1, 0]], [[-1], [0, 0], [0]], [[-1], []]]
)
def test_broken_levels_are_refused(levels):
    """Kernels index by these numbers without checks."""
    with pytest.raises(DataError):
        tree_of(levels)


def test_counts_of_another_shape_or_type_are_refused():
    """A transposed or fractional matrix must not be read as counts."""
    from pgsr import tree_optimum

    for noisy in ([[1, 2]], [[1.5, 2.0, 3.0]], [1, 2, 3]):
        with pytest.raises(ConfigError):
            tree_optimum([[-1], [0, 0]], noisy, 3)
    for total in (-1, 1.5):
        with pytest.raises(ConfigError):
            tree_optimum([[-1], [0, 0]], [[1, 2, 3]], total)


def test_sums_and_bounds_of_a_deep_tree():
    """Parents, leaf ranges and post-order are what every algorithm walks on."""
    tree = tree_of([[-1], [0, 0], [0, 1, 1]])
    assert tree.sums(np.array([[1, 2, 3]])).tolist() == [[6, 1, 5, 1, 2, 3]]
    assert tree.leaf_start.tolist() == [0, 0, 1, 0, 1, 2]
    assert tree.leaf_stop.tolist() == [3, 1, 3, 1, 2, 3]
    assert tree.post_order.tolist() == [3, 1, 4, 5, 2, 0]


def from_file(folder, text, name="groups.csv", **options):
    """Simulate on a file of groups; return the counts of the root, by size."""
    (folder / name).write_text(text, newline="")
    settings = {"sizes": 40, "simulate": 1, "truth_is_public": WHY, "calibration": "correct"} | options
    return released(folder / name, REGIONS, "tracking", 4000, **settings).counts[:, 0].tolist()


def test_columns_named_in_ignore_are_not_read(tmp_path):
    """A file may carry more than one form if the run says which columns it does not read."""
    text = "unit,region,size,count\nA,GA,1,65\nB,NY,2,1\n"
    assert [1, 1, *[0] * 38] == from_file(tmp_path, text, ignore=["count"])
    assert [65, 1, *[0] * 38] == from_file(tmp_path, text, ignore=["unit"])


@pytest.mark.parametrize("shift", [0, 11, 23])
def test_a_quoted_line_break_at_the_edge_of_a_block_makes_no_group(tmp_path, shift):
    """Text of a column nobody reads became groups where a block of the reader began inside it."""
    row, head = f"GA,1,1,{'x' * 20}\n", "region,size,count,note\n"
    n = ((1 << 20) - 500 - len(head)) // len(row)
    text = head + row * n + f'GA,1,1,"{"x" * shift}\n{row * 40}"\n' + row
    assert n + 2 == from_file(tmp_path, text, ignore=["note"])[0]


@pytest.mark.parametrize("values", [[True, 1], [1.0, 2], ["0x1F", "1"], [2**63, 1], [None, 1], [1e300, 1]])
def test_numbers_by_luck_are_refused_in_memory_too(tmp_path, values):
    """A truth value is no size, and a number past 64 bits must not end in a traceback."""
    with fails_with("D133", DataError):
        released(
            {"region": ["GA", "NY"], "size": values, "count": [1, 1]}, REGIONS, "tracking", "1/2",
            sizes=3, simulate=1, truth_is_public=WHY,
        )  # fmt: skip


def test_no_module_hides_a_public_name() -> None:
    """A module called like a public function takes its place once it is imported."""
    modules = {module.name for module in pkgutil.iter_modules(pgsr.__path__)}
    assert not modules & set(pgsr.__all__)
    for name in modules - {"__main__"}:
        importlib.import_module(f"pgsr.{name}")
    assert all(callable(getattr(pgsr, name)) for name in pgsr.__all__)


@pytest.mark.parametrize("relations", [(), ("move", "swap")])
def test_unknown_neighbour_steps_are_refused(relations: tuple[str, ...]) -> None:
    """A misspelt step would be protected as another one, or not at all."""
    with pytest.raises(ConfigError, match="step"):
        calibrate("tail", tree_of([[-1], [0, 0]]), Sizes(3), Budget("1/2"), relations)
    with pytest.raises(ConfigError, match="step"):
        Plan(Sizes(3), Budget("1/2"), relations=relations)


def test_tail_and_cumulative_comparisons_differ_only_in_what_is_measured() -> None:
    """`compare` must measure what it is told to, at the same claimed and true epsilon."""
    tree = tree_of([[-1], [0, 0]])
    truth = tree.sums(np.array([[5, 2], [1, 0], [0, 3]], dtype=np.int64))
    rows = {
        direction: compare_runs(tree, truth, [Fraction(1)], runs=[Run("tracking")], direction=direction)[0]
        for direction in ("cumulative", "tail")
    }
    assert rows["tail"].true_epsilon == rows["cumulative"].true_epsilon == 1
    assert rows["tail"].l1 != rows["cumulative"].l1
