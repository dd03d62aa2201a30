"""Who may be in which group: people by combination of groups open to them (Census TopDown, section 7.3).

A lower bound c on group j of a leaf is c people whose combination is {j}; the rest of the leaf's total has the
combination of all groups that may exceed their bound. A node's combinations are those of its leaves, added up. A vector
of group totals can be split over the leaves if and only if the people can be sent from combinations to groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topdown.solve.implied.maximum_flow import maximum_flow


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

    def members(self, groups: int) -> tuple[str, ...]:
        """Return the names of the groups of a bit set."""
        return tuple(name for j, name in enumerate(self.names) if groups >> j & 1)


@dataclass(frozen=True)
class Assignment:
    """People from each combination in each group, or the set of groups that shows there is no way.

    Args:
        flows: (combination, group) to people; None if the group totals cannot be met.
        violated: bit set A with more than `most(A)` people; 0 if the totals can be met. If the totals do not add
            up to all people, it is the set of all groups.
    """

    flows: Mapping[tuple[int, int], int] | None
    violated: int = 0


def assign(combinations: Combinations, group_totals: Sequence[int]) -> Assignment:
    """Send everybody to a group so that the group totals are met, or find a set of groups with too many.

    Max-flow min-cut: the groups the sink cannot be reached through form the violated set.

    Args:
        combinations: people by combination.
        group_totals: persons, one a group.
    """
    k, masks = len(combinations.names), sorted(combinations.people)
    if sum(group_totals) != combinations.total:
        return Assignment(None, (1 << k) - 1)
    if min(group_totals, default=0) < 0:
        negative = next(j for j, n in enumerate(group_totals) if n < 0)
        return Assignment(None, (1 << k) - 1 - (1 << negative))
    source, sink = len(masks) + k, len(masks) + k + 1
    inner = [(c, j) for c, mask in enumerate(masks) for j in range(k) if mask >> j & 1]
    arcs = [(len(masks) + j, c, combinations.people[masks[c]]) for c, j in inner]
    arcs += [(source, len(masks) + j, n) for j, n in enumerate(group_totals)]
    arcs += [(c, sink, combinations.people[mask]) for c, mask in enumerate(masks)]
    flow = maximum_flow(len(masks) + k + 2, arcs, source, sink)
    if flow.value < combinations.total:
        return Assignment(None, sum(1 << j for j in range(k) if len(masks) + j in flow.source_side))
    return Assignment({(masks[c], j): n for (c, j), n in zip(inner, flow.on_arc, strict=False) if n})
