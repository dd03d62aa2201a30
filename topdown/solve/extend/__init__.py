"""Extend a published table by new attributes: same splits, with the base table as the first, exact table."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.solve.extend.extension_checks import (
        check_stages,
        crossing_answers,
        extension_verdicts,
        split_sizes,
    )
    from topdown.solve.extend.extension_solver import make_extension_solver, solve_stage
    from topdown.solve.extend.patterns import Patterns, assign_reserves, find_patterns, own_demands
    from topdown.solve.extend.stages import Stage, StageRows, stage_problem, stage_queries

__getattr__ = lazy_face(__name__, __file__)
