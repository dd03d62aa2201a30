"""Estimators of group sizes: from noisy answers and public numbers to whole, consistent counts with intervals.

`MECHANISMS` lists them by name and `estimate` runs one; nothing here reads anything confidential. Kernels and
single estimators are named for tests and benchmarks.
"""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from pgsr.estimators.count_intervals import (
        COVERAGES,
        MEANING,
        OF_MODEL,
        OF_NOISE,
        CountPosterior,
        count_bounds,
        half_width,
    )
    from pgsr.estimators.cumulative import TreeLeastSquares, cumulative_estimate, track
    from pgsr.estimators.exact_optima import (
        chain_estimate,
        chain_optimum,
        chain_order,
        descend,
        relaxed_histograms,
        tree_optimum,
    )
    from pgsr.estimators.kernels_intervals import (
        Adapted,
        LevelAnswers,
        adapt_to_region,
        fit_adapted,
        fit_neighbours,
        fit_siblings,
        fit_tails,
    )
    from pgsr.estimators.kernels_isotonic import exceeds, fit_tree_rows, isotonic_rows, isotonic_rows_real
    from pgsr.estimators.kernels_paths import (
        PathBuffers,
        choose_columns_and_rows,
        path_posterior,
        steady_tails,
        weigh_large,
    )
    from pgsr.estimators.kernels_split import split, split_bounded
    from pgsr.estimators.large_groups import (
        ColumnsAndRows,
        Groups,
        RowsDesign,
        all_answers,
        exact_answers,
        match_groups,
        median_isotonic,
        rows_answers,
        rows_answers_of_level,
    )
    from pgsr.estimators.mechanism import (
        DEFAULT,
        MECHANISMS,
        Estimate,
        Mechanism,
        estimate,
        inverse_variance,
        mechanism_named,
        vector_kind,
    )
    from pgsr.estimators.shrinkage import (
        CLUSTERED,
        Answers,
        SmoothPrior,
        add_up_known,
        clustering_of_large,
        constrained_estimate,
        fitted_totals,
        smooth_counts,
        whole_counts,
        whole_totals,
    )
    from pgsr.estimators.sibling_covariance import (
        Differences,
        Siblings,
        best_linear,
        bridge,
        fit_differences,
        join_answers,
        rates_apart,
        shrink_jointly,
        variance_of_shared_noise,
    )

__getattr__ = lazy_face(__name__, __file__)
