"""What lies in a folder."""

from pathlib import Path


def files(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder by its path."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }
