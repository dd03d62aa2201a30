"""What a release reads: the groups, which are confidential, and the regions, which are public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgsr.groups import leaf_counts
from pgsr.hierarchy import Hierarchy, Ints
from pgsr.ledger import DATA_SET
from pgsr.read import read_groups, read_hierarchy
from pgsr.sizes import Sizes


@dataclass(frozen=True, eq=False)
class Source:
    """What is read.

    Args:
        groups: file or columns: user, unit, region, quantity; or unit, region, size; or region, size, count.
        hierarchy: a Hierarchy, or a file with columns region, parent, level.
        data_set: name of the confidential data set, which its ledger is bound to.
        ignore: columns of the tables that are there and not read; any other is refused.
    """

    groups: Path | str | Mapping[str, Sequence[Any]]
    hierarchy: Hierarchy | Path | str
    data_set: str = DATA_SET
    ignore: Sequence[str] = ()

    @property
    def file(self) -> Path | None:
        """The file of groups; None if they are in memory."""
        return None if isinstance(self.groups, Mapping) else Path(self.groups)

    @property
    def files(self) -> list[Path]:
        """Every file that is read."""
        named = (self.file, None if isinstance(self.hierarchy, Hierarchy) else Path(self.hierarchy))
        return [path for path in named if path is not None]

    def regions(self) -> Hierarchy:
        """Return the regions (DataError: see `read_hierarchy`)."""
        if isinstance(self.hierarchy, Hierarchy):
            return self.hierarchy
        return read_hierarchy(Path(self.hierarchy), self.ignore)

    def leaves(self, regions: Hierarchy, sizes: Sizes) -> Ints:
        """Return the counts [size][leaf], completely checked; confidential (DataError: see `leaf_counts`)."""
        table = (
            self.groups if isinstance(self.groups, Mapping) else read_groups(Path(self.groups), self.ignore)
        )
        return leaf_counts(table, regions, sizes, self.file, self.ignore)
