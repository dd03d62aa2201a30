"""Errors of ours are told apart by their codes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from topdown.errors import TopdownError
from topdown.progress import Event, Report


@contextmanager
def fails_with(
    code: str, error: type[TopdownError] = TopdownError, match: str | None = None
) -> Iterator[pytest.ExceptionInfo[TopdownError]]:
    """Fail unless what is done inside ends in an error of this class and code, with words that match."""
    with pytest.raises(error, match=match) as caught:
        yield caught
    assert caught.value.code == code


def stopping_at(stage: str, when: Callable[[Event], bool] = lambda _: True) -> Report:
    """Return a `report` that stops the run, as Ctrl-C does, when it is told of a stage."""

    def stop(event: Event) -> None:
        if event.stage == stage and when(event):
            raise KeyboardInterrupt

    return stop
