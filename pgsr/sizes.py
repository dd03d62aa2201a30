"""The public range of group sizes."""

from __future__ import annotations

from dataclasses import dataclass

from topdown.errors import ConfigError


@dataclass(frozen=True)
class Sizes:
    """Public range of group sizes.

    Args:
        n_sizes: number of sizes N.
        smallest: first size, 0 (units without anybody are listed) or 1.
        too_large: "refuse" groups larger than the last size, or "top-code" them to it. Never drop them: a
            dropped group changes tail counts by N.
    """

    n_sizes: int
    smallest: int = 1
    too_large: str = "refuse"

    def __post_init__(self) -> None:
        if isinstance(self.n_sizes, bool) or not isinstance(self.n_sizes, int) or self.n_sizes < 1:
            raise ConfigError(
                f"n_sizes is {self.n_sizes!r}",
                code="C158",
                fix="give the public number of sizes N, such as 20",
            )
        if self.smallest not in (0, 1):
            raise ConfigError(f"smallest size is {self.smallest!r}", code="C159", fix="use 0 or 1")
        if self.too_large not in ("refuse", "top-code"):
            raise ConfigError(f"too_large is {self.too_large!r}", code="C160", fix="use refuse or top-code")

    @property
    def largest(self) -> int:
        """The last size; with top-coding it means this size or more."""
        return self.smallest + self.n_sizes - 1

    def label(self, row: int) -> int:
        """Return the size that a row of counts stands for."""
        return self.smallest + row
