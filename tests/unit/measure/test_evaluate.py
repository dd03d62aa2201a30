"""Error of a release against the truth: by hand, beside dense sums, with a broken promise, and as a private file."""

import gzip
import json
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.failing import fails_with
from topdown.errors import CertificateError, ConfigError, DataError
from topdown.measure import (
    QUANTILES,
    ErrorStatistics,
    LeafCounts,
    RecordsForm,
    evaluate,
    evaluated_queries,
    invariant_exactness,
    load_records,
    subtract_truth,
    summed_total_variation,
    write_evaluation,
)
from topdown.measure import evaluation as beside_truth
from topdown.measure.evaluation import _evaluate_level
from topdown.model import Histogram
from topdown.plan import prepare
from topdown.practice.synth import synth

Rows = list[tuple[str, ...]]
Build = Callable[[Path, Rows], Path]

RELEASED: Rows = [
    ("11", "home", "female", "18_64", "5"),
    ("11", "home", "male", "0_17", "1"),
    ("21", "dormitory", "female", "18_64", "5"),
    ("21", "dormitory", "male", "18_64", "3"),
]


def table(document: Any, level: str, query: str) -> dict[str, Any]:
    tables = next(part for part in document["levels"] if part["level"] == level)["tables"]
    found: dict[str, Any] = next(t for t in tables if t["query"] == query)
    return found


def test_total_by_hand(run: Path, release_of: Build) -> None:
    """Every number an official reads about totals would be wrong: errors of the blocks are 0, -3, +3."""
    document = evaluate(release_of(run, RELEASED), run.parent / "records.csv")
    total = table(document, "block", "total")
    quantiles = {"50": 3, "90": 3, "95": 3, "99": 3, "max": 3}
    assert (3, 2.0, 0.0, 6, quantiles) == tuple(
        total[k] for k in ("n_values", "mae", "bias", "l1", "quantiles")
    )
    assert sqrt(6) == pytest.approx(total["rmse"])
    assert pytest.approx(total["mean_total_variation"]) == 1 / 3  # block 12 is empty in the release
    assert table(document, "county", "total")["mae"] == 3.0
    assert table(document, "land", "total")["mae"] == 0.0


def test_cells_by_hand(run: Path, release_of: Build) -> None:
    """Zeros would be left out of the average, or total variation not compare shares."""
    detailed = table(evaluate(release_of(run, RELEASED), run.parent / "records.csv"), "block", "detailed")
    assert (detailed["n_values"], detailed["l1"], pytest.approx(detailed["mae"])) == (54, 8, 8 / 54)
    assert sqrt(20 / 54) == pytest.approx(detailed["rmse"])
    assert pytest.approx(detailed["mean_total_variation"]) == (1 / 6 + 1 + 3 / 8) / 3
    assert detailed["quantiles"] == {"50": 0, "90": 0, "95": 1, "99": 3, "max": 3}


def test_recodes_outside_the_workload_are_evaluated(run: Path, release_of: Build) -> None:
    """Major race groups (a recode nobody measures) would have no error stated."""
    adult = table(evaluate(release_of(run, RELEASED), run.parent / "records.csv"), "county", "adult")
    assert (adult["measured"], adult["mae"], adult["bias"]) == (False, 1.5, 0.0)
    assert [(a["label"], a["mae"], a["bias"]) for a in adult["answers"]] == [
        ("child", 0.5, -0.5),
        ("adult", 2.5, 0.5),
    ]


def test_population_bins_follow_the_truth(run: Path, release_of: Build) -> None:
    """A block that the release empties would move to the bin of empty blocks."""
    document = evaluate(release_of(run, RELEASED), run.parent / "records.csv")
    bins = {part["level"]: part["total_by_population"] for part in document["levels"]}
    assert [(b["from"], b["to"], b["n_nodes"]) for b in bins["block"]] == [(1, 9, 3)]
    assert [(b["from"], b["to"], b["n_nodes"], b["mae"]) for b in bins["land"]] == [(10, 99, 1, 0.0)]


def test_document_is_marked(run: Path, release_of: Build) -> None:
    """The document could be taken for a public one."""
    document = evaluate(release_of(run, RELEASED), run.parent / "records.csv")
    assert tuple(document[k] for k in ("type", "version", "confidential")) == ("topdown.evaluation", 1, True)
    assert str(document["heading"]).startswith("CONFIDENTIAL")
    assert list(document)[:3] == ["type", "version", "confidential"]


def test_all_invariants_hold(run: Path, release_of: Build) -> None:
    """Exactness would not be 100 % where everything holds."""
    invariants: Any = evaluate(release_of(run, RELEASED), run.parent / "records.csv")["invariants"]
    assert invariants["percent"] == 100.0
    assert {100.0} == {check["percent"] for check in invariants["checks"]}


@pytest.mark.parametrize(
    ("extra", "broken", "n_checked", "n_met"),
    [
        (("12", "barracks", "male", "18_64", "1"), "nobody in barracks where there are none", 3, 2),
        (("21", "home", "male", "18_64", "1"), "nobody at home where there are no homes", 1, 0),
        (("12", "barracks", "male", "0_17", "1"), "no children in barracks", 3, 2),
        (("11", "home", "male", "18_64", "1"), "population of the land", 1, 0),
        (None, "at least two people per dormitory", 1, 0),
    ],
)
def test_a_broken_invariant_shows(
    extra: tuple[str, ...] | None, broken: str, n_checked: int, n_met: int, run: Path, release_of: Build
) -> None:
    """A release that breaks a promise would be called exact."""
    rows = [*RELEASED, extra] if extra else [*RELEASED[:2], ("21", "dormitory", "male", "18_64", "1")]
    rows.sort()
    invariants: Any = evaluate(release_of(run, rows), run.parent / "records.csv")["invariants"]
    check = next(c for c in invariants["checks"] if c["name"] == broken)
    assert (n_checked, n_met) == (check["n_checked"], check["n_met"])
    assert check["percent"] < 100
    assert invariants["percent"] < 100


@pytest.fixture
def county(tmp_path: Path) -> tuple[Path, Rows]:
    made = synth(tmp_path, people=8_000, schema="pl94", seed=4)
    assert made.run_file is not None
    lines = gzip.decompress(made.records.read_bytes()).decode().splitlines()[1:]
    return made.run_file, [tuple(line.split(",")) for line in lines]


def test_the_truth_itself_has_no_error(county: tuple[Path, Rows], release_of: Build) -> None:
    """An error would be stated where there is none."""
    run, rows = county
    document: Any = evaluate(release_of(run, rows), run.parent / "persons.csv.gz")
    for level in document["levels"]:
        for of in (*level["tables"], *level["total_by_population"]):
            assert (of["mae"], of["rmse"], of["bias"], of["l1"], of["quantiles"]["max"]) == (0, 0, 0, 0, 0)
            assert of.get("mean_total_variation", 0) == 0
    assert document["invariants"]["percent"] == 100.0


def test_a_planted_shift_is_a_bias(county: tuple[Path, Rows], release_of: Build) -> None:
    """Systematic error would be lost among absolute errors: two people more in every row of race 02."""
    run, rows = county
    shifted = [(*row[:-1], str(int(row[-1]) + 2 * (row[4] == "02"))) for row in rows]
    n = sum(row[4] == "02" for row in rows)
    document: Any = evaluate(release_of(run, shifted), run.parent / "persons.csv.gz")
    race = table(document, "state", "race7")
    assert {"black": 2.0 * n} == {a["label"]: a["bias"] for a in race["answers"] if a["bias"]}
    n_blocks = table(document, "block", "total")["n_values"]
    assert 2 * n / n_blocks == pytest.approx(table(document, "block", "total")["bias"])
    bins = next(part for part in document["levels"] if part["level"] == "state")["total_by_population"]
    assert [2.0 * n] == [part["bias"] for part in bins]


def test_records_of_another_census_are_refused_without_showing_them(run: Path, release_of: Build) -> None:
    """A wrong truth would give numbers, or its contents would reach a log."""
    release = release_of(run, RELEASED)
    other = run.parent / "other.csv"
    other.write_text("geocode,dwelling,sex,age,count\n77123,home,female,18_64,4\n", encoding="utf-8")
    with pytest.raises(DataError) as error:
        evaluate(release, other)
    assert "77123" not in str(error.value.to_json())


@pytest.mark.parametrize("damage", ["absent", "truncated", "label", "geocode", "count", "column"])
def test_damaged_microdata_are_refused(damage: str, run: Path, release_of: Build) -> None:
    """Half a release would be evaluated as if it were whole."""
    wrong = {
        "label": [("11", "tent", "female", "18_64", "5")],
        "geocode": [("99", "home", "female", "18_64", "5")],
        "count": [("11", "home", "female", "18_64", "0")],
    }
    release = release_of(run, wrong.get(damage, RELEASED))
    path = release / "microdata" / "persons.parquet"
    if damage == "absent":
        path.unlink()
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-20])
    if damage == "column":
        path.write_bytes((release / "public" / "leaves.parquet").read_bytes())
    with fails_with("V090", CertificateError):
        evaluate(release, run.parent / "records.csv")


def test_altered_plan_is_refused(run: Path, release_of: Build) -> None:
    """Errors would be stated for another plan than the one that was run."""
    release = release_of(run, RELEASED)
    plan = release / "plan.json"
    plan.write_text(plan.read_text(encoding="utf-8").replace("Toy persons", "Toy person"), encoding="utf-8")
    with pytest.raises(ConfigError):
        evaluate(release, run.parent / "records.csv")


def test_an_evaluation_by_stretches_is_the_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An area lost between two stretches of a nation, or counted in both, would be an error nobody made."""
    made = synth(tmp_path, people=3_000, schema="toy", seed=2)
    assert made.run_file is not None
    context = prepare(made.run_file).context
    truth = load_records(made.records, context, RecordsForm(has_count=True)).open_counts()
    moved = truth.whole()
    released = LeafCounts.pack(
        Histogram.build(
            moved.n_nodes, moved.n_cells, (moved.node + 1) % moved.n_nodes, moved.cell, moved.count
        )
    )
    found = []
    for n_leaves in (10**6, 7):
        monkeypatch.setattr(beside_truth, "LEAVES_AT_ONCE", n_leaves)
        both = beside_truth.ReleaseAndTruth(context, released, truth)
        levels = [
            _evaluate_level(tmp_path, both, depth, evaluated_queries(context.plan)) for depth in range(3)
        ]
        for table in (table for level in levels for table in level["tables"]):  # type: ignore[attr-defined]
            table["mean_total_variation"] = round(table["mean_total_variation"], 12)
        found.append((levels, invariant_exactness(both)))
    assert found[0] == found[1]
    assert len(list(context.geography.stretches(2, 7))) == 10


@pytest.fixture
def release(run: Path, truth: Rows, release_of: Build) -> Path:
    return release_of(run, truth)


@pytest.fixture
def document(run: Path, release: Path) -> dict[str, Any]:
    return evaluate(release, run.parent / "records.csv")


def test_file_is_whole_and_private(document: dict[str, Any], tmp_path: Path, release: Path) -> None:
    """Others on the machine could read the errors."""
    out = tmp_path / "evaluation.json"
    write_evaluation(document, out, release)
    assert document == json.loads(out.read_text(encoding="utf-8"))
    assert out.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in tmp_path.glob("evaluation*")] == ["evaluation.json"]


@pytest.mark.parametrize(
    "inside", ["evaluation.json", "tables/evaluation.json", "../release/e.json", "../link/e.json"]
)
def test_never_inside_the_release(inside: str, document: dict[str, Any], release: Path) -> None:
    """A confidential file would be published with the release, by whatever name of its folder."""
    (release.parent / "link").symlink_to(release, target_is_directory=True)
    with fails_with("C067", ConfigError):
        write_evaluation(document, release / inside, release)
    assert not [*release.rglob("evaluation.json"), *release.rglob("e.json")]


def sparse(dense: np.ndarray) -> Histogram:
    node, cell = np.nonzero(dense)
    return Histogram.build(*dense.shape, node, cell, dense[node, cell])


@pytest.mark.parametrize("seed", range(40))
def test_sparse_equals_dense(seed: int) -> None:
    """Zeros that are not stored would be forgotten in an average, a quantile or a distance."""
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 9)), int(rng.integers(1, 7)))
    a, b = (rng.poisson(rng.choice([0.2, 3.0]), shape) for _ in range(2))
    errors, cut = ErrorStatistics(), int(rng.integers(0, shape[0] + 1))
    for part in (slice(0, cut), slice(cut, shape[0])):
        errors.add(subtract_truth(sparse(a[part]), sparse(b[part])).count, a[part].size)
    got = errors.summary()
    error = (a - b).reshape(-1)
    size = np.sort(np.abs(error))
    expected = [np.abs(error).mean(), np.sqrt((error**2).mean()), error.mean(), np.abs(error).sum()]
    assert pytest.approx(expected) == [got["mae"], got["rmse"], got["bias"], got["l1"]]
    quantiles = {str(q): int(np.quantile(size, q / 100, method="inverted_cdf")) for q in QUANTILES}
    assert quantiles | {"max": int(size[-1])} == got["quantiles"]
    distances = []
    for left, right in zip(a, b, strict=True):
        if left.sum() and right.sum():
            distances.append(float(np.abs(left / left.sum() - right / right.sum()).sum() / 2))
        elif left.sum() or right.sum():
            distances.append(1.0)
    assert (pytest.approx(sum(distances)), len(distances)) == summed_total_variation(sparse(a), sparse(b))


def test_squares_do_not_overflow() -> None:
    """A nation's error would wrap around in 64-bit integers."""
    errors = ErrorStatistics()
    errors.add(np.array([3_000_000_000, -3_000_000_000] * 9), 18)
    assert pytest.approx(errors.summary()["rmse"]) == 3e9


def test_nothing_compared() -> None:
    """A level without nodes of a kind would divide by zero."""
    empty = ErrorStatistics().summary()
    assert (empty["mae"], empty["quantiles"]["max"]) == (0, 0)  # type: ignore[index]
