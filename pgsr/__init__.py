"""Hierarchical group-size release: consistent, valid, faithful counts of groups by size for a tree of regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgsr.chain import chain_optimum
    from pgsr.checks import verify
    from pgsr.cumulative import CumulativeEstimate, cumulative_estimate
    from pgsr.hierarchy import Hierarchy, Tree, hierarchy_of, tree_of
    from pgsr.ledger import ledger_place, new_ledger
    from pgsr.make import release
    from pgsr.prepared import Release
    from pgsr.tree import TreeCertificate, tree_optimum

_PLACES = {
    "CumulativeEstimate": "cumulative",
    "Hierarchy": "hierarchy",
    "Release": "prepared",
    "Tree": "hierarchy",
    "TreeCertificate": "tree",
    "chain_optimum": "chain",
    "cumulative_estimate": "cumulative",
    "hierarchy_of": "hierarchy",
    "ledger_place": "ledger",
    "new_ledger": "ledger",
    "release": "make",
    "tree_of": "hierarchy",
    "tree_optimum": "tree",
    "verify": "checks",
}

__all__ = [
    "CumulativeEstimate",
    "Hierarchy",
    "Release",
    "Tree",
    "TreeCertificate",
    "chain_optimum",
    "cumulative_estimate",
    "hierarchy_of",
    "ledger_place",
    "new_ledger",
    "release",
    "tree_of",
    "tree_optimum",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `pgsr --help` loads no compiler and no data library."""
    if name not in _PLACES:
        raise AttributeError(f"module 'pgsr' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"pgsr.{_PLACES[name]}"), name)
    globals()[name] = found
    return found
