"""A run file that is written is the one that was read."""

from pathlib import Path

import msgspec
import pytest

from tests.helpers.runs import run_text
from topdown.formats import toml_text
from topdown.plan import BaseTable, Budget, RunFile, load_run_file

SETTINGS = Path(__file__).resolve().parents[3] / "settings"
ODD = 'a "quoted" \\ name = [x], {y} # z é \u2028'


@pytest.mark.parametrize("name", ["toy", "pl94_2020_tree", "dhc_persons_2022"])
def test_what_is_written_reads_back_the_same(tmp_path: Path, name: str) -> None:
    """A key lost or a text escaped wrongly would make another release of the same name."""
    text = (SETTINGS / f"{name}.toml").read_text(encoding="utf-8")
    (tmp_path / "run.toml").write_text(run_text(text[text.index("[budget]") :]), encoding="utf-8")
    run = load_run_file(tmp_path / "run.toml")
    release = msgspec.structs.replace(run.release, title=ODD, agency="", contact="?")
    other = msgspec.structs.replace(
        run,
        release=release,
        budget=Budget(epsilon=run.budget.rho, large_delta=True),
        base=BaseTable(map={"a.b": ODD}),
    )
    for one in (run, other, msgspec.structs.replace(run, base=BaseTable())):
        (tmp_path / "again.toml").write_text(toml_text(one), encoding="utf-8")
        assert one == load_run_file(tmp_path / "again.toml")
    assert isinstance(other, RunFile)
