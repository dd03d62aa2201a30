"""Do constraints exclude each other, or the public facts? The lowest node and a smallest conflicting set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topdown.errors import InfeasibleError
from topdown.model.collect import state
from topdown.model.constraint import Invariants
from topdown.model.constraint_table import Ints
from topdown.model.geography import Geography
from topdown.model.public import PublicFacts
from topdown.model.schema import Schema
from topdown.model.smallest import MAX_TESTS, smallest_conflict


@dataclass(frozen=True)
class Contradiction:
    """Constraints that exclude each other at a node; each of them can be met there once another is left out.

    Args:
        level, node: the first node of the lowest level where constraints meet.
        leaf: the node if it is a leaf, else empty.
        names: of the constraints.
        is_smallest: whether no smaller set conflicts there; if not, the search was cut short (`MAX_TESTS`).
        is_public: whether public facts alone exclude each other.
    """

    level: str
    node: str
    leaf: str
    names: tuple[str, ...]
    is_smallest: bool = True
    is_public: bool = False

    def error(self) -> InfeasibleError:
        """Return the refusal. It names constraints and the node, never an exact statistic's value."""
        n = len(self.names)
        said = "a constraint cannot be met" if n == 1 else f"{n} constraints exclude each other"
        details = [("constraint", name) for name in self.names]
        if not self.is_smallest:
            details.append(("note", "none of these can be left out, but fewer others may exclude each other"))
        where = "the public leaf table" if self.is_public else "the records or the public leaf table"
        return InfeasibleError(
            f"{said} at {self.level} {self.node}",
            code="I014" if self.is_public else "I002",
            node=self.node,
            details=tuple(details),
            fix=f"correct {where}, or leave out one of these constraints; nothing was spent",
        )


def find_contradiction(
    schema: Schema,
    geography: Geography,
    invariants: Invariants,
    facts: PublicFacts,
    exact: Mapping[str, Ints],
    *,
    max_tests: int = MAX_TESTS,
) -> Contradiction | None:
    """Find a conflict of a release's constraints, or None if a population satisfies them all.

    Answers of exact tables above the leaves are checked one by one (`promises`): there None means no conflict of this
    kind, not that a population exists. Soft rules are left aside; breaking them is allowed.

    Args:
        schema, geography, invariants, facts: of the release.
        exact: answers of exact statistics by name, int64 (n_nodes, n_answers); those not known yet are left out.
        max_tests: feasibility tests of the search for a smallest set; beyond it the set is only irreducible.

    Raises:
        ConfigError: bounds share cells without being nested (C073).

    Cost: one pass over the tree; if there is a conflict, at most `max_tests` passes below one node.
    """
    promises = state(schema, geography, invariants, facts, exact)
    found = promises.without_population(promises.all)
    if found is None:
        return None
    depth, node = found
    here = promises.below(depth, node)
    candidates = sorted(here.relevant)

    def conflicts(chosen: frozenset[int]) -> bool:
        return here.without_population(frozenset(candidates[i] for i in chosen)) is not None

    conflict = smallest_conflict(len(candidates), conflicts, max_tests=max_tests)
    named = [promises.rules[candidates[i]] for i in sorted(conflict.members)]
    code = geography.levels[depth].codes[node]
    return Contradiction(
        geography.levels[depth].name,
        code,
        code if depth == len(geography.levels) - 1 else "",
        tuple(name for _, name in named),
        conflict.is_smallest,
        all(kind != "exact" for kind, _ in named),
    )
