"""What may be simulated on: made-up files carry a mark, other files need a stated reason why they are public.

A simulation draws noise without charging for it, so its truth must be worth nothing to protect. A mark is a small
JSON file beside the table, with the table's SHA-256: a table that was changed is no longer marked. It guards against
mistakes; whoever forges one holds the records anyway.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from topdown.errors import ConfigError
from topdown.file_names import file_sha256
from topdown.formats.command_documents import MadeUp
from topdown.formats.common import TruthKind

SUFFIX = ".made-up.json"
STAMP = "NOT-A-RELEASE"
SIMULATION, WARNING_FILE = "simulation.json", "NOT-A-RELEASE.txt"  # what tells a simulation's folder
LEAST_WORDS, MOST_CHARACTERS = 3, 1000
_TYPE, _MOST_BYTES = "topdown.made_up", 1 << 16


@dataclass(frozen=True)
class Origin:
    """Why a table may be simulated on.

    Args:
        kind: made_up (marked by its generator), release (published and verified) or public (somebody says so).
        name: file name, or id of the release.
        sha256: of the file, or of the release's manifest.
        reason: why it is public, in the words of who ran the simulation; empty unless given.
        generator, seed: what made the table up; empty and None otherwise.
    """

    kind: TruthKind
    name: str
    sha256: str
    reason: str = ""
    generator: str = ""
    seed: int | None = None

    def to_document(self) -> dict[str, Any]:
        """Return the origin as JSON-ready values."""
        return {
            "kind": self.kind,
            "name": self.name,
            "sha256": self.sha256,
            "reason": self.reason,
            "generator": self.generator,
            "seed": self.seed,
        }


def write_mark(table: Path, generator: str, seed: int) -> Path:
    """Mark a table as made up; return the mark's path.

    Args:
        table: the finished file.
        generator: command that made it.
        seed: its seed; the same generator and seed make the same rows.
    """
    document = MadeUp(generator=generator, seed=seed, sha256=file_sha256(table))
    mark = mark_of(table)
    mark.write_text(json.dumps(to_builtins(document), indent=1) + "\n", encoding="utf-8")
    return mark


def mark_of(table: Path) -> Path:
    """Return where the mark of a table lies."""
    return table.with_name(table.name + SUFFIX)


def origin_of(table: Path, reason: str = "") -> Origin:
    """Say why a table may be simulated on.

    Args:
        table: the file.
        reason: why it is public, at least three words; needed where the file has no mark that fits.

    Raises:
        ConfigError: C121 the file has no mark that fits it and nobody says why it is public; nothing was read
            of its rows.
    """
    reason = check_reason(reason)
    if not table.is_file():
        raise ConfigError(f"there is no file {table}", code="C001", fix="check the path", file=str(table))
    sha256, mark = file_sha256(table), _read_mark(mark_of(table))
    if mark is not None and mark["sha256"] == sha256:
        return Origin("made_up", table.name, sha256, reason, mark["generator"], mark["seed"])
    if reason:
        return Origin("public", table.name, sha256, reason)
    problem = "was changed after it was marked as made up" if mark else "is not marked as made up"
    raise ConfigError(
        f"{table} {problem}; noise that is not charged is drawn on made-up or public records only",
        code="C121",
        file=str(table),
        fix="simulate on made-up records (synth), on a published release, or say why these are public: "
        '--truth-is-public "REASON"; nothing was drawn',
    )


def check_reason(reason: str) -> str:
    """Return a stated reason, trimmed; empty if none is given.

    Raises:
        ConfigError: C121 it says nothing: fewer than three words, or not plain text of a reasonable length.
    """
    words = [word for word in reason.split() if any(c.isalpha() for c in word)]
    if reason.strip() and (
        len(words) < LEAST_WORDS or len(reason) > MOST_CHARACTERS or not reason.isprintable()
    ):
        raise ConfigError(
            "the reason why the records are public says too little",
            code="C121",
            fix=f"say in {LEAST_WORDS} words or more where they are published; it is stamped on every result",
        )
    return reason.strip()


def refuse_simulation(folder: Path) -> None:
    """Refuse the folder of a simulation, or one inside it, where a release is wanted (ConfigError C122)."""
    here = folder.absolute()
    for place in (here, here.parent):
        if any((place / name).exists() for name in (SIMULATION, WARNING_FILE)):
            raise ConfigError(
                f"{folder} holds a simulation, not a release: its noise protects nobody",
                code="C122",
                fix="give the folder that topdown generate wrote; a simulation is never published",
            )


def _read_mark(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    fields = {"type": str, "version": int, "generator": str, "seed": int, "sha256": str}
    sound = isinstance(found, dict) and all(type(found.get(key)) is kind for key, kind in fields.items())
    return found if sound and (found["type"], found["version"]) == (_TYPE, 1) else None
