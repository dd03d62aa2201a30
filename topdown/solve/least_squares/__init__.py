"""Constrained least squares: the problem, its quadratics, one driver of ADMM, one check of optimality, one policy."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.solve.least_squares.active_set import (
        ActiveSet,
        SplitSteps,
        finish_newton,
        is_root,
        is_split,
        solve_root,
    )
    from topdown.solve.least_squares.admm import Iterate, first_penalty, run
    from topdown.solve.least_squares.dense_steps import DenseStep, solve_small
    from topdown.solve.least_squares.interior_point import (
        StandardForm,
        feasible_set,
        polish,
        solve_by_interior_points,
        solve_polished,
        standard_form,
    )
    from topdown.solve.least_squares.kernels_tree import (
        apply_tree,
        entries_of_sums,
        project_from,
        sums_of_entries,
    )
    from topdown.solve.least_squares.lattice_step import LatticeStep
    from topdown.solve.least_squares.optimality import TARGET_PERSONS, infeasibility_persons, residual_persons
    from topdown.solve.least_squares.policy import PRICE, have_common_point, solve
    from topdown.solve.least_squares.problem import (
        Dense,
        LatticeQuadratic,
        PerChild,
        Problem,
        SoftRules,
        Solution,
        power_method,
        written_out,
    )
    from topdown.solve.least_squares.structured import (
        MOST_CROSSING,
        NestedAnswers,
        Partition,
        Structured,
        drop_uncertain_queries,
        n_answers,
        nest_answers,
        summing_matrix,
    )
    from topdown.solve.least_squares.structured_step import (
        RELAX,
        LinearStep,
        StructuredStep,
        build_tree,
        finish_root,
        finish_split,
    )

__getattr__ = lazy_face(__name__, __file__)
