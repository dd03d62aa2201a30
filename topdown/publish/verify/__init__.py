"""The independent verifier: proves a release correct from its files alone.

Imports nothing of the engine but its nouns (`topdown.model`): not the solver, not the noise, not the ledger,
and not the modules that write releases.
"""

from topdown.publish.verify.result import CheckResult, Finding, VerifyResult
from topdown.publish.verify.run import verify, verify_content

__all__ = ["CheckResult", "Finding", "VerifyResult", "verify", "verify_content"]
