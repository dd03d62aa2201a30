"""Hierarchical group-size release: consistent, valid, faithful counts of groups by size for a tree of regions."""

from __future__ import annotations

from topdown.lazy import lazy_face

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pgsr.comparison import Comparison, compare
    from pgsr.estimators import chain_optimum, cumulative_estimate, tree_optimum
    from pgsr.group_checks import verify
    from pgsr.hierarchy import Hierarchy, Sizes, Tree, hierarchy_of, tree_of
    from pgsr.level_noise import Budget
    from pgsr.prepared_release import Release
    from pgsr.releasing import release, simulate
    from pgsr.run_settings import LedgerFile, Plan, Policy, Source, binding_of, ledger_place, new_ledger, plan

__all__ = [
    "Budget",
    "Comparison",
    "Hierarchy",
    "LedgerFile",
    "Plan",
    "Policy",
    "Release",
    "Sizes",
    "Source",
    "Tree",
    "binding_of",
    "chain_optimum",
    "compare",
    "cumulative_estimate",
    "hierarchy_of",
    "ledger_place",
    "new_ledger",
    "plan",
    "release",
    "simulate",
    "tree_of",
    "tree_optimum",
    "verify",
]

__getattr__ = lazy_face(__name__, __file__)


def __dir__() -> list[str]:
    """List the public names."""
    return list(__all__)
