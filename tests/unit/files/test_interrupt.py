"""Signals that stop a run: all alike, held back while a part is drawn, left alone where they are ignored."""

from __future__ import annotations

import os
import signal

import pytest

from topdown.process import STOP_SIGNALS, interrupt_between_parts, signals_as_interrupt


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
