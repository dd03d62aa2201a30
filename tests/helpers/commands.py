"""Command lines run in this process."""

from __future__ import annotations

import pytest

from pgsr.cli import main


def run_pgsr(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run a command line of pgsr; return exit code, stdout and stderr."""
    code = main([str(argument) for argument in arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err
