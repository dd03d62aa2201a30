"""Tables are read in a process that can always be ended; what it does to itself does nothing to the run."""

import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.helpers.failing import fails_with
from topdown.errors import DataError
from topdown.formats.caps import TABLE_VARIABLE
from topdown.inputs import TableColumn, TableProblem, TableReader, read_table, reading_process
from topdown.inputs.reading_process import read_apart
from topdown.process import signals_as_interrupt

ONE = pa.record_batch({"n": [1]})


def children() -> set[int]:
    """Return the processes that this one has."""
    return {int(pid) for pid in Path("/proc/self/task", str(os.getpid()), "children").read_text().split()}


def problem_of(batches) -> TableProblem:
    """Read batches that end in a problem; no process is left."""
    before = children()
    with pytest.raises(TableProblem) as raised:
        list(read_apart(batches, "D086", "copy it"))
    assert children() <= before
    return raised.value


def then(act) -> Iterator[pa.RecordBatch]:
    """Yield one batch, then do something to the process that reads."""
    yield ONE
    act()
    yield ONE


def waiting() -> Iterator[pa.RecordBatch]:
    """Give no batch: a library that does not return, not even for a signal that asks."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL})
    time.sleep(1_000)
    yield ONE


def test_a_library_that_does_not_return_is_ended(monkeypatch):
    """CSV, Parquet and Arrow had no limit of time: a library that waits would let a run wait for ever."""
    monkeypatch.setattr(reading_process, "TABLE_SECONDS", 0.3)
    assert problem_of(waiting).code == "D086"
    assert problem_of(lambda: then(lambda: time.sleep(1_000))).code == "D086"


def test_a_library_that_does_not_return_ends_at_ctrl_c():
    """Whoever presses Ctrl-C must get the terminal back, whatever a library does."""
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    before = children()

    def read() -> None:
        with signals_as_interrupt():
            timer.start()
            try:
                list(read_apart(waiting, "D086", "copy it"))
            finally:
                timer.cancel()

    with pytest.raises(KeyboardInterrupt):
        read()
    assert children() <= before


def test_a_stop_as_the_process_starts_is_not_heard_there(monkeypatch, tmp_path):
    """Ctrl-C reaches every process of a terminal: the new one would go on as the run that forked it, and say so."""
    fork = os.fork

    def fork_and_stop() -> int:
        child = fork()
        try:
            if child == 0:
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            (tmp_path / "heard").touch()
            os._exit(1)
        return child

    monkeypatch.setattr(os, "fork", fork_and_stop)
    with signals_as_interrupt():
        assert list(read_apart(lambda: [ONE], "D086", "copy it")) == [ONE]
    assert not (tmp_path / "heard").exists()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_crash_of_a_library_is_an_error_of_the_table(number):
    """A damaged file that makes a library crash would end the run without a word."""
    problem = problem_of(lambda: then(lambda: os.kill(os.getpid(), number)))
    assert (problem.code, number.name in problem.text) == ("D087", True)


def test_too_much_memory_is_an_error_of_the_table(monkeypatch):
    """A table that takes all memory would have the system kill the run, or another program."""
    monkeypatch.setenv(TABLE_VARIABLE, str(2**20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    problem = problem_of(lambda: then(lambda: bytearray(2**31)))
    assert problem.code == "D085"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def test_what_a_library_prints_or_raises_is_not_seen(capfd):
    """A library's words may quote a record."""

    def say() -> None:
        os.write(1, b"SECRET")
        os.write(2, b"SECRET")
        raise KeyError("SECRET")

    with pytest.raises(RuntimeError, match="KeyError") as raised:
        list(read_apart(lambda: then(say), "D086", "copy it"))
    assert "SECRET" not in repr(raised.value) + "".join(capfd.readouterr())


def test_no_process_is_left_when_nobody_asks_for_more(tmp_path):
    """A reader of the first row would leave a process with the records in its memory."""
    (tmp_path / "a.csv").write_text("n\n" + "1\n" * 1_000_000)
    before = children()
    batches = TableReader(tmp_path / "a.csv", [TableColumn("n")]).batches()
    assert len(next(batches)["n"]) == 0
    assert children() > before
    batches.close()
    assert children() <= before


def test_batches_are_what_they_were():
    """Dictionaries that change between batches, empty values and long batches must pass unchanged."""
    coded = [
        pa.array(texts, pa.string()).dictionary_encode()
        for texts in (["a", None, "b"], ["c"], [], ["b", "a"] * 200_000)
    ]
    batches = [pa.record_batch({"t": t, "n": pa.array(range(len(t)), pa.int64())}) for t in coded]
    assert pa.Table.from_batches(batches).equals(pa.Table.from_batches(read_apart(lambda: batches, "", "")))


def test_more_rows_than_may_be_are_refused(tmp_path, monkeypatch):
    """A table of empty rows has no bytes that could be counted."""
    (tmp_path / "a.csv").write_text("n\n" + "1\n" * 11)
    monkeypatch.setattr("topdown.inputs.table_reader.TABLE_ROWS", 10)
    with fails_with("D088", DataError):
        read_table(tmp_path / "a.csv", [TableColumn("n", "whole")])
