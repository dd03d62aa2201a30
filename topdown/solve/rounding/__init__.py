"""From fractional tables to whole people: the chain of tables, its flow network, and the rounding with its proof."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.solve.rounding.chain import (
        NoFlow,
        NoFlowReason,
        RoundingChain,
        laminar_positions,
        level_bounds,
    )
    from topdown.solve.rounding.flow_network import (
        UNIT,
        RoundingProblem,
        build_network,
        whole_parts,
    )
    from topdown.solve.rounding.rounding import check_rounding, round_by_milp, round_table

__getattr__ = lazy_face(__name__, __file__)
