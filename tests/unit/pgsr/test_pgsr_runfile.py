"""Run file, command line and program make the same decisions."""

from fractions import Fraction

import pytest
from msgspec.structs import fields

from pgsr import Budget, LedgerFile, Plan, Policy, Sizes
from pgsr.group_commands import release_command, verify_command
from pgsr.run_settings import RunFile, ledger_of, plan_of, policy_of, settings_of, source_of
from topdown.errors import ConfigError
from topdown.inputs import ControlTotals
from topdown.privacy.ledger import LedgerBinding

TEXT = """
groups = "g.csv"
hierarchy = "h.csv"
sizes = 5
smallest = 0
too_large = "top-code"
rho = "1/3"
shares = ["1/4", "3/4"]
mechanism = "M_c^dp"
direction = "cumulative"
relations = ["new", "move"]
unit = "household"
total = 9
data_set = "homes"
ledger = "books/homes.jsonl"
ledger_id = "abc"
registry = "/other"
epsilon_limit = 2
limit_reason = "board"
ignore = ["note"]
rows = 7
people = 12
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""


def test_every_key_has_its_option():
    """A key without an option, or the other way, would be a decision that one of the two cannot make."""
    options = {parameter.name for parameter in release_command.params}
    of_every_screen = {parameter.name for parameter in verify_command.params}
    keys = {field.name for field in fields(RunFile)}
    assert keys | {"run", "again", "resume", "approve", "yes"} == options - of_every_screen


def test_a_run_file_makes_the_values_that_a_program_makes(tmp_path):
    """A key that reaches the wrong place would release or charge something else than was written."""
    run = tmp_path / "run.toml"
    run.write_text(TEXT)
    settings = settings_of(run, {"epsilon_limit": "3"})
    budget = Budget(rho=Fraction(1, 3), shares=(Fraction(1, 4), Fraction(3, 4)))
    sizes = Sizes(5, 0, "top-code")
    expected = Plan(sizes, budget, "M_c^dp", "cumulative", ("new", "move"), "household", 9)
    assert expected == plan_of(settings)
    assert (expected.kind, expected.steps) == ("cumulative", ("move", "new"))
    named = LedgerFile(tmp_path / "books/homes.jsonl", "abc", tmp_path / "/other")
    assert named == ledger_of(settings)
    assert Policy(epsilon_limit="3", reason="board", again=True) == policy_of(
        settings, again=True, resume=False
    )
    source = source_of(settings)
    assert source.totals == ControlTotals(7, 12, "0" * 64)
    assert ([tmp_path / "g.csv", tmp_path / "h.csv"], "homes", ("note",)) == (
        source.files,
        source.data_set,
        source.ignore,
    )
    assert LedgerBinding("homes", "add_remove", "household") == expected.binding(source.data_set)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("rho = 0.5", "C014"),
        ('rho = "1,5"', "C014"),
        ("sizes = true", "C015"),
        ('shares = "1/2"', "C015"),
        ('relations = "move"', "C015"),
        ("unit = 7", "C015"),
        ("sises = 5", "C012"),
        ("sizes 5", "C010"),
    ],
)
def test_a_run_file_is_read_by_the_strict_reader(tmp_path, line, code):
    """The error names file and line, as for every TOML file of the house; a float budget is never rounded."""
    run = tmp_path / "run.toml"
    run.write_text(f'groups = "g.csv"\n{line}\n')
    with pytest.raises(ConfigError) as caught:
        settings_of(run, {})
    assert (code, str(run), 2) == (caught.value.code, caught.value.file, caught.value.line)
