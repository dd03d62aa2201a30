"""What lies in a folder."""

from pathlib import Path


def paths(folder: Path) -> list[Path]:
    """Return the path of every file below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def files(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder by its path in it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths(folder)}
