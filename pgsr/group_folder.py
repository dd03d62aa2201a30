"""The folder of a run: where it may be, held by one run at a time, and the only names that belong into it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from topdown.errors import ConfigError
from topdown.made_up import WARNING_FILE
from topdown.privacy.ledger import DIGEST_FILE

COUNTS, CERTIFICATE, LEDGER, MANIFEST = "counts.parquet", "certificate.json", "ledger.jsonl", "manifest.json"
MEASUREMENTS, EXACT, JOURNAL = "measurements", "exact.json", "journal.json"
PART = "part-000"
COUNT, ANSWER = "count", "answer"  # the columns of the tables
LOWER, UPPER = "lower", "upper"
WRITING = ".tmp"
_DRAWN = re.compile(rf"{PART}\.[0-9]+\.[0-9a-f]{{64}}\.drawn")


def part_file(level: str) -> str:
    """Return the path of the noisy answers of one level, relative to the release."""
    return f"{MEASUREMENTS}/{level}/{PART}.parquet"


def release_files(levels: Sequence[str], *, is_release: bool) -> tuple[str, ...]:
    """Return the path of every file but the manifest: they follow from the levels alone."""
    own = (f"{MEASUREMENTS}/{EXACT}", f"{MEASUREMENTS}/{JOURNAL}", LEDGER) if is_release else (WARNING_FILE,)
    return (CERTIFICATE, COUNTS, *own, *(part_file(level) for level in levels))


def refuse_used_folder(out: Path, *, resumable: bool) -> None:
    """Refuse a folder that no run can write to or that holds something else; writes nothing.

    Args:
        out: folder to write.
        resumable: whether a run that began there may go on.

    Raises:
        ConfigError: C172 no folder can be there; C164 something else is there.
    """
    shown = ascii(str(out))[1:-1]
    try:
        is_link, there = stat.S_ISLNK(out.lstat().st_mode), True
        names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    except FileNotFoundError:
        is_link, there, names = out.is_symlink(), False, set()
    except (OSError, ValueError):  # too long, below a file, without end, or with a character no name has
        raise _no_folder(shown, "is no path that can be written") from None
    if is_link:
        raise _no_folder(shown, "is a link")
    begun = resumable and names and (out / MEASUREMENTS / JOURNAL).is_file()
    if (there and not out.is_dir()) or (names and not begun and not _only_begun(out, names)):
        raise ConfigError(
            f"{shown} exists and is not an empty folder",
            code="C164",
            fix="give a new folder, or, with --resume, that of a run that was interrupted",
        )


def _only_begun(out: Path, names: set[str]) -> bool:
    """Tell whether a run that was killed before its first durable step is all there is."""
    inside = out / MEASUREMENTS
    if names != {MEASUREMENTS} or inside.is_symlink() or not inside.is_dir():
        return False
    return {path.name for path in inside.iterdir()} <= {JOURNAL + WRITING}


def _no_folder(shown: str, why: str) -> ConfigError:
    return ConfigError(
        f"--out {shown} {why}", code="C172", fix="give --out a new folder of its own; nothing was spent"
    )


def refuse_strangers(out: Path, levels: Sequence[str]) -> None:
    """Refuse a folder that holds anything but files of this run, whole or half written (ConfigError C164)."""
    own = {*release_files(levels, is_release=True), MANIFEST, f"{MEASUREMENTS}/{DIGEST_FILE}"}
    own |= {name + WRITING for name in own}
    folders = {MEASUREMENTS, *(f"{MEASUREMENTS}/{level}" for level in levels)}
    for place, inner, names in os.walk(out):
        for name in (*inner, *names):
            path = Path(place, name)
            inside = path.relative_to(out).as_posix()
            drawn = _DRAWN.fullmatch(name) and inside.removesuffix(f"/{name}") in folders
            known = inside in folders if name in inner else drawn or inside in own
            if path.is_symlink() or not known:
                raise ConfigError(
                    f"{ascii(str(path))[1:-1]} does not belong to the run in {out}",
                    code="C164",
                    fix="move it out of the folder and run the same command again; nothing was spent",
                )
