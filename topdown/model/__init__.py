"""Values of the engine: schemas, queries, geographies, tables of counts, constraints. No input or output."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.model.cell_sets import (
        NO_LIMIT,
        LaminarFamily,
        distinct_rows,
        equal_numbers,
        group_cells,
        laminar_family,
    )
    from topdown.model.constraint_system import (
        MAX_KINDS,
        CellPartition,
        ConstraintRow,
        ConstraintSystem,
        PublicFacts,
        exact_rows,
        leaf_rows,
        soft_rule_rows,
    )
    from topdown.model.exact_tables import (
        NO_TABLE_FITS,
        ExactArrangement,
        ExactMargins,
        ExactTable,
        MergedTable,
        NodeAnswers,
        arrange_exact_tables,
        complete_totals,
        exact_contradiction,
        exact_margins,
    )
    from topdown.model.feasibility import Contradiction, find_contradiction, smallest_conflict
    from topdown.model.geography import (
        Codes,
        DerivedValues,
        Geography,
        Level,
        codes_of,
        from_any_prefixes,
        from_columns,
        from_parents,
        from_prefixes,
        from_release_listing,
    )
    from topdown.model.histogram import (
        Counts,
        Histogram,
        LeafTable,
        NarrowColumns,
        PackedRows,
        PackedTable,
        narrow,
    )
    from topdown.model.invariants import (
        KEYS,
        KINDS,
        AtLeast,
        AtMost,
        Basis,
        ColumnBound,
        ConstraintTable,
        Exact,
        Invariants,
        InvariantsFile,
        LeafRule,
        Line,
        Never,
        NoneWhereZero,
        Selection,
        SoftRule,
    )
    from topdown.model.neighbour_analysis import (
        BOUNDLESS,
        BoundRule,
        KnownStatistic,
        NeighbourChange,
        ZeroRule,
        analyse_neighbours,
        tighten_bounds,
    )
    from topdown.model.query import (
        AttributeMapping,
        Factor,
        Query,
        common_refinement,
        compose_mappings,
        first_positions,
        group_values,
        identity_mapping,
        map_attributes,
        on_axis,
        parse_query,
        refines,
    )
    from topdown.model.schema import Attribute, Recode, Schema
    from topdown.model.sections import Sections, sections_of
    from topdown.model.split_polytopes import (
        FlowArcs,
        LimitReason,
        LimitUse,
        NodeNumbers,
        SplitConstraints,
        SplitForm,
        public_constraints,
        split_constraints,
    )
    from topdown.model.support import Support, base_labels

__getattr__ = lazy_face(__name__, __file__)
