"""What `main` promises: exit codes, one JSON document, no traceback, nothing confidential."""

import subprocess
import sys

import click
import pytest

from topdown.cli import group, main


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("plam",), 'did you mean "plan"?'),
        (("plan",), "RUN.toml"),
        (("plan", "x.toml", "--bogus"), "--bogus"),
        (("plan", "x.toml", "--color", "red"), "--color"),
        (("generate", "x.toml", "--out", "y", "--workers", "0"), "--workers"),
        (("completion", "tcsh"), "tcsh"),
    ],
)
def test_usage_errors(topdown, check, arguments, word):
    """A wrong command line is a user error in our own words, on the screen and as JSON."""
    said = topdown(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error[C005] ")
    assert word in " ".join(said.err.split())
    as_json = topdown(*arguments, "--json")
    assert as_json.code == 2
    check(as_json.document)


@pytest.fixture
def fail(monkeypatch):
    """Replace what `topdown schema` does by raising an error."""

    def arrange(error: BaseException) -> None:
        command = group.get_command(None, "schema")

        def broken(*_args: object, **_options: object) -> int:
            raise error

        monkeypatch.setattr(command, "callback", broken)

    return arrange


def test_unexpected_errors_show_no_values(topdown, check, fail, monkeypatch):
    """The text of an exception may quote a record: only its place and kind may be shown."""
    fail(KeyError("SECRET-44001"))
    said = topdown("schema")
    assert said.code == 4
    assert "error[X001]" in said.err
    assert "KeyError" in said.err
    assert "Traceback" not in said.err
    as_json = topdown("schema", "--json")
    check(as_json.document)
    monkeypatch.setenv("TOPDOWN_DEBUG", "1")
    debug = topdown("schema")
    assert "raise error" in debug.err
    for text in (said.err, as_json.out, as_json.err, debug.err):
        assert "SECRET" not in text


def test_memory_errors_have_a_fix(topdown, fail):
    """The most likely failure on a laptop must not look like a fault."""
    fail(MemoryError())
    said = topdown("schema")
    assert (said.code, "error[X004]" in said.err) == (4, True)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_interrupts(topdown, check, fail, error):
    """Ctrl-C outside a run has spent nothing, says so, and ends with 130."""
    fail(error)
    said = topdown("schema")
    assert (said.code, "nothing is spent" in said.err) == (130, True)
    as_json = topdown("schema", "--json")
    check(as_json.document)
    assert (as_json.code, as_json.document["exit_code"]) == (130, 130)


def test_closed_pipe_is_quiet():
    """`topdown explain | head -1` must not end in a traceback."""
    command = f"{sys.executable} -m topdown.cli explain | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_version(capsys):
    """--version prints the version of the installed distribution."""
    from topdown import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"topdown {__version__}\n"


def test_output_that_is_not_utf8():
    """A terminal in an old character set gets words, not an exception."""
    done = subprocess.run(
        [sys.executable, "-m", "topdown.cli", "explain", "B004"],
        capture_output=True,
        check=True,
        env={"PYTHONIOENCODING": "latin-1", "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.isascii()
