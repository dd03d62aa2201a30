"""Functions of the public API by subject, the commands of both programs and their screens.

What commands use beside the names of `import topdown` is here, each name imported when it is first used.
"""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.app.calls import add_spend_note, require_release, spent_so_far
    from topdown.app.make_release import check_start, measure
    from topdown.app.plan_summary import view_ledger
    from topdown.app.planned import opened, opened_again
    from topdown.app.tables_and_intervals import interval, tables
    from topdown.app.verify_by_solving import verify_and_solve
    from topdown.publish.release_certificate import certified_loss
    from topdown.verify.verify_choice import is_choice

__all__ = [
    "add_spend_note",
    "certified_loss",
    "check_start",
    "interval",
    "is_choice",
    "measure",
    "opened",
    "opened_again",
    "require_release",
    "spent_so_far",
    "tables",
    "verify_and_solve",
    "view_ledger",
]

__getattr__ = lazy_face(__name__, __file__)
