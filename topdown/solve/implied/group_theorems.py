"""One group variable with leaf totals fixed: Theorem 3 of Census TopDown, by subsets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from topdown.errors import ConfigError, InfeasibleError
from topdown.solve.implied.linear_systems import Row, System


@dataclass(frozen=True)
class Combinations:
    """People by combination.

    Args:
        names: of the groups.
        people: by combination, a bit set of groups (bit j for group j), positive; never the empty set.
    """

    names: tuple[str, ...]
    people: Mapping[int, int]

    @property
    def total(self) -> int:
        """All people."""
        return sum(self.people.values())

    def most(self, groups: int) -> int:
        """Return the most people a set of groups can hold together: those with a combination that meets it."""
        return sum(n for mask, n in self.people.items() if mask & groups)

    def least(self, groups: int) -> int:
        """Return the fewest people a set of groups can hold together: those with no other group to go to."""
        return sum(n for mask, n in self.people.items() if not mask & ~groups)

    def follows_from_parts(self, groups: int) -> bool:
        """Tell whether two parts of a set of groups hold as many people at least as all of it: no new constraint."""
        parts = (part for part in range(1, groups) if not part & ~groups)
        return any(self.least(part) + self.least(groups & ~part) == self.least(groups) for part in parts)

    def members(self, groups: int) -> tuple[str, ...]:
        """Return the names of the groups of a bit set."""
        return tuple(name for j, name in enumerate(self.names) if groups >> j & 1)


MAX_GROUPS = 14  # the subset constraints number 2 to this power


@dataclass(frozen=True)
class GroupLeaf:
    """What is known about one leaf, persons.

    Args:
        total: population n_i.
        lower: c_ji, one a group.
        open: whether the group may exceed its lower bound; if not, it holds exactly `lower` (0 where it is absent).

    Raises:
        InfeasibleError: the bounds exceed the total, or nobody may take the rest.
    """

    total: int
    lower: tuple[int, ...]
    open: tuple[bool, ...]

    def __post_init__(self) -> None:
        if min(self.lower, default=0) < 0 or self.rest < 0 or (self.rest > 0 and not any(self.open)):
            raise InfeasibleError(
                f"a leaf of {self.total} people cannot have the group bounds {self.lower}, open {self.open}",
                code="I003",
                fix="correct the total, the lower bounds, or which groups are present",
            )

    @property
    def rest(self) -> int:
        """People above all lower bounds."""
        return self.total - sum(self.lower)

    @cached_property
    def combination(self) -> int:
        """Bit set of the open groups."""
        return sum(1 << j for j, is_open in enumerate(self.open) if is_open)


@dataclass(frozen=True)
class Groups:
    """Leaves of one node over the same groups."""

    names: tuple[str, ...]
    leaves: tuple[GroupLeaf, ...]

    @cached_property
    def combinations(self) -> Combinations:
        """People by combination of groups open to them, over all leaves."""
        people: Counter[int] = Counter()
        for leaf in self.leaves:
            for j, c in enumerate(leaf.lower):
                people[1 << j] += c
            people[leaf.combination] += leaf.rest
        return Combinations(self.names, {mask: n for mask, n in sorted(people.items()) if n})


def check_size(n_groups: int) -> None:
    """Refuse to write down the subset constraints of too many groups (C101)."""
    if n_groups > MAX_GROUPS:
        raise ConfigError(
            f"{n_groups} groups have 2^{n_groups} subset constraints; the limit is {MAX_GROUPS} groups",
            code="C101",
            fix="use the flow variables of the combinations, or merge groups",
        )


def implied_by_groups(groups: Groups) -> System:
    """Return the complete constraints on the group totals of the node (Theorem 3), those that follow left out.

    With the total fixed, "subset A holds at most U(A)" is "the other groups hold at least the people who can go
    nowhere else", which reads better and is what is written: total, then lower bounds, then larger sets.

    Raises:
        ConfigError: more than MAX_GROUPS groups (C101).
    """
    k, combinations = len(groups.names), groups.combinations
    check_size(k)
    rows = [Row.scaled([1] * k, "=", combinations.total)]
    rows += [_at_least(combinations, 1 << j) for j in range(k)]
    larger = sorted(range(1, (1 << k) - 1), key=lambda s: (s.bit_count(), s))
    rows += [
        _at_least(combinations, s)
        for s in larger
        if s.bit_count() > 1 and not combinations.follows_from_parts(s)
    ]
    return System(groups.names, tuple(rows))


def _at_least(combinations: Combinations, subset: int) -> Row:
    k = len(combinations.names)
    return Row.scaled([-(subset >> j & 1) for j in range(k)], "<=", -combinations.least(subset))


def group_leaf_system(groups: Groups) -> tuple[System, tuple[str, ...]]:
    """Return the definition itself, for elimination: group totals, leaf cells `name@leaf`, and their constraints.

    Returns:
        the system over both, and the names of the leaf cells.
    """
    cells = tuple(f"{name}@{i}" for i in range(len(groups.leaves)) for name in groups.names)
    variables = (*groups.names, *cells)
    at = {name: i for i, name in enumerate(variables)}
    rows = []

    def add(terms: dict[str, int], relation: str, bound: int) -> None:
        numbers = [0] * len(variables)
        for name, number in terms.items():
            numbers[at[name]] = number
        rows.append(Row.scaled(numbers, "=" if relation == "=" else "<=", bound))

    for i, leaf in enumerate(groups.leaves):
        add({f"{name}@{i}": 1 for name in groups.names}, "=", leaf.total)
        for name, c, is_open in zip(groups.names, leaf.lower, leaf.open, strict=True):
            add({f"{name}@{i}": -1 if is_open else 1}, "<=" if is_open else "=", -c if is_open else c)
    for name in groups.names:
        add({name: -1} | {f"{name}@{i}": 1 for i in range(len(groups.leaves))}, "=", 0)
    return System(variables, tuple(rows)), cells
