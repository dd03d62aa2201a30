"""Signals that stop a run: all alike, held back while a part is drawn, left alone where they are ignored."""

import os
import signal
import sys

import pytest

from tests.helpers.depth import repeats
from tests.helpers.stopped import stopped_at_import
from topdown.process import (
    STOP_SIGNALS,
    check_stopped,
    interrupt_between_parts,
    signals_as_interrupt,
    was_stopped,
)


@pytest.fixture(params=STOP_SIGNALS)
def number(request):
    """Give each signal its usual meaning, whatever started these tests, and put that back."""
    before = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


def test_a_stop_waits_for_the_part(number):
    """A SIGTERM that tears a part costs a second charge, as a Ctrl-C did once."""
    steps = []

    def run():
        with interrupt_between_parts() as check:
            check()
            os.kill(os.getpid(), number)
            steps.append("part")
            check()
            steps.append("next part")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert steps == ["part"]
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_stop_after_the_last_part_is_not_lost(number):
    """A signal held back and then forgotten would leave a run that cannot be stopped."""

    def run():
        with interrupt_between_parts():
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt):
        run()


def test_every_stop_is_an_interrupt(number):
    """A process that ends silently cannot say what is spent."""
    with pytest.raises(KeyboardInterrupt), signals_as_interrupt():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is signal.SIG_DFL


def test_an_ignored_signal_stays_ignored(number):
    """A run under nohup must outlive its terminal."""
    signal.signal(number, signal.SIG_IGN)
    with signals_as_interrupt(), interrupt_between_parts() as check:
        os.kill(os.getpid(), number)
        check()
    assert signal.getsignal(number) is signal.SIG_IGN


def test_a_stop_that_a_library_swallows_is_raised_again(number):
    """An interrupt that ended in an object's `__del__` was forgotten, and the run went on to spend."""

    class Swallows:
        def __del__(self):
            os.kill(os.getpid(), number)

    def run():
        with signals_as_interrupt():
            hook, sys.unraisablehook = sys.unraisablehook, lambda lost: None
            try:
                made = Swallows()
                del made
            finally:
                sys.unraisablehook = hook
            assert was_stopped()
            check_stopped()

    with pytest.raises(KeyboardInterrupt):
        run()
    with signals_as_interrupt():
        check_stopped()  # a new run does not end by the stop of the last one


def test_a_second_stop_does_not_tear_what_the_first_one_began(number):
    """Whoever presses Ctrl-C twice must still be told what is spent."""
    steps = []

    def run():
        with signals_as_interrupt():
            try:
                os.kill(os.getpid(), number)
            finally:
                os.kill(os.getpid(), number)
                steps.append("said what is spent")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert steps == ["said what is spent"]


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("topdown", ("plan", "run.toml")),
        ("pgsr", ("audit",)),
        pytest.param("topdown", ("verify", "nowhere"), marks=pytest.mark.slow),
        pytest.param("topdown", ("synth", "--out", "made", "--schema", "toy"), marks=pytest.mark.slow),
        pytest.param("topdown", ("simulate", "run.toml"), marks=pytest.mark.slow),
    ],
)
def test_a_program_can_be_stopped_while_it_is_loaded(tmp_path, program, arguments):
    """In the first fifth of a second Ctrl-C ended every command in a traceback, SIGTERM without a word."""
    for step in (*range(1, 100, repeats(90, 45)), *range(100, 700, repeats(300, 40))):
        number = STOP_SIGNALS[step % 3]
        done = stopped_at_import(step, number, program, *arguments, folder=tmp_path)
        if not (tmp_path / "stopped").exists():
            break  # it ended by itself before it imported so much
        assert (done.returncode, done.stdout, "pent" in done.stderr) == (130, "", True), (step, done.stderr)
        assert "Traceback" not in done.stderr
        assert "ignored" not in done.stderr
