"""Where Arrow takes its memory from, in processes of our own."""

from __future__ import annotations

import os
import sys

_CHOSEN = "ARROW_DEFAULT_MEMORY_POOL"  # read by Arrow as it is imported


def take_from_system() -> None:
    """Let Arrow use the system's allocator in this process, unless the user chose one.

    Arrow's own keeps much of what it is given back: a sixth of the memory of a release of ten million people. For
    programs and workers only; who imports us decides about their own process.
    """
    if _CHOSEN in os.environ:
        return
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())
    else:
        os.environ[_CHOSEN] = "system"
