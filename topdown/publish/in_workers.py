"""Sections of a release in several processes, to be made or to be verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from topdown.publish.verify import EachSection
from topdown.workers import Lost, workers_with
from topdown.workers.lost import nobody

Shared = TypeVar("Shared")
Result = TypeVar("Result")


def each_section(
    work: Callable[[Shared, int], Result],
    shared: Shared,
    n_sections: int,
    n_workers: int,
    lost: Lost = nobody,
) -> Iterator[Result]:
    """Yield the result of each section, in order; one that is alone stays in this process.

    Args:
        work: a function of a module, that changes nothing but what it returns.
        shared: what it needs beside the number of a section.
        n_sections, n_workers: how many. lost: told about each worker that is lost.
    """
    with workers_with(shared, min(n_workers, n_sections), lost) as pool:
        yield from pool.map(work, range(n_sections), n_workers + 1, lambda number: f"section {number}")


def verified_in(n_workers: int, lost: Lost = nobody) -> EachSection:
    """Return how to verify sections in so many processes of this machine."""

    def each(look: Callable[[Shared, int], Result], shared: Shared, n_sections: int, /) -> Iterable[Result]:
        return each_section(look, shared, n_sections, n_workers, lost)

    return each
