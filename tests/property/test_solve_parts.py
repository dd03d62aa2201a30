"""A tree solved part by part is the tree solved whole, to the last byte, whoever solves the parts."""

import pickle
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import four_levels, policies, solved
from tests.helpers.depth import repeats
from tests.helpers.folders import files
from tests.helpers.ledgers import with_ledger
from tests.helpers.sections import cut_small
from tests.helpers.solved import solve_answers
from topdown.app import RunOptions, generate_release
from topdown.errors import NoSplitError
from topdown.model import (
    ConstraintSystem,
    Geography,
    Histogram,
    PackedTable,
    from_prefixes,
)
from topdown.plan import PublicContext, prepare
from topdown.practice.synth import synth
from topdown.solve import (
    Node,
    Solved,
    Tally,
    TopDownSolver,
    choose_cut,
    make_partitioner,
    make_top_down_solver,
)
from topdown.solve import release_facts as level_facts
from topdown.solve import solve_stage as solve
from topdown.solve import solved_parts as sections
from topdown.solve.implied import plan_verdicts

QUICK = ["blocks, caps, nested", "soft"]
CHOSEN = [*QUICK, *(pytest.param(p, marks=pytest.mark.slow) for p in policies.POLICIES if p not in QUICK)]
SOFT = policies.BLOCKS + policies.FEWER_WOMEN


def by_parts(
    census: solved.Census, answers: solved.NoisyAnswers, leaves: tuple[int, int], workers: int
) -> Solved:
    """Solve with other sizes of the cut and of runs."""
    tables = policies.exact_tables(census)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solve, "SOLVE_CUT_LEAVES", leaves[0])
        patch.setattr(solve, "RUN_LEAVES", leaves[1])
        patch.setattr(sections, "CHECKPOINT_LEAVES", 2 * leaves[1])
        patch.setattr(solve, "TASKS_PER_WORKER", 1)
        exact = policies.exact_values(census)
        return solve_answers(census.context, answers, exact, tables=tables, workers=workers)


def check_equal(census: solved.Census, answers: solved.NoisyAnswers, workers: int) -> None:
    """Fail unless runs of single counties give the bytes of one run of everything."""
    solved.check_same(by_parts(census, answers, (99, 99), 1), by_parts(census, answers, (6, 1), workers))


@pytest.mark.parametrize("policy", CHOSEN)
@given(seed=st.integers(0, 1_000_000), size=st.sampled_from([0.3, 3.0]))
@settings(max_examples=repeats(1, 3), deadline=None)
def test_parts_give_the_bytes_of_the_whole(policy: str, seed: int, size: float) -> None:
    """A verifier that cuts the tree elsewhere, or has more cores, would find another release."""
    with tempfile.TemporaryDirectory() as folder:
        census = policies.make_census(Path(folder), seed, policies.POLICIES.get(policy, SOFT))
        check_equal(census, solved.noisy(census, seed + 1, size=size), 1)


def test_forked_workers_give_the_bytes_of_the_whole(tmp_path: Path) -> None:
    """A part that reads what its process inherited instead of what it was given would differ in workers only."""
    census = policies.make_census(tmp_path, 4, policies.POLICIES["blocks, caps, nested"])
    check_equal(census, solved.noisy(census, 5, size=3.0), 3)


ODD_TREES = {
    "one leaf": ("111",),
    "only children": ("111", "211", "321"),
    "an only child": ("111", "211", "212"),
}


@pytest.mark.parametrize("name", ODD_TREES)
def test_odd_trees_give_the_bytes_of_the_whole(name: str) -> None:
    """A slice of one leaf, or of nodes without siblings, has nothing to solve and still has people."""
    census = four_levels.make_land(policies.MIXED, lambda _: (3, 1, 1), codes=ODD_TREES[name])
    check_equal(census, solved.noisy(census, 5, size=3.0), 1)


def test_leaves_that_were_not_sent_are_sent_when_they_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A county of a land without limits is split by its tracts alone; if its table must be mended, it has leaves."""
    census = four_levels.make_land("", lambda _: (3, 1, 1))
    answers = solved.noisy(census, 5, size=3.0)
    children, without, mended = TopDownSolver._children, [], []

    def fails_first(self: TopDownSolver, depth: int, parent: Node, tally: Tally) -> list[Node]:
        leaves = len(self.context.geography.leaves)
        if depth == 1 and not (mended and mended[-1] == parent.index + leaves):
            (mended if leaves else without).append(parent.index + leaves)
            raise NoSplitError("made up")
        return children(self, depth, parent, tally)

    monkeypatch.setattr(solve, "SOLVE_CUT_LEAVES", 3)
    monkeypatch.setattr(solve, "TASKS_PER_WORKER", 1)
    plain = solve_answers(census.context, answers, census.exact)
    monkeypatch.setattr(TopDownSolver, "_children", fails_first)
    again = solve_answers(census.context, answers, census.exact)
    assert len(without) == len(mended) == len(census.context.geography.levels[1])
    assert plain.document == again.document
    np.testing.assert_array_equal(plain.leaves.whole().count, again.leaves.whole().count)


def test_a_slice_holds_nothing_of_the_rest(tmp_path: Path) -> None:
    """What a worker is sent would grow with the nation; sent as bytes, it must be all that a solve needs."""

    def sizes(n_counties: int) -> tuple[int, int]:
        codes = tuple(
            f"{c}{t}{b}" for c in range(1, n_counties + 1) for t in range(1, 4) for b in range(1, 4)
        )
        census = four_levels.make_land(policies.MIXED, lambda _: (3, 1, 1), codes=codes)
        whole = make_top_down_solver(census.context, solved.noisy(census, 5), policies.exact_values(census))
        cutter, tally = make_partitioner(whole), Tally()
        part, opener = pickle.dumps(cutter.cut(1, 0, 1)[0]), pickle.dumps(cutter.state)
        county = whole.children(0, whole.root(tally), tally)[0]
        alone, _ = pickle.loads(opener).open(pickle.loads(part))  # noqa: S301 -- our own bytes
        here, there = (walk.below(1, [county], Tally()) for walk in (whole, alone))
        assert [(n.index, *n.cells, *n.counts) for n in here] == [
            (n.index, *n.cells, *n.counts) for n in there
        ]
        return len(part), len(opener)

    few, many = sizes(2), sizes(9)
    assert abs(few[0] - many[0]) < 64
    assert abs(few[1] - many[1]) < 64


def only_in_the_first_county(folder: Path) -> solved.Census:
    """Return a census whose facilities are all in one county, so that the others know nothing of them."""
    text = policies.POLICIES["blocks, caps, nested"]
    census = policies.make_census(folder, 8, text)
    rows = (folder / "leaves.csv").read_text().splitlines()
    for i, row in enumerate(rows[1:], start=1):
        n = "1" if row[0] == "1" else "0"
        rows[i] = ",".join([*row.split(",")[:2], n, n])
    (folder / "leaves.csv").write_text("\n".join(rows) + "\n")
    context = solve_context(folder)
    leaves = census.truth[-1]
    open_there = context.rules.open[-1][leaves.node, context.rules.class_of_cell[leaves.cell]]
    kept = replace(
        leaves, node=leaves.node[open_there], cell=leaves.cell[open_there], count=leaves.count[open_there]
    )
    fitted = policies.fit_records(context, kept)
    return solved.Census(context, fitted.at_every_level(context.geography))


def opened(whole: TopDownSolver, depth: int, node: int) -> TopDownSolver:
    """Return the solver of all above and below a node."""
    cutter = make_partitioner(whole)
    return cutter.state.open(cutter.cut(depth, node, node + 1)[0])[0]


def solve_context(folder: Path) -> PublicContext:
    """Return the context of a run file that lies in a folder."""
    return prepare(folder / "run.toml").context


def test_what_is_asked_of_all_leaves_comes_with_a_part(tmp_path: Path) -> None:
    """A county without dormitories would find fewer kinds of cells and no limits, and take another way."""
    census = only_in_the_first_county(tmp_path)
    exact, tables = policies.exact_values(census), policies.exact_tables(census)
    answers = solved.noisy(census, 9, size=3.0)
    whole = make_top_down_solver(census.context, answers, exact, tables=tables)
    n = len(census.context.geography.levels[1])
    assert n > 1
    part = opened(whole, 1, n - 1)
    own, all_of_it = part.facts.constraints, whole.facts.constraints
    plan = census.context.plan
    anew = ConstraintSystem.from_facts(plan.schema, own.geography, plan.invariants, part.context.facts)
    assert anew.partition().n_kinds < own.partition.n_kinds == all_of_it.partition.n_kinds
    assert own.form is all_of_it.form
    assert part.facts.levels is whole.facts.levels
    assert part.facts.verdicts is whole.facts.verdicts
    check_equal(census, answers, 1)


def test_a_part_asks_nothing_of_all_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a part asks of its own leaves, instead of being told, can differ from what the nation says."""
    census = policies.make_census(tmp_path, 2, policies.POLICIES["counties, caps, mixed"])
    answers = solved.noisy(census, 3)
    whole = make_top_down_solver(
        census.context, answers, policies.exact_values(census), tables=policies.exact_tables(census)
    )
    asked: list[str] = []
    for name in ("split_constraints", "level_bounds", "plan_verdicts", "exact_margins", "complete_totals"):
        monkeypatch.setattr(level_facts, name, lambda *_, name=name, **__: asked.append(name))
    for name in ("partition", "cell_classes", "from_rows"):
        monkeypatch.setattr(ConstraintSystem, name, lambda *_, name=name, **__: asked.append(name))
    part = opened(whole, 1, 0)
    assert part.leaf_constraints.open[-1].shape[0] == len(part.context.geography.leaves)
    _ = part.facts, part.statistics, part.repair.rows
    assert asked == []
    monkeypatch.undo()
    assert plan_verdicts(census.context) == whole.facts.verdicts


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(1, 12))
def test_stretches_are_all_nodes_once(sizes: list[int], n_leaves: int) -> None:
    """A node in no run would lose its people; a run that never closes would hold the nation."""
    geography = tree_of(sizes)
    found = list(geography.stretches(1, n_leaves))
    assert [(0, len(sizes))] == [(found[0][0], found[-1][1])]
    for (first, last), (following, _) in zip(found, [*found[1:], (len(sizes), 0)], strict=True):
        assert last == following
        assert sum(sizes[first : last - 1]) < n_leaves
        assert sum(sizes[first:last]) >= n_leaves or last == len(sizes)


def test_the_cut_is_never_the_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of leaves would have nothing to solve, and a cut above a giant county would hold it all."""
    monkeypatch.setattr(solve, "TASKS_PER_WORKER", 1)
    geography = tree_of([3, 9])
    for most, cut in ((100, 0), (11, 1), (2, 1)):
        monkeypatch.setattr(solve, "SOLVE_CUT_LEAVES", most)
        assert cut == choose_cut(geography, 1)[0]


def tree_of(sizes: list[int]) -> Geography:
    """Return a land of counties with so many blocks."""
    codes = tuple(f"{county}{block}" for county, n in enumerate(sizes) for block in range(n))
    return from_prefixes(("land", "county", "block"), (0, 1, 2), codes)


def test_many_workers_get_many_runs() -> None:
    """A state of a million cells would leave all but a few of many cores idle."""
    geography = tree_of([5] * 9)
    assert choose_cut(geography, 1) == (1, 45 // 8)
    assert choose_cut(geography, 64) == (1, 1)


def test_generate_never_unpacks_the_leaf_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nation's is half a gigabyte of numbers, which would stay until the release is published."""
    prepared = prepare(with_ledger(synth(tmp_path, people=500, schema="toy", seed=6).run_file))
    n_leaves, unpacked, asked = len(prepared.context.geography.leaves), PackedTable.whole, list[int]()
    cut_small(monkeypatch, 60, 20)

    def whole(self: PackedTable) -> Histogram:
        asked.append(self.n_nodes)
        return unpacked(self)

    monkeypatch.setattr(PackedTable, "whole", whole)
    made = generate_release(prepared, tmp_path / "release", RunOptions(csv=True))
    assert made.n_records == 500
    assert asked
    assert n_leaves not in asked, "the miniature of the rehearsal has fewer leaves"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 5])
def test_the_whole_folder_is_the_same_for_other_runs_and_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """What is published, not only what is solved, would depend on the machine."""
    made = synth(tmp_path, people=4_000, schema="toy", seed=6)
    assert made.run_file is not None
    prepared = prepare(with_ledger(made.run_file))
    release = tmp_path / "release"
    generate_release(prepared, release)
    first = files(release)
    for path in [
        release / name for name in first if not name.startswith(("measurements/", "public/", "plan"))
    ]:
        path.unlink()
    monkeypatch.setattr(solve, "SOLVE_CUT_LEAVES", 60)
    monkeypatch.setattr(solve, "RUN_LEAVES", 5)
    monkeypatch.setattr(sections, "CHECKPOINT_LEAVES", 20)
    monkeypatch.setattr(solve, "TASKS_PER_WORKER", 1)
    generate_release(prepared, release, RunOptions(workers=workers))
    again = files(release)
    assert first.keys() == again.keys()
    assert [name for name in first if first[name] != again[name]] == []
