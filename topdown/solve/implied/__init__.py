"""What facts about leaves imply for every node above them (Census TopDown, section 7 and appendix)."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.solve.implied.area_constraints import (
        Combination,
        NodeConstraints,
        facets,
        kind_names,
        node_constraints,
        node_lines,
        selection_text,
    )
    from topdown.solve.implied.group_theorems import (
        Combinations,
        GroupLeaf,
        Groups,
        assign_to_groups,
        extend,
        flow_system,
        implied,
        leaf_system,
        maximum_flow,
        violated_subset,
    )
    from topdown.solve.implied.level_verdicts import (
        Verdict,
        VerdictInputs,
        arranged_tables,
        judge_levels,
        plan_verdicts,
        public_constraints,
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
        minimal_system,
        nonnegative_combination,
        row_text,
        system_lines,
    )
    from topdown.solve.implied.margin_theorems import LeafMargins, MarginTable, flat_table
    from topdown.solve.implied.worked_examples import EXAMPLES, Example

__all__ = [
    "EXAMPLES",
    "Combination",
    "Combinations",
    "Example",
    "GroupLeaf",
    "Groups",
    "LeafMargins",
    "MarginTable",
    "NodeConstraints",
    "Relation",
    "Row",
    "System",
    "Verdict",
    "VerdictInputs",
    "arranged_tables",
    "assign_to_groups",
    "eliminate",
    "equivalent",
    "extend",
    "facets",
    "flat_table",
    "flow_system",
    "implied",
    "is_implied",
    "judge_levels",
    "kind_names",
    "leaf_system",
    "maximum_flow",
    "minimal_system",
    "node_constraints",
    "node_lines",
    "nonnegative_combination",
    "plan_verdicts",
    "public_constraints",
    "row_text",
    "selection_text",
    "system_lines",
    "verdicts",
    "violated_subset",
    "worst_case_facts",
]

__getattr__ = lazy_face(__name__, __file__)
