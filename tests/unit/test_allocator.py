"""Memory: where Arrow takes it from, and what is looked through at the end, in our programs and in those of others."""

import os

import pytest

from tests.helpers.processes import run_python
from topdown.workers import workers_with

CHOSEN = "ARROW_DEFAULT_MEMORY_POOL"
SAYS = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
COMMAND = "from topdown.cli import main; main(['explain', 'D001', '-q']); "


def said(code: str, chosen: str | None) -> str:
    """Return the last word of a program."""
    environment = {k: v for k, v in os.environ.items() if k != CHOSEN} | ({CHOSEN: chosen} if chosen else {})
    return run_python("-c", code, env=environment).stdout.split()[-1]


def backend(_: None, __: int) -> str:
    """Return what Arrow uses in this worker."""
    import pyarrow

    return str(pyarrow.default_memory_pool().backend_name)


@pytest.mark.parametrize("before", ["", "import pyarrow; "])
def test_a_command_takes_memory_from_the_system(before: str) -> None:
    """Arrow may be there before the command is, and keeps the allocator that it began with."""
    assert said(before + COMMAND + SAYS, None) == "system"


def test_what_the_user_chose_stays_and_so_do_programs_of_others() -> None:
    """A library that changes the allocator of the program it is part of changes what is none of its business."""
    its_own = said(SAYS, None)
    assert its_own != "system"
    assert said("import topdown; " + SAYS, None) == its_own
    assert said(COMMAND + SAYS, its_own) == its_own


def test_workers_take_memory_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are processes of our own, whoever started them."""
    monkeypatch.delenv(CHOSEN, raising=False)
    with workers_with(None, 2) as workers:
        assert set(workers.map(backend, range(3))) == {"system"}


def test_only_our_programs_end_without_a_look_for_cycles() -> None:
    """In a program of somebody else what stands in cycles may have to be closed at its end."""
    cycles = "import atexit, gc; atexit._run_exitfuncs(); print(gc.get_freeze_count() > 0)"
    assert said("import topdown.cli; " + cycles, None) == "False"
    for name in ("topdown", "pgsr"):
        ours = f"import sys; sys.argv[0] = 'bin/{name}'; import {name}.cli; "
        assert said(ours + cycles, None) == "True"
