"""The worked examples of Census TopDown: what is known about leaves, and a table that must be refused.

Two-by-two tables whose margins are fixed at every leaf are Lemma 1, and Examples 2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topdown.errors import InfeasibleError
from topdown.solve.implied.group_theorems import GroupLeaf, Groups, group_leaf_system, implied_by_groups
from topdown.solve.implied.linear_systems import System

MarginTable = tuple[tuple[int, int], tuple[int, int]]  # table[row][column]
MARGIN_CELLS = ("h00", "h01", "h10", "h11")


@dataclass(frozen=True)
class LeafMargins:
    """Row sums and column sums of one leaf, persons.

    Raises:
        InfeasibleError: a negative sum, or rows and columns that add up to different totals.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]

    def __post_init__(self) -> None:
        if min(*self.rows, *self.columns) < 0 or sum(self.rows) != sum(self.columns):
            raise InfeasibleError(
                f"no table has the row sums {self.rows} and the column sums {self.columns}",
                code="I003",
                fix="correct the margins; both must add up to the number of records",
            )

    @property
    def least(self) -> int:
        """Smallest h[1,1] of a nonnegative table with these margins."""
        return self.columns[1] - min(self.columns[1], self.rows[0])

    @property
    def most(self) -> int:
        """Largest h[1,1] of a nonnegative table with these margins."""
        return min(self.rows[1], self.columns[1])

    def table(self, h11: int) -> MarginTable:
        """Return the table with these margins and this h[1,1]."""
        h01, h10 = self.columns[1] - h11, self.rows[1] - h11
        return (self.rows[0] - h01, h01), (h10, h11)


def implied_by_margins(leaves: Sequence[LeafMargins]) -> System:
    """Return the complete constraints of the sum of the leaves' tables, over h00, h01, h10, h11 (Lemma 1)."""
    rows = [sum(leaf.rows[a] for leaf in leaves) for a in (0, 1)]
    columns = [sum(leaf.columns[b] for leaf in leaves) for b in (0, 1)]
    return System.of(
        MARGIN_CELLS,
        [
            # solved for h11; the four margin sums have rank three
            ({"h00": 1, "h11": -1}, "=", rows[0] - columns[1]),
            ({"h01": 1, "h11": 1}, "=", columns[1]),
            ({"h10": 1, "h11": 1}, "=", rows[1]),
            ({"h11": 1}, ">=", sum(leaf.least for leaf in leaves)),
            ({"h11": 1}, "<=", sum(leaf.most for leaf in leaves)),
        ],
    )


def margin_leaf_system(leaves: Sequence[LeafMargins]) -> tuple[System, tuple[str, ...]]:
    """Return the definition itself, for elimination: leaf cells `h11@0`, ..., their margins, and the sums.

    Returns:
        the system over CELLS and the leaf cells, and the names of the leaf cells.
    """
    names = tuple(f"{cell}@{i}" for i in range(len(leaves)) for cell in MARGIN_CELLS)
    constraints: list[tuple[dict[str, int], str, int]] = [({name: 1}, ">=", 0) for name in names]
    for i, leaf in enumerate(leaves):
        for a in (0, 1):
            constraints.append(({f"h{a}0@{i}": 1, f"h{a}1@{i}": 1}, "=", leaf.rows[a]))
            constraints.append(({f"h0{a}@{i}": 1, f"h1{a}@{i}": 1}, "=", leaf.columns[a]))
    constraints.extend(
        ({cell: -1} | {f"{cell}@{i}": 1 for i in range(len(leaves))}, "=", 0) for cell in MARGIN_CELLS
    )
    return System.of((*MARGIN_CELLS, *names), constraints), names  # type: ignore[arg-type]


@dataclass(frozen=True)
class Example:
    """One worked example.

    Args:
        title: what it is about.
        facts: the leaves in words.
        leaves: the leaves as data.
        solved: whether equalities read best solved for their first variable.
        refused: a table that passes the naive checks and does not extend; empty if there is none to show.
        theorem: that gives the complete constraints.
    """

    title: str
    facts: tuple[str, ...]
    leaves: Groups | tuple[LeafMargins, ...]
    solved: bool
    refused: tuple[int, ...]
    theorem: str

    @property
    def implied(self) -> System:
        """The complete constraints by the theorem."""
        match self.leaves:
            case Groups() as groups:
                return implied_by_groups(groups)
            case leaves:
                return implied_by_margins(leaves)

    @property
    def definition(self) -> tuple[System, tuple[str, ...]]:
        """Leaf cells, their constraints, and the sums; and which variables to eliminate."""
        match self.leaves:
            case Groups() as groups:
                return group_leaf_system(groups)
            case leaves:
                return margin_leaf_system(leaves)


def _present(total: int, open_groups: str, lower: tuple[int, ...], names: tuple[str, ...]) -> GroupLeaf:
    return GroupLeaf(total, lower, tuple(name in open_groups for name in names))


_DORMS, _TYPES = ("F", "C", "M"), ("A", "B", "C")
_COUNTIES: tuple[tuple[str, int, str, tuple[int, ...]], ...] = (
    ("Suffolk", 150, "AC", (4, 0, 0)),
    ("Nassau", 134, "AC", (3, 0, 0)),
    ("Providence", 66, "AC", (5, 0, 0)),
    ("Washington", 13, "AB", (2, 1, 0)),
    ("Kent", 17, "AB", (1, 2, 0)),
    ("Newport", 8, "AB", (1, 1, 0)),
    ("Queens", 223, "C", (0, 0, 0)),
)
EXAMPLES: dict[str, Example] = {
    "college-town": Example(
        "a college town with female (F), co-ed (C) and male (M) dormitories (Example 1)",
        ("region 1: 98 people in F and C", "region 2: 98 people in C and M"),
        Groups(_DORMS, tuple(_present(98, there, (0, 0, 0), _DORMS) for there in ("FC", "CM"))),
        False,
        (48, 49, 99),
        "Theorem 3",
    ),
    "two-by-two": Example(
        "householder by voting age, margins fixed in two regions (Example 2)",
        ("region A: rows 6 and 16, columns 17 and 5", "region B: rows 15 and 5, columns 5 and 15"),
        (LeafMargins((6, 16), (17, 5)), LeafMargins((15, 5), (5, 15))),
        True,
        (),
        "Lemma 1",
    ),
    "appendix": Example(
        "margins that allow a table which does not extend (Example 3)",
        ("region A: rows 5 and 15, columns 15 and 5", "region B: rows 15 and 5, columns 5 and 15"),
        (LeafMargins((5, 15), (15, 5)), LeafMargins((15, 5), (5, 15))),
        True,
        (11, 9, 9, 11),
        "Lemma 1",
    ),
    "seven-counties": Example(
        "dormitories (A), nursing homes (B) and households (C) in seven counties (section 7.3)",
        tuple(
            f"{name}: {n} people in {' and '.join(there)}, at least {least}"
            for name, n, there, least in _COUNTIES
        ),
        Groups(_TYPES, tuple(_present(n, there, least, _TYPES) for _, n, there, least in _COUNTIES)),
        False,
        (35, 20, 556),
        "Theorems 3 to 7",
    ),
}
