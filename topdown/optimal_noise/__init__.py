"""Noise of least expected loss for one query: laws, their certificates, and an independent check of both."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.optimal_noise.bounded_answers import (
        IntervalQuestion,
        cells_excess,
        constant_loss,
        lower_by_rows,
        upper_laws,
        worst_at,
    )
    from topdown.optimal_noise.certified_law import (
        Multipliers,
        OptimalLaw,
        certified_lower_bound,
        exp_bounds,
        worst_delta,
    )
    from topdown.optimal_noise.count_kernel import (
        BestKernel,
        CountQuestion,
        Kernel,
        additive_law,
        best_kernel,
        kernel_baselines,
        largest_excess,
        private_kernel,
    )
    from topdown.optimal_noise.design import optimal_law
    from topdown.optimal_noise.exact_laws import (
        LAW_BITS,
        least_tails,
        masses_of,
        plain_ratio,
        smallest_truncated,
        whole_weights,
    )
    from topdown.optimal_noise.integer_baselines import baselines
    from topdown.optimal_noise.linear_programs import (
        CompactLP,
        CoupledLP,
        KernelConstraint,
        Multiplier,
        NoSolutionError,
        lower_bound,
        solve_linear_program,
    )
    from topdown.optimal_noise.noise_request import (
        Absolute,
        ErrorLoss,
        NoiseRequest,
        Pinball,
        Promise,
        Square,
        TableLoss,
        factor_below,
        parse_loss,
    )
    from topdown.optimal_noise.rational_optimum import NotExactError
    from topdown.optimal_noise.real_noise import (
        ABSOLUTE,
        LATTICE_BITS,
        SQUARE,
        PiecewiseLinear,
        RealLoss,
        RealNoise,
        RealQuestion,
        analytic_gaussian_sigma,
        classic_gaussian_sigma,
        default_cells,
        geng_lower,
        lower_by_cells,
        rounded_law,
        sandwich,
        truncated_laplace,
        truncated_laplace_reach,
        upper_law,
    )
    from topdown.optimal_noise.splits import epsilon_needed, shared_noise

__getattr__ = lazy_face(__name__, __file__)
