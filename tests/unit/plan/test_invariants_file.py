"""Invariants as they are typed: everybody, recodes, and errors that point at the line."""

from pathlib import Path

import pytest

from topdown.errors import ConfigError
from topdown.plan import load_invariants, load_schema
from topdown.resources import find

HEAD = 'type = "topdown.invariants"\nversion = 1\nname = "own"\ntitle = "own"\nschema = "toy"\n\n'


def read(folder: Path, *rules: str):
    """Read an invariants file of the toy schema."""
    path = folder / "own.toml"
    path.write_text(HEAD + "".join(f'[[{rule}\nlegal_basis = "law"\n\n' for rule in rules))
    return load_invariants(path, load_schema(find("schemas", "toy", folder)))


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("{ adult = ['adult'] }", "{ age = ['18_64', '65_plus'] }"),
        ("{ home_or_not = ['other', 'home'] }", "{ dwelling = ['home', 'dormitory', 'barracks'] }"),
        ("{ sex = ['male'], adult = ['child'] }", "{ sex = ['male'], age = ['0_17'] }"),
        ("{ age = ['65_plus', '0_17'], adult = ['adult'] }", "{ age = ['65_plus'] }"),
        ("{}", "{ sex = ['female', 'male'] }"),
    ],
)
def test_cells_say_what_their_labels_say(tmp_path, short, long):
    """A recode or {} that the plan kept would be a rule that verify reads in another way."""
    for rule in ("at_least]]\nname = 'a'\ncolumn = 'homes'", "none_where_zero]]\nname = 'a'\ncolumns = ['homes']",
                 "never]]\nname = 'a'", "no_more_than]]\nname = 'a'\nthan = { sex = ['male'] }"):  # fmt: skip
        written = read(tmp_path, f"{rule}\ncells = {long}")
        assert written == read(tmp_path, f"{rule}\ncells = {short}")
    cells = "cells = { age = ['0_17'] }"
    assert read(tmp_path, f"no_more_than]]\nname = 'a'\n{cells}\nthan = {long}") == read(
        tmp_path, f"no_more_than]]\nname = 'a'\n{cells}\nthan = {short}"
    )


@pytest.mark.parametrize(
    ("second", "code", "line", "said"),
    [
        ("never]]\nname = 'b'\ncells = { age = ['oops'] }", "C025", 14, "'oops'"),
        ("never]]\nname = 'b'\ncells = { adult = ['oops'] }", "C025", 14, "child, adult"),
        ("never]]\nname = 'b'\ncells = { oops = ['adult'] }", "C024", 14, "oops"),
        ("never]]\nname = 'b'\ncells = { age = [] }", "C134", 14, "no value"),
        ("never]]\nname = 'b'\ncells = { age = ['0_17'], adult = ['adult'] }", "C134", 14, "no value"),
        ("never]]\nname = 'b'", "C031", 12, "cells"),
        ("never]]\nname = 'b'\nthan = {}\ncells = {}", "C031", 12, "than"),
    ],
)
def test_errors_point_at_the_line_of_their_rule(tmp_path, second, code, line, said):
    """A message that names the run file sends its reader to the wrong file."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "never]]\nname = 'a'\ncells = { age = ['0_17'] }", second)
    error = caught.value
    assert (error.code, error.line, error.file) == (code, line, str(tmp_path / "own.toml"))
    assert said in error.text + error.fix
