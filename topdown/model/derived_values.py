"""Values that follow from another and take much room: made when they are asked for, forgotten when a stage says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast, final

T = TypeVar("T")


@final
class DerivedValues:
    """A store that belongs to one frozen value. The stage that lets it fill says when it is not needed any more."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def get(self, name: str, make: Callable[[], T]) -> T:
        """Return the value of a name; it is made if it is not there, the first time or after `release`."""
        if name not in self._made:
            self._made[name] = make()
        return cast("T", self._made[name])

    def release(self) -> None:
        """Forget all values."""
        self._made.clear()
