"""Functions of the public API by subject, the commands of both programs and their screens.

`COMMANDS` lists the commands of `topdown`. What they use beside the names of `import topdown` is here too, each name
imported when it is first used.
"""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.app.calls import require_release
    from topdown.app.commands.command import MEANT
    from topdown.app.commands.draft_dialogue import (
        DraftRequest,
        changes_to,
        check_request,
        drafted_by,
        fitting_invariants,
        ignoring_the_rest,
        kept_copy,
        levels_asked,
        read_leaves_columns,
        settings_beside,
        with_ledger_id,
    )
    from topdown.app.compare_noise import NoiseCompared, budget_for, certified_split
    from topdown.app.compare_noise import compare_noise as noise_beside
    from topdown.app.compare_plans import compare_plans as plans_beside
    from topdown.app.compare_plans import frame_of, write_decision
    from topdown.app.help_pages import FAMILIES, TITLES, TOPDOWN_PAGES, pages
    from topdown.app.implied_constraints import implied_of_leaves, implied_of_levels, implied_of_plan
    from topdown.app.input_reference import file_tables, key_texts, reference
    from topdown.app.make_release import check_start, measure, run_in_folder, spending
    from topdown.app.noise_law import (
        integer_noise,
        law_document,
        law_of,
        noise_document,
        read_law,
        real_noise,
        refuse_large,
    )
    from topdown.app.pipeline import RunOptions, generate_release
    from topdown.app.plan_summary import (
        budget_grid,
        expected_errors,
        fitted_by_no_pass,
        mean_deviations,
        spent_on_exact,
        tuned_for_others,
    )
    from topdown.app.plan_summary import plan_summary as summary_of
    from topdown.app.planned import changes, opened, opened_again
    from topdown.app.preflight import made_up_extension, made_up_people, make_miniature, write_as_charged
    from topdown.app.private_choice import check_folder, select, select_check
    from topdown.app.read_release import check_report, write_report
    from topdown.app.release_exports import EXPORTS, export_text, number_up
    from topdown.app.resource_needs import (
        BYTES_A_PAIR,
        START_BYTES,
        allowed_bytes,
        check_memory,
        check_open_files,
        memory_warning,
        needed_bytes,
        tree_fits,
    )
    from topdown.app.screens.noise_screen import make_dependent, refuse_mixed, show_continuous, whole_number
    from topdown.app.screens.plan_screen import (
        budget_for_wish,
        grid_of_wish,
        noise_comparison,
        plan_line,
        show_budget,
        show_changes,
        show_compared,
        show_noise_comparison,
        show_plan,
    )
    from topdown.app.tables_and_intervals import interval, tables
    from topdown.app.trials import write_simulation
    from topdown.app.tuned_run import tune_run
    from topdown.app.verify_by_solving import SOLVED_CHECK, verify_and_solve
    from topdown.formats.report_parts import LANGUAGES
    from topdown.measure.run_ledger import create_run_ledger, ledger_location_of_file, refuse_second_ledger
    from topdown.plan import read_plan
    from topdown.plan.drafts import RunFileAnswers, default_levels, run_file_text
    from topdown.plan.run_file import load_run_file, load_schema
    from topdown.plan.settings import load_settings
    from topdown.privacy.accountant.account import account_document, dhc2020_document
    from topdown.privacy.ledger.charged_run import charged_for
    from topdown.privacy.statement import trade_off_svg
    from topdown.publish.release_certificate import certified_loss, first_loss
    from topdown.verify.verify_choice import is_choice

COMMANDS = {
    "Make a release": {
        "demo": ("Make and check a release of a made-up county.", "demo_command"),
        "init": ("Write a complete, commented run file.", "init_command"),
        "ledger": (
            "Make the ledger of a data set, show it, or write down what happened to it.",
            "ledger_command",
        ),
        "plan": ("Show what a release would measure, at what cost; spend nothing.", "plan_commands"),
        "tune": ("Write a run file with shares that suit the tree estimate.", "plan_commands"),
        "generate": ("Spend the budget once and write the release.", "release_commands"),
        "measure": ("Spend the budget once and write noisy answers only.", "release_commands"),
        "resolve": ("Solve the measurement of a release in another way.", "release_commands"),
        "extend": ("Extend a release by new attributes and keep its table.", "release_commands"),
        "select": ("Make a private choice from the records and charge it to the ledger.", "select_command"),
        "synth": ("Write made-up records and areas to practise with.", "practice_commands"),
        "simulate": ("Show the error that releases of a plan would have.", "practice_commands"),
    },
    "Check a release": {
        "verify": ("Check a release from its files alone.", "check_commands"),
        "audit": ("Compute the privacy loss of a plan or release, in proved bounds.", "audit_command"),
        "evaluate": ("Compare a release with the confidential records.", "check_commands"),
        "interval": ("Print intervals for counts of any union of areas.", "check_commands"),
        "tables": ("Write tables of a release for ordinary programs.", "check_commands"),
        "report": ("Write a report of a release or choice for people, as one HTML file.", "report_command"),
        "export": ("Write what catalogues ask of a release or choice.", "report_command"),
    },
    "Look things up": {
        "account": ("Compute the exact privacy loss of composed measurements.", "account_command"),
        "noise": ("Make the best noise for one answer, with its proof.", "noise_command"),
        "explain": ("Print the page of an error code.", "lookup_commands"),
        "implied": ("Show what invariants imply for areas above the leaves.", "implied_command"),
        "schema": (
            "Print the JSON Schema of a document, or the reference of an input file.",
            "lookup_commands",
        ),
        "completion": ("Print the completion script of a shell.", "lookup_commands"),
    },
}
"""Title of a section -> command -> (first line of its help, module of `topdown.app.commands` that declares it)."""

__getattr__ = lazy_face(__name__, __file__)
