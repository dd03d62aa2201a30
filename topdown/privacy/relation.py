"""What one unit of privacy may change: the neighbour relation."""

from __future__ import annotations

from typing import Literal

from topdown.errors import ConfigError


def counts_moved(neighbours: Neighbours) -> int:
    """Return how many counts of a measurement a neighbour moves: 2 replaced (left and entered), 1 added or removed."""
    if neighbours not in ("bounded", "add_remove"):
        raise ConfigError(f"neighbours is {neighbours!r}", code="A013", fix='write "bounded" or "add_remove"')
    return 2 if neighbours == "bounded" else 1


Neighbours = Literal["bounded", "add_remove"]
