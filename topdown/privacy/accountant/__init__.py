"""The exact, certified account of privacy loss.

Every answer is an `Enclosure` of the true value. Names are loaded when first asked for, so that a command line does
not wait for numpy.
"""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.privacy.accountant.account import (
        account_document,
        all_pairs,
        dhc2020_document,
        dhc_paths,
        pair_composition,
        parse_rhos,
        release_path,
        worst_epsilon,
    )
    from topdown.privacy.accountant.ball_quadrature import BallQuadrature
    from topdown.privacy.accountant.calibrate import (
        budget_scale,
        discrete_gaussian_variance,
    )
    from topdown.privacy.accountant.composition import Composition
    from topdown.privacy.accountant.conversions import (
        bun_steinke,
        canonne_kamath_steinke,
        solve_epsilon,
    )
    from topdown.privacy.accountant.events import (
        DiscreteGaussianEvent,
        FiniteLoss,
        Geometric,
        Mixture,
        PureDP,
        ReleaseEvent,
        delta_above,
    )
    from topdown.privacy.accountant.finite_losses import (
        ComposedLoss,
        NoisyCounts,
        PairLoss,
        PureLoss,
        compose_noise,
        worst_shift,
    )
    from topdown.privacy.accountant.float_quadrature import Quadrature, tilted
    from topdown.privacy.accountant.gaussian_loss import (
        ends,
        precision,
        quotient,
    )
    from topdown.privacy.accountant.trade_off import trade_off_from_deltas
    from topdown.privacy.accountant.whole_loss import BOUND_METHOD, WholeLoss

__getattr__ = lazy_face(__name__, __file__)
