"""Questions that a choice answers: their public words, and how records answer them through `topdown.selection`."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from topdown.errors import ConfigError
from topdown.model.geography import Geography
from topdown.model.histogram import Histogram
from topdown.model.query import Query
from topdown.plan.candidates import Candidates
from topdown.selection.chance import Chance
from topdown.selection.districts import Districts, sites_by_district
from topdown.selection.frequent import Monitor, frequent, surely_heavy, threshold_for
from topdown.selection.orders import FAILING, cover_order, cover_order_by_choices, thresholds
from topdown.selection.plan import Subsampling
from topdown.selection.records import Incidence, Residents, check_count, incidence_of_pairs
from topdown.selection.sites import max_cover

COVERAGE = "public/coverage.csv"
MOST_SYMBOLS = 10**9
Answer = dict[str, Any]


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
    answer: Callable[[Histogram, Chance], Answer]
    files: dict[str, bytes] = field(default_factory=dict)


def sites(
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
    areas = _areas(candidates, geography)

    def answer(leaves: Histogram, chance: Chance) -> Answer:
        data = Residents(areas, leaves.totals())
        if districts is None:
            return _named(candidates, max_cover(data, k, plan, chance).items)
        return _named(candidates, sites_by_district(data, districts, plan, chance).items)

    files = {COVERAGE: coverage_bytes(candidates, geography)}
    asked = _about("sites", candidates, files) | {"k": k, "per": per, "most": most}
    return Question(asked, answer, files)


def order(
    candidates: Candidates, geography: Geography, most_records: int | None, plan: Subsampling
) -> Question:
    """Ask for an order of all candidates in which every record soon meets one that covers it.

    With a public bound on the number of records by falling thresholds, else by as many choices; one sample each.

    Raises: ConfigError (C193).
    """
    if most_records is not None:
        thresholds(len(candidates.names), most_records, plan)
    areas = _areas(candidates, geography)

    def answer(leaves: Histogram, chance: Chance) -> Answer:
        data = Residents(areas, leaves.totals())
        if most_records is None:
            return _named(candidates, cover_order_by_choices(data, plan, chance).items)
        return _named(candidates, cover_order(data, most_records, plan, chance).items)

    files = {COVERAGE: coverage_bytes(candidates, geography)}
    return Question(_about("order", candidates, files) | {"most_records": most_records}, answer, files)


def often(
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

    def answer(leaves: Histogram, chance: Chance) -> Answer:
        area, cell = np.repeat(above[leaves.node], leaves.count), np.repeat(leaves.cell, leaves.count)
        steps = (area * query.n_answers + query.labels[cell] for query in queries)
        found = []
        watched = frequent(steps, len(area), monitor, plan, chance)
        for query, size, symbols in zip(queries, sizes, watched, strict=True):
            found += [
                _answer(query, codes, s) for s in symbols if s < size
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


def _areas(candidates: Candidates, geography: Geography) -> Incidence:
    if not len(candidates.leaf):
        raise ConfigError(
            "no candidate covers any area", code="C192", fix="give a larger radius, or list what they cover"
        )
    return incidence_of_pairs(
        candidates.leaf, candidates.candidate, len(geography.leaves), len(candidates.names)
    )


def _about(kind: str, candidates: Candidates, files: dict[str, bytes]) -> dict[str, Any]:
    n = len(candidates.names)
    districts, places = candidates.districts or (None,) * n, candidates.places or ((None, None),) * n
    rows = zip(candidates.names, districts, places, strict=True)
    return {
        "kind": kind,
        "candidates": [{"name": c, "district": d, "latitude": p[0], "longitude": p[1]} for c, d, p in rows],
        "coverage_sha256": hashlib.sha256(files[COVERAGE]).hexdigest(),
    }


def _named(candidates: Candidates, items: Sequence[int]) -> Answer:
    return {"chosen": [candidates.names[item] for item in items], "frequent": []}


def _answer(query: Query, codes: Sequence[str], symbol: int) -> dict[str, Any]:
    area, rest = divmod(symbol, query.n_answers)
    values: dict[str, str] = {}
    for factor in reversed(query.factors):
        rest, group = divmod(rest, len(factor.group_labels))
        values[factor.name] = factor.group_labels[group]
    return {"query": query.name, "area": codes[area], "values": dict(reversed(values.items()))}
