"""The solve stage of an extension: base table and measurements in, leaf table out."""

from __future__ import annotations

from pathlib import Path

from topdown.plan.prepare import Context
from topdown.progress import Report, silent
from topdown.solve.extend.answers import ListedAnswers
from topdown.solve.extend.descend import Extension
from topdown.solve.extend.patterns import find_patterns
from topdown.solve.solve import Solved, descend, solved


def solve_extension(release: Path, context: Context, *, workers: int = 1, report: Report = silent) -> Solved:
    """Solve a whole extension; the result does not depend on the number of workers.

    Guarantees: the base table is reproduced at every leaf, zeros and lower bounds hold, levels add up.

    Raises:
        InfeasibleError: I020 the base table has no extension at some leaf; known before any noise is drawn.
    """
    extension = Extension(context, ListedAnswers(release, context), find_patterns(context))
    leaves, tally = descend(extension, context, workers, report)
    out = solved(context, leaves, tally)
    out.document["staged"] = True
    return out
