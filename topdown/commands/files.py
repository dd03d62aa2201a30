"""Write a file that the user named, without destroying another."""

from __future__ import annotations

from pathlib import Path

from topdown.errors import ConfigError


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a text file; ConfigError C080 if it exists and `force` was not given."""
    if path.exists() and not force:
        raise ConfigError(f"{path} exists", code="C080", fix="give another file, or replace it with --force")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
