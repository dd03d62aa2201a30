"""How far searches go: further in `make test-slow`, which repeats the deep ones."""

import os

DEPTH = int(os.environ.get("TEST_DEPTH", "1"))
"""1 in `make test`, 4 in `make test-slow`."""


def repeats(quick: int, whole: int) -> int:
    """Return a number for `make test`, or the one for `make test-slow` where that is not four times as large."""
    return quick if DEPTH == 1 else whole
