"""Tests do not depend on who starts them: the same examples every time, and signals handled as in a terminal.

HYPOTHESIS_PROFILE=search draws new examples.
"""

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)  # a busy machine is no finding
settings.register_profile("search", derandomize=False, print_blob=True, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A background job, nohup and some services start programs with signals ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
for ignored in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """Keep what is loaded out of every later collection: it stays anyway, and forked processes would copy its pages."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def free_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give examples that make folders of their own one place that is gone after the session."""
    tmp_path_factory.getbasetemp()  # pytest keeps its own folders where they were
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="topdown-tests-") as folder:
        tempfile.tempdir = folder
        yield
        tempfile.tempdir = before


@pytest.fixture(scope="session", autouse=True)
def forget_after_patches() -> Iterator[None]:
    """Empty the packages' caches after every patch: what was computed under a mutant is no answer for later tests."""
    undo = pytest.MonkeyPatch.undo

    def undo_and_forget(self: pytest.MonkeyPatch) -> None:
        patched = bool(self._setattr or [one for one in self._setitem if one[0] is not os.environ])
        undo(self)
        for cached in _caches() if patched else ():
            cached.cache_clear()

    pytest.MonkeyPatch.undo = undo_and_forget  # type: ignore[method-assign]
    yield
    pytest.MonkeyPatch.undo = undo  # type: ignore[method-assign]


def _caches() -> list[Any]:
    """Return every function of the packages that remembers what it returned."""
    modules = [m for name, m in sorted(sys.modules.items()) if name.split(".")[0] in {"topdown", "pgsr"}]
    return [found for module in modules for found in vars(module).values() if hasattr(found, "cache_clear")]
