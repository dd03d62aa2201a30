"""Check `intervals`: every interval follows from the written estimate, in whole thousandths, and estimates add up."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import erfc, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from topdown.arrays import Floats, Ints
from topdown.formats.verify_documents import Finding
from topdown.verify.exact_arithmetic import tally
from topdown.verify.findings import Findings
from topdown.verify.query_labels import Query
from topdown.verify.released_records import Table, TableEstimates, answer_label
from topdown.verify.session import Session

LEAST_ANSWERS, ANCESTORS = 16, 2  # of tables of leaves whose upper ends use the areas above; how many of them
PER_RECORD, PER_UNIT = 1000, 1_000_000  # thousandths of a record, millionths of a quantile
BELOW_COUNT = (
    850  # thousandths: how much nearer to the border of being listed an estimate is than its count says
)
NEAR = 10**-9  # of chances that two programs find for the same end
FAR, DEEP = 3, 36  # from where a tail is a continued fraction, and how many terms it has


@dataclass(frozen=True, eq=False)
class _PlacedTable:
    """A table with its place."""

    query: Query
    level: int
    table: Table
    numbers: TableEstimates
    exact: bool

    @property
    def free(self) -> NDArray[np.bool_]:
        """Rows that have an estimate of the tree."""
        return ~self.numbers.exact


def check_intervals(session: Session, out: Findings) -> str:
    """Recompute both ends of every interval, compare rows with what is open, and add estimates up."""
    plan, tree = session.plan, session.tree
    found: dict[tuple[str, int], _PlacedTable] = {}
    n_rows = n_outside = 0
    for query in plan.workload:
        for level in range(len(tree.names)):
            session.tell(f"intervals of {query.name}, {tree.names[level]}")
            table = session.table(query, level)
            if table.numbers is None or plan.coverage is None:
                raise TypeError("a table without intervals was read as one with them")
            at = _PlacedTable(query, level, table, table.numbers, _is_exact(session, query, level))
            found[query.name, level] = at
            out.n_checked += 1
            _check_listed_rows(session, out, at)
            _check_basis(session, out, at)
            outside = _check_ends(
                session, out, at, 1 - plan.coverage, _estimates_above(session, out, at, found)
            )
            if at.numbers.listed == "nonzero":
                _check_listed_ends(session, out, at, float(1 - plan.coverage))
            n_rows += int(at.free.sum())
            n_outside += int((outside & at.free).sum())
    for at in found.values():
        session.tell(f"sums of estimates of {at.query.name}, {tree.names[at.level]}")
        _check_children_sums(session, out, at, found)
        _check_finer_sums(session, out, at, found)
    if not out.ok:
        return f"{out.n_findings:,} rows do not have the interval of their estimate"
    tenths = (1000 * n_outside + n_rows // 2) // max(n_rows, 1)
    share = f"{n_outside:,} of {n_rows:,} counts ({tenths // 10}.{tenths % 10} %)"
    return f"intervals follow from estimates in {len(found)} tables; widened for {share} that lay outside"


def quantile(tail: Fraction) -> int:
    """Return the least whole number of millionths that a normal law exceeds with chance `tail` at most."""
    low, high = -1, 10 * PER_UNIT
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if erfc(middle / PER_UNIT / sqrt(2)) / 2 <= float(tail) else (middle, high)
    return high


def _is_exact(session: Session, query: Query, level: int) -> bool:
    """Tell whether a table adds up answers that are exact by policy at its level or below."""
    plan, names = session.plan, session.tree.names
    for rule in plan.rules.exact:
        if names.index(rule.level) < level:
            continue
        fine = plan.queries[rule.query].labels.astype(np.int64)
        pairs = np.unique(fine * query.n_answers + query.labels)
        if len(pairs) == len(np.unique(fine)):
            return True
    return False


def _report_rows(
    session: Session,
    out: Findings,
    at: _PlacedTable,
    rows: NDArray[np.bool_],
    text: str,
    shown: tuple[Ints, Ints] | None = None,
    number: str = "V113",
) -> None:
    for row in out.failures(np.flatnonzero(rows), 1):
        code, answer = _in_words(session, at, int(at.table.key[row]))
        values = ("", "") if shown is None else (str(shown[0][row]), str(shown[1][row]))
        out.kept.append(Finding(number, f"{answer}: {text}", at.table.path, row + 1, code, *values))


def _in_words(session: Session, at: _PlacedTable, key: int) -> tuple[str, str]:
    """Return the area of an answer, and both in words."""
    code = session.tree.code(at.level, key // at.query.n_answers)
    return code, f"{at.query.name} of {code} ({answer_label(at.query, key % at.query.n_answers)})"


def _check_listed_rows(session: Session, out: Findings, at: _PlacedTable) -> None:
    if at.numbers.listed == "nonzero":
        _report_rows(session, out, at, at.table.count == 0, "a zero is listed")
        return
    wanted = session.possible_answers.keys(at.query, at.level)
    for key in out.failures(np.setdiff1d(wanted, at.table.key, assume_unique=True), 1):
        code, answer = _in_words(session, at, key)
        out.kept.append(Finding("V113", f"{answer} has no row", at.table.path, None, code))
    _report_rows(session, out, at, ~np.isin(at.table.key, wanted), "public facts close this answer")


def _check_basis(session: Session, out: Findings, at: _PlacedTable) -> None:
    node = at.table.key // at.query.n_answers
    wanted = session.possible_answers.closed(at.level)[node] | at.exact
    _report_rows(
        session, out, at, wanted != at.numbers.exact, "the basis is not what plan and public facts say"
    )
    numbers = at.numbers
    off = wanted & ((numbers.estimate != PER_RECORD * at.table.count) | (numbers.stddev != 0))
    _report_rows(session, out, at, off, "an exact count has another estimate, or a deviation")
    _report_rows(session, out, at, numbers.stddev < 0, "a deviation is below zero")


def _estimates_above(
    session: Session, out: Findings, at: _PlacedTable, found: dict[tuple[str, int], _PlacedTable]
) -> list[tuple[Ints, Ints]]:
    """Return the written estimate and deviation of the same answer in the areas above, where they are used."""
    tree, n = session.tree, at.query.n_answers
    if at.level != len(tree.names) - 1 or n < LEAST_ANSWERS:
        return []
    node, answer, used = at.table.key // n, at.table.key % n, []
    for up in range(at.level - 1, max(at.level - 1 - ANCESTORS, -1), -1):
        node = tree.parent[up + 1][node]
        theirs = found[at.query.name, up]
        row = np.searchsorted(theirs.table.key, node * n + answer)
        there = np.append(theirs.table.key, -1)[row] == node * n + answer
        _report_rows(session, out, at, ~there, f"its {tree.names[up]} has no row for this answer")
        row[~there] = 0
        if not len(theirs.table.key):
            continue
        used.append((theirs.numbers.estimate[row], theirs.numbers.stddev[row]))
    return used


def _check_ends(
    session: Session, out: Findings, at: _PlacedTable, tails: Fraction, above: list[tuple[Ints, Ints]]
) -> NDArray[np.bool_]:
    """Compare both ends; return which counts lie outside the interval of the estimate alone."""
    unit = PER_RECORD * PER_UNIT
    estimate, spread, count = PER_UNIT * at.numbers.estimate, at.numbers.stddev, at.table.count
    least = -((quantile(tails / 2) * spread - estimate) // unit)
    most = (estimate + quantile(tails / (4 if above else 2)) * spread) // unit
    middle = (at.numbers.estimate + PER_RECORD // 2) // PER_RECORD
    empty = least > most
    least[empty] = most[empty] = middle[empty]
    for up, wide in above:
        most = np.minimum(most, (PER_UNIT * up + quantile(tails / 4 / len(above)) * wide) // unit)
    least, most = np.maximum(np.minimum(least, most), 0), np.maximum(most, 0)
    outside = np.asarray((count < least) | (count > most))
    least, most = np.minimum(least, count), np.maximum(most, count)
    for name, due, stated in (("low", least, at.numbers.low), ("high", most, at.numbers.high)):
        text = f"{name} does not follow from the estimate"
        _report_rows(session, out, at, due != stated, text, (due, stated))
    return outside


def _check_listed_ends(session: Session, out: Findings, at: _PlacedTable, tails: float) -> None:
    """Hold ends that are corrected for listing against the chances that define them, at each end and beside it."""
    numbers, count, half = at.numbers, at.table.count, tails / 2
    low, high = numbers.listed_low, numbers.listed_high

    def chance(x: Ints, rows: NDArray[np.bool_] | slice) -> Floats:
        return chance_given_listed(numbers.estimate[rows], numbers.stddev[rows], count[rows], x[rows])

    def least(x: Ints) -> Floats:
        return np.where(x <= 1, tails, half)

    wrong = (low < 0) | (low > count)
    inside = low < count
    wrong[inside] |= chance(low, inside) <= least(low[inside]) - NEAR
    above_zero = low > 0
    wrong[above_zero] |= chance(low - 1, above_zero) > least(low[above_zero] - 1) + NEAR
    beyond = high < count
    above = high > count
    beyond[above] |= chance(high, above) > 1 - half + NEAR
    beyond |= chance(high + 1, slice(None)) <= 1 - half - NEAR
    exact = numbers.exact
    wrong, beyond = np.where(exact, low != count, wrong), np.where(exact, high != count, beyond)
    for rows, name in ((wrong, "listed_low"), (beyond, "listed_high")):
        text = f"{name} does not follow from count, estimate and deviation"
        _report_rows(session, out, at, rows, text, number="V220")


def chance_given_listed(estimate: Ints, stddev: Ints, count: Ints, x: Ints) -> Floats:
    """Return Q(a) / Q(b): how often an estimate of a true count x that passes the border of being listed is as large.

    Args:
        estimate, stddev: thousandths; a = (estimate - x) / stddev, b is a less count - 0.85 deviations.
    """
    spread = np.maximum(stddev, 1)
    a = (estimate - PER_RECORD * x) / spread
    b = a - (PER_RECORD * count - BELOW_COUNT) / spread
    found, deep = np.empty(len(a)), b > FAR
    u, v = np.maximum(a[deep], FAR), b[deep]
    found[deep] = _tail_over_density(u) / _tail_over_density(v) * np.exp(-(u - v) * (u + v) / 2)
    found[~deep] = _upper_tail(a[~deep]) / _upper_tail(b[~deep])
    return found


def _upper_tail(z: Floats) -> Floats:
    """Return the chance that a normal law exceeds z, by a series near the middle and a fraction beyond."""
    size, tail = np.abs(z), np.empty(len(z))
    far = size > FAR
    near = term = total = size[~far]
    square = near**2
    for k in range(1, DEEP):
        term = term * square / (2 * k + 1)
        total = total + term
    tail[~far] = 1 / 2 - _density(near) * total
    beyond = np.minimum(size[far], 12 * FAR)  # less than 1e-280 further on
    tail[far] = _tail_over_density(beyond) * _density(beyond)
    return np.where(z < 0, 1 - tail, tail)


def _density(z: Floats) -> Floats:
    return np.exp(-(z**2) / 2) / sqrt(2 * pi)


def _tail_over_density(z: Floats) -> Floats:
    """Return Q(z) / density(z) by Laplace's continued fraction, z at least `FAR`."""
    found = z
    for k in range(DEEP, 0, -1):
        found = z + k / found
    return np.asarray(1 / found, dtype=np.float64)


def _check_children_sums(
    session: Session, out: Findings, at: _PlacedTable, found: dict[tuple[str, int], _PlacedTable]
) -> None:
    """Compare estimates with the sums of the areas below, where all rows are listed and none is exact."""
    if at.level + 1 == len(session.tree.names):
        return
    below = found[at.query.name, at.level + 1]
    node = session.tree.parent[at.level + 1][below.table.key // at.query.n_answers]
    keys = node * at.query.n_answers + below.table.key % at.query.n_answers
    _check_sums(session, out, at, below, keys)


def _check_finer_sums(
    session: Session, out: Findings, at: _PlacedTable, found: dict[tuple[str, int], _PlacedTable]
) -> None:
    """Compare estimates with the sums of every finer table of the same areas."""
    for query in session.plan.workload:
        n = query.n_answers
        if n <= at.query.n_answers:
            continue
        coarse = np.full(n, -1, dtype=np.int64)
        coarse[query.labels] = at.query.labels
        if (coarse[query.labels] == at.query.labels).all():
            fine = found[query.name, at.level]
            keys = fine.table.key // n * at.query.n_answers + coarse[fine.table.key % n]
            _check_sums(session, out, at, fine, keys)


def _check_sums(session: Session, out: Findings, at: _PlacedTable, parts: _PlacedTable, keys: Ints) -> None:
    if at.exact or parts.exact or "nonzero" in (at.numbers.listed, parts.numbers.listed):
        return
    keys, kept = keys[parts.free], parts.free
    numbers = parts.numbers.estimate[kept], parts.numbers.stddev[kept], np.ones_like(keys)
    there, found = tally(keys, np.stack(numbers, axis=1))
    sums, spread, n_parts = found.T
    row = np.searchsorted(at.table.key, there)
    row = row[row < len(at.table.key)]
    if len(row) != len(there) or (at.table.key[row] != there).any() or len(there) != int(at.free.sum()):
        return  # a row is missing: said above
    off, wide = np.zeros(len(at.table.key), dtype=bool), np.zeros(len(at.table.key), dtype=bool)
    off[row] = 2 * np.abs(at.numbers.estimate[row] - sums) > n_parts + 1
    wide[row] = 2 * (at.numbers.stddev[row] - spread) > n_parts + 1
    theirs = f"{parts.query.name} of its parts", f"its {session.tree.names[parts.level]}s"
    what = theirs[parts.level != at.level]
    _report_rows(session, out, at, off, f"the estimate is not the sum over {what}")
    _report_rows(session, out, at, wide, f"the deviation is above the sum over {what}")
