"""The independent verifier: proves a release correct from its files alone.

Imports nothing of the engine but its nouns (`topdown.model`) and, in `privacy/`, the sums of noise
(`topdown.accountant.composition`): not the solver, not the noise, not the ledger, and not the modules that write
releases.
"""

from topdown.publish.verify.result import CheckResult, Finding, VerifyResult
from topdown.publish.verify.run import (
    verify,
    verify_content,
    verify_measured,
    verify_planned,
    verify_privacy,
    verify_sealed,
)
from topdown.publish.verify.session import EachSection

__all__ = [
    "CheckResult",
    "EachSection",
    "Finding",
    "VerifyResult",
    "verify",
    "verify_content",
    "verify_measured",
    "verify_planned",
    "verify_privacy",
    "verify_sealed",
]
