"""The flow network of a laminar rounding, and a flow to start from; see `flow_network.py` for what it says.

Compiled when the package is installed (`topdown.resources`); tests compare roundings with enumeration and an integer
program.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Bools, FloatsOut, FloatTable, Ints, IntsOut, IntTable, IntTableOut, Whole


def laminar_network(
    estimate: FloatTable,
    whole: IntTable,
    fraction: FloatTable,
    up: Bools,
    sums: Ints,
    chain: IntTable,
    weights: Ints,
    bound_of: Ints,
    lower: IntTable,
    bound_table: Ints,
    totals_of: Ints,
    totals: IntTable,
    exact_of: Ints,
    exact: IntTable,
    exact_place: Whole,
    kind_of: Ints,
    inner_first: Ints,
    inner_nodes: Ints,
    inner: IntTable,
    unit: float,
    snap: float,
) -> list[NDArray[np.int64]] | None:
    """Return [tails, heads, capacities, costs, supplies, cell_arcs, flows, above], None if bounds or sums ask too much.

    The last two are where `network_simplex` starts, with node 0 as the root: every row gives to its largest fractions.

    Args:
        estimate, whole, fraction: (n, m); up: (n * m,), entries that may go one up.
        sums, chain, weights: see `RoundingProblem`.
        bound_of, lower: lower bounds, (n,) and (n_bounds, m). bound_table: table of the chain of each.
        totals_of, totals: exact totals, (n,) and (1, m), or no answers.
        exact_of, exact, exact_place: an exact table and its place in the chain, or no answers.
        kind_of: (n,), kind of each row where kinds have limits.
        inner_first: (m + 1,), first arc of each child's own network; empty where kinds have no limits.
        inner_nodes: (m,), nodes of these. inner: (4, n_inner_arcs), their tails, heads, least and most people.
        unit: cost of one person. snap: closer to a whole number than this counts as whole.
    """
    n, m, depth = estimate.shape[0], estimate.shape[1], chain.shape[0] - 1
    has_kinds = inner_nodes.shape[0] > 0
    n_entries: Whole = 0
    for i in range(n * m):
        n_entries += up[i]
    for j in range(inner_nodes.shape[0]):
        for i in range(n):
            if kind_of[i] >= inner_nodes[j] - 1 or (kind_of[i] < 0 and up[i * m + j]):
                raise IndexError("a row of a kind that has no node")
        for a in range(inner_first[j], inner_first[j + 1]):
            if min(inner[0, a], inner[1, a]) < 0 or max(inner[0, a], inner[1, a]) >= inner_nodes[j]:
                raise IndexError("an arc of a node that is not there")
    # A few tables in place of many arrays, which would cost more than small networks take to build.
    entries: IntTableOut = np.zeros((4, n_entries), dtype=np.int64)
    row: IntsOut = entries[0]
    child: IntsOut = entries[1]
    bottom: IntsOut = entries[2]  # node that an entry's unit comes from
    queue: IntsOut = entries[3]
    children: IntTableOut = np.zeros((2, m), dtype=np.int64)
    people: IntsOut = children[0]
    kinds_at: IntsOut = children[1]  # node of each child's first kind
    e: Whole = 0
    for i in range(n):
        for j in range(m):
            people[j] += whole[i, j]
            if up[i * m + j]:
                row[e], child[e] = i, j
                people[j] += 1
                e += 1

    number: IntTableOut = np.empty((max(depth, 1), n), dtype=np.int64)  # answers of each table, 0, 1, ...
    n_answers: IntsOut = np.zeros(max(depth, 1), dtype=np.int64)
    most_nodes: Whole = 2 + n
    largest: Whole = 0
    for t in range(depth):
        for i in range(n):
            largest = max(largest, chain[t, i] + 1)
    known: IntsOut = np.empty(largest, dtype=np.int64)
    largest = 0
    for t in range(depth):
        n_answers[t] = number_answers(chain[t], number[t], known)
        most_nodes += n_answers[t] * m if t == 0 else min(n_answers[t] * m, n_entries)
        largest = max(largest, n_answers[t] * m)
    n_tree: Whole = most_nodes
    n_inner = inner.shape[1]
    for j in range(inner_nodes.shape[0]):
        most_nodes += inner_nodes[j]
    most_arcs: Whole = n_entries + n_inner + 3 * n_tree + 1
    arc_table = np.empty((5, most_arcs), dtype=np.int64)
    node_table = np.zeros((6, most_nodes + 1), dtype=np.int64)
    arcs: IntTableOut = arc_table
    tails: IntsOut = arcs[0]
    heads: IntsOut = arcs[1]
    room: IntsOut = arcs[2]
    costs: IntsOut = arcs[3]
    flows: IntsOut = arcs[4]
    nodes: IntTableOut = node_table
    supplies: IntsOut = nodes[0]
    above: IntsOut = nodes[1]
    source: IntsOut = nodes[2]  # node above in the chain; -1: not of a table
    first_arc: IntsOut = nodes[3]
    last_arc: IntsOut = nodes[4]
    needed: IntsOut = nodes[5]
    for v in range(most_nodes):
        above[v], source[v] = -1, -1
    n_arcs: Whole = n_entries
    n_nodes: Whole = 1

    n_bounds, n_exact = lower.shape[0], lower.shape[0] + totals.shape[0]
    left_of: IntTableOut = np.empty((n_exact + exact.shape[0], m), dtype=np.int64)
    row_of: IntsOut = np.empty(n_exact + exact.shape[0], dtype=np.int64)
    bounds_left: IntTableOut = left_of[:n_bounds]
    bounds_row: IntsOut = row_of[:n_bounds]
    subtract_sums(bound_of, lower, whole, bounds_left, bounds_row)
    totals_left: IntTableOut = left_of[n_bounds:n_exact]
    totals_row: IntsOut = row_of[n_bounds:n_exact]
    subtract_sums(totals_of, totals, whole, totals_left, totals_row)
    exact_left: IntTableOut = left_of[n_exact:]
    exact_row: IntsOut = row_of[n_exact:]
    subtract_sums(exact_of, exact, whole, exact_left, exact_row)

    value: FloatsOut = np.zeros(largest)
    answers: IntTableOut = np.zeros((6, largest), dtype=np.int64)
    base: IntsOut = answers[0]
    most: IntsOut = answers[1]
    must: IntsOut = answers[2]
    a_row: IntsOut = answers[3]
    node: IntsOut = answers[4]
    node_before: IntsOut = answers[5]
    goal: Whole = 0
    part: float = 0.0
    weight: float = 0.0
    for t in range(depth):
        size = n_answers[t] * m
        weight = unit * weights[t]
        for c in range(size):
            base[c], value[c], most[c], must[c], a_row[c], node[c] = 0, 0.0, 0, 0, -1, -1
        for i in range(n):
            c = number[t, i] * m
            for j in range(m):
                base[c + j] += whole[i, j]
                value[c + j] += estimate[i, j]
        for e in range(n_entries):
            c = number[t, row[e]] * m + child[e]
            most[c] += 1
            a_row[c] = row[e]
        certain: Whole = 0
        for b in range(bound_table.shape[0]):
            if bound_table[b] == t:
                for j in range(m):
                    if bounds_left[b, j] > 0:
                        if bounds_row[b] < 0:
                            return None
                        must[number[t, bounds_row[b]] * m + j] = bounds_left[b, j]
        if t == 0 and totals.shape[0] > 0:
            certain = 1
            if not force(totals_left, totals_row, number[t], must):
                return None
        if t == exact_place and exact.shape[0] > 0:
            certain = 1
            if not force(exact_left, exact_row, number[t], must):
                return None
        for c in range(size):
            if most[c] == 0 and not (has_kinds and t == 0):
                if must[c] != 0:
                    return None
                continue
            if certain:
                most[c] = must[c]
            if must[c] < 0 or most[c] < must[c]:
                return None
            j, v = c % m, n_nodes
            n_nodes += 1
            node[c] = v
            tail: Whole = 0
            if t == 1 and has_kinds:
                tail = kinds_at[j] + kind_of[a_row[c]]
            elif t > 0:
                tail = node_before[number[t - 1, a_row[c]] * m + j]
            source[v] = tail
            supplies[tail] -= must[c]
            supplies[v] += must[c]
            first_arc[v] = n_arcs
            if most[c] > must[c]:
                # |base + y - value| for y = 0..most in pieces of constant slope; other arcs limit the last.
                goal = int(value[c] + snap)
                part = min(max(value[c] - goal, 0.0), 1.0)
                down = min(max(goal - base[c] - must[c], 0), most[c] - must[c])
                middle = min(max(goal + 1 - base[c] - must[c], 0), most[c] - must[c]) - down
                if down > 0 and weights[t] > 0:
                    tails[n_arcs], heads[n_arcs], room[n_arcs] = tail, v, down
                    costs[n_arcs] = nearest(-weight)
                    n_arcs += 1
                if middle > 0 and weights[t] > 0:
                    tails[n_arcs], heads[n_arcs], room[n_arcs] = tail, v, middle
                    costs[n_arcs] = nearest(weight * (1.0 - 2.0 * part))
                    n_arcs += 1
                tails[n_arcs], heads[n_arcs], room[n_arcs] = tail, v, n_entries + 1
                costs[n_arcs] = nearest(weight)
                n_arcs += 1
            last_arc[v] = n_arcs
        if t == 0 and has_kinds:
            for j in range(m):
                source[1 + j] = -1
                kinds_at[j] = n_nodes
                n_nodes += inner_nodes[j] - 1
        for e in range(n_entries):
            bottom[e] = node[number[t, row[e]] * m + child[e]]
        node, node_before = node_before, node
    if has_kinds:
        for i in range(n):
            for j in range(m):
                supplies[1 + j] += whole[i, j]
                if kind_of[i] >= 0:
                    supplies[kinds_at[j] + kind_of[i]] -= whole[i, j]
        for j in range(m):
            for a in range(inner_first[j], inner_first[j + 1]):
                tail = 1 + j if inner[0, a] == 0 else kinds_at[j] + inner[0, a] - 1
                head = 1 + j if inner[1, a] == 0 else kinds_at[j] + inner[1, a] - 1
                high = min(inner[3, a], people[j])
                if high < inner[2, a]:
                    return None
                tails[n_arcs], heads[n_arcs], room[n_arcs], costs[n_arcs] = tail, head, high - inner[2, a], 0
                n_arcs += 1
                supplies[tail] -= inner[2, a]
                supplies[head] += inner[2, a]
        if depth == 1:
            for e in range(n_entries):
                bottom[e] = kinds_at[child[e]] + kind_of[row[e]]

    # A sink a row; rows without a known sum share the first.
    sink: IntsOut = np.empty(n, dtype=np.int64)
    first_sink: Whole = n_nodes
    n_known: Whole = 0
    for i in range(n):
        n_known += sums[i] >= 0
    n_free: Whole = 1 if n_known < n else 0
    n_nodes += n_free
    left: Whole = 0
    given: Whole = 0
    everybody: Whole = 0
    for i in range(n):
        left, sink[i] = sums[i], first_sink
        for j in range(m):
            left -= whole[i, j]
            everybody += whole[i, j]
        if sums[i] >= 0:
            if left < 0:
                return None
            sink[i] = n_nodes
            supplies[n_nodes] = -left
            given += left
            n_nodes += 1
    at_home: Whole = -1  # arc of units that need not go anywhere, where nothing says how many there are
    if n_free:
        left = n_entries
        if totals.shape[0] > 0:
            left = -everybody - given
            for j in range(m):
                left += totals[0, j]
            if left < 0:
                return None
        else:
            at_home = n_arcs
            tails[n_arcs], heads[n_arcs], room[n_arcs], costs[n_arcs] = 0, first_sink, left + 1, 0
            n_arcs += 1
        supplies[first_sink] = -left
        given += left
    supplies[0] += given

    # Every sink takes its cheapest entries; the next hangs it to the tree.
    n_sinks = n_nodes - first_sink
    places: IntTableOut = np.zeros((2, n_sinks + 1), dtype=np.int64)
    start: IntsOut = places[0]
    place: IntsOut = places[1]
    weight = unit * weights[depth]
    for a in range(n_arcs):
        flows[a] = 0
    for e in range(n_entries):
        tails[e], heads[e], room[e] = bottom[e], sink[row[e]], 1
        costs[e] = nearest(weight * (1.0 - 2.0 * fraction[row[e], child[e]]))
        start[heads[e] - first_sink + 1] += 1
    for s in range(n_sinks):
        start[s + 1] += start[s]
        place[s] = start[s]
    for e in range(n_entries):
        s = heads[e] - first_sink
        queue[place[s]] = e
        place[s] += 1
    for s in range(n_sinks):
        v = first_sink + s
        taken: Whole = -supplies[v]
        if v == first_sink and at_home >= 0:
            taken = 0
            for e in range(n_entries):
                taken += heads[e] == v and costs[e] < 0
            above[v] = at_home
            flows[at_home] = -supplies[v] - taken
        if taken > start[s + 1] - start[s]:
            return None
        if taken < start[s + 1] - start[s]:
            take_cheapest(queue, start[s], start[s + 1], taken, costs)
            if above[v] < 0:
                above[v] = queue[start[s] + taken]
        for k in range(start[s], start[s] + taken):
            flows[queue[k]] = 1
            needed[bottom[queue[k]]] += 1
    for k in range(first_sink):
        v = first_sink - 1 - k
        if source[v] < 0:
            continue
        wanted = needed[v] - supplies[v]
        if wanted < 0:
            continue
        for a in range(first_arc[v], last_arc[v]):
            flows[a] = min(wanted, room[a])
            needed[source[v]] += flows[a]
            wanted -= flows[a]
            if flows[a] < room[a]:
                above[v] = a
                break
    cell_arcs = np.empty(n_entries, dtype=np.int64)
    cells: IntsOut = cell_arcs
    for e in range(n_entries):
        cells[e] = row[e] * m + child[e]
    return [
        *arc_table[:4, :n_arcs],
        node_table[0, :n_nodes],
        cell_arcs,
        arc_table[4, :n_arcs],
        node_table[1, :n_nodes],
    ]


def nearest(x: float) -> Whole:
    """Return the integer next to x; halves go away from zero."""
    return int(x + 0.5) if x >= 0.0 else -int(0.5 - x)


def number_answers(answers: Ints, number: IntsOut, known: IntsOut) -> Whole:
    """Give numbers to the answers that occur, in the order of their first rows; return how many there are.

    Args:
        known: a place for each answer, overwritten.
    """
    n: Whole = 0
    for i in range(answers.shape[0]):
        known[answers[i]] = -1
    for i in range(answers.shape[0]):
        a = answers[i]
        if known[a] < 0:
            known[a] = n
            n += 1
        number[i] = known[a]
    return n


def subtract_sums(group: Ints, answers: IntTable, whole: IntTable, left: IntTableOut, a_row: IntsOut) -> None:
    """Set `left` to answers minus the sums of whole parts by group, and `a_row` to some row of each group."""
    if answers.shape[0] == 0:
        return
    for g in range(answers.shape[0]):
        a_row[g] = -1
        for j in range(answers.shape[1]):
            left[g, j] = answers[g, j]
    for i in range(group.shape[0]):
        g = group[i]
        if g >= answers.shape[0]:
            raise IndexError("a row of a group that has no answer")
        if g >= 0:
            a_row[g] = i
            for j in range(answers.shape[1]):
                left[g, j] -= whole[i, j]


def force(left: IntTableOut, a_row: IntsOut, number: IntsOut, must: IntsOut) -> bool:
    """Make what an exact table still needs mandatory; False where it needs something and has no row."""
    m = left.shape[1]
    for g in range(left.shape[0]):
        for j in range(m):
            if a_row[g] >= 0:
                must[number[a_row[g]] * m + j] = left[g, j]
            elif left[g, j] != 0:
                return False
    return True


def take_cheapest(queue: IntsOut, first: Whole, last: Whole, n: Whole, costs: IntsOut) -> None:
    """Bring the n cheapest of a part of a queue of entries to its front, the next behind them (Hoare, 1961).

    Entries of equal cost follow each other by their scrambled numbers, so that no child is preferred.
    """
    low, high, target = first, last - 1, first + n
    while low < high:
        middle = queue[(low + high) // 2]
        cost, mixed = costs[middle], scrambled(middle)
        i, j = low, high
        while i <= j:
            e = queue[i]
            while costs[e] < cost or (costs[e] == cost and scrambled(e) < mixed):
                i += 1
                e = queue[i]
            e = queue[j]
            while costs[e] > cost or (costs[e] == cost and scrambled(e) > mixed):
                j -= 1
                e = queue[j]
            if i <= j:
                queue[i], queue[j] = queue[j], queue[i]
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            return


def scrambled(e: Whole) -> Whole:
    """Return a number of 32 bits, another for each number below 2^31, in no order (as in MurmurHash2)."""
    mixed: Whole = (e * 2654435761) & 4294967295
    mixed = ((mixed ^ (mixed >> 16)) * 1540483477) & 4294967295
    return mixed ^ (mixed >> 15)
