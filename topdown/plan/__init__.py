"""From a run file to a plan; opens public files only."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.plan.drafts import RunFileAnswers, draft_files, read_code_list, run_file_text, values_by_rule
    from topdown.plan.exact_statistics import exact_paths, exact_table, exact_table_names, read_exact_table
    from topdown.plan.level_columns import find_level_columns
    from topdown.plan.plan_values import (
        Base,
        Estimates,
        LevelPlan,
        MeasurementPlan,
        Plan,
        parse_weights,
        plan_file,
        plan_from_document,
        read_plan,
    )
    from topdown.plan.planning import (
        MOST_FLOW_COST,
        MOST_ROUNDING_WEIGHT,
        calibrate_noise,
        check_solvable,
        check_supported,
        count_weights,
        make_plan,
        most_flow_nodes,
        optimal_weights,
    )
    from topdown.plan.preparation import PreparedRun, PublicContext, load_context, load_release_chain, prepare
    from topdown.plan.public_tables import (
        find_rows,
        geography_sha256,
        read_public,
        read_release_public,
        write_public,
    )
    from topdown.plan.release_chain import BaseRelease, ReleaseChain, refuse_resolved
    from topdown.plan.resolved_plan import SolveChanges, make_resolved_plan
    from topdown.plan.run_file import (
        BaseTable,
        GeographyTable,
        RunFile,
        load_invariants,
        load_run_file,
        load_schema,
    )
    from topdown.plan.settings import Budget, Pass, ReleaseInfo, load_settings

__getattr__ = lazy_face(__name__, __file__)
