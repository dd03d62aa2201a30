"""Whether a person can be asked."""

from __future__ import annotations

import sys

from topdown.screen.console import Screen


def can_ask(screen: Screen) -> bool:
    """Tell whether answers come from a terminal, and questions are seen on one."""
    return sys.stdin.isatty() and screen.err.stream.isatty()
