"""Choose: confidential records in, one choice out, charged once and only once before anything is drawn.

A question is public words and how records answer it through `topdown.selection`.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from topdown.errors import ConfigError
from topdown.formats import json_bytes
from topdown.inputs import MemoryTable
from topdown.measure.confidential import load_records
from topdown.measure.record_counts import LeafCounts
from topdown.measure.records import control_totals, records_form
from topdown.measure.run_ledger import ledger_location
from topdown.measure.truth import records_digest
from topdown.model import Geography, Histogram, Query
from topdown.plan import PreparedRun, geography_sha256
from topdown.plan.candidates import Candidates
from topdown.privacy import AesBits
from topdown.privacy.ledger import (
    REAL_DISK,
    Choice,
    Commit,
    Disk,
    Journal,
    Ledger,
    LedgerLocation,
    Limits,
    MeasuredPart,
    PartSize,
    canonical_line,
    run_charged,
)
from topdown.selection import (
    FAILING,
    Chance,
    Districts,
    Incidence,
    Monitor,
    RealChance,
    Residents,
    Subsampling,
    check_count,
    cover_order,
    cover_order_by_choices,
    frequent,
    incidence_of_pairs,
    max_cover,
    sites_by_district,
    surely_heavy,
    threshold_for,
    thresholds,
)

COVERAGE = "public/coverage.csv"
MOST_SYMBOLS = 10**9
AnswerFields = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked, all of it public, and what answers it.

    Args:
        asked: the question of selection.json.
        answer: from the histogram of the leaves, and chance, to the fields of result.json. It keeps the promise of the
            plan it was made with; nothing else that it returns may depend on records.
        files: public files that belong to it, by path.
    """

    asked: dict[str, Any]
    answer: Callable[[Histogram, Chance], AnswerFields]
    files: dict[str, bytes] = field(default_factory=dict)


def sites_question(
    candidates: Candidates, geography: Geography, k: int, plan: Subsampling, per: str | None, most: int
) -> Question:
    """Ask which k candidates cover many records, with at most so many in each district, if there are districts.

    Raises: ConfigError (C193).
    """
    check_count(k, len(candidates.names), "k")
    check_count(most, len(candidates.names), "the most of one district")
    districts = None
    if candidates.districts is not None:
        number = {name: i for i, name in enumerate(dict.fromkeys(candidates.districts))}
        districts = Districts(tuple(number[name] for name in candidates.districts), k, most)
    areas = _incidence(candidates, geography)

    def answer(leaves: Histogram, chance: Chance) -> AnswerFields:
        data = Residents(areas, leaves.totals())
        if districts is None:
            return _chosen_names(candidates, max_cover(data, k, plan, chance).items)
        return _chosen_names(candidates, sites_by_district(data, districts, plan, chance).items)

    files = {COVERAGE: coverage_bytes(candidates, geography)}
    asked = _candidates_document("sites", candidates, files) | {"k": k, "per": per, "most": most}
    return Question(asked, answer, files)


def order_question(
    candidates: Candidates, geography: Geography, most_records: int | None, plan: Subsampling
) -> Question:
    """Ask for an order of all candidates in which every record soon meets one that covers it.

    With a public bound on the number of records by falling thresholds, else by as many choices; one sample each.

    Raises: ConfigError (C193).
    """
    if most_records is not None:
        thresholds(len(candidates.names), most_records, plan)
    areas = _incidence(candidates, geography)

    def answer(leaves: Histogram, chance: Chance) -> AnswerFields:
        data = Residents(areas, leaves.totals())
        if most_records is None:
            return _chosen_names(candidates, cover_order_by_choices(data, plan, chance).items)
        return _chosen_names(candidates, cover_order(data, most_records, plan, chance).items)

    files = {COVERAGE: coverage_bytes(candidates, geography)}
    return Question(
        _candidates_document("order", candidates, files) | {"most_records": most_records}, answer, files
    )


def frequent_question(
    queries: Sequence[Query], geography: Geography, level: str, cap: int, light: int, plan: Subsampling
) -> Question:
    """Ask which answers of queries more than `light` records share in an area of a level.

    Raises: ConfigError (C193).
    """
    check_count(cap, len(queries), "the cap")
    depth = geography.index(level)
    codes, above = geography.levels[depth].codes, geography.ancestors_of_leaves[depth]
    sizes = [len(codes) * query.n_answers for query in queries]
    check_count(sum(sizes), MOST_SYMBOLS, "the number of areas times answers")
    reports = sum(sizes) / FAILING
    threshold = threshold_for(light, reports, cap, plan)
    monitor = Monitor(max(sizes), cap, threshold)

    def answer(leaves: Histogram, chance: Chance) -> AnswerFields:
        area, cell = np.repeat(above[leaves.node], leaves.count), np.repeat(leaves.cell, leaves.count)
        steps = (area * query.n_answers + query.labels[cell] for query in queries)
        found = []
        watched = frequent(steps, len(area), monitor, plan, chance)
        for query, size, symbols in zip(queries, sizes, watched, strict=True):
            found += [
                _symbol_document(query, codes, s) for s in symbols if s < size
            ]  # beyond: no answer of this query
        return {"chosen": [], "frequent": found}

    asked = {
        "kind": "frequent",
        "level": level,
        "queries": [query.name for query in queries],
        "symbols": max(sizes),
        "cap": cap,
        "threshold": threshold,
        "light": light,
        "heavy": surely_heavy(threshold, reports, plan),
        "failing": str(Fraction(FAILING)),
    }
    return Question(asked, answer)


def coverage_bytes(candidates: Candidates, geography: Geography) -> bytes:
    """Return the table of which leaves each candidate covers, in the order of both."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("candidate", "geocode"))
    codes = geography.leaves.codes
    pairs = zip(candidates.candidate, candidates.leaf, strict=True)
    writer.writerows((candidates.names[i], codes[leaf]) for i, leaf in pairs)
    return text.getvalue().encode()


def _incidence(candidates: Candidates, geography: Geography) -> Incidence:
    if not len(candidates.leaf):
        raise ConfigError(
            "no candidate covers any area", code="C192", fix="give a larger radius, or list what they cover"
        )
    return incidence_of_pairs(
        candidates.leaf, candidates.candidate, len(geography.leaves), len(candidates.names)
    )


def _candidates_document(kind: str, candidates: Candidates, files: dict[str, bytes]) -> dict[str, Any]:
    n = len(candidates.names)
    districts, places = candidates.districts or (None,) * n, candidates.places or ((None, None),) * n
    rows = zip(candidates.names, districts, places, strict=True)
    return {
        "kind": kind,
        "candidates": [{"name": c, "district": d, "latitude": p[0], "longitude": p[1]} for c, d, p in rows],
        "coverage_sha256": hashlib.sha256(files[COVERAGE]).hexdigest(),
    }


def _chosen_names(candidates: Candidates, items: Sequence[int]) -> AnswerFields:
    return {"chosen": [candidates.names[item] for item in items], "frequent": []}


def _symbol_document(query: Query, codes: Sequence[str], symbol: int) -> dict[str, Any]:
    area, rest = divmod(symbol, query.n_answers)
    values: dict[str, str] = {}
    for factor in reversed(query.factors):
        rest, group = divmod(rest, len(factor.group_labels))
        values[factor.name] = factor.group_labels[group]
    return {"query": query.name, "area": codes[area], "values": dict(reversed(values.items()))}


CHOICE_FOLDER, SELECTION_FILE = "choice", "selection.json"
ANSWER_PART = MeasuredPart("answer", "part-000", "json")


@dataclass(frozen=True, eq=False)
class ChoiceRequest:
    """A question, what its answer may cost, and the run that knows records and ledger.

    Args:
        prepared: run file and public facts.
        question: what is asked, made with `plan`.
        epsilon: pure, exact; the plan keeps it.
        plan: rate and base, for the relation of the run.
        records: confidential records in memory; None if the run file names them.
    """

    prepared: PreparedRun
    question: Question
    epsilon: Fraction
    plan: Subsampling
    records: MemoryTable | None = None

    @property
    def document(self) -> dict[str, Any]:
        """selection.json."""
        release, geography = self.prepared.plan, self.prepared.context.geography
        document: dict[str, Any] = {
            "type": "topdown.selection",
            "version": 1,
            "data_set": release.release.data_set,
            "unit": release.schema.unit,
            "neighbours": self.plan.neighbours,
            "schema": release.schema.name,
            "geography_sha256": geography_sha256(geography),
            "epsilon": str(self.epsilon),
            "rate": str(self.plan.rate),
            "base": str(self.plan.base),
            "question": self.question.asked,
        }
        return document | {"plan_hash": hashlib.sha256(canonical_line(document)).hexdigest()}

    @property
    def spend(self) -> ChoiceSpend:
        """What it may charge to the ledger of its run."""
        policy = self.prepared.run.ledger
        plan_hash = self.document["plan_hash"]
        return ChoiceSpend(
            release=f"{self.question.asked['kind']}-{plan_hash[:8]}",
            plan_hash=plan_hash,
            plan=self.plan,
            epsilon=self.epsilon,
            limits=policy.limits,
        )


@dataclass(frozen=True)
class ChoiceSpend:
    """What a choice may charge; see `Chargeable`."""

    release: str
    plan_hash: str
    plan: Subsampling
    epsilon: Fraction
    limits: Limits
    covers: tuple[str, ...] = (ANSWER_PART.level,)

    def intent(self, covers: tuple[str, ...], attempt: int, journal_id: str) -> Choice:
        """Return the intent that pays for drawing the choice once."""
        return Choice(
            release=self.release,
            plan_hash=self.plan_hash,
            neighbours=self.plan.neighbours,
            epsilon=self.epsilon,
            rate=self.plan.rate,
            base=self.plan.base,
            attempt=attempt,
            covers=covers,
            journal=journal_id,
        )


def choose(asked: ChoiceRequest, out: Path, *, again: bool = False, disk: Disk = REAL_DISK) -> Commit:
    """Draw a choice once, and write it to `out/choice`; a second call changes nothing.

    Guarantees what `measure` does: the charge is durable before the sample is drawn, nothing is drawn twice under one
    charge whatever crashes, and the choice has no name that readers know before the ledger holds the commit.

    Args:
        asked: question and run.
        out: folder of the choice; created if missing, held by whoever calls.
        again: choose although the ledger holds this choice already, in another folder.
        disk: another model of the disk, for tests.

    Returns: the ledger's commit, which names every charge.

    Raises:
        ConfigError: `out` belongs to another choice, or is damaged.
        DataError: the records break a rule, or are others than those of the choice there is.
        BudgetError: the ledger is missing, another one, in use, damaged, rolled back, or refuses the loss.
        CertificateError: committed files are missing or altered.
        KeyboardInterrupt: once the choice is drawn.
    """
    work = _ChoiceWork(asked, out, disk)
    return run_charged(work, again=again, disk=work.disk).commit


@dataclass(frozen=True, eq=False)
class _ChoiceWork:
    """A choice as a charged run of one part; see `ChargedWork`."""

    asked: ChoiceRequest
    out: Path
    disk: Disk
    parts: ClassVar[tuple[MeasuredPart, ...]] = (ANSWER_PART,)

    @property
    def location(self) -> LedgerLocation:
        return ledger_location(self.asked.prepared)

    @property
    def folder(self) -> Path:
        return self.out / CHOICE_FOLDER

    @property
    def binds(self) -> dict[str, str]:
        return {"plan_hash": self.asked.spend.plan_hash}

    def charge(self, so_far: Fraction) -> ChoiceSpend:
        return self.asked.spend

    @cached_property
    def leaves(self) -> LeafCounts:
        """Counts of the leaves: the records are opened where they are first asked for."""
        prepared = self.asked.prepared
        form, totals = records_form(prepared.run), control_totals(prepared.run)
        records = prepared.records_path if self.asked.records is None else self.asked.records
        return load_records(records, prepared.context, form, totals=totals).open_counts()

    def open_records(self) -> None:
        _ = self.leaves

    def preflight(self, journal: Journal | None, ledger: Ledger) -> None:
        _write_question(self.asked, self.out, self.disk)

    def exact(self) -> None:
        """Publish nothing exactly."""

    def digest(self, key: bytes) -> str:
        return records_digest(self.leaves, key)

    def size(self, part: MeasuredPart) -> PartSize:
        return PartSize(n_bytes=2 * len(json_bytes(self.asked.document)))  # it names what was asked

    def has_form(self, part: MeasuredPart, data: bytes) -> bool:
        """Accept every form: a choice is one part, and where that is whole nothing more is charged."""
        return True

    def draw(self, parts: Iterator[MeasuredPart], drawn: Callable[[MeasuredPart], bytes]) -> Generator[bytes]:
        yield from map(self._draw_part, parts)

    def _draw_part(self, _: MeasuredPart) -> bytes:
        answer = self.asked.question.answer(self.leaves.whole(), RealChance(AesBits()))
        head = {
            "type": "topdown.selection.result",
            "version": 1,
            "plan_hash": self.asked.document["plan_hash"],
        }
        return json_bytes(head | answer)


def _write_question(asked: ChoiceRequest, out: Path, disk: Disk) -> None:
    """Write the question and its public files, durably, before anything is spent."""
    disk.make_folder(out / "public")
    for path, data in (*asked.question.files.items(), (SELECTION_FILE, json_bytes(asked.document))):
        disk.replace(out / path, data)
