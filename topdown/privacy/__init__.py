"""Differential privacy: relation, noise distributions, exact sampling, accounting, ledger, and what is said of them.

Names are loaded when first asked for, so that a command line does not wait for numpy.
"""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.privacy.bits import AesBits, BitSource, SimulationBits
    from topdown.privacy.exact_values import (
        Enclosure,
        delta_of,
        fixed,
        rational,
        significant,
        threshold,
    )
    from topdown.privacy.fixed_point import TailSums, divide_up, exp_neg, shift_up, tail_sums
    from topdown.privacy.laws.distribution import bernoulli, bernoulli_exp, uniform_below
    from topdown.privacy.laws.gaussian import acceptance_exponent
    from topdown.privacy.relation import RELATIONS, Relation, stated_changes, steps_between
    from topdown.privacy.sampler import (
        UNDECIDED,
        Sampler,
        certified_thresholds,
        draw_one,
        has_table,
        locate,
        table_of,
    )
    from topdown.privacy.statement import (
        ChainStep,
        Claim,
        Measurement,
        StatementWords,
        accuracy_percent,
        attack_sentence,
        attribute_rows,
        composed_deltas,
        loss_numbers,
        protected_attributes,
        trade_off_svg,
    )

__getattr__ = lazy_face(__name__, __file__)
