"""The private list of offending rows: beside the records, for the owner's eyes only."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path

from topdown.outputs import same

NAME = "PRIVATE-input-errors.csv"
MAX_ROWS = 100_000


def write_private_errors(records: Path, rows: Iterable[tuple[str, str, str, str]]) -> str:
    """Write (rule, column, place, value) rows beside the records, mode 0600, replacing an earlier list.

    Never follows a symbolic link. At most `MAX_ROWS` rows.

    Returns:
        a sentence for the user: where the list is, or that it could not be written; nothing from the rows.

    """
    path = records.parent / NAME
    if same(path, records):
        return f"not listed: the input itself is called {NAME}"
    try:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return f"could not be listed beside the input ({NAME})"
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("rule", "column", "place", "value"))
        for _, row in zip(range(MAX_ROWS), rows, strict=False):
            writer.writerow(_harmless(text) for text in row)
    return f"listed beside the input, {path} (mode 0600)"


def _harmless(text: str) -> str:
    """Keep a spreadsheet from running a cell as a formula."""
    return "'" + text if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
