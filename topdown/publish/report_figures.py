"""The report of a release, and the figures in it that follow from plan and published tables.

A claim is never rounded in its own favour: a privacy loss, an attacker's chance and an error are rounded up.
`topdown.verify` derives every figure once more, in its own way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import ceil, isqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from topdown.arrays import Ints
from topdown.formats.caps import read_json
from topdown.formats.report_pages import report_html
from topdown.formats.report_parts import BOUNDARIES, MAP_CLASSES, MOST_TILES, PRODUCTION, SIZES, Outlines
from topdown.model import Geography, Query, sections_of
from topdown.plan import Plan, PublicContext
from topdown.privacy.exact_values import fixed
from topdown.publish.release_certificate import CERTIFICATE
from topdown.publish.release_tables import table_path, workload

TOTAL = "total"
DOCUMENTS = (CERTIFICATE, "plan.json", "solve.json")
_DIGITS = {"up1": 1, "up2": 2, "up4": 4}


def report_bytes(
    release: Path, context: PublicContext, language: str, outlines: Outlines | None = None
) -> bytes:
    """Return the report of a release whose other files are written; equal releases have equal reports.

    Args:
        release: its folder.
        context: its plan and public facts.
        language: one of `LANGUAGES`.
        outlines: of the areas of `map_depth`; without them the map is drawn in tiles.

    Cost: one reading of the tables of totals, and of all tables that have intervals.
    """
    documents = {name: read_json(release / name) for name in DOCUMENTS}
    derived = derived_figures(release, context, documents)
    more = {"derived": derived} | ({} if outlines is None else {BOUNDARIES: outlines})
    return report_html(documents | more, language, written).encode()


def written(value: object, form: str) -> str:
    """Write a number in a form.

    Args:
        value: an integer, an exact fraction such as "7/8", or a decimal as text; a float only where a file holds one.
        form: see `topdown.formats.report_parts.Form`.

    >>> written("16.21939", "up2"), written(1052567, "whole"), written("7/8", "percent")
    ('16.22', '1,052,567', '87.5 %')
    """
    if form == "text":
        return str(value)
    exact = Fraction(str(value))
    if form == "whole":
        if exact.denominator != 1:
            raise ValueError(f"{value} is no whole number")
        return f"{exact.numerator:,}"
    if form in ("percent", "percent_up"):
        return f"{_with_commas(fixed(100 * exact, 1, up=True if form == 'percent_up' else None))} %"
    if form == "near2":
        return _with_commas(fixed(exact, 2, up=None))
    return _with_commas(fixed(exact, _DIGITS[form], up=True))


def _with_commas(number: str) -> str:
    return f"{Decimal(number):,}"


def derived_figures(release: Path, context: PublicContext, documents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a report that stand in no document.

    Args:
        release: folder of the release. context: its plan and public facts. documents: its `DOCUMENTS`.

    Returns:
        leaf, n_leaves, n_records; n_checks, n_checks_ok, n_failsafe, n_open; certificate_sha256; `noise`, of each
        level and measurement: stddev in records, rounded up to thousandths, and the least group of which it is a tenth;
        `total_noise` of the leaves and of the level with the least, where totals are not exact; `totals`, how many
        leaves have no and few records;
        `fit`, areas by level whose total is 20 and 4 times its noise; `sizes`, areas by level and number of records;
        `intervals`, half widths by table and level; `groups`, half widths by level and size of the count; `map`, of
        one statistic, or none; `production`, published errors of another release, for scale.
    """
    plan, certificate = context.plan, documents[CERTIFICATE]
    tables = _PublishedTables(release, context)
    of_plan = plan_figures(plan)
    exact = {statistic.level for statistic in plan.invariants.exact}  # so are the totals of all levels above
    n_exact = max((i + 1 for i, level in enumerate(plan.levels) if level.name in exact), default=0)
    levels = {
        level.name: of_plan["noise"][i][j]["stddev"]
        for i, level in enumerate(plan.levels)
        for j, m in enumerate(level.measurements)
        if m.query == TOTAL and i >= n_exact
    }
    totals: dict[str, Any] = {"levels": levels}
    if plan.levels[-1].name in levels:
        best = min(levels, key=lambda name: Fraction(levels[name]))
        totals |= {
            "leaf": {"level": plan.levels[-1].name, "stddev": levels[plan.levels[-1].name]},
            "best": {"level": best, "stddev": levels[best]},
        }
    intervals, groups = _widths(tables) if plan.coverage is not None else ([], [])
    records = tables.column(TOTAL, len(tables.context.plan.levels) - 1, "count")
    few = (records > 0) & (records < 10)
    return of_plan | {
        "n_records": int(tables.column(TOTAL, 0, "count").sum()),
        "n_checks": len(certificate["checks"]),
        "n_checks_ok": sum(bool(one["ok"]) for one in certificate["checks"]),
        "n_failsafe": len(documents["solve.json"]["failsafe"]),
        "n_open": len(certificate["open_answers"]),
        "certificate_sha256": hashlib.sha256((release / CERTIFICATE).read_bytes()).hexdigest(),
        "total_noise": totals,
        "totals": {"n_leaves": records.size, "n_empty": int((records == 0).sum()), "n_small": int(few.sum())},
        "fit": list(_fit(tables, totals)),
        "sizes": list(_sizes(tables, totals)),
        "intervals": intervals,
        "groups": groups,
        "map": _map(tables) if plan.coverage is not None else None,
        "production": PRODUCTION,
    }


def plan_figures(plan: Plan) -> dict[str, Any]:
    """Return the figures of a report that follow from a plan alone: leaf, n_leaves, noise; see `derived_figures`."""
    return {
        "leaf": plan.levels[-1].name,
        "n_leaves": plan.levels[-1].n_nodes,
        "noise": [[_noise_of(m.variance) for m in level.measurements] for level in plan.levels],
    }


class _PublishedTables:
    """The tables of a release, read from its files.

    Args:
        release: its folder. context: its plan and public facts.
    """

    def __init__(self, release: Path, context: PublicContext) -> None:
        self.release, self.context = release, context
        self.sections = sections_of(context.geography)

    def read(self, query: Query, depth: int, columns: list[str]) -> pa.Table:
        """Return columns of the table of a query at a level."""
        path = table_path(query, self.context.plan.levels[depth].name)
        files = (self.release / part for part in self.sections.paths(path, depth))
        return pa.concat_tables(
            pq.ParquetFile(file, pre_buffer=False).read(columns, use_threads=False) for file in files
        )

    def column(self, query: str, depth: int, name: str) -> Ints:
        """Return one column of whole numbers."""
        table = self.read(self.context.plan.query(query), depth, [name])
        return np.asarray(table[name].to_numpy(), dtype=np.int64)

    def widths(self, query: Query, depth: int) -> tuple[Ints, Ints]:
        """Return counts and widths of the intervals of a table, where they are not exact."""
        table = self.read(query, depth, ["count", "low", "high"])
        count, low, high = (table[name].to_numpy() for name in ("count", "low", "high"))
        kept = high > low
        return count[kept], (high - low)[kept]


def _noise_of(variance: Fraction) -> dict[str, Any]:
    thousandths = isqrt(int(variance * 10**6))
    thousandths += thousandths * thousandths < variance * 10**6
    return {"stddev": str(Fraction(thousandths, 1000)), "ten_times": -(-thousandths // 100)}


def _sizes(tables: _PublishedTables, totals: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield, by level and number of records, areas, half widths of their totals, and noise beside the least size."""
    plan = tables.context.plan
    for depth, level in enumerate(plan.levels):
        records = tables.column(TOTAL, depth, "count")
        wide = None
        if plan.coverage is not None:
            low, high = (tables.column(TOTAL, depth, name) for name in ("low", "high"))
            wide = high - low
        for least, most, here in _by_size(records):
            row: dict[str, Any] = {
                "level": level.name,
                "least": least,
                "most": most,
                "n_areas": int(here.sum()),
            }
            if wide is not None and (found := np.sort(wide[here & (wide > 0)])).size:
                row |= _half_widths(found)
            noise = totals["levels"].get(level.name)
            if noise is not None and least:
                row["noise_share"] = str(Fraction(noise) / least)
            yield row


def _fit(tables: _PublishedTables, totals: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield, by level, areas whose noise in the total is at most a twentieth, and a quarter, of the total."""
    for depth, level in enumerate(tables.context.plan.levels):
        records = tables.column(TOTAL, depth, "count")
        noise = totals["levels"].get(level.name)
        row = {"level": level.name, "n_areas": records.size, "n_within_5": None, "n_within_25": None}
        if noise is not None:
            row |= {
                f"n_within_{percent}": int((records >= ceil(Fraction(noise) * 100 / percent)).sum())
                for percent in (5, 25)
            }
        yield row


def _by_size(counts: Ints) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield least and most of each size that some counts have, and which they are."""
    for least, after in pairwise(SIZES):
        here = (counts >= least) & (counts < after)
        if here.any():
            yield least, after - 1, here


def _widths(tables: _PublishedTables) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return half widths by table and level, and, but for totals, by level and size of the count."""
    plan = tables.context.plan
    intervals, groups = [], []
    by_level: list[list[tuple[Ints, Ints]]] = [[] for _ in plan.levels]
    for query in workload(plan):
        for depth, level in enumerate(plan.levels):
            counts, wide = tables.widths(query, depth)
            if wide.size:
                row = {"query": query.name, "level": level.name}
                intervals.append(row | _half_widths(np.sort(wide)))
            if query.name != TOTAL:
                by_level[depth].append((counts, wide))
    for level, parts in zip(plan.levels, by_level, strict=True):
        counts, wide = (
            np.concatenate([p[i] for p in parts] or [np.zeros(0, dtype=np.int64)]) for i in (0, 1)
        )
        for least, most, here in _by_size(counts):
            if least:
                groups.append(_group(level.name, least, most, counts[here], wide[here]))
    return intervals, groups


def _group(level: str, least: int, most: int, counts: Ints, wide: Ints) -> dict[str, Any]:
    """Return how wide the intervals of counts of about one size are, as shares of the count."""
    permille = np.sort(-(-500 * wide // counts))
    return {
        "level": level,
        "least": least,
        "most": most,
        "n_counts": int(counts.size),
        "share_50": str(Fraction(_at_share(permille, Fraction(1, 2)), 1000)),
        "wider_than_a_tenth": str(Fraction(int((5 * wide > counts).sum()), int(counts.size))),
    }


def _half_widths(widths: Ints) -> dict[str, str]:
    return {
        "half_width_50": str(Fraction(_at_share(widths, Fraction(1, 2)), 2)),
        "half_width_95": str(Fraction(_at_share(widths, Fraction(19, 20)), 2)),
    }


def _at_share(values: Ints, share: Fraction) -> int:
    """Return the least of the sorted values that at least a share of them do not exceed."""
    return int(values[-(-len(values) * share.numerator // share.denominator) - 1])


def map_depth(geography: Geography) -> int:
    """Return the depth of the areas that a map of a report shows, 0 if there are none."""
    sizes = enumerate(geography.levels)
    return max((depth for depth, level in sizes if 2 <= len(level) <= MOST_TILES), default=0)


def _map(tables: _PublishedTables) -> dict[str, Any] | None:
    """Return how wide the intervals of one statistic are in the areas of one level, by the areas above.

    The statistic is the rarest answer that a twentieth of all records have, or else the commonest, of the first of the
    tables of fewest answers, two or more, that have intervals; the level is the deepest of 2 to `MOST_TILES` areas.
    """
    plan, levels = tables.context.plan, tables.context.geography.levels
    depth = map_depth(tables.context.geography)
    several = sorted((q for q in workload(plan) if q.n_answers > 1), key=lambda q: q.n_answers)
    query = next((q for q in several if depth and tables.widths(q, depth)[1].size), None)
    if query is None:
        return None
    names = [factor.name for factor in query.factors]
    root = tables.read(query, 0, [*names, "count"]).to_pylist()
    total = sum(row["count"] for row in root)
    common = [row for row in root if 20 * row["count"] >= total]
    chosen = min(common, key=lambda row: row["count"]) if common else max(root, key=lambda row: row["count"])
    place = {code: i for i, code in enumerate(levels[depth].codes)}
    tiles = ["-"] * len(levels[depth])
    for row in tables.read(query, depth, ["geocode", *names, "count", "low", "high"]).to_pylist():
        if row["count"] and all(row[name] == chosen[name] for name in names):
            share = Fraction(row["high"] - row["low"], 2 * row["count"])
            tiles[place[row["geocode"]]] = str(sum(share >= Fraction(edge) for edge in MAP_CLASSES))
    above = levels[depth].parent.tolist()
    return {
        "query": query.name,
        "answer": ", ".join(str(chosen[name]) for name in names),
        "level": plan.levels[depth].name,
        "above": plan.levels[depth - 1].name,
        "n_areas": len(tiles),
        "edges": list(MAP_CLASSES),
        "areas": [
            {
                "geocode": code,
                "codes": [below for below, up in zip(levels[depth].codes, above, strict=True) if up == i],
                "tiles": (own := "".join(tile for tile, up in zip(tiles, above, strict=True) if up == i)),
                "n": [own.count(mark) for mark in (*map(str, range(len(MAP_CLASSES) + 1)), "-")],
            }
            for i, code in enumerate(levels[depth - 1].codes)
        ],
    }
