"""Hierarchical group-size release: consistent, valid, faithful counts of groups by size for a tree of regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topdown.lazy import first_use

if TYPE_CHECKING:
    from pgsr.budget import Budget
    from pgsr.chain import chain_optimum
    from pgsr.checks import verify
    from pgsr.cumulative import cumulative_estimate
    from pgsr.hierarchy import Hierarchy, Tree, hierarchy_of, tree_of
    from pgsr.ledger import LedgerFile, binding_of, ledger_place, new_ledger
    from pgsr.make import release, simulate
    from pgsr.plan import Plan
    from pgsr.policy import Policy
    from pgsr.prepared import Release
    from pgsr.sizes import Sizes
    from pgsr.source import Source
    from pgsr.tree import tree_optimum

_PLACES = {
    "Budget": "budget",
    "Hierarchy": "hierarchy",
    "LedgerFile": "ledger",
    "Plan": "plan",
    "Policy": "policy",
    "Release": "prepared",
    "Sizes": "sizes",
    "Source": "source",
    "Tree": "hierarchy",
    "binding_of": "ledger",
    "chain_optimum": "chain",
    "cumulative_estimate": "cumulative",
    "hierarchy_of": "hierarchy",
    "ledger_place": "ledger",
    "new_ledger": "ledger",
    "release": "make",
    "simulate": "make",
    "tree_of": "hierarchy",
    "tree_optimum": "tree",
    "verify": "checks",
}

__all__ = [
    "Budget",
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
    "cumulative_estimate",
    "hierarchy_of",
    "ledger_place",
    "new_ledger",
    "release",
    "simulate",
    "tree_of",
    "tree_optimum",
    "verify",
]

__getattr__ = first_use(__name__, _PLACES)
