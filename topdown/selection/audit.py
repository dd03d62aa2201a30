"""Exact laws of what is shipped: every decision taken both ways, every small data set, all in fractions.

`law_of` runs an algorithm once for each path of its decisions, so what is audited is the code itself. `worst_ratios`
then looks over all neighbours among small data sets. A pass proves the promise for these data sets only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from typing import final

import numpy as np

from topdown.selection.chance import Chance, Flags

Law = Mapping[Hashable, Fraction]
DataSet = tuple[Hashable, ...]
Mechanism = Callable[[DataSet, Chance], Hashable]
Sampler = Callable[[DataSet], Iterable[tuple[DataSet, Fraction]]]


@final
class ScriptedChance(Chance):
    """Follow a list of branches, then the first of each; remember the probability and the branches not taken."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script, self.probability = script, Fraction(1)
        self.others: list[tuple[int, ...]] = []
        self.path: list[int] = []

    def _take(self, probabilities: Sequence[Fraction]) -> int:
        possible = [i for i, p in enumerate(probabilities) if p]
        depth = len(self.path)
        if depth < len(self._script):
            taken = self._script[depth]
        else:
            taken = possible[0]
            self.others += [(*self.path, i) for i in possible[1:]]
        self.path.append(taken)
        self.probability *= probabilities[taken]
        return taken

    def keep(self, n_records: int, rate: Fraction) -> Flags:
        """Take every subset."""
        return np.array([self.coin(rate) for _ in range(n_records)], dtype=np.bool_)

    def choose(self, scores: Sequence[int], base: Fraction) -> int:
        """Take every index."""
        weights = [base ** (s - max(scores)) for s in scores]
        total = sum(weights, Fraction(0))
        return self._take([w / total for w in weights])

    def accept(self, base: Fraction, exponent: int) -> bool:
        """Take both answers, where both can be."""
        return self.coin(base ** -max(0, exponent))

    def coin(self, probability: Fraction) -> bool:
        """Take both sides, where both can be."""
        return self._take([1 - probability, Fraction(probability)]) == 1

    def raised(self, count: int, base: Fraction, most: int) -> int:
        """Take every count up to the most."""
        if count >= most:
            return most
        room = most - count
        return count + self._take([(1 - 1 / base) / base**j for j in range(room)] + [1 / base**room])

    def first_accepted(self, n: int, base: Fraction, exponent: int) -> int:
        """Take every place, and none."""
        success = base ** -max(0, exponent)
        return self._take([success * (1 - success) ** j for j in range(n)] + [(1 - success) ** n])


def law_of(run: Callable[[Chance], Hashable]) -> dict[Hashable, Fraction]:
    """Return the exact probability of every outcome. Cost: one run a path."""
    law: dict[Hashable, Fraction] = {}
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        chance = ScriptedChance(waiting.pop())
        outcome = run(chance)
        law[outcome] = law.get(outcome, Fraction(0)) + chance.probability
        waiting += chance.others
    return law


def poisson(rate: Fraction) -> Sampler:
    """Return the sampler that keeps each record independently."""

    def sampler(records: DataSet) -> Iterable[tuple[DataSet, Fraction]]:
        for flags in product((False, True), repeat=len(records)):
            n_kept = sum(flags)
            kept = tuple(r for r, flag in zip(records, flags, strict=True) if flag)
            yield kept, rate**n_kept * (1 - rate) ** (len(records) - n_kept)

    return sampler


def everything(records: DataSet) -> Iterable[tuple[DataSet, Fraction]]:
    """Keep all records: the mechanism by itself."""
    yield records, Fraction(1)


def laws(mechanism: Mechanism, sampler: Sampler) -> Callable[[DataSet], Law]:
    """Return the law on a data set as the mixture over samples; each sample's law is made once."""

    @cache
    def inner(sample: DataSet) -> Law:
        return law_of(lambda chance: mechanism(sample, chance))

    @cache
    def mixed(records: DataSet) -> Law:
        law: dict[Hashable, Fraction] = {}
        for sample, weight in sampler(records):
            if weight:
                for outcome, probability in inner(sample).items():
                    law[outcome] = law.get(outcome, Fraction(0)) + weight * probability
        return law

    return mixed


@dataclass(frozen=True)
class Ratios:
    """The most by which an outcome's probability grows when a record is added, and when one is removed.

    None is no bound at all: an outcome that only one of the two can give.
    """

    added: Fraction | None
    removed: Fraction | None

    def within(self, factor: Fraction) -> bool:
        """Tell whether both are at most a factor."""
        return all(r is not None and r <= factor for r in (self.added, self.removed))


def worst_ratios(law: Callable[[DataSet], Law], records: Sequence[Hashable], most: int) -> Ratios:
    """Return the worst ratios over every data set of at most `most` records, and one more."""
    added: Fraction | None = Fraction(1)
    removed: Fraction | None = Fraction(1)
    for size in range(most + 1):
        for data in combinations_with_replacement(records, size):
            for record in records:
                more = _sorted((*data, record), records)
                added = _larger(added, ratio(law(more), law(data)))
                removed = _larger(removed, ratio(law(data), law(more)))
    return Ratios(added, removed)


def worst_replacement(
    law: Callable[[DataSet], Law], records: Sequence[Hashable], most: int
) -> Fraction | None:
    """Return the worst ratio over data sets of at most `most` records and one that differs."""
    worst: Fraction | None = Fraction(1)
    for size in range(most + 1):
        for data in combinations_with_replacement(records, size):
            for one, other in product(records, repeat=2):
                pair = [_sorted((*data, r), records) for r in (one, other)]
                worst = _larger(worst, ratio(law(pair[0]), law(pair[1])))
    return worst


def ratio(one: Law, other: Law) -> Fraction | None:
    """Return the largest ratio of an outcome's probabilities; None where the other law cannot give it."""
    if any(outcome not in other for outcome in one):
        return None
    return max(probability / other[outcome] for outcome, probability in one.items())


def hockey_stick(one: Law, other: Law, factor: Fraction) -> Fraction:
    """Return the delta that one law needs against the other at e^epsilon = factor."""
    return sum(
        (max(Fraction(0), p - factor * other.get(o, Fraction(0))) for o, p in one.items()), Fraction(0)
    )


def _sorted(data: DataSet, records: Sequence[Hashable]) -> DataSet:
    return tuple(sorted(data, key=records.index))


def _larger(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else max(one, other)
