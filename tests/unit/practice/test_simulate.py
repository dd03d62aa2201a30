"""Simulations: only on made-up or public records, the same for the same seed, another one a replicate."""

import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.failing import fails_with
from tests.helpers.small_release import build
from tests.helpers.solved import solve_answers
from topdown.errors import ConfigError, DataError, InternalError
from topdown.made_up import mark_of
from topdown.measure import encode_part, level_drawer, plan_parts
from topdown.plan import PreparedRun, prepare
from topdown.practice import ErrorSums, Replicate, open_simulation, open_truth
from topdown.privacy import AesBits, SimulationBits
from topdown.solve import AnswersInMemory, MeasurementReader, exact_tables, exact_totals

WHY = "made up for this test"


@pytest.fixture
def unmarked(census: Path, tmp_path: Path) -> Path:
    """Return the same records without their mark: to the engine, anybody's."""
    path = tmp_path / "people.csv.gz"
    shutil.copyfile(census / "persons.csv.gz", path)
    return path


def same(one: Replicate, other: Replicate) -> bool:
    """Tell whether two replicates are equal, number by number."""
    a, b = one.leaves, other.leaves
    leaves = all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("node", "cell", "count"))
    return leaves and all(np.array_equal(x, y) for x, y in zip(one.noisy, other.noisy, strict=True))


def refused(prepared: PreparedRun, truth: Path, **options: str) -> ConfigError:
    """Return the refusal; it comes before the first replicate is asked for."""
    with pytest.raises(ConfigError) as caught:
        open_simulation(prepared, truth, **options).run(40)
    return caught.value


def test_unmarked_records_are_refused(prepared: PreparedRun, unmarked: Path) -> None:
    """The mean of forty uncharged runs on real records is the records."""
    assert "C121" == refused(prepared, unmarked).code  # noqa: SIM300
    assert [path.name for path in unmarked.parent.iterdir()] == ["people.csv.gz"]


def test_the_records_of_the_run_file_are_not_read_unasked(census: Path, tmp_path: Path) -> None:
    """A run file names the confidential records; naming them as truth does not make them public."""
    shutil.copytree(census, tmp_path / "c")
    mark_of(tmp_path / "c/persons.csv.gz").unlink()
    own = prepare(tmp_path / "c/run.toml")
    assert refused(own, own.records_path).code == "C121"


def test_public_records_carry_their_reason(prepared: PreparedRun, unmarked: Path) -> None:
    """A reader must see on whose word the records were taken for public."""
    simulation = open_simulation(prepared, unmarked, truth_is_public=WHY)
    assert (simulation.origin.kind, simulation.origin.reason) == ("public", WHY)
    assert refused(prepared, unmarked, truth_is_public="public").code == "C121"


def test_records_that_break_a_rule_are_not_listed(prepared: PreparedRun, unmarked: Path) -> None:
    """A simulation writes nothing beside its truth: that may be a published folder."""
    unmarked.with_suffix("").write_text("geocode,dwelling,sex,age,count\nnowhere,home,female,0_17,1\n")
    with fails_with("D030", DataError):
        open_simulation(prepared, unmarked.with_suffix(""), truth_is_public=WHY)
    assert not [path for path in unmarked.parent.iterdir() if "PRIVATE" in path.name]


def test_equal_seeds_give_equal_replicates_with_any_number_of_workers(
    prepared: PreparedRun, census: Path
) -> None:
    """A figure that nobody can make again proves nothing."""
    truth = census / "persons.csv.gz"
    alone = list(open_simulation(prepared, truth, seed=5).run(4))
    together = list(open_simulation(prepared, truth, seed=5).run(4, workers=3))
    assert [r.number for r in together] == [0, 1, 2, 3]
    assert all(same(a, b) for a, b in zip(alone, together, strict=True))
    (first,) = open_simulation(prepared, truth, seed=5).run(1, workers=2)
    assert same(alone[0], first)
    third = open_simulation(prepared, truth, seed=5).replicate(2)
    assert same(alone[2], third)


def test_replicates_and_seeds_differ(prepared: PreparedRun, census: Path) -> None:
    """Replicates that share noise would show a spread that is too small."""
    truth = census / "persons.csv.gz"
    made = [
        *open_simulation(prepared, truth, seed=5).run(2),
        *open_simulation(prepared, truth, seed=6).run(1),
    ]
    for i, one in enumerate(made):
        for other in made[:i]:
            assert not any(np.array_equal(x, y) for x, y in zip(one.noisy, other.noisy, strict=True))


def test_streams_of_one_seed_never_meet() -> None:
    """Two parts with the same bits would have the same noise, and their difference would be exact."""
    streams = [
        (),
        (1,),
        ("1",),
        (1, 2),
        (12,),
        ("1, 2",),
        ("a", "b"),
        ("ab",),
        ("replicate", 0, "x", "part-000"),
    ]
    blocks = {
        SimulationBits(seed, s).read(64)[i : i + 16] for seed in (1, 11) for s in streams for i in range(49)
    }
    assert 2 * len(streams) * 49 == len(blocks)
    assert SimulationBits(2020, ()).read(16) == SimulationBits(2020).read(16)


def test_noise_has_the_law_of_the_plan_and_stands_on_the_truth(prepared: PreparedRun, census: Path) -> None:
    """A simulation with other noise, or about other records, misleads about every release."""
    simulation = open_simulation(prepared, census / "persons.csv.gz", seed=1)
    n, level = 60, prepared.plan.levels[-1]
    nodes = np.flatnonzero(prepared.context.inhabited[-1])
    true = np.concatenate(
        [simulation.truth[-1].answers(q)[nodes] for q in prepared.context.queries(level.name)], axis=1
    )
    noise = [simulation._draw(number)[-1] - true for number in range(n)]
    start = 0
    for m in level.measurements:
        drawn = np.stack(noise)[:, :, start : start + m.n_answers].astype(float)
        start += m.n_answers
        variance = float(m.variance)
        assert abs(drawn.mean()) < 6 * (variance / drawn.size) ** 0.5
        assert drawn.var() == pytest.approx(variance, rel=6 * (2.2 / drawn.size) ** 0.5)


def test_replicates_are_solved_as_a_release_is(prepared: PreparedRun, census: Path, tmp_path: Path) -> None:
    """The solver set up once must find what a solver set up for these answers alone finds."""
    context = prepared.context
    exact = open_truth(census / "persons.csv.gz", context)[1].exact
    nodes = tuple(np.flatnonzero(inside) for inside in context.inhabited)
    for made in open_simulation(prepared, census / "persons.csv.gz", seed=3).run(2):
        again = solve_answers(
            context,
            AnswersInMemory(nodes, made.noisy),
            exact_totals(context, exact),
            tables=exact_tables(context, exact),
        ).leaves.whole()
        assert same(made, replace(made, leaves=again))
        assert 3_000 == made.leaves.n_records  # noqa: SIM300


def test_answers_in_memory_and_in_files_lead_to_the_same_microdata(
    prepared: PreparedRun, census: Path, tmp_path: Path
) -> None:
    """Otherwise a simulation would say nothing about releases, whose answers are read from files."""
    context, truth = prepared.context, open_truth(census / "persons.csv.gz", prepared.context)[1]
    held: list[list[np.ndarray]] = [[] for _ in context.plan.levels]
    for plan in plan_parts(context):
        drawn = level_drawer(context, plan.depth, truth.counts(plan.depth), AesBits()).draw(plan.nodes)
        path = tmp_path / "measurements" / plan.part.level / f"{plan.part.name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_part(context, plan, drawn))
        held[plan.depth].append(drawn.answers.reshape(len(plan.nodes), -1))
    totals, tables = exact_totals(context, truth.exact), exact_tables(context, truth.exact)
    nodes = tuple(np.flatnonzero(inside) for inside in context.inhabited)
    answers = AnswersInMemory(nodes, tuple(np.concatenate(parts) for parts in held))
    a, b = (
        solve_answers(context, source, totals, tables=tables).leaves.whole()
        for source in (MeasurementReader(tmp_path, context), answers)
    )
    assert all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("node", "cell", "count"))


def test_seeded_noise_never_becomes_a_measurement(prepared: PreparedRun, census: Path) -> None:
    """A measurement file with noise from a known seed protects nobody, and looks like one that does."""
    simulation = open_simulation(prepared, census / "persons.csv.gz")
    part = plan_parts(prepared.context)[0]
    for bits, allowed in ((AesBits(), True), (SimulationBits(1), False)):
        drawn = level_drawer(prepared.context, part.depth, simulation.truth[part.depth], bits).draw(
            part.nodes
        )
        assert drawn.is_release is allowed
        if allowed:
            assert encode_part(prepared.context, part, drawn)
        else:
            with fails_with("X045", InternalError):
                encode_part(prepared.context, part, drawn)


def test_a_published_release_is_a_truth_and_a_changed_one_is_not(tmp_path: Path) -> None:
    """Whoever has a release may simulate on it; a folder that only looks like one holds anything."""
    small = build(tmp_path)
    prepared = prepare(tmp_path / "in/run.toml")
    simulation = open_simulation(prepared, small.folder)
    assert ("release", "toy-r1") == (simulation.origin.kind, simulation.origin.name)  # noqa: SIM300
    assert np.array_equal(small.leaves.count, simulation.truth[-1].count)
    (small.folder / "README.txt").write_text("changed")
    error = refused(prepared, small.folder, truth_is_public=WHY)
    assert (error.code, "manifest" in error.text) == ("C121", True)
    (small.folder / "simulation.json").touch()
    assert refused(prepared, small.folder).code == "C122"


def test_errors_are_those_of_the_replicates(prepared: PreparedRun, census: Path) -> None:
    """A summary that averages over the wrong numbers would plan the wrong budget."""
    simulation = open_simulation(prepared, census / "persons.csv.gz", seed=2)
    made = list(simulation.run(3))
    errors = ErrorSums(simulation)
    for one in made:
        errors.add(one)
    tree, levels = prepared.context.geography.levels, errors.levels()
    for depth in (len(tree) - 1, len(tree) - 2):
        for row in levels[depth].queries:
            query = prepared.plan.query(row.query)
            gaps = []
            for one in made:
                here = (
                    one.leaves
                    if depth == len(tree) - 1
                    else one.leaves.aggregate(tree[-1].parent, len(tree[-2]))
                )
                gaps.append(here.answers(query) - simulation.truth[depth].answers(query))
            size = np.abs(gaps).mean(axis=(1, 2))
            assert row.mae == pytest.approx(size.mean())
            assert row.bias == pytest.approx(np.mean(gaps))
            assert row.mae_standard_error == pytest.approx(size.std(ddof=1) / 3**0.5)
            if row.query == "total":
                true, moved = simulation.truth[depth].answers(query)[:, 0], np.array(gaps)[:, :, 0]
                by_size = levels[depth].totals_by_size
                assert sum(one.n_areas for one in by_size) == len(true)
                for one in by_size:
                    inside = (true >= one.least) & (true <= one.most)
                    assert one.n_areas == inside.sum()
                    assert one.mae == pytest.approx(abs(moved[:, inside]).mean())
                    assert one.bias == pytest.approx(moved[:, inside].mean())
                    assert one.mean_records == pytest.approx(true[inside].mean())
                    assert (one.mae_of_mean is None) == (one.most == 0)


@pytest.mark.parametrize(("replicates", "workers"), [(0, 1), (1, 0), (-1, 2)])
def test_no_replicates_is_a_user_error(
    prepared: PreparedRun, census: Path, replicates: int, workers: int
) -> None:
    """An empty result would be averaged into nonsense."""
    with fails_with("C005", ConfigError):
        open_simulation(prepared, census / "persons.csv.gz").run(replicates, workers=workers)


def test_a_killed_worker_changes_no_replicate(prepared: PreparedRun, census: Path) -> None:
    """A simulation that lost a worker waited for its replicate for ever."""
    replicates = open_simulation(prepared, census / "persons.csv.gz").run(12, workers=2)
    found = [next(replicates)]
    for worker in multiprocessing.active_children():
        worker.kill()
    found += replicates
    alone = open_simulation(prepared, census / "persons.csv.gz").run(12)
    for one, other in zip(alone, found, strict=True):
        assert one.number == other.number
        assert np.array_equal(one.leaves.count, other.leaves.count)
