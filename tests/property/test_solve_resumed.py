"""A solve that goes on from finished sections is the solve that never stopped, and uses nothing that is not its own."""

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.helpers import policies, solved
from tests.helpers.folders import files
from tests.helpers.killed import die, is_killed
from tests.helpers.ledgers import with_ledger
from tests.helpers.sections import solve_small, unsolve
from topdown.app import RunOptions, generate_release
from topdown.plan import PreparedRun, prepare
from topdown.practice.synth import synth
from topdown.progress import silent
from topdown.solve import (
    Checkpoints,
    Solved,
    TreeSolver,
    checkpoint_spans,
    make_top_down_solver,
    solve_document,
    solve_tree,
)
from topdown.verify import verify

MADE_FROM = {"plan_hash": "a", "inputs_sha256": "b", "programs": "c"}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small trees into many sections."""
    solve_small(monkeypatch)


class Solver:
    """One census, solved again and again with finished parts in one folder."""

    def __init__(self, folder: Path) -> None:
        self.census = policies.make_census(folder, 4, policies.BLOCKS + policies.FEWER_WOMEN, n_blocks=12)
        self.answers = solved.noisy(self.census, 5, size=3.0)
        self.kept = Checkpoints(folder / "work", MADE_FROM)

    def solve(self, kept: Checkpoints | None) -> tuple[Solved, int]:
        """Solve; return what was found, and how many nodes were split for it."""
        exact, tables = policies.exact_values(self.census), policies.exact_tables(self.census)
        descent = make_top_down_solver(self.census.context, self.answers, exact, tables=tables)
        split: list[int] = []
        with pytest.MonkeyPatch.context() as patch:
            children = TreeSolver.children
            patch.setattr(TreeSolver, "children", lambda *args: split.append(args[1]) or children(*args))
            table, tally = solve_tree(descent, self.census.context, 1, silent, kept)
        return Solved(table, solve_document(descent, tally)), len(split)

    def files(self) -> list[Path]:
        """Return the finished parts."""
        return sorted(self.kept.folder.iterdir())


@pytest.fixture(scope="module")
def solver(tmp_path_factory: pytest.TempPathFactory) -> Solver:
    """Make a census once."""
    return Solver(tmp_path_factory.mktemp("census"))


def test_finished_parts_are_not_solved_again(solver: Solver) -> None:
    """A nation stopped in its last section would start again; tallies taken from files must be whole, too."""
    shutil.rmtree(solver.kept.folder, ignore_errors=True)
    plain, n = solver.solve(None)
    first, n_first = solver.solve(solver.kept)
    names = [path.name for path in solver.files()]
    assert names == ["above.parquet", *(f"section-{i:03d}.parquet" for i in range(len(names) - 1))]
    assert len(names) > 3
    assert n == n_first
    again, n_again = solver.solve(solver.kept)
    assert n_again == 0
    solved.check_same(plain, first)
    solved.check_same(plain, again)
    solver.files()[2].unlink()
    gap, n_gap = solver.solve(solver.kept)
    assert 0 < n_gap < n
    solved.check_same(plain, gap)


def test_parts_that_are_not_of_this_solve_are_not_used(
    solver: Solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A section of other noise, of another engine, of other nodes, or with a byte changed would be published."""
    shutil.rmtree(solver.kept.folder, ignore_errors=True)
    plain, n = solver.solve(solver.kept)
    for key in MADE_FROM:
        other = replace(solver.kept, made_from=MADE_FROM | {key: "other"})
        assert other.above() is None
    above, one, two = solver.files()[:3]
    span = checkpoint_spans(solver.census.context.geography, solver.kept.above()[0])[0]
    assert solver.kept.section(0, span) is not None
    assert solver.kept.section(0, replace(span, last=span.last + 1)) is None
    shutil.copy(two, one)
    assert solver.kept.section(0, span) is None
    table = pq.read_table(two)
    count = table.column("count").to_numpy().copy()
    count[0] += 1
    pq.write_table(table.set_column(2, "count", [count]), one)
    pq.write_table(table.set_column(2, "count", [count]), two)
    above.write_bytes(above.read_bytes()[:-9])
    again, n_again = solver.solve(solver.kept)
    assert n_again < n
    solved.check_same(plain, again)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_between_any_two_parts(tmp_path: Path, workers: int) -> None:
    """A run killed after each part that it writes must go on to the same folder, with nothing charged twice."""
    made = synth(tmp_path / "in", people=3_000, schema="toy", seed=6)
    prepared = prepare(with_ledger(made.run_file))
    release = tmp_path / "release"
    generate_release(prepared, release)
    whole = files(release)
    ledger = prepared.ledger_path.read_bytes()
    unsolve(release)
    n_killed = 0
    while killed_after_a_part(prepared, release, workers):
        n_killed += 1
        found = len(list((release / "work").glob("*.parquet")))
        assert n_killed == found
    assert n_killed > 3
    again = files(release)
    assert whole.keys() == again.keys()
    assert [name for name in whole if whole[name] != again[name]] == []
    assert ledger == prepared.ledger_path.read_bytes()
    assert verify(release).ok


def killed_after_a_part(prepared: PreparedRun, release: Path, workers: int) -> bool:
    """Go on in a child that dies as soon as it has written one part; tell whether it did."""

    def act() -> None:
        write = Checkpoints._write

        def last(*args: object) -> None:
            write(*args)
            die()

        Checkpoints._write = last
        generate_release(prepared, release, RunOptions(workers=workers))

    return is_killed(act)
