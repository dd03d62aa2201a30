"""One estimate for the whole tree: generalised least squares over all levels, its variances, its check."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.solve.tree.coverage import (
        LatticeForm,
        check_intervals,
        check_solve,
        choose_levels,
        lattice_form,
        most_dense_rows,
    )
    from topdown.solve.tree.normal_equations import LeafPath, Measured, normal_residual_persons
    from topdown.solve.tree.plan_deviations import (
        answer_variance,
        axis_factors,
        expected_deviations,
        union_quadratic,
    )
    from topdown.solve.tree.published_estimates import TreeEstimates, tree_estimates
    from topdown.solve.tree.tree_estimate import (
        Covariances,
        ExactAtRoot,
        condition_on_root,
        make_tree,
        open_values,
        regular_inverse,
        spread_evenly,
    )
    from topdown.solve.tree.tree_objective import TreeStatistics, exact_at_root

__getattr__ = lazy_face(__name__, __file__)
