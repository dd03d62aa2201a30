"""The independent verifier: proves a release correct from its files alone.

Shared with the modules that write releases are the nouns of a schema, a query and constraints and, where privacy is
checked, sums of noise: not the solver, not the noise, not the ledger.
"""

from topdown.verify.findings import CheckResult, Finding, VerifyResult
from topdown.verify.run_checks import (
    verify,
    verify_content,
    verify_measured,
    verify_planned,
    verify_privacy,
    verify_sealed,
)
from topdown.verify.session import EachSection
from topdown.verify.verify_choice import is_choice, verify_choice

__all__ = [
    "CheckResult",
    "EachSection",
    "Finding",
    "VerifyResult",
    "is_choice",
    "verify",
    "verify_choice",
    "verify_content",
    "verify_measured",
    "verify_planned",
    "verify_privacy",
    "verify_sealed",
]
