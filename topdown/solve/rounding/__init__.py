"""From fractional tables to whole people: the chain of tables, its flow network, and the rounding with its proof."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.solve.rounding.chain import (
        NoFlow,
        NoFlowReason,
        RoundingChain,
        bound_positions,
        chain_of,
        fitting_tables,
        laminar_positions,
    )
    from topdown.solve.rounding.flow_network import UNIT, RoundingProblem, build_network
    from topdown.solve.rounding.rounding import LARGEST_COST, check_rounding, round_by_milp, round_table

__all__ = [
    "LARGEST_COST",
    "UNIT",
    "NoFlow",
    "NoFlowReason",
    "RoundingChain",
    "RoundingProblem",
    "bound_positions",
    "build_network",
    "chain_of",
    "check_rounding",
    "fitting_tables",
    "laminar_positions",
    "round_by_milp",
    "round_table",
]

__getattr__ = lazy_face(__name__, __file__)
