"""Functions of the public API by subject, the commands of both programs and their screens.

What commands use beside the names of `import topdown` is here, each name imported when it is first used.
"""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.app.calls import add_spend_note, require_release, spent_so_far
    from topdown.app.compare_noise import NoiseCompared, certified_split
    from topdown.app.help_pages import (
        FAMILIES,
        REFERENCE_TEXTS,
        TITLES,
        TOPDOWN_PAGES,
        file_tables,
        pages,
        reference,
    )
    from topdown.app.make_release import check_start, measure
    from topdown.app.noise_law import law_document, law_of, noise_document, read_law
    from topdown.app.pipeline import RunOptions, generate, solve_release, warm_up
    from topdown.app.plan_summary import (
        fitted_by_no_pass,
        mean_deviations,
        spent_on_exact,
        tuned_for_others,
        view_ledger,
    )
    from topdown.app.planned import opened, opened_again
    from topdown.app.preflight import made_up_extension, made_up_people, make_miniature, write_as_charged
    from topdown.app.private_choice import Cover, Sites, select, select_check, select_plan
    from topdown.app.resource_needs import (
        BYTES_A_PAIR,
        START_BYTES,
        allowed_bytes,
        check_memory,
        memory_warning,
        needed_bytes,
    )
    from topdown.app.tables_and_intervals import interval, tables
    from topdown.app.trials import tune
    from topdown.app.verify_by_solving import SOLVED_CHECK, verify_and_solve
    from topdown.publish.release_certificate import certified_loss
    from topdown.verify.verify_choice import is_choice

__all__ = [
    "BYTES_A_PAIR",
    "FAMILIES",
    "REFERENCE_TEXTS",
    "SOLVED_CHECK",
    "START_BYTES",
    "TITLES",
    "TOPDOWN_PAGES",
    "Cover",
    "NoiseCompared",
    "RunOptions",
    "Sites",
    "add_spend_note",
    "allowed_bytes",
    "certified_loss",
    "certified_split",
    "check_memory",
    "check_start",
    "file_tables",
    "fitted_by_no_pass",
    "generate",
    "interval",
    "is_choice",
    "law_document",
    "law_of",
    "made_up_extension",
    "made_up_people",
    "make_miniature",
    "mean_deviations",
    "measure",
    "memory_warning",
    "needed_bytes",
    "noise_document",
    "opened",
    "opened_again",
    "pages",
    "read_law",
    "reference",
    "require_release",
    "select",
    "select_check",
    "select_plan",
    "solve_release",
    "spent_on_exact",
    "spent_so_far",
    "tables",
    "tune",
    "tuned_for_others",
    "verify_and_solve",
    "view_ledger",
    "warm_up",
    "write_as_charged",
]

__getattr__ = lazy_face(__name__, __file__)
