"""Practice without confidential records: made-up censuses, simulated releases, tuned shares, audits by runs."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.practice.audit_by_runs import (
        GuessCut,
        LikelihoodRatios,
        choose_cuts,
        guess_rates,
        learned_score,
        loss_of,
        shown_loss,
    )
    from topdown.practice.neighbour_pairs import NeighbourPair, find_pairs, queries_of
    from topdown.practice.repeated_draws import PairAnswers, PairRuns
    from topdown.practice.simulation import (
        ErrorSums,
        Replicate,
        Simulation,
        open_simulation,
        open_truth,
    )
    from topdown.practice.tune_shares import (
        UniformDeviations,
        WantedDeviations,
        best_shares,
        uniform_deviations,
    )

__getattr__ = lazy_face(__name__, __file__)
