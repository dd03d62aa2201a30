"""Write a file that the user named, without destroying another."""

from __future__ import annotations

from pathlib import Path

from topdown import outputs


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a text file; ConfigError C080 if it exists and `force` was not given, C132 if it is not to be replaced."""
    outputs.write_new(path, text.encode("utf-8"), force=force)
