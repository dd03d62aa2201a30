"""A small office on a disk: records, run files, ledgers and releases; and what an observer has seen drawn.

The observer's list of draws is not on that disk, so nothing that is done to the disk makes it forget one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.helpers.attacked import body_of
from tests.helpers.runs import run_text

LIMIT = Fraction(3)
COST = Fraction(2)
"""What one release costs: two of them are more than the limit."""
DATA_SET = "people"
PEOPLE = "geocode,dwelling,sex,age,count\n" + "".join(
    f"{code},home,{sex},18_64,5\n" for code in ("111", "112", "121") for sex in ("female", "male")
)
LEAVES = "geocode,homes,dormitories,barracks\n111,2,0,0\n112,2,0,0\n121,3,0,0\n"
CANDIDATES = "candidate,geocode\nNorth,111\nSouth,112\nWest,121\n"
GROUPS = "region,size,count\n01,1,3\n01,2,2\n02,1,4\n02,3,1\n"
REGIONS = "region,parent,level\n0,,nation\n01,0,district\n02,0,district\n"


@dataclass(frozen=True)
class Seen:
    """What was observed so far.

    Args:
        draws: loss of every noisy table and choice ever found on the disk, by kind and digest.
        finished: SHA-256 of all files of each finished release, when it was first seen.
        exceptions: names of what has happened that SECURITY.md says no program can notice.
    """

    draws: dict[str, Fraction] = field(default_factory=dict)
    finished: dict[str, str] = field(default_factory=dict)
    exceptions: frozenset[str] = frozenset()

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
        self.releases, self.other_disk = root / "releases", root / "other-disk"
        for folder in (self.office / "data", self.releases, self.kept):
            folder.mkdir(parents=True)
        tables = {"data/people": PEOPLE, "data/groups": GROUPS, "leaves": LEAVES, "candidates": CANDIDATES}
        for name, text in (tables | {"regions": REGIONS}).items():
            (self.office / f"{name}.csv").write_text(text)
        for name in ("first", "second"):
            self.write_run(self.office / f"{name}.toml", name, "data/people.csv", "leaves.csv")
        self.write_groups(self.office / "groups.toml", "data/groups.csv", "regions.csv")

    @property
    def ledger(self) -> Path:
        """The ledger that the office's run files name."""
        return self.office / "book" / "people.jsonl"

    @property
    def records(self) -> Path:
        """The folder that holds the records now."""
        return self.other_disk if (self.other_disk / "people.csv").exists() else self.office / "data"

    def write_run(self, path: Path, name: str, records: str, leaves: str) -> None:
        """Write a run file of the data set with a limit of one release and a half."""
        text = run_text(
            body_of("toy", str(COST)),
            release={"id": name, "data_set": DATA_SET},
            input={"records": records, "leaves": leaves},
            geography={"prefix_lengths": [1, 2, 3]},
            ledger={"path": "book/people.jsonl", "limit": str(LIMIT)},
        )
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def write_groups(self, path: Path, groups: str, regions: str) -> None:
        """Write a run file of group sizes that costs as much, with the same limit."""
        settings = {"groups": groups, "hierarchy": regions, "epsilon": str(COST), "limit": str(LIMIT)}
        settings |= {"data_set": "groups", "ledger": "book/groups.jsonl"}
        path.parent.mkdir(exist_ok=True)
        path.write_text("sizes = 4\n" + "".join(f'{key} = "{value}"\n' for key, value in settings.items()))

    def signature(self) -> tuple[object, ...]:
        """Return what is there, without what chance and time put into it: equal states are followed once."""
        parts: list[object] = [self.seen.drawn, *sorted(self.seen.exceptions)]
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if path.is_dir() or any(part in name for part in ("/tables/", "/public/")):
                continue
            lines = path.read_bytes().count(b"\n") if path.suffix in (".jsonl", ".toml") else 0
            parts.append(("".join("0" if c.isdigit() else c for c in name), lines))
        for name, digest in self.seen.finished.items():
            parts.append((name, self.digest(name) == digest))
        return tuple(parts)

    def save(self, folder: Path) -> Seen:
        """Copy the disk, so that `load` can put it back; return what was seen until now."""
        shutil.copytree(self.root, folder, symlinks=True, copy_function=_copy)
        return replace(self.seen, draws=dict(self.seen.draws), finished=dict(self.seen.finished))

    def load(self, folder: Path, seen: Seen) -> None:
        """Put the disk and what was seen back."""
        shutil.rmtree(self.root)
        shutil.copytree(folder, self.root, symlinks=True, copy_function=_copy)
        self.seen = replace(seen, draws=dict(seen.draws), finished=dict(seen.finished))

    def note_exception(self, name: str) -> None:
        """Note something that SECURITY.md says no program can notice."""
        self.seen = replace(self.seen, exceptions=self.seen.exceptions | {name})

    def digest(self, release: str) -> str:
        """Return a digest of all files of a release with their paths."""
        total = hashlib.sha256()
        for path in sorted((self.releases / release).rglob("*")):
            total.update(str(path.relative_to(self.releases / release)).encode() + b"\0")
            total.update(path.read_bytes() if path.is_file() else b"")
        return total.hexdigest()

    def look(self, before: dict[str, str] | None = None) -> tuple[list[dict[str, Any]], list[str]]:
        """Note all draws and finished releases that are on the disk.

        Args:
            before: digests of the finished releases before a command ran, which may have finished one of them anew;
                None after somebody changed files.

        Returns:
            the statement about everything released of each release that is new, and the names of the new ones.
        """
        for folder in (self.releases, self.elsewhere):
            for part in sorted(folder.rglob("part-*")):
                for name, loss in _drawn(part):
                    self.seen.draws[name] = loss
        stated, new = [], []
        for certificate in sorted(self.releases.glob("*/certificate.json")):
            name = certificate.parent.name
            if not (certificate.parent / "manifest.json").exists():
                continue
            digest = self.digest(name)
            if name in self.seen.finished and (before is None or before[name] == digest):
                continue
            self.seen.finished[name] = digest
            new.append(name)
            document = json.loads(certificate.read_text())
            everything = document.get("privacy", document).get("everything_released")
            stated += [everything | {"at": name}] if everything else []
        return stated, new


def _drawn(part: Path) -> Iterator[tuple[str, Fraction]]:
    """Yield a name that no other draw has, and the loss, of a file of noisy answers or of a choice."""
    release = part.parents[2]
    digest = hashlib.sha256(part.read_bytes()).hexdigest()
    if part.parent.parent.name == "choice":
        certificate = release / "certificate.json"
        if certificate.exists():
            yield f"choice of {release.name}", Fraction(json.loads(certificate.read_text())["loss"])
        return
    if (release / "plan.json").exists():
        losses = {
            one["name"]: one["loss"] for one in json.loads((release / "plan.json").read_text())["levels"]
        }
    else:  # group sizes: the budget is divided equally among two levels
        losses = {"nation": COST / 2, "district": COST / 2}
    if part.parent.name in losses:
        yield f"noise {digest}", Fraction(losses[part.parent.name])


def _copy(source: str, target: str) -> None:
    """Copy a file; records stay the same file, as on a disk on which nothing happens to them."""
    if Path(source).name in ("people.csv", "groups.csv"):
        os.link(source, target)
    else:
        shutil.copyfile(source, target)
