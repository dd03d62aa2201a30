"""What may be charged to the ledger of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pgsr.numbers import fraction
from topdown.errors import ConfigError

MOST_TEXT = 500


@dataclass(frozen=True)
class Policy:
    """What may be charged.

    Args:
        limit: the most that may ever be charged to the data set, exact; None: this release, what a crash tore included.
        reason: why, if someone wrote it down.
        again: release although the ledger holds this very plan already.
        resume: go on with a run that was interrupted in the folder, with the noise that is whole; a part that was
            begun and is not whole is charged again.

    Raises:
        ConfigError: a limit that is no exact number above 0 (C142-C144), or a reason no ledger can hold (C166).
    """

    limit: object = None
    reason: str = ""
    again: bool = False
    resume: bool = False

    def __post_init__(self) -> None:
        if self.limit is not None:
            fraction("limit", self.limit)
        if len(self.reason) > MOST_TEXT or not self.reason.isprintable():
            raise ConfigError(
                f"the reason of the limit is longer than {MOST_TEXT} characters, or has one that cannot be printed",
                code="C166",
                fix="say it in one line",
            )

    @property
    def most(self) -> Fraction | None:
        """The exact limit."""
        return None if self.limit is None else fraction("limit", self.limit)
