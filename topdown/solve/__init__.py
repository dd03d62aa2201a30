"""From noisy answers to whole people that add up; sees public files only."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.solve.flows import LARGEST_COST, Network, is_feasible, is_optimal, minimum_cost_flow
    from topdown.solve.group_constraints import (
        Bounds,
        FixedTable,
        LowerBounds,
        RowGroups,
        SubsetLimits,
        group_sums,
        occurring,
    )
    from topdown.solve.kernels_family import is_sound, solve_family
    from topdown.solve.kernels_shared import (
        gram,
        has_negative_cycle,
        leave_gap,
        linear_term,
        separating_weight,
        worst_violation,
    )
    from topdown.solve.lattice import Lattice, information, make_lattice, query_of_labels
    from topdown.solve.least_squares.kernels_admm import project_base, project_segments
    from topdown.solve.noisy_answers import (
        AnswersInMemory,
        ListedAnswers,
        MeasurementParts,
        MeasurementReader,
        MemorySource,
    )
    from topdown.solve.objectives import WIDE_CELLS, CellFit, OwnObjective, PassRows, structured_quadratic
    from topdown.solve.published_gap import GapReport, objective_gap
    from topdown.solve.release_facts import LevelModel, exact_tables, exact_totals, facts_of_release
    from topdown.solve.second_solve import CHANGED, SecondSolve, compare_with_published
    from topdown.solve.slices import (
        Slice,
        SliceState,
        WorkerState,
        make_partitioner,
    )
    from topdown.solve.solve_stage import (
        Solved,
        choose_cut,
        open_release,
        records_sha256,
        solve_document,
        solve_folder,
        solve_tree,
        try_exact_statistics,
    )
    from topdown.solve.solved_parts import (
        Checkpoints,
        LevelTally,
        Node,
        Tally,
        checkpoint_spans,
        node_runs,
        unpack_nodes,
    )
    from topdown.solve.table_changes import (
        SoftRuleRepair,
        can_split,
        child_totals,
        find_node_conflict,
        least_change,
        relax_to_feasible,
    )
    from topdown.solve.top_down import TopDownSolver, make_top_down_solver
    from topdown.solve.tree_solver import TreeSolver

__getattr__ = lazy_face(__name__, __file__)
