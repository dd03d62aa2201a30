"""One group variable with leaf totals fixed: Theorem 3 of Census TopDown, by subsets and by flows (section 7.3).

Flows are in whole numbers of any size (Dinic's algorithm), for networks of a few hundred nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from topdown.errors import ConfigError, InfeasibleError
from topdown.solve.implied.linear_systems import Row, System, is_implied

FlowArc = tuple[int, int, int]  # tail, head, capacity


@dataclass(frozen=True)
class MaximumFlow:
    """A maximum flow and its proof.

    Args:
        value: units from source to sink.
        on_arc: units on each arc, in the order given.
        source_side: nodes still reachable from the source; the arcs that leave them are full and add up to `value`.
    """

    value: int
    on_arc: tuple[int, ...]
    source_side: frozenset[int]


def maximum_flow(n_nodes: int, arcs: Sequence[FlowArc], source: int, sink: int) -> MaximumFlow:
    """Send as many units as possible.

    Args:
        n_nodes: nodes 0..n_nodes-1.
        arcs: directed, capacities nonnegative.
        source, sink: different nodes.
    """
    head = [node for tail, to, _ in arcs for node in (to, tail)]
    room = [units for *_, capacity in arcs for units in (capacity, 0)]
    leaving: list[list[int]] = [[] for _ in range(n_nodes)]
    for i, (tail, to, _) in enumerate(arcs):
        leaving[tail].append(2 * i)
        leaving[to].append(2 * i + 1)
    value = 0
    while True:
        depth = _depths(n_nodes, head, room, leaving, source)
        if depth[sink] < 0:
            break
        position = [0] * n_nodes
        while sent := _augment(head, room, leaving, depth, position, source, sink):
            value += sent
    reached = frozenset(node for node in range(n_nodes) if depth[node] >= 0)
    return MaximumFlow(value, tuple(room[1::2]), reached)


def _depths(
    n_nodes: int, head: Sequence[int], room: Sequence[int], leaving: Sequence[Sequence[int]], source: int
) -> list[int]:
    depth = [-1] * n_nodes
    depth[source] = 0
    queue = deque([source])
    while queue:
        node = queue.popleft()
        for e in leaving[node]:
            if room[e] and depth[head[e]] < 0:
                depth[head[e]] = depth[node] + 1
                queue.append(head[e])
    return depth


def _augment(
    head: Sequence[int],
    room: list[int],
    leaving: Sequence[Sequence[int]],
    depth: Sequence[int],
    position: list[int],
    source: int,
    sink: int,
) -> int:
    """Send units along one path of the layered network; 0 if there is none left."""
    path: list[int] = []
    node = source
    while node != sink:
        if position[node] < len(leaving[node]):
            e = leaving[node][position[node]]
            if room[e] and depth[head[e]] == depth[node] + 1:
                path.append(e)
                node = head[e]
            else:
                position[node] += 1
        elif path:
            node = head[path.pop() ^ 1]
            position[node] += 1
        else:
            return 0
    sent = min(room[e] for e in path)
    for e in path:
        room[e] -= sent
        room[e ^ 1] += sent
    return sent


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


def assign_to_groups(combinations: Combinations, group_totals: Sequence[int]) -> Assignment:
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


def violated_subset(groups: Groups, group_totals: Sequence[int]) -> int | None:
    """Return a set of groups whose constraint of Theorem 3 is broken, as a bit set; None if all hold.

    Every subset is looked at; `assign_to_groups` decides the same by a maximum flow.

    Raises:
        ConfigError: more than MAX_GROUPS groups (C101).
    """
    k, combinations = len(groups.names), groups.combinations
    check_size(k)
    if sum(group_totals) != combinations.total:
        return (1 << k) - 1
    for subset in range(1, 1 << k):
        if sum(n for j, n in enumerate(group_totals) if subset >> j & 1) > combinations.most(subset):
            return subset
    return None


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
    for subset in (s for s in larger if s.bit_count() > 1):
        row = _at_least(combinations, subset)
        if not is_implied(System(groups.names, tuple(rows)), row):
            rows.append(row)
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


def group_flow_system(groups: Groups) -> tuple[System, tuple[str, ...]]:
    """Return the constraints of section 7.3 with explicit flows `F[type,combination]`.

    GQ_i = sum_j F_ij, CB_j = sum_i F_ij = N_j, F_ij >= f_ij; leaves with the same open groups form a combination
    Y_j. A group that is not open in a combination has F_ij = f_ij.

    Returns:
        the system over group totals and flows, and the names of the flows.
    """
    merged: dict[int, GroupLeaf] = {}
    for leaf in groups.leaves:
        old = merged.get(leaf.combination, GroupLeaf(0, (0,) * len(groups.names), leaf.open))
        lower = tuple(a + b for a, b in zip(old.lower, leaf.lower, strict=True))
        merged[leaf.combination] = GroupLeaf(old.total + leaf.total, lower, leaf.open)
    system, cells = group_leaf_system(Groups(groups.names, tuple(merged.values())))
    sets = ["+".join(groups.combinations.members(mask)) or "none" for mask in merged]
    names = tuple(f"F[{cell.rsplit('@', 1)[0]},{sets[int(cell.rsplit('@', 1)[1])]}]" for cell in cells)
    return System((*groups.names, *names), system.rows), names


def split_group_totals(groups: Groups, group_totals: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Split group totals over the leaves (the constructive half of Theorem 3), in whole numbers.

    A maximum flow sends combinations to groups; leaves with the same combination are then filled in order.

    Returns:
        per leaf, people by group; every leaf constraint holds.

    Raises:
        InfeasibleError: the totals break an implied constraint; the set of groups is named.
    """
    combinations = groups.combinations
    found = assign_to_groups(combinations, group_totals)
    if found.flows is None:
        members = combinations.members(found.violated)
        raise InfeasibleError(
            f"groups {', '.join(members)} hold {sum(n for j, n in enumerate(group_totals) if found.violated >> j & 1)} "
            f"people together; the leaves give room for {combinations.most(found.violated)}",
            code="I003",
            fix="change the group totals until they satisfy every implied constraint",
        )
    waiting: defaultdict[int, list[list[int]]] = defaultdict(list)
    for (mask, j), n in found.flows.items():
        waiting[mask].append([j, n])
    tables = []
    for leaf in groups.leaves:
        table = list(leaf.lower)  # people with one combination {j} are in j, whoever they are
        for j, n in _take_people(waiting[leaf.combination], leaf.rest):
            table[j] += n
        tables.append(tuple(table))
    return tuple(tables)


def _take_people(queue: list[list[int]], wanted: int) -> list[tuple[int, int]]:
    taken = []
    while wanted:
        j, left = queue[-1]
        units = min(wanted, left)
        taken.append((j, units))
        wanted -= units
        queue[-1][1] -= units
        if queue[-1][1] == 0:
            queue.pop()
    return taken
