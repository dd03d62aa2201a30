"""Estimators of group sizes: from noisy answers and public numbers to whole, consistent counts with intervals.

`MECHANISMS` lists them by name and `estimate` runs one; nothing here reads anything confidential. Compiled kernels and
single estimators are named for tests and benchmarks.
"""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from pgsr.estimators.cumulative import TreeLeastSquares, cumulative_estimate, track
    from pgsr.estimators.exact_optima import (
        chain_estimate,
        chain_optimum,
        chain_order,
        descend,
        relaxed_histograms,
        tree_optimum,
    )
    from pgsr.estimators.exact_programs import (
        full_table_optimum,
        model1_exact,
        model2_exact,
    )
    from pgsr.estimators.kernels_isotonic import exceeds, isotonic_rows, isotonic_rows_real, kernel
    from pgsr.estimators.kernels_rows import choose_columns_and_rows, steady_tails
    from pgsr.estimators.kernels_shrinkage import (
        LEAST_SPREAD,
        PHI_START,
        SPREAD_PASSES,
        TRUST_ROUNDS,
        fit_tree_rows,
        shrink_siblings,
    )
    from pgsr.estimators.kernels_split import split, split_bounded
    from pgsr.estimators.large_groups import (
        ColumnsAndRows,
        DecodedAnswers,
        Groups,
        RowsDesign,
        all_answers,
        exact_answers,
        is_asked,
        match_groups,
        match_rows,
        median_isotonic,
        rows_answers,
        rows_answers_of_level,
    )
    from pgsr.estimators.mechanism import (
        MEANING,
        MECHANISMS,
        OF_MODEL,
        OF_NOISE,
        PARENT,
        Estimate,
        Mechanism,
        count_bounds,
        estimate,
        half_width,
        inverse_variance,
        mechanism_named,
        vector_kind,
    )
    from pgsr.estimators.shrinkage import (
        add_up_known,
        constrained_estimate,
        estimate_from_rows,
        shrink_to_parent,
        smooth_counts,
        smooth_counts_by_cell,
        whole_counts,
        whole_totals,
    )

__all__ = [
    "LEAST_SPREAD",
    "MEANING",
    "MECHANISMS",
    "OF_MODEL",
    "OF_NOISE",
    "PARENT",
    "PHI_START",
    "SPREAD_PASSES",
    "TRUST_ROUNDS",
    "ColumnsAndRows",
    "DecodedAnswers",
    "Estimate",
    "Groups",
    "Mechanism",
    "RowsDesign",
    "TreeLeastSquares",
    "add_up_known",
    "all_answers",
    "chain_estimate",
    "chain_optimum",
    "chain_order",
    "choose_columns_and_rows",
    "constrained_estimate",
    "count_bounds",
    "cumulative_estimate",
    "descend",
    "estimate",
    "estimate_from_rows",
    "exact_answers",
    "exceeds",
    "fit_tree_rows",
    "full_table_optimum",
    "half_width",
    "inverse_variance",
    "is_asked",
    "isotonic_rows",
    "isotonic_rows_real",
    "kernel",
    "match_groups",
    "match_rows",
    "mechanism_named",
    "median_isotonic",
    "model1_exact",
    "model2_exact",
    "relaxed_histograms",
    "rows_answers",
    "rows_answers_of_level",
    "shrink_siblings",
    "shrink_to_parent",
    "smooth_counts",
    "smooth_counts_by_cell",
    "split",
    "split_bounded",
    "steady_tails",
    "track",
    "tree_optimum",
    "vector_kind",
    "whole_counts",
    "whole_totals",
]

__getattr__ = lazy_face(__name__, __file__)
