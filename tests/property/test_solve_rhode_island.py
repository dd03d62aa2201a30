"""A real state in twenty sections, stopped between any of them, is the state solved at once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.folders import files
from tests.helpers.ledgers import with_ledger
from topdown.app import RunOptions, generate_release
from topdown.plan import RunFileAnswers, load_context, prepare, run_file_text
from topdown.solve import Checkpoints, solve_folder
from topdown.solve import solve_stage as solve
from topdown.solve import solved_parts as sections

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "rhode_island_2010"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not DATA.is_dir(), reason="../shared with the Rhode Island blocks is not beside the checkout"
    ),
]


class StoppedError(Exception):
    """The solve was stopped."""


def test_twenty_sections_and_any_stop_give_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a nation's sections do would be seen on no state: each is one section at its usual size."""
    run = tmp_path / "run.toml"
    names = {"levels": (), "answers": RunFileAnswers(registry=tmp_path)}  # the data are only read
    run.write_text(
        run_file_text("pl94", "pl94_2020", DATA / "persons.csv.gz", DATA / "blocks.csv.gz", run, **names)
    )
    prepared, release = prepare(with_ledger(run)), tmp_path / "release"
    generate_release(prepared, release, RunOptions(workers=2))
    whole = files(release)
    for name in whole:
        if not name.startswith(("measurements/", "public/", "plan")):
            (release / name).unlink()
    monkeypatch.setattr(solve, "RUN_LEAVES", 400)
    monkeypatch.setattr(sections, "CHECKPOINT_LEAVES", 1_200)
    context = load_context(release)
    cut, _ = solve.choose_cut(context.geography, 2)
    n_sections = len(sections.checkpoint_spans(context.geography, cut))
    assert n_sections >= 20
    write = Checkpoints.write_section

    def stop_after(n: int) -> Callable[..., None]:
        written: list[int] = []

        def write_section(*args: object) -> None:
            write(*args)  # type: ignore[arg-type]
            written.append(1)
            if len(written) == n:
                raise StoppedError

        return write_section

    for workers, n in enumerate((1, 4, 7), start=1):
        monkeypatch.setattr(Checkpoints, "write_section", stop_after(n))
        with pytest.raises(StoppedError):
            solve_folder(release, context, work=release / "work", workers=workers)
    assert len(list((release / "work").glob("section-*.parquet"))) == 12
    monkeypatch.setattr(Checkpoints, "write_section", write)
    generate_release(prepared, release, RunOptions(workers=5))
    again = files(release)
    assert whole.keys() == again.keys()
    assert [name for name in whole if whole[name] != again[name]] == []
