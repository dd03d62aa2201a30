"""Tables are read in a process of their own, which can always be ended: libraries may compute or wait without an end.

The process is forked, reads batches, and writes them as one Arrow stream into a pipe; nothing of them is on a disk.
Behind the stream it says whether it came to the end of the table, or what is wrong with it. It may take a limited
amount of memory, leaves no crash dump, prints nothing, and ends with its parent.
"""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import io
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from topdown.formats.caps import RAISE_TABLE, TABLE_BYTES, TABLE_SECONDS, table_bytes
from topdown.inputs.file_formats import BATCH_ROWS
from topdown.inputs.sources import TableProblem, printable
from topdown.process import check_stopped, die_with_parent, ignore_stops, stops_blocked

SPARE_BYTES = 3 * 2**29  # beside the bytes of a table: a GiB of addresses is what Arrow reserves at first use
_PIPE_BYTES = 2**20
_ENDING_SECONDS = 2.0
LOST_READER = "D087"  # the code of a process that was ended before it had read a table
NOT_READ = (
    "D085",
    "D086",
    LOST_READER,
)  # for want of memory, time or the process: nothing is known of the table
_UNREADABLE = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, ValueError)
_SENT = (
    "kind",
    "text",
    "column",
    "near",
    "unread",
    "code",
    "fix",
)  # of a problem; no reader of a format finds rows


def read_apart(
    batches: Callable[[], Iterable[pa.RecordBatch]], code: str, fix: str
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a table, which another process reads; it is gone when the last was taken or nobody asks.

    Cost: 15 ms of CPU time for the process, and copies of the columns: 100 ns a row of five texts (bench_reading.py).

    Args:
        batches: called in that process; batches of one schema, of which there is at least one.
        code, fix: of the problem where no batch comes within `caps.TABLE_SECONDS`.

    Raises:
        TableProblem: what the reader found wrong; no memory (D085); no batch in time; a lost process (D087).
        RuntimeError: the reader raised something unforeseen; its words, which may quote a record, are not kept.
        ConfigError: C143, see `table_bytes`.
    """
    seconds = TABLE_SECONDS * max(1, table_bytes() / TABLE_BYTES)
    ours, theirs = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    try:
        with stops_blocked():
            child = os.fork()
            if child == 0:
                _read_and_send(batches, ours, theirs)
    except OSError:
        os.close(ours)
        os.close(theirs)
        raise _no_memory() from None
    os.close(theirs)
    late = TableProblem("limit", f"no row came within {seconds:,.10g} seconds", code=code, fix=fix)
    with _gone_at_the_end(child), io.FileIO(ours, "rb") as pipe:
        waiting = _Waiting(pipe, seconds, late)
        try:
            yield from pa.ipc.open_stream(waiting)
            said = json.loads(waiting.rest())
        except (pa.ArrowException, OSError, EOFError, ValueError):
            check_stopped()
            said = None
        if said is None:  # it ended within the stream
            raise late if waiting.is_late else _lost_reader(_signal_that_ended(child))
        if "raised" in said:
            raise RuntimeError(f"the reader of a table raised {said['raised']}")
        if said:
            raise TableProblem(**said | {"unread": tuple(said["unread"])})


class _Waiting(io.RawIOBase):
    """The end of a pipe that is read with a limit of time for every piece."""

    def __init__(self, pipe: io.FileIO, seconds: float, late: TableProblem) -> None:
        self._pipe, self._seconds, self._late, self.is_late = pipe, seconds, late, False
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)

    def readable(self) -> bool:
        """Say so to the library."""
        return True

    def read(self, size: int | None = -1) -> bytearray:
        """Return so many bytes, fewer at the end of the pipe."""
        data = bytearray(max(size or 0, 0))
        n_read = 0
        while n_read < len(data) and (n := self._piece(memoryview(data)[n_read:])):
            n_read += n
        if n_read < len(data):
            del data[n_read:]
        return data

    def rest(self) -> bytes:
        """Return all that comes until the pipe is closed."""
        data = b""
        while piece := bytes(self.read(2**12)):
            data += piece
        return data

    def _piece(self, room: memoryview) -> int:
        end = time.monotonic() + self._seconds
        while not self._poll.poll(max(0, end - time.monotonic()) * 1000):
            check_stopped()
            if time.monotonic() >= end:
                self.is_late = True
                raise self._late
        return self._pipe.readinto(room) or 0


@contextmanager
def _gone_at_the_end(child: int) -> Iterator[None]:
    """Kill a child at the end, if it is still there."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError, ChildProcessError):  # its end was seen already
            if not os.waitpid(child, os.WNOHANG)[0]:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _signal_that_ended(child: int) -> int:
    """Return the signal that ended a child which sends no more; 0 if none did or nobody knows."""
    end = time.monotonic() + _ENDING_SECONDS
    while time.monotonic() < end:
        with suppress(ChildProcessError):
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                return max(0, -os.waitstatus_to_exitcode(status))
        time.sleep(0.01)
    return 0


def _lost_reader(number: int) -> TableProblem:
    how = f" by {signal.Signals(number).name}" if number else " too early"
    return TableProblem(
        "limit",
        f"the process that reads it ended{how}",
        code=LOST_READER,
        fix="make room if memory was short; if it happens again, write the table anew, as CSV: its file may be damaged",
    )


def _read_and_send(batches: Callable[[], Iterable[pa.RecordBatch]], other_end: int, pipe: int) -> NoReturn:
    """Be the process that reads: send what is read, then what is wrong, and end."""
    try:
        ignore_stops()
        die_with_parent()
        gc.freeze()  # a collection would copy every page of objects that the parent shares
        os.close(other_end)
        faulthandler.disable()  # what a library prints, and says as it aborts, may quote a record
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in (1, 2):
            os.dup2(nowhere, number)
        _limit_memory(table_bytes() + SPARE_BYTES)
        with os.fdopen(pipe, "wb") as file:
            file.write(json.dumps(_send_batches(batches, file)).encode())
    finally:
        os._exit(0)


def _send_batches(batches: Callable[[], Iterable[pa.RecordBatch]], file: Any) -> dict[str, Any]:
    """Write batches as a stream; return what is wrong, or nothing."""
    writer, said = None, dict[str, Any]()
    try:
        with library_errors_named():
            for batch in batches():
                writer = writer or pa.ipc.new_stream(file, batch.schema)
                for first in range(0, max(1, batch.num_rows), BATCH_ROWS):
                    writer.write_batch(batch.slice(first, BATCH_ROWS))
                file.flush()
    except TableProblem as problem:
        said = {name: getattr(problem, name) for name in _SENT}
    except Exception as error:
        said = {"raised": type(error).__name__}
    (writer or pa.ipc.new_stream(file, pa.schema([]))).close()
    return said


@contextmanager
def library_errors_named() -> Iterator[None]:
    """Make a TableProblem of what libraries raise, without their context."""
    try:
        yield
    except Exception as error:
        check_stopped()  # a library may have made an error of an interrupt
        problem = _named(error)
        if problem is None:
            raise
    else:
        return
    raise problem


def _named(error: Exception) -> TableProblem | None:
    if isinstance(error, MemoryError):
        return _no_memory()
    if isinstance(error, _UNREADABLE):
        return TableProblem("unreadable", printable((str(error).splitlines() or [""])[0], 160))
    return None


def _no_memory() -> TableProblem:
    return TableProblem(
        "limit",
        "to read it takes more memory than a table may take",
        code="D085",
        fix=f"give the table in several row groups or batches; {RAISE_TABLE}",
    )


def _limit_memory(n_bytes: int) -> None:
    """Let this process take so many bytes beside what it has, and leave no crash dump."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        taken = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData:"))
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = taken + n_bytes
        resource.setrlimit(
            resource.RLIMIT_DATA, (most if soft == resource.RLIM_INFINITY else min(soft, most), hard)
        )
