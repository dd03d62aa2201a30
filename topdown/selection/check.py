"""Hold the shipped choices, in the form that the command runs them, to what they promise: exactly, on small data."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Literal

import numpy as np

from topdown.accountant.event import Neighbours
from topdown.selection.audit import DataSet, Mechanism, everything, laws, worst_ratios, worst_replacement
from topdown.selection.chance import Chance
from topdown.selection.districts import Districts, Effort, sites_by_district
from topdown.selection.frequent import Monitor, frequent
from topdown.selection.orders import cover_order
from topdown.selection.plan import Subsampling
from topdown.selection.records import Residents, incidence
from topdown.selection.sites import max_cover

Asked = Literal["sites", "sites by district", "order", "frequent"]
RELATIONS: tuple[Neighbours, ...] = ("add_remove", "bounded")
COVERAGE = ((), (0,), (1, 2), (0, 1, 2))  # which of three candidates cover each of four areas
AREAS = tuple(range(len(COVERAGE)))
STREAMS = tuple(product(range(2), repeat=2))
RATE, BASE = Fraction(1, 2), Fraction(3)


@dataclass(frozen=True)
class Ratio:
    """The worst ratio found over neighbours, None where it has no bound, and e^epsilon as promised."""

    question: Asked
    neighbours: Neighbours
    worst: Fraction | None
    promised: Fraction

    @property
    def holds(self) -> bool:
        """Whether no neighbours are told apart better than promised."""
        return self.worst is not None and self.worst <= self.promised


def check_selection() -> list[Ratio]:
    """Return the worst ratio of every kind of choice under both relations, its own sampling included.

    Neighbours: all data sets of at most one record over four areas (two symbols at two steps), and one record more or
    another one. A pass proves the promise for these only. Cost: seconds.
    """
    found = []
    for name, records in _RECORDS.items():
        for neighbours in RELATIONS:
            plan = Subsampling(RATE, BASE, neighbours)
            law = laws(mechanism(name, plan), everything)
            if neighbours == "bounded":
                worst = worst_replacement(law, records, 0)
            else:
                ratios = worst_ratios(law, records, 1)
                both = (ratios.added, ratios.removed)
                worst = None if None in both else max(r for r in both if r is not None)
            found.append(Ratio(name, neighbours, worst, plan.exp_epsilon))
    return found


_RECORDS: dict[Asked, tuple[Hashable, ...]] = {
    "sites": AREAS,
    "sites by district": AREAS,
    "order": AREAS,
    "frequent": STREAMS,
}


def mechanism(name: Asked, plan: Subsampling) -> Mechanism:
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
            return cover_order(data, 4, plan, chance).items
        districts = Districts((0, 0, 1), 2)
        return sites_by_district(data, districts, plan, chance, Effort(1, 2, 4)).items

    return run
