"""Sites with at most so many in each district: private continuous greedy, swap rounding, a last private choice.

Source: the paper, theorem 1.3 and appendix D, with steps of exactly 1/steps, and the closed form of coverage in place
of sampled thresholds. Rounding: Chekuri, Vondrak, Zenklusen 2010, "Dependent randomized rounding".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from topdown.errors import ConfigError
from topdown.selection.chance import Chance, Subsampling, root_below
from topdown.selection.incidences import Covering, Incidence, check_count, check_grid
from topdown.selection.private_greedy import CoverScore, FractionalCoverScore, Selection, repeated_choice


@dataclass(frozen=True)
class Districts:
    """A partition matroid of public items: at most `most` of each district, and at most k in all.

    Args:
        of: the district of each item, numbered as one likes.
        k: 1 .. items.
        most: at least 1.

    Raises: ConfigError (C192, C193).
    """

    of: tuple[int, ...]
    k: int
    most: int = 1

    def __post_init__(self) -> None:
        if not self.of:
            raise ConfigError(
                "there are no items to choose from", code="C192", fix="give at least one candidate"
            )
        check_count(self.k, len(self.of), "k")
        check_count(self.most, len(self.of), "the number of items of a district")

    @property
    def rank(self) -> int:
        """Return how many items every choice has that cannot be extended."""
        return min(self.k, sum(min(self.most, n) for n in Counter(self.of).values()))

    def independent(self, items: Sequence[int]) -> bool:
        """Tell whether distinct items keep both limits."""
        return len(items) <= self.k and all(
            n <= self.most for n in Counter(self.of[item] for item in items).values()
        )

    def allowed(self, chosen: Sequence[int]) -> list[int]:
        """Return what may be added to an independent choice."""
        if len(chosen) >= self.k:
            return []
        taken = Counter(self.of[item] for item in chosen)
        return [i for i, district in enumerate(self.of) if taken[district] < self.most and i not in chosen]


@dataclass(frozen=True)
class Effort:
    """Public amounts of work of the rounding, which the privacy does not depend on.

    Args:
        steps: parts in which the fractions of items grow, 1 .. 100.
        tries: roundings among which the last choice is made, 1 .. 1000.
        grid: units of a record while fractions grow, 1 .. 10,000; a fine grid loses less to rounding.
    """

    steps: int = 10
    tries: int = 20
    grid: int = 1000

    def __post_init__(self) -> None:
        check_count(self.steps, 100, "steps")
        check_count(self.tries, 1000, "tries")
        check_grid(self.grid)


def sites_by_district(
    data: Covering, districts: Districts, plan: Subsampling, chance: Chance, effort: Effort | None = None
) -> Selection:
    """Choose items that cover many records, no district having more than its limit. The items come sorted.

    Half of the base is for the fractions, half for the choice among their roundings.

    Args:
        data, plan, chance: as `max_cover`.
        districts: limits; one district for each item.
        effort: steps and tries.

    Raises: ConfigError (C193).
    """
    check_count(len(districts.of), data.items, "the number of items with a district")
    if len(districts.of) != data.items:
        raise ConfigError("an item has no district", code="C193", fix="give the district of each item")
    sample = data.sampled(chance.keep(data.n_records, plan.rate))
    items = chosen_by_district(sample, districts, plan.base, chance, effort or Effort())
    return Selection(items, plan.event)


def chosen_by_district(
    sample: Incidence, districts: Districts, base: Fraction, chance: Chance, effort: Effort
) -> tuple[int, ...]:
    """Choose from a sample, one-sided with the base."""
    half = root_below(base, 2)
    bases = grown(sample, districts, effort, half, chance)
    rounded = [swap_round(bases, districts, chance) for _ in range(effort.tries)]
    covers = [_covered(sample, items) for items in rounded]
    return rounded[chance.choose(covers, half)]


def grown(
    sample: Incidence, districts: Districts, effort: Effort, base: Fraction, chance: Chance
) -> list[tuple[int, ...]]:
    """Return one maximal choice a step, each made on what the steps before left open. One-sided with the base."""
    score = FractionalCoverScore(sample, effort.steps, effort.grid)
    root = root_below(base, effort.grid)
    rank = districts.rank
    return [repeated_choice(score, districts.allowed, rank, root, chance) for _ in range(effort.steps)]


def swap_round(bases: Sequence[tuple[int, ...]], districts: Districts, chance: Chance) -> tuple[int, ...]:
    """Merge maximal choices of equal weight into one by exchanges that keep expectations; no record is read."""
    merged = set(bases[0])
    for weight, base in enumerate(bases[1:], 1):
        other = set(base)
        while merged != other:
            out = min(merged - other)
            exchanged = ((i, merged - {out} | {i}, other - {i} | {out}) for i in sorted(other - merged))
            into = next(i for i, *sets in exchanged if all(districts.independent(tuple(s)) for s in sets))
            if chance.coin(Fraction(weight, weight + 1)):
                other = other - {into} | {out}
            else:
                merged = merged - {out} | {into}
    return tuple(sorted(merged))


def _covered(sample: Incidence, items: Sequence[int]) -> int:
    score = CoverScore(sample)
    for item in items:
        score.take(item)
    return score.covered
