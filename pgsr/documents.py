"""How every JSON document of pgsr begins."""

from __future__ import annotations

VERSION = 1


def head(kind: str) -> dict[str, object]:
    """Return type, version and engine of a document.

    Args:
        kind: name after "pgsr.".
    """
    from topdown import __version__

    return {"type": f"pgsr.{kind}", "version": VERSION, "engine": __version__}
