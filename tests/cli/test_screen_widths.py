"""Every screen can be read at 46 columns and uses 120 without breaking, also through a pipe."""

import re
import shutil

import pytest

from pgsr.cli import COMMANDS as PGSR_COMMANDS
from topdown.cli import COMMANDS

WIDTHS = (46, 120)
NAMES = [name for names in COMMANDS.values() for name in names]
OF_GROUPS = [name for names in PGSR_COMMANDS.values() for name in names]
OF_A_RUN = (
    ["plan", "run.toml", "--details"],
    ["plan", "run.toml", "--compare", "run.toml"],
    ["plan", "run.toml", "--compare-noise", "1:1/1000000"],
    ["plan", "run.toml", "--budget-for", "2"],
    [*["implied", "toy", "--schema", "toy", "--leaves", "leaves.csv"], "--levels", "land:1,county:2,block:4"],
    ["audit", "run.toml"],
    ["audit", "--ledger", "LEDGER"],
    ["ledger", "show", "run.toml"],
    ["synth", "--schema", "toy", "--people", "200", "--out", "made"],
    [
        *["simulate", "run.toml", "--truth", "persons.csv", "--truth-is-public", "made up for this test"],
        *["--replicates", "2", "--out", "sim"],
    ],
    ["select", "frequent", "run.toml", "--query", "sex", "--epsilon", "1/2", "--out", "often", "--yes"],
)
OF_A_RELEASE = (
    ["verify", "release", "--verbose"],
    ["audit", "release"],
    ["tables", "release", "--out", "tables"],
    ["evaluate", "release", "--truth", "persons.csv", "--details"],
    ["report", "release", "--out", "page.html"],
)
ALONE = (
    ["account", "--rho", "11/10000*20,73/10000*18"],
    ["noise", "--epsilon", "1", "--delta", "1/1000", "--compare"],
    ["noise", "--continuous", "--epsilon", "1", "--delta", "1/5", "--large-delta", "--cells", "4"],
    ["noise", "--dependent", "0:6", "--epsilon", "1/4", "--delta", "1/1000"],
    ["explain", "C001"],
    ["schema", "run"],
    ["plan", "missing.toml"],
    ["verify", "--wrong"],
)


def too_long(text: str, width: int) -> list[str]:
    """Return lines that leave the screen, other than commands to copy, events of a log, an option's choices, paths."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return [
        line
        for line in plain.splitlines()
        if len(line) > width
        and not re.match(r"\s*(topdown|pgsr) |[-0-9]{10}T|  --\S+ \S+$", line)
        and max(map(len, line.split())) + 8 < width
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_screens_of_a_run_fit(topdown, toy, tmp_path, width):
    """A line that runs over the edge of a narrow terminal breaks tables into noise."""
    run = toy(tmp_path)
    ledger = next(tmp_path.rglob("*.jsonl"))
    for command in OF_A_RUN:
        said = topdown(
            *({"run.toml": run, "LEDGER": ledger}.get(word, word) for word in command), width=width
        ).ok()
        assert too_long(said.out + said.err, width) == [], command


@pytest.mark.parametrize("width", WIDTHS)
def test_screens_of_a_release_fit(topdown, toy, release, tmp_path, width):
    """The same of what readers and auditors see."""
    toy(tmp_path)
    shutil.copytree(release, tmp_path / "release")
    for command in OF_A_RELEASE:
        said = topdown(*command, width=width)
        assert said.code in (0, 1), said.err
        assert too_long(said.out + said.err, width) == [], command


@pytest.mark.parametrize("width", WIDTHS)
def test_screens_without_a_run_and_help_fit(topdown, pgsr_cli, width):
    """Help was 50 columns wide on a terminal of 46."""
    asked = [(topdown, command) for command in ALONE]
    for program, names in ((topdown, NAMES), (pgsr_cli, OF_GROUPS)):
        asked += [(program, ["--help"]), *((program, [name, "--help"]) for name in names)]
    for program, command in asked:
        said = program(*command, width=width)
        assert said.code in (0, 2), said.err
        assert too_long(said.out + said.err, width) == [], command
