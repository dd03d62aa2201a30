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

from tests.helpers.attacked import body_of, shipped
from tests.helpers.runs import run_text

LIMIT = Fraction(3)
COST = Fraction(2)
"""What one release costs: two of them are more than the limit."""
TOGETHER = (
    "ledger and registry are restored together from one backup, or the registry is restored and the ledger cut or "
    "removed to fit it"
)
COPIED = (
    "the records are copied, and a ledger is made for the copy, or the ledger is put back to fit a registry that was "
    "copied with them"
)
UNNOTICED = (TOGETHER, "the registry is removed and another ledger made", COPIED)
"""What SECURITY.md says that no program can notice: `Pair.is_older`, and `Seen.unnoticed`."""
OFFICE, ELSEWHERE, COPY = "the office", "elsewhere", "a copy of the records"
"""Whose run file a release is made by; what a copy releases, its own ledger states."""
MADE_BY = {"third": ELSEWHERE, "groups-elsewhere": ELSEWHERE, "copied": COPY}
"""Releases that the office's own run files do not make."""
FORMER_COST, FORMER_ID = Fraction(1, 2), "0123456789abcdef"
"""What one release of the former program cost, and the id of its ledger."""
EXTRA = Fraction(1)
"""What the extension of a release costs: with it the limit is reached."""
DELTA = Fraction(1, 100_000)
"""What a release with optimal noise costs beside its epsilon."""
PEOPLE = "geocode,dwelling,sex,age,job,count\n" + "".join(
    f"{code},home,{sex},18_64,{job},{count}\n"
    for code in ("111", "112", "121")
    for sex, job, count in (("female", "none", 2), ("female", "some", 3), ("male", "some", 5))
)
WITH_JOBS = '[[attribute]]\nname = "job"\nlabels = ["none", "some"]\n'
"""What the schema of the extension has beside toy's attributes."""
EXTENDED = f'[budget]\nrho = "{EXTRA}"\n[base.map]\n' + "".join(
    f'{name} = "{name}"\n' for name in ("dwelling", "sex", "age")
)
EXTENDED += "".join(
    f'[[level]]\nname = "{name}"\nshare = "1/3"\n'
    'passes = [{ queries = ["detailed"], table = "detailed" }]\n'
    'rounding = [{ table = "detailed", weight = 1 }]\n[level.queries]\n"detailed" = "1"\n'
    for name in ("land", "county", "block")
)
LEAVES = "geocode,homes,dormitories,barracks\n111,2,0,0\n112,2,0,0\n121,3,0,0\n"
CANDIDATES = "candidate,geocode\nNorth,111\nSouth,112\nWest,121\n"
GROUPS = "region,size,count\n01,1,3\n01,2,2\n02,1,4\n02,3,1\n"
REGIONS = "region,parent,level\n0,,nation\n01,0,district\n02,0,district\n"


@dataclass(frozen=True)
class Pair:
    """A ledger of the office and the registry beside the records that names it, as bytes; None where there is none."""

    ledger: bytes | None = None
    registry: bytes | None = None

    @property
    def charged(self) -> Fraction:
        """Every loss that the ledger holds."""
        lines = [json.loads(line) for line in (self.ledger or b"").splitlines()]
        taken = [line["charges"] for line in lines if line["kind"] == "take_over"]
        lines += [past["charge"] for past in (taken[-1] if taken else ())]
        losses = (Fraction(line["loss"]) for line in lines if "loss" in line)
        return sum(losses, Fraction(0)) + sum(
            _rho_of_choice(
                line["epsilon"],
                (1 + Fraction(line["rate"]) * (Fraction(line["base"]) - 1)) / (1 - Fraction(line["rate"])),
            )
            for line in lines
            if line["kind"] == "choice"
        )

    @property
    def fits(self) -> bool:
        """Tell whether the ledger holds the record that the registry's mark names; none fits a mark of one record."""
        if self.registry is None:
            return False
        mark, lines = (json.loads(self.registry.splitlines()[-1]), (self.ledger or b"").splitlines())
        n = int(mark["records"])
        if not lines:
            return n == 1
        return n <= len(lines) and hashlib.sha256(lines[n - 1]).hexdigest() == mark["head"]

    def is_older(self, written: Pair) -> bool:
        """Tell whether both are older than the last that a program wrote, and yet fit each other."""
        ledger_lacks = not (self.ledger or b"").startswith(written.ledger or b"")
        return ledger_lacks and self.registry != written.registry and self.fits


@dataclass(frozen=True)
class Seen:
    """What was observed so far.

    Args:
        draws: loss of every noisy table and choice ever found on the disk, by kind and digest, and whose run file drew
            it.
        finished: SHA-256 of all files of each finished release, when it was first seen.
        written: ledger and registry of each data set as a program last wrote them.
        forgiven: loss that the ledger of a data set forgot when it was put back together with its registry: SECURITY.md
            says that no program can notice it.
        unnoticed: whose ledgers were made where no registry was left, or copied, that could name the first.
        former: loss of everything that the former program drew.
        taken: how much of it a command took over, and answered that it had.
        limit: the most that may be drawn in the office; another one is set by a person.
    """

    draws: dict[str, tuple[Fraction, str]] = field(default_factory=dict)
    finished: dict[str, str] = field(default_factory=dict)
    written: dict[str, Pair] = field(default_factory=dict)
    forgiven: dict[str, Fraction] = field(default_factory=dict)
    unnoticed: frozenset[str] = frozenset()
    former: Fraction = Fraction(0)
    taken: Fraction = Fraction(0)
    limit: Fraction = LIMIT

    @property
    def drawn(self) -> Fraction:
        """Loss of everything that was drawn."""
        return self.former + sum((loss for loss, _ in self.draws.values()), Fraction(0))

    def drawn_by(self, *whose: str) -> Fraction:
        """Return the loss of what some run files drew."""
        return sum((loss for loss, where in self.draws.values() if where in whose), Fraction(0))

    def owed(self, whose: str = OFFICE) -> Fraction:
        """Return the least that a ledger must account for: the office's, the one elsewhere, or that of a copy."""
        if whose in self.unnoticed:
            return self.drawn_by(whose)
        own = self.drawn_by(*({OFFICE, ELSEWHERE, COPY} - self.unnoticed))
        return own + self.taken - sum(self.forgiven.values(), Fraction(0))


class World:
    """An office at a fixed path, which can be put back to an earlier state together with what was seen until then.

    Args:
        root: an empty folder that the world has to itself.
        mechanism: of its releases of people.
    """

    def __init__(self, root: Path, mechanism: str = "discrete_gaussian") -> None:
        self.root, self.seen, self.mechanism = root, Seen(), mechanism
        self.office, self.elsewhere, self.kept = root / "office", root / "elsewhere", root / "kept"
        self.releases, self.other_disk, self.copy = root / "releases", root / "other-disk", root / "copy"
        for folder in (self.office / "data", self.releases, self.kept):
            folder.mkdir(parents=True)
        tables = {"data/people": PEOPLE, "data/groups": GROUPS, "leaves": LEAVES, "candidates": CANDIDATES}
        for name, text in (tables | {"regions": REGIONS}).items():
            (self.office / f"{name}.csv").write_text(text)
        for name in ("first", "second"):
            self.write_run(self.office / f"{name}.toml", name, "data/people.csv", "leaves.csv")
        if mechanism == "discrete_gaussian":
            self._write_extension()
        self.write_groups(self.office / "groups.toml", "data/groups.csv", "regions.csv")
        self.former = self.office / "former" / "people.jsonl"

    def charge_former(self) -> None:
        """Charge a release to the former ledger as the former program did, and tell its witness."""
        self.former.parent.mkdir(exist_ok=True)
        lines = self.former.read_bytes().splitlines() if self.former.exists() else []
        if not lines:
            first = {"kind": "open", "version": 2, "ledger": FORMER_ID, "data_set": "people"}
            counted = {"unit": "person", "neighbours": "bounded", "loss_name": "rho"}
            lines.append(_sealed(first | counted, lines))
        lines.append(_sealed(_former_intent(len(lines)), lines))
        self.former.write_bytes(b"".join(line + b"\n" for line in lines))
        witness = {"type": "topdown.ledger_witness", "version": 1, "ledger": FORMER_ID, "records": len(lines)}
        head = hashlib.sha256(lines[-1]).hexdigest()
        self.witness.write_bytes(_canonical(witness | {"head": head}) + b"\n")
        self.seen = replace(self.seen, former=self.seen.former + FORMER_COST)

    @property
    def witness(self) -> Path:
        """What says how far the former ledger has come; gone once that ledger was taken over."""
        return self.former.with_name(f"ledger-{FORMER_ID}.witness.json")

    def note_taken(self, *, had_witness: bool) -> None:
        """Note that the former ledger was taken over: all of it, or what the file holds if nothing bore witness."""
        there = FORMER_COST * (self.former.read_bytes().count(b"\n") - 1)
        self.seen = replace(self.seen, taken=self.seen.former if had_witness else there)

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
        body, ledger = body_of("toy", str(COST)), {}
        if self.mechanism != "discrete_gaussian":
            body = body.replace("rho =", "epsilon =")
            ledger = {"rho_limit": None, "epsilon_limit": str(LIMIT)}
        if self.mechanism == "optimal":
            body = body.replace(f'epsilon = "{COST}"', f'epsilon = "{COST}"\ndelta = "{DELTA}"')
            ledger["delta_limit"] = str(DELTA * LIMIT / COST)
        path.parent.mkdir(exist_ok=True)
        path.write_text(self._run_text(body, name, records, leaves, ledger, mechanism=self.mechanism))

    def _run_text(
        self, body: str, name: str, records: str, leaves: str, ledger: dict[str, str | None], **top: str
    ) -> str:
        ignored = {} if "schema" in top else {"ignore": ["job"]}
        return run_text(
            body,
            top,
            release={"id": name, "data_set": "people"},
            input={"records": records, "leaves": leaves} | ignored,
            geography={"prefix_lengths": [1, 2, 3]},
            ledger={"path": "book/people.jsonl", "rho_limit": str(LIMIT)} | ledger,
        )

    def _write_extension(self) -> None:
        """Write a run file that extends a release by jobs."""
        schema, rules = shipped("schemas", "toy"), shipped("invariants", "toy")
        (self.office / "jobs.schema.toml").write_text(schema.replace('"toy"', '"jobs"') + "\n" + WITH_JOBS)
        rules = rules.replace('"toy"', '"jobs"', 1).replace('schema = "toy"', 'schema = "jobs"')
        kept = [part for part in rules.split("\n[[") if not part.startswith("exact")]
        (self.office / "jobs.invariants.toml").write_text("\n[[".join(kept))
        names = {"schema": "jobs.schema.toml", "invariants": "jobs.invariants.toml"}
        text = self._run_text(EXTENDED, "more", "data/people.csv", "leaves.csv", {}, **names)
        (self.office / "more.toml").write_text(text)

    def write_groups(self, path: Path, groups: str, regions: str) -> None:
        """Write a run file of group sizes that costs as much, with the same limit."""
        settings = {"groups": groups, "hierarchy": regions, "epsilon": str(COST), "epsilon_limit": str(LIMIT)}
        settings |= {"data_set": "groups", "ledger": "book/groups.jsonl"}
        path.parent.mkdir(exist_ok=True)
        path.write_text("sizes = 4\n" + "".join(f'{key} = "{value}"\n' for key, value in settings.items()))

    def copy_records(self, *, whole_folder: bool) -> None:
        """Copy the file of records into a folder of its own, or the folder that holds it with all that lies there."""
        for path in self.records.iterdir() if whole_folder else (self.records / "people.csv",):
            (self.copy / "data").mkdir(parents=True, exist_ok=True)
            (self.copy / "data" / path.name).write_bytes(path.read_bytes())

    def registries(self, data_set: str, folder: Path | None = None) -> list[Path]:
        """Return the registries beside the records, or in another folder, that are of a data set."""
        return [
            path
            for path in sorted((folder or self.records).glob("*.registry"))
            if json.loads(path.read_bytes().splitlines()[0])["data_set"] == data_set
        ]

    def pair(self, data_set: str) -> Pair:
        """Return the ledger of the office and its registry as they are now."""
        path = self.office / "book" / f"{data_set}.jsonl"
        ledger = path.read_bytes() if path.exists() else None
        written = self.seen.written.get(data_set, Pair()).ledger or ledger
        mine = json.loads(written.splitlines()[0])["ledger"] if written else ""
        registry = next((one for one in self.registries(data_set) if mine in one.name), None)
        return Pair(ledger, None if registry is None else registry.read_bytes())

    def pairs(self) -> dict[str, Pair]:
        """Return ledger and registry of every data set."""
        return {name: self.pair(name) for name in ("people", "groups")}

    def note_written(self, before: dict[str, Pair]) -> None:
        """Note what a program wrote into ledgers and registries since they were as before."""
        written = dict(self.seen.written)
        for name, pair in self.pairs().items():
            old, known = before[name], written.get(name, Pair())
            ledger = pair.ledger if pair.ledger != old.ledger else known.ledger
            registry = pair.registry if pair.registry != old.registry else known.registry
            written[name] = Pair(ledger, registry)
        self.seen = replace(self.seen, written=written)

    def note_put_back(self) -> None:
        """Note what is forgotten if a ledger and its registry are both older now than what a program wrote last."""
        for name, pair in self.pairs().items():
            self._note_pair(name, pair)

    def note_copied_registry(self) -> None:
        """Note ledger and copied registry as a program that is given both sees them."""
        mine = [path.name for path in self.registries("people")]
        copied = [path for path in self.registries("people", self.copy / "data") if path.name in mine]
        for path in copied:
            pair = replace(self.pair("people"), registry=path.read_bytes())
            self._note_pair("people", pair)
            if pair.fits:
                self.seen = replace(self.seen, written=self.seen.written | {"people": pair})

    def _note_pair(self, name: str, pair: Pair) -> None:
        if pair.is_older(self.seen.written.get(name, Pair())):
            own = self.seen.drawn_by(OFFICE) + self.seen.taken
            forgiven = self.seen.forgiven | {name: max(own - pair.charged, Fraction(0))}
            self.seen = replace(self.seen, written=self.seen.written | {name: pair}, forgiven=forgiven)

    def signature(self) -> tuple[object, ...]:
        """Return what is there, without what chance and time put into it: equal states are followed once."""
        parts: list[object] = [
            self.seen.drawn,
            self.seen.owed(),
            *sorted(self.seen.unnoticed),
            self.seen.limit,
        ]
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

    def note_limit(self, limit: Fraction) -> None:
        """Note that a person changed the limit."""
        self.seen = replace(self.seen, limit=limit)

    def note_unnoticed(self, whose: str, registries: list[Path]) -> None:
        """Note that a ledger is made where nothing says that one was charged: `registries` of the same data set."""
        marks = (json.loads(path.read_bytes().splitlines()[-1]) for path in registries)
        if all(mark["records"] == 1 for mark in marks):
            self.seen = replace(self.seen, unnoticed=self.seen.unnoticed | {whose})

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
                    self.seen.draws[name] = loss, MADE_BY.get(part.parents[2].name, OFFICE)
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
            stated += [everything | {"at": name, "whose": MADE_BY.get(name, OFFICE)}] if everything else []
        return stated, new


def _canonical(fields: dict[str, object]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _sealed(fields: dict[str, object], before: list[bytes]) -> bytes:
    """Return the next line of a ledger, which carries its number, the hash of the line before and its own."""
    previous = hashlib.sha256(before[-1]).hexdigest() if before else "0" * 64
    inner = fields | {"time": "2026-11-25T20:25:15Z", "seq": len(before), "prev": previous}
    return _canonical(inner | {"hash": hashlib.sha256(_canonical(inner)).hexdigest()})


def _former_intent(number: int) -> dict[str, object]:
    """Return the charge of a release of the former program: one Gaussian answer in which a changed record moves two."""
    law = {"law": "discrete_gaussian", "parameter": "2", "coordinates": 2, "shift": 1, "attributes": ["sex"]}
    plan = hashlib.sha256(f"former {number}".encode()).hexdigest()
    return {
        "kind": "intent",
        "attempt": 1,
        "covers": ["land"],
        "exact": [],
        "journal": plan[:32],
        "laws": [law | {"level": "land", "query": "sex"}],
        "limit": str(LIMIT),
        "limit_reason": "",
        "loss": str(FORMER_COST),
        "plan_hash": plan,
        "release": f"former-{number}",
    }


def _rho_of_choice(epsilon: str, odds: Fraction) -> Fraction:
    """Return what a choice costs as zCDP, which is less than its epsilon: what limits of either kind count at least."""
    return Fraction(epsilon) * (odds - 1) / (odds + 1)


def _drawn(part: Path) -> Iterator[tuple[str, Fraction]]:
    """Yield a name that no other draw has, and the loss, of a file of noisy answers or of a choice."""
    release = part.parents[2]
    digest = hashlib.sha256(part.read_bytes()).hexdigest()
    if part.parent.parent.name == "choice":
        certificate = release / "certificate.json"
        if certificate.exists():
            said = json.loads(certificate.read_text())
            yield f"choice of {release.name}", _rho_of_choice(said["epsilon"], Fraction(said["exp_epsilon"]))
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
