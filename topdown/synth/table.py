"""The tables of a made-up census, written as they are drawn: nothing holds all rows."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from topdown.model.histogram import Histogram
from topdown.model.schema import Schema
from topdown.model.support import base_labels
from topdown.synth.facts import Counts, PeopleIn
from topdown.synth.tree import MadeUpTree

LEAVES = 1 << 16  # whose rows are made at once
Columns = list[Iterable[str]]


@dataclass(eq=False)
class Counted:
    """What is counted of people as they go by.

    Args:
        people: in the cells of constraints.
        n_people, n_rows, n_lived: records, rows, and leaves with records.
    """

    people: PeopleIn
    n_people: int = 0
    n_rows: int = 0
    n_lived: int = 0

    def add(self, people: Histogram) -> None:
        """Count people of leaves that were not seen before."""
        self.people.add(people)
        self.n_people += people.n_records
        self.n_rows += len(people.count)
        self.n_lived += len(np.unique(people.node))


class RecordsTable:
    """The records of a made-up census as text.

    Args:
        schema: of the records. base: of the release that theirs extends, whose columns the table has too.
        tree: of the leaves.
    """

    def __init__(self, schema: Schema, base: Schema | None, tree: MadeUpTree) -> None:
        self._schema, self._base, self._tree = schema, base, tree
        own = [a.name for a in schema.attributes]
        self._more = [] if base is None else [a for a in base.attributes if a.name not in {*own, "count"}]
        self._of_base = None if base is None else base_labels(schema, base, {})
        self.columns = ["geocode", *own, "count", *(a.name for a in self._more)]

    def rows(self, people: Histogram) -> Columns:
        """Return the columns of some people, a row a leaf and cell."""
        columns: Columns = [_texts(self._tree.codes[people.node])]
        for attribute, value in zip(
            self._schema.attributes, self._schema.coordinates(people.cell), strict=True
        ):
            columns.append(map(attribute.labels.__getitem__, value.tolist()))
        columns.append(map(str, people.count.tolist()))
        if self._base is not None and self._of_base is not None:
            found = self._base.coordinates(self._of_base[people.cell])
            for attribute, value in zip(self._base.attributes, found, strict=True):
                if attribute in self._more:  # one table serves both runs: each reads its own columns
                    columns.append(map(attribute.labels.__getitem__, value.tolist()))
        return columns


def leaf_rows(tree: MadeUpTree, facts: Mapping[str, Counts]) -> Iterator[Columns]:
    """Yield the columns of the table of leaves, a range of leaves at a time."""
    for first in range(0, tree.n_leaves, LEAVES):
        here = slice(first, first + LEAVES)
        yield [_texts(tree.codes[here]), *(map(str, fact[here].tolist()) for fact in facts.values())]


@contextmanager
def written(path: Path) -> Iterator[gzip.GzipFile]:
    """Open a gzip file that gets its name when it is whole, and is gone if it never is."""
    part = path.with_name(path.name + ".tmp")
    try:
        with part.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_line(file: gzip.GzipFile, values: Iterable[str]) -> None:
    """Write one row."""
    file.write((",".join(values) + "\n").encode())


def write_rows(file: gzip.GzipFile, columns: Columns) -> None:
    """Write rows that are given by columns."""
    rows = map(",".join, zip(*columns, strict=True))
    file.write("".join(f"{row}\n" for row in rows).encode())


def _texts(codes: np.ndarray[tuple[int], np.dtype[np.bytes_]]) -> list[str]:
    return [code.decode("ascii") for code in codes.tolist()]
