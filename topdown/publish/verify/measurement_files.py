"""Find the parts of the measurements of each level: part-000.parquet, part-001.parquet, and so on."""

from __future__ import annotations

import os
import re

from topdown.publish.verify.session import Session

FOLDER = "measurements"
MEASURED_PLAN = f"{FOLDER}/plan.json"  # of a release that solves another one's measurement
_PART = re.compile(r"part-[0-9]{3,}\.parquet")


def level_parts(session: Session, level: str) -> list[str]:
    """Return the paths of the parts of one level, in order of their numbers; empty if there are none."""
    try:
        with os.scandir(session.root / FOLDER / level) as entries:
            names = [entry.name for entry in entries if _PART.fullmatch(entry.name)]
    except OSError:
        return []
    return [f"{FOLDER}/{level}/{name}" for name in sorted(names, key=lambda name: int(name[5:-8]))]


def part_paths(session: Session) -> list[str]:
    """Return the paths of all parts of the plan's levels."""
    return [path for level in session.plan.doc.levels for path in level_parts(session, level.name)]
