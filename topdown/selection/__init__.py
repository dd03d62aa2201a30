"""Private choices from confidential records: which sites, in which order, which combinations.

One-sided mechanisms on a Poisson sample (PROOF.md). Callers hand in public structure and private incidence; what
comes back is the choice and a privacy event, nothing else.
"""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.selection.chance import (
        Chance,
        LazyUniform,
        RealChance,
        Subsampling,
        bernoulli_power,
        exponential_choice,
        first_success,
        least_exponent,
        lift,
        poisson_sample,
        power_enclosure,
        rational_enclosure,
        root_below,
        subsampling,
    )
    from topdown.selection.districts import (
        Districts,
        Effort,
        chosen_by_district,
        grown,
        sites_by_district,
        swap_round,
    )
    from topdown.selection.frequent_symbols import Monitor, frequent, surely_heavy, threshold_for, watched
    from topdown.selection.incidences import (
        Covering,
        Incidence,
        Residents,
        Similarity,
        check_count,
        incidence,
        incidence_of_pairs,
    )
    from topdown.selection.orders import (
        FAILING,
        MOST_RECORDS,
        Clustering,
        Metric,
        Wanted,
        centres,
        cover_order,
        cover_order_by_choices,
        first_part,
        partial_cover,
        thresholds,
        weighted,
    )
    from topdown.selection.private_greedy import (
        CoverScore,
        FractionalCoverScore,
        NearestScore,
        Selection,
        greedy,
        max_cover,
        multi_cover,
        repeated_threshold,
    )
    from topdown.selection.selection_check import (
        AREAS,
        BASE,
        RATE,
        DataSet,
        FoundRatio,
        Ratios,
        check_selection,
        choice_law,
        mechanism,
        mechanism_laws,
        poisson_sampler,
        whole_sample,
        worst_ratios,
        worst_replacement,
    )

__getattr__ = lazy_face(__name__, __file__)
