"""Hold the drawing code against its claim: many runs on pairs of made-up neighbours."""

from topdown.audit_runs.audit_runs import FALSE_ALARM, LEAST_RUNS, AuditRuns, audit_runs
from topdown.audit_runs.document import runs_document
from topdown.audit_runs.pairs import Pair, find_pairs

__all__ = ["FALSE_ALARM", "LEAST_RUNS", "AuditRuns", "Pair", "audit_runs", "find_pairs", "runs_document"]
