"""Refuse an output folder that holds something else, before anything is opened or spent."""

from __future__ import annotations

import re
from pathlib import Path

from topdown.caps import PLAN_BYTES, read_json
from topdown.errors import ConfigError
from topdown.outputs import refuse_inside
from topdown.plan.prepare import Prepared
from topdown.rehearse import FOLDER

_UNSTARTED = re.compile(
    re.escape(FOLDER)
    + r"/.*|public/(geography|leaves)\.parquet|plan\.json\.tmp"
    + r"|(base/)+(public/)?[a-z]+\.(json|parquet)(\.tmp)?"
)


def check_out(prepared: Prepared, out: Path, *, resume: bool, command: str) -> None:
    """Check that `out` is new or empty, or with `resume` that it holds this plan's run.

    Raises:
        ConfigError: C132 the records, the ledger or another file of the run lie in it, or a link does; C085
            something else lies there, C086 this plan's run lies there and `resume` was not given, C087 there is
            nothing to resume.
    """
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise ConfigError(f"{out} is not a folder", code="C085", fix="give --out a new folder")
    witness = prepared.run.ledger.witness
    refuse_inside(out, "--out", (*prepared.needed, *([prepared.path.parent / witness] if witness else [])))
    if out.is_dir() and any(path.is_symlink() for path in out.rglob("*")):
        raise ConfigError(
            f"{out} holds a link; a release is written below one folder",
            code="C132",
            fix="remove the link, or give --out a new folder; nothing was written",
        )
    there = sorted(p.name for p in out.iterdir()) if out.is_dir() else []
    names = [] if _is_unstarted(out) else there
    found = run_in(out)
    mine = prepared.context.plan.plan_hash
    if resume:
        if found is None and not there:
            raise ConfigError(f"there is nothing to resume in {out}", code="C087", fix="leave --resume out")
        if found not in (None, mine):
            raise ConfigError(
                f"{out} holds a run of plan {str(found)[:8]}, not of {mine[:8]}",
                code="C085",
                fix="resume with the plan of that run, or give --out a new folder",
            )
    elif found == mine:
        raise ConfigError(
            f"{out} holds a run of this very plan, {mine[:8]}",
            code="C086",
            details=(("go on", command),),
            fix="add --resume to keep its noise; another folder would spend the budget again",
        )
    if names and found is None:
        raise ConfigError(
            f"{out} is not empty and holds no run of this engine ({', '.join(names[:3])})",
            code="C085",
            fix="give --out a new or empty folder; nothing in it was touched",
        )
    if found is not None and found != mine:
        raise ConfigError(
            f"{out} holds a run of another plan, {found[:8]}", code="C085", fix="give --out a new folder"
        )


def _is_unstarted(out: Path) -> bool:
    """Tell whether a folder holds nothing but what a run leaves behind that was killed before it had a plan there."""
    files = [p.relative_to(out).as_posix() for p in out.rglob("*") if not p.is_dir()]
    return run_in(out) is None and all(_UNSTARTED.fullmatch(name) for name in files)


def run_in(out: Path) -> str | None:
    """Return the plan hash of the run whose files lie in a folder, None if there is none."""
    for name in ("plan.json", "measurements/journal.json"):
        try:
            found = read_json(out / name, PLAN_BYTES)["plan_hash"]
        except (OSError, ValueError, KeyError, IndexError, TypeError):
            continue
        if isinstance(found, str):
            return found
    return None
