"""Exact laws of what is shipped: every decision taken both ways, every small data set, all in fractions.

Holds the shipped choices, in the form that the command runs them, to what they promise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Literal, final

import numpy as np

from topdown.formats.common import Neighbours
from topdown.privacy.relation import RELATIONS
from topdown.selection.chance import Chance, Flags, Subsampling
from topdown.selection.districts import Districts, Effort, sites_by_district
from topdown.selection.frequent_symbols import Monitor, frequent
from topdown.selection.incidences import Residents, incidence
from topdown.selection.orders import cover_order, cover_order_by_choices
from topdown.selection.private_greedy import max_cover

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


def choice_law(run: Callable[[Chance], Hashable]) -> dict[Hashable, Fraction]:
    """Return the exact probability of every outcome. Cost: one run a path."""
    law: dict[Hashable, Fraction] = {}
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        chance = ScriptedChance(waiting.pop())
        outcome = run(chance)
        law[outcome] = law.get(outcome, Fraction(0)) + chance.probability
        waiting += chance.others
    return law


def poisson_sampler(rate: Fraction) -> Sampler:
    """Return the sampler that keeps each record independently."""

    def sampler(records: DataSet) -> Iterable[tuple[DataSet, Fraction]]:
        for flags in product((False, True), repeat=len(records)):
            n_kept = sum(flags)
            kept = tuple(r for r, flag in zip(records, flags, strict=True) if flag)
            yield kept, rate**n_kept * (1 - rate) ** (len(records) - n_kept)

    return sampler


def whole_sample(records: DataSet) -> Iterable[tuple[DataSet, Fraction]]:
    """Keep all records: the mechanism by itself."""
    yield records, Fraction(1)


def mechanism_laws(mechanism: Mechanism, sampler: Sampler) -> Callable[[DataSet], Law]:
    """Return the law on a data set as the mixture over samples; each sample's law is made once."""

    @cache
    def inner(sample: DataSet) -> Law:
        return choice_law(lambda chance: mechanism(sample, chance))

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


def _sorted(data: DataSet, records: Sequence[Hashable]) -> DataSet:
    return tuple(sorted(data, key=records.index))


def _larger(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    return None if one is None or other is None else max(one, other)


ChoiceKind = Literal["sites", "sites by district", "order", "order by thresholds", "frequent"]
COVERAGE = ((), (0,), (1, 2), (0, 1, 2))  # which of three candidates cover each of four areas
AREAS = tuple(range(len(COVERAGE)))
STREAMS = tuple(product(range(2), repeat=2))
RATE, BASE = Fraction(1, 2), Fraction(3)


@dataclass(frozen=True)
class FoundRatio:
    """The worst ratio found over neighbours, None where it has no bound, and e^epsilon as promised."""

    question: ChoiceKind
    neighbours: Neighbours
    worst: Fraction | None
    promised: Fraction

    @property
    def holds(self) -> bool:
        """Whether no neighbours are told apart better than promised."""
        return self.worst is not None and self.worst <= self.promised


def check_selection() -> list[FoundRatio]:
    """Return the worst ratio of every kind of choice under every relation, its own sampling included.

    Neighbours: all data sets of at most one record over four areas (two symbols at two steps), and one record more or
    another one. A pass proves the promise for these only. Cost: seconds.
    """
    found = []
    for name, records in _RECORDS.items():
        for relation in reversed(RELATIONS.values()):
            plan = Subsampling(RATE, BASE, relation.name)
            law = mechanism_laws(mechanism(name, plan), whole_sample)
            worst: Fraction | None = Fraction(1)
            for change in relation.changes:
                if change == "everything":
                    worst = _larger(worst, worst_replacement(law, records, 0))
                else:
                    ratios = worst_ratios(law, records, 1)
                    worst = _larger(worst, _larger(ratios.added, ratios.removed))
            found.append(FoundRatio(name, relation.name, worst, plan.exp_epsilon))
    return found


_RECORDS: dict[ChoiceKind, tuple[Hashable, ...]] = {
    "sites": AREAS,
    "sites by district": AREAS,
    "order": AREAS,
    "order by thresholds": AREAS,
    "frequent": STREAMS,
}


def mechanism(name: ChoiceKind, plan: Subsampling) -> Mechanism:
    """Return a choice as the auditor runs it: data sets of areas lived in, or of streams of symbols."""

    def run(records: DataSet, chance: Chance) -> Hashable:
        if name == "frequent":
            steps = np.array(records, dtype=np.int64).reshape(-1, 2).T
            return tuple(frequent(list(steps), len(records), Monitor(2, 2, 2), plan, chance))
        lived = np.bincount(np.array(records, dtype=np.int64), minlength=len(AREAS))
        data = Residents(incidence(COVERAGE, 3), lived)
        if name == "sites":
            return max_cover(data, 2, plan, chance).items
        if name == "order":
            return cover_order_by_choices(data, plan, chance).items
        if name == "order by thresholds":
            return cover_order(data, 4, plan, chance).items
        districts = Districts((0, 0, 1), 2)
        return sites_by_district(data, districts, plan, chance, Effort(1, 2, 4)).items

    return run
