"""What facts about leaves imply for every node above them (Census TopDown, section 7 and appendix)."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.solve.implied.area_constraints import (
        facets,
        kind_names,
        node_constraints,
        selection_text,
    )
    from topdown.solve.implied.group_theorems import (
        Combinations,
        GroupLeaf,
        Groups,
        group_leaf_system,
        implied_by_groups,
    )
    from topdown.solve.implied.level_verdicts import (
        VerdictInputs,
        judge_levels,
        plan_verdicts,
        verdicts,
        worst_case_facts,
    )
    from topdown.solve.implied.linear_systems import (
        Relation,
        Row,
        System,
        eliminate,
        equivalent,
        is_implied,
        row_text,
        system_lines,
    )
    from topdown.solve.implied.worked_examples import (
        EXAMPLES,
        Example,
        LeafMargins,
        implied_by_margins,
        margin_leaf_system,
    )

__getattr__ = lazy_face(__name__, __file__)
