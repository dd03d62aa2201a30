"""The help: quick, complete, and the same wherever it is said."""

import pytest

from tests.helpers.processes import run_python
from topdown.cli import COMMANDS, group

HEAVY = ("pandas", "scipy", "pyarrow", "matplotlib", "numpy", "flint", "rich")
NAMES = [name for names in COMMANDS.values() for name in names]


def test_help_imports_nothing_heavy():
    """An import of numpy or pyarrow at the top of a command makes every --help and every completion slow."""
    done = run_python("-X", "importtime", "-m", "topdown.cli", "--help")
    modules = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if "|" in line}
    imported = {name.split(".")[0] for name in modules}
    assert set() == imported & set(HEAVY)
    assert "click" in imported
    assert set() == {name for name in modules if name.endswith("_documents")}


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_examples_and_exit_codes(topdown, name):
    """A command without two examples and its exit codes in --help is not documented."""
    said = topdown(name, "--help").ok()
    examples = said.out.split("Examples:")[1].split("Exit codes:")[0]
    assert examples.count(f"topdown {name}") >= 2
    assert "0  " in said.out.split("Exit codes:")[1]
    assert said.out.isascii()
    assert max(map(len, said.out.splitlines())) <= 80


@pytest.mark.parametrize("name", NAMES)
def test_group_and_command_say_the_same(name):
    """The list of commands is kept apart so that nothing is imported; it must not drift from the commands."""
    command = group.get_command(None, name)
    title = next(names[name][0] for names in COMMANDS.values() if name in names)
    assert command is not None
    assert title == command.get_short_help_str(limit=200)


def test_help_imports_no_command(topdown):
    """`topdown` alone shows the help, as an error, because nothing was asked for."""
    assert topdown().code == 2
    assert "demo" in topdown("--help").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(topdown, shell):
    """A completion script that does not name the program completes nothing."""
    said = topdown("completion", shell).ok()
    assert "_TOPDOWN_COMPLETE" in said.out


def test_completion_completes_without_numpy():
    """Completion runs at every press of the tab key."""
    code = (
        "import os, sys\n"
        "os.environ |= {'_TOPDOWN_COMPLETE': 'bash_complete', 'COMP_CWORD': '3'}\n"
        "os.environ |= {'COMP_WORDS': 'topdown init --settings '}\n"
        "from topdown.cli import main\n"
        "try:\n    main([])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'pyarrow'} & set(sys.modules)))\n"
    )
    done = run_python("-c", code)
    assert "plain,pl94_2020" in done.stdout
    assert done.stdout.endswith("[]\n")


def test_programs_make_no_data_frames(release):
    """Arrow imports pandas with its first array: a quarter of a second and 38 MB in every command and worker."""
    code = (
        f"import sys; sys.argv = ['bin/topdown', 'verify', {str(release)!r}]\n"
        "from topdown.cli import main\n"
        "print('exit', main(), sorted({'numpy', 'pandas', 'pyarrow'} & set(sys.modules)))\n"
    )
    said = run_python("-c", code).stdout
    assert said.endswith("exit 0 ['numpy', 'pyarrow']\n"), said
