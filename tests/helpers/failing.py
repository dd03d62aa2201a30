"""Errors of ours are told apart by their codes."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from topdown.errors import TopdownError


@contextmanager
def fails_with(
    code: str, error: type[TopdownError] = TopdownError, match: str | None = None
) -> Iterator[pytest.ExceptionInfo[TopdownError]]:
    """Fail unless what is done inside ends in an error of this class and code, with words that match."""
    with pytest.raises(error, match=match) as caught:
        yield caught
    assert caught.value.code == code
