"""The independent verifier: proves a release correct from its files alone.

Shared with the modules that write releases are the forms of documents alone, words and layout of a report among them:
labels, sums of areas and of noise, every figure, the ledger's reader and every sentence of README.txt are its own.
"""

from typing import TYPE_CHECKING

from topdown.formats.verify_documents import CheckResult, Finding, VerifyResult
from topdown.lazy import lazy_face
from topdown.verify.run_checks import (
    CheckedContent,
    verify,
    verify_content,
    verify_measured,
    verify_planned,
    verify_privacy,
)
from topdown.verify.session import EachSection
from topdown.verify.verify_choice import is_choice

if TYPE_CHECKING:
    from topdown.verify.change_losses import ALPHAS, MovedCounts, composed_loss, loss_of, loss_of_laws
    from topdown.verify.check_certificate import check_manifest
    from topdown.verify.check_privacy import derive_privacy
    from topdown.verify.check_report import check_report_file
    from topdown.verify.exact_arithmetic import (
        differences,
        read_decimal,
        read_enclosure,
        tally,
        tight_formula,
        usual_formula,
    )
    from topdown.verify.findings import Findings
    from topdown.verify.kernels_packing import end_of_packed
    from topdown.verify.ledger_reader import DrawnNoise, load_ledger
    from topdown.verify.neighbour_changes import CountLimits, propagate_limits
    from topdown.verify.noise_laws import UNIT, delta_needed, law_problem
    from topdown.verify.packed_answers import KnownRows, has_due_bytes, has_lengths
    from topdown.verify.plan_reader import PlanFile, load_plan
    from topdown.verify.public_tree import Facts, Tree, bounds_by_level, file_sections
    from topdown.verify.query_labels import identity_reading, read_below, read_schema
    from topdown.verify.rule_kinds import RULE_KINDS, ClosingRule, CountBound, Rules, SoftComparison
    from topdown.verify.session import SectionFindings, Session, check_section
    from topdown.verify.stated_losses import Comparison, StatedRow
    from topdown.verify.strict_parquet import describes_every_column
    from topdown.verify.strict_reader import UnreadableError, read_bytes

__getattr__ = lazy_face(__name__, __file__)
