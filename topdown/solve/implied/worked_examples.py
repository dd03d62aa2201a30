"""The worked examples of Census TopDown: what is known about leaves, and a table that must be refused."""

from __future__ import annotations

from dataclasses import dataclass

from topdown.solve.implied import group_theorems as groups
from topdown.solve.implied import margin_theorems as margins
from topdown.solve.implied.group_theorems import GroupLeaf, Groups
from topdown.solve.implied.linear_systems import System
from topdown.solve.implied.margin_theorems import LeafMargins


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
        return (
            groups.implied(self.leaves) if isinstance(self.leaves, Groups) else margins.implied(self.leaves)
        )

    @property
    def definition(self) -> tuple[System, tuple[str, ...]]:
        """Leaf cells, their constraints, and the sums; and which variables to eliminate."""
        module = groups if isinstance(self.leaves, Groups) else margins
        found: tuple[System, tuple[str, ...]] = module.leaf_system(self.leaves)
        return found


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
