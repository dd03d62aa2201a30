"""Find the data files that ship with the package: schemas, invariants, settings, sample data.

In a wheel they live in `topdown/_bundled/`; in a checkout at the top of the tree.
"""

from __future__ import annotations

from pathlib import Path

from topdown.errors import ConfigError

_HERE = Path(__file__).resolve().parent
KINDS = ("schemas", "invariants", "settings", "sample_data")


def bundled_root() -> Path:
    """Return the folder that holds the bundled data folders."""
    inside = _HERE / "_bundled"
    return inside if inside.is_dir() else _HERE.parent


def bundled_names(kind: str) -> list[str]:
    """List the bundled files of one kind (`schemas`, `invariants`, `settings`) by name, sorted."""
    return sorted(p.stem for p in (bundled_root() / kind).glob("*.toml"))


def find(kind: str, name: str, beside: Path) -> Path:
    """Return the file a user means by `name`: a path ending in .toml (relative to `beside`), or a bundled name.

    Raises:
        ConfigError: there is no such file.
    """
    if name.endswith(".toml"):
        path = (beside / name).resolve()
        if path.is_file():
            return path
        raise ConfigError(
            f"{kind} file {name!r} does not exist", code="C003", fix="give a path relative to the run file"
        )
    path = bundled_root() / kind / f"{name}.toml"
    if path.is_file():
        return path
    raise ConfigError(
        f"there are no bundled {kind} called {name!r}",
        code="C004",
        fix="use one of: " + ", ".join(bundled_names(kind)) + ", or a path ending in .toml",
    )
