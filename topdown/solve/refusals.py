"""Errors that several parts of the solver raise."""

from __future__ import annotations

from topdown.errors import InfeasibleError


def no_table_fits() -> InfeasibleError:
    """Return the error that an exact table excludes what is below it."""
    return InfeasibleError(
        "the exact table of a place contradicts the public facts or the exact statistics below it",
        code="I013",
        fix="correct the records or the public leaf table, or choose other invariants",
    )
