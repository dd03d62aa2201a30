"""A small office on a disk: its records, run files, ledger and releases, and what an observer outside it has seen drawn.

The observer's list of draws is not on that disk, so nothing that is done to the disk makes it forget one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.helpers.attacked import body_of
from tests.helpers.runs import run_text

LIMIT = Fraction(3)
RHO = Fraction(2)
DATA_SET = "people"
PEOPLE = "geocode,dwelling,sex,age,count\n" + "".join(
    f"{code},home,{sex},18_64,5\n" for code in ("111", "112", "121") for sex in ("female", "male")
)
LEAVES = "geocode,homes,dormitories,barracks\n111,2,0,0\n112,2,0,0\n121,3,0,0\n"
CANDIDATES = "candidate,geocode\nNorth,111\nSouth,112\nWest,121\n"


@dataclass
class Seen:
    """What was observed so far.

    Args:
        draws: loss of every noisy table and choice ever found on the disk, by folder kind and digest.
        releases: finished folders that were looked at.
        allowed: names of the exceptions of SECURITY.md that have happened; what they allow is not claimed.
    """

    draws: dict[str, Fraction] = field(default_factory=dict)
    releases: set[str] = field(default_factory=set)
    allowed: set[str] = field(default_factory=set)

    def copy(self) -> Seen:
        """Return an independent copy."""
        return Seen(dict(self.draws), set(self.releases), set(self.allowed))

    @property
    def drawn(self) -> Fraction:
        """Loss of everything that was drawn."""
        return sum(self.draws.values(), Fraction(0))


class World:
    """An office at a fixed path, which can be put back to an earlier state together with what was seen until then.

    Args:
        root: an empty folder that the world has to itself.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.seen = root, Seen()
        self.office, self.elsewhere, self.kept = root / "office", root / "elsewhere", root / "kept"
        self.releases = root / "releases"
        for folder in (self.office, self.releases, self.kept, self.office / "data"):
            folder.mkdir(parents=True)
        (self.office / "data" / "people.csv").write_text(PEOPLE)
        (self.office / "leaves.csv").write_text(LEAVES)
        (self.office / "candidates.csv").write_text(CANDIDATES)
        for name in ("first", "second"):
            self.write_run(self.office / f"{name}.toml", name, "data/people.csv", "leaves.csv")

    @property
    def ledger(self) -> Path:
        """The ledger that the office's run files name."""
        return self.office / "book" / "people.jsonl"

    @property
    def records(self) -> Path:
        """The folder that holds the records now."""
        moved = self.root / "other-disk"
        return moved if (moved / "people.csv").exists() else self.office / "data"

    def write_run(self, path: Path, name: str, records: str, leaves: str) -> None:
        """Write a run file of the data set with a limit of one release and a half."""
        text = run_text(
            body_of("toy", str(RHO)),
            release={"id": name, "data_set": DATA_SET},
            input={"records": records, "leaves": leaves},
            geography={"prefix_lengths": [1, 2, 3]},
            ledger={"path": "book/people.jsonl", "limit": str(LIMIT)},
        )
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def signature(self) -> tuple[object, ...]:
        """Return what is there, without what chance and time put into it: equal states are followed once."""
        parts: list[object] = [self.seen.drawn, *sorted(self.seen.allowed)]
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if path.is_dir() or "tables/" in name or "public/" in name:
                continue
            lines = path.read_bytes().count(b"\n") if path.suffix in (".jsonl", ".toml") else 0
            parts.append((_without_ids(name), lines))
        return tuple(parts)

    def save(self, folder: Path) -> Seen:
        """Copy the disk, so that `load` can put it back; files that are not written to stay the same file."""
        shutil.copytree(self.root, folder, symlinks=True, copy_function=_copy)
        return self.seen.copy()

    def load(self, folder: Path, seen: Seen) -> None:
        """Put the disk and what was seen back."""
        shutil.rmtree(self.root)
        shutil.copytree(folder, self.root, symlinks=True, copy_function=_copy)
        self.seen = seen.copy()

    def look(self) -> list[dict[str, Any]]:
        """Note all draws that are on the disk; return the statement of each release finished since the last look."""
        found = []
        for plan in sorted(self.root.rglob("plan.json")):
            if "kept" not in plan.relative_to(self.root).parts:
                self._note_noise(plan)
        for result in sorted(self.root.rglob("choice/answer/*")):
            self._note_choice(result)
        for certificate in sorted(self.root.rglob("certificate.json")):
            name = str(certificate.relative_to(self.root))
            if name not in self.seen.releases:
                self.seen.releases.add(name)
                found.append(_everything_released(certificate))
        return found

    def _note_noise(self, plan: Path) -> None:
        try:
            levels = json.loads(plan.read_text())["levels"]
        except (ValueError, KeyError):
            return  # a plan that is being written
        losses = {level["name"]: Fraction(level["loss"]) for level in levels}
        for part in plan.parent.glob("measurements/*/part-*"):
            if part.parent.name in losses:
                digest = hashlib.sha256(part.read_bytes()).hexdigest()
                self.seen.draws[f"noise {digest}"] = losses[part.parent.name]

    def _note_choice(self, result: Path) -> None:
        certificate = result.parents[2] / "certificate.json"
        if certificate.exists():
            loss = Fraction(json.loads(certificate.read_text())["loss"])
            self.seen.draws[f"choice {result.parents[2].name}"] = loss


def _everything_released(certificate: Path) -> dict[str, Any]:
    document = json.loads(certificate.read_text())
    stated = document.get("privacy", document)
    return stated["everything_released"] | {"at": str(certificate.parent.name)}


def _without_ids(name: str) -> str:
    """Leave ledgers' ids out of file names."""
    return "".join(c if not c.isdigit() or "/" not in name else "0" for c in name)


def _copy(source: str, target: str) -> None:
    """Copy a file; the records stay one file, since who copies a disk does not copy what identifies them."""
    if Path(source).name == "people.csv":
        os.link(source, target)
    else:
        shutil.copyfile(source, target)
