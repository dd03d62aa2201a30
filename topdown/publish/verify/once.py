"""What is read once and asked for often; what cannot be read fails each time in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from topdown.publish.verify.reader import UnreadableError
from topdown.publish.verify.result import Finding

T = TypeVar("T")


class NotAvailableError(Exception):
    """Something a check needs could not be read; `owner` is the check that reports why."""

    def __init__(self, owner: str, finding: Finding) -> None:
        super().__init__(owner, finding)
        self.owner, self.finding = owner, finding

    def __str__(self) -> str:
        return self.finding.text


class Once:
    """Values by key, each loaded when it is first asked for."""

    def __init__(self) -> None:
        self._memo: dict[str, Any] = {}

    def __call__(self, key: str, owner: str, load: Callable[[], T]) -> T:
        """Return `load()`, computed once; NotAvailableError if it cannot be read."""
        if key not in self._memo:
            try:
                self._memo[key] = load()
            except UnreadableError as error:
                self._memo[key] = NotAvailableError(owner, error.finding)
        value = self._memo[key]
        if isinstance(value, NotAvailableError):
            raise value.with_traceback(None)  # which would hold what was read
        return value  # type: ignore[no-any-return]

    def forget(self, key: str) -> None:
        """Load a value anew when it is asked for again."""
        del self._memo[key]
