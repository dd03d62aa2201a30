"""A small release that somebody changes, and whose manifest is written anew as its publisher would."""

import json
from collections.abc import Callable
from typing import Any

from tests.helpers.small_release import Small, edit_table, ledger_events, reseal, seal
from topdown.verify import VerifyResult, verify

PERSONS = "microdata/persons.parquet"
Rows = list[dict[str, Any]]


def attack(small: Small) -> VerifyResult:
    """Rewrite the manifest as an attacker would, and verify."""
    reseal(small.folder)
    result = verify(small.folder)
    json.dumps(result.to_json())
    assert not [f for c in result.checks for f in c.findings if f.code == "V199"]
    return result


def codes(result: VerifyResult, check: str) -> set[str]:
    """Return the codes of the findings of one check."""
    return {f.code for f in result.check(check).findings}


def failed(result: VerifyResult) -> set[str]:
    """Return the names of the failed checks."""
    return {check.name for check in result.checks if not check.ok}


def edit_rows(small: Small, path: str, change: Callable[[Rows], None]) -> VerifyResult:
    """Change rows of a Parquet file and verify with a new manifest."""
    edit_table(small.folder / path, change)
    return attack(small)


def rewrite_ledger(small: Small, change: Callable[[Rows], None]) -> VerifyResult:
    """Seal a changed ledger anew and verify."""
    events = ledger_events(small.context, small.folder)
    change(events)
    (small.folder / "ledger.jsonl").write_bytes(seal(events))
    return attack(small)
