"""Check `report`: report.html, made anew from what the files say, is the same byte for byte.

Words and layout are the form of the document; every figure in it is derived and rounded here by code of verify's own,
and read from the page again.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from html.parser import HTMLParser
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from topdown.arrays import Ints
from topdown.formats.report_pages import report_html
from topdown.formats.report_parts import (
    BOUNDARIES,
    LANGUAGES,
    MAP_CLASSES,
    MOST_TILES,
    PRODUCTION,
    REPORT,
    SIZES,
    Outlines,
    words_of,
)
from topdown.formats.verify_documents import CheckResult, Finding
from topdown.verify.exact_arithmetic import fraction
from topdown.verify.findings import Findings
from topdown.verify.noise_laws import law_named
from topdown.verify.plan_reader import VERSION
from topdown.verify.query_labels import Query
from topdown.verify.released_records import answer_label
from topdown.verify.session import Session, run_check
from topdown.verify.strict_reader import read_bytes, read_json

DIGITS = {"up1": 1, "up2": 2, "up4": 4}
NEAR = 60  # characters shown before the first difference
CODE = "V203"


def check_report(session: Session, out: Findings) -> str:
    """Compare report.html with one made anew."""
    return compare_report(session, read_bytes(session.root, REPORT, CODE), out, REPORT)


def compare_report(
    session: Session, data: bytes, out: Findings, file: str, outlines: Outlines | None = None
) -> str:
    """Compare a report with one made anew from a release, in each language; add the first difference."""
    out.n_checked = 1
    try:
        documents = report_documents(session) | ({} if outlines is None else {BOUNDARIES: outlines})
        pages = [(language, report_html(documents, language, rounded).encode()) for language in LANGUAGES]
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, StopIteration):
        text = "no report follows from the files of the release, as one of them is not what it should be"
        out.add(Finding(CODE, text, file, why="the checks of the documents say which"))
        return text
    nearest = ("", 0, "", "")
    for language, due in pages:
        if data == due:
            return _check_numbers(due.decode(), documents, out, file, language)
        place = first_difference(due, data)
        if place >= nearest[1]:
            nearest = (language, place, _beside(due, place), _beside(data, place))
    _, place, want, have = nearest
    line = data[:place].count(b"\n") + 1
    text = "the report is not what the files of the release say"
    why = "people read it before anything else"
    out.add(Finding(CODE, text, file, line, None, want, have, why))
    return f"{text}: line {line}"


def _check_numbers(page: str, documents: dict[str, Any], out: Findings, file: str, language: str) -> str:
    """Hold every number of the page against the place that it names, whoever wrote the page."""
    reader = _Numbers()
    reader.feed(page)
    reader.close()
    out.n_checked = len(reader.numbers)
    thousands, decimal = words_of(language)["marks"]
    for attributes, shown in reader.numbers:
        source, form = attributes.get("data-source", ""), attributes.get("data-form", "")
        name, _, pointer = source.partition("#/")
        value = documents[name]
        for key in pointer.split("/"):
            plain = key.replace("~1", "/").replace("~0", "~")
            value = value[int(plain)] if isinstance(value, list) else value[plain]
        due = rounded(value, form)
        if form != "text":
            due = "".join({",": thousands, ".": decimal}.get(letter, letter) for letter in due)
        if attributes.get("value") != str(value) or shown != due:
            text = f"a number of the report is not the one at {source}"
            out.add(Finding(CODE, text, file, None, None, due, shown))
    if out.ok:
        return f"report.html says what the files say, in {out.n_checked} numbers ({language})"
    return f"{out.n_failed} of {out.n_checked} numbers of report.html are others than they should be"


class _Numbers(HTMLParser):
    """Collect every element `data` of a page: its attributes and the text in it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.numbers: list[tuple[dict[str, str], str]] = []
        self._open: dict[str, str] | None = None
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "data":
            self._open, self._text = {key: value or "" for key, value in attrs}, ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "data" and self._open is not None:
            self.numbers.append((self._open, self._text))
            self._open = None


def first_difference(one: bytes, other: bytes) -> int:
    """Return the place of the first byte that differs; the shorter length if there is none."""
    n = min(len(one), len(other))
    differ = np.frombuffer(one[:n], np.uint8) != np.frombuffer(other[:n], np.uint8)
    return int(np.argmax(differ)) if differ.any() else n


def _beside(data: bytes, place: int) -> str:
    return data[max(place - NEAR, 0) : place + NEAR].decode(errors="replace").replace("\n", " ")


def report_documents(session: Session) -> dict[str, Any]:
    """Return what a report is made from: documents of the release, and `derived`."""
    plan = read_json(session.root, "plan.json", "V010", "topdown.plan", VERSION)
    solve = read_json(session.root, "solve.json", "V120", "topdown.solve")
    documents = {"certificate.json": session.certificate, "plan.json": plan, "solve.json": solve}
    return documents | {"derived": _Figures(session, documents).document()}


class _Figures:
    """Figures of a report that stand in no document, from the tables as verify reads them."""

    def __init__(self, session: Session, documents: dict[str, Any]) -> None:
        self.session, self.documents = session, documents
        self.plan, self.names = session.plan, session.tree.names

    def document(self) -> dict[str, Any]:
        """Return all of them; `topdown.publish` says what each is."""
        certificate, total = self.session.certificate, self.plan.queries["total"]
        noise = [[self._noise(m) for m in level.measurements] for level in self.plan.doc.levels]
        deepest = max((self.names.index(rule.level) for rule in self.plan.rules.exact), default=-1)
        of_totals = {
            level.name: found["stddev"]
            for level, row in list(zip(self.plan.doc.levels, noise, strict=True))[deepest + 1 :]
            for m, found in zip(level.measurements, row, strict=True)
            if m.query == total.name
        }
        has_intervals = self.plan.coverage is not None
        return {
            "leaf": self.names[-1],
            "n_leaves": len(self.session.tree.geocodes[-1]),
            "n_records": int(self.session.table(total, 0).count.sum()),
            "n_checks": len(certificate["checks"]),
            "n_checks_ok": len([one for one in certificate["checks"] if one["ok"] is True]),
            "n_failsafe": len(self.documents["solve.json"]["failsafe"]),
            "n_open": len(certificate["open_answers"]),
            "certificate_sha256": self.session.sha256("certificate.json"),
            "noise": noise,
            "total_noise": self._named_totals(of_totals),
            "totals": self._leaf_totals(),
            "fit": [self._fit(depth, of_totals) for depth in range(len(self.names))],
            "sizes": [row for depth in range(len(self.names)) for row in self._sizes(depth, of_totals)],
            "intervals": list(self._intervals()) if has_intervals else [],
            "groups": [row for depth in range(len(self.names)) for row in self._groups(depth)]
            if has_intervals
            else [],
            "map": self._map() if has_intervals else None,
            "production": PRODUCTION,
        }

    def _noise(self, m: Any) -> dict[str, Any]:
        exact = law_named(m.law).variance(fraction(m.parameter), m.weights or ())
        millionths = -(-exact.numerator * 10**6 // exact.denominator)
        stddev = 1 + isqrt(millionths - 1)  # thousandths, rounded up
        return {"stddev": str(Fraction(stddev, 1000)), "ten_times": -(-10 * stddev // 1000)}

    def _named_totals(self, of_totals: dict[str, str]) -> dict[str, Any]:
        leaf = self.names[-1]
        if leaf not in of_totals:
            return {"levels": of_totals}
        least = min(map(fraction, of_totals.values()))
        best = next(name for name, text in of_totals.items() if fraction(text) == least)
        pairs = {"leaf": leaf, "best": best}
        return {"levels": of_totals} | {
            key: {"level": name, "stddev": of_totals[name]} for key, name in pairs.items()
        }

    def _leaf_totals(self) -> dict[str, int]:
        count = self.session.table(self.plan.queries["total"], len(self.names) - 1).count
        few = np.count_nonzero(np.isin(count, np.arange(1, 10)))
        return {
            "n_leaves": len(count),
            "n_empty": len(count) - int(np.count_nonzero(count)),
            "n_small": int(few),
        }

    def _fit(self, depth: int, of_totals: dict[str, str]) -> dict[str, Any]:
        count = self.session.table(self.plan.queries["total"], depth).count
        row: dict[str, Any] = {"level": self.names[depth], "n_areas": len(count)}
        if self.names[depth] not in of_totals:
            return row | {"n_within_5": None, "n_within_25": None}
        noise = fraction(of_totals[self.names[depth]])
        for name, times in (("n_within_5", 20), ("n_within_25", 4)):
            least = -(-times * noise.numerator // noise.denominator)
            row[name] = int(np.count_nonzero(count >= least))
        return row

    def _sizes(self, depth: int, of_totals: dict[str, str]) -> Iterator[dict[str, Any]]:
        table, noise = self.session.table(self.plan.queries["total"], depth), of_totals.get(self.names[depth])
        size = np.searchsorted(SIZES, table.count, side="right") - 1
        for at in np.unique(size).tolist():
            row = {
                "level": self.names[depth],
                "least": SIZES[at],
                "most": SIZES[at + 1] - 1,
                "n_areas": int(np.count_nonzero(size == at)),
            }
            if table.numbers is not None:
                row |= _half_widths((table.numbers.high - table.numbers.low)[size == at])
            if noise is not None and SIZES[at]:
                row["noise_share"] = str(fraction(noise) / SIZES[at])
            yield row

    def _intervals(self) -> Iterator[dict[str, Any]]:
        for query in self.plan.workload:
            for depth, level in enumerate(self.names):
                wide = self._wide(query, depth)[1]
                if len(wide):
                    yield {"query": query.name, "level": level} | _half_widths(wide)

    def _wide(self, query: Query, depth: int) -> tuple[Ints, Ints]:
        """Return count and width of every interval that is one."""
        table = self.session.table(query, depth)
        if table.numbers is None:
            raise TypeError("a table of a plan with intervals has none")
        rows = np.flatnonzero(table.numbers.high - table.numbers.low)
        return table.count[rows], (table.numbers.high - table.numbers.low)[rows]

    def _groups(self, depth: int) -> Iterator[dict[str, Any]]:
        found = [self._wide(query, depth) for query in self.plan.workload if query.name != "total"]
        if not found:
            return
        count, wide = (np.concatenate([pair[i] for pair in found]) for i in (0, 1))
        size = np.searchsorted(SIZES, count, side="right") - 1
        for at in np.unique(size[count > 0]).tolist():
            here, width = count[size == at], wide[size == at]
            permille = (500 * width + here - 1) // here
            yield {
                "level": self.names[depth],
                "least": SIZES[at],
                "most": SIZES[at + 1] - 1,
                "n_counts": len(here),
                "share_50": str(Fraction(_quantile(permille, 1, 2), 1000)),
                "wider_than_a_tenth": str(Fraction(int(np.count_nonzero(10 * width > 2 * here)), len(here))),
            }

    def _map(self) -> dict[str, Any] | None:
        sizes = [len(codes) for codes in self.session.tree.geocodes]
        depth = next((d for d in reversed(range(len(sizes))) if 2 <= sizes[d] <= MOST_TILES), 0)
        queries = [
            q for q in self.plan.workload if q.n_answers > 1 and depth and len(self._wide(q, depth)[1])
        ]
        if not queries:
            return None
        query = min(queries, key=lambda q: q.n_answers)
        root, table = self.session.table(query, 0), self.session.table(query, depth)
        order = np.lexsort((root.key, root.count)).tolist()
        common = [i for i in order if 20 * int(root.count[i]) >= int(root.count.sum())]
        most = min(order, key=lambda i: (-int(root.count[i]), int(root.key[i])))
        answer = int(root.key[common[0] if common else most]) % query.n_answers
        marks = np.full(sizes[depth], "-")
        if table.numbers is not None:
            for key, count, low, high in zip(
                table.key, table.count, table.numbers.low, table.numbers.high, strict=True
            ):
                if key % query.n_answers == answer and count:
                    share = Fraction(int(high - low), 2 * int(count))
                    marks[key // query.n_answers] = str(
                        [fraction(edge) <= share for edge in MAP_CLASSES].count(True)
                    )
        above, classes = self.session.tree.parent[depth], [*map(str, range(1 + len(MAP_CLASSES))), "-"]
        areas = []
        below = np.array(self.session.tree.geocodes[depth].to_pylist(), dtype=object)
        for i, code in enumerate(self.session.tree.geocodes[depth - 1].to_pylist()):
            here = marks[above == i].tolist()
            areas.append(
                {
                    "geocode": code,
                    "codes": below[above == i].tolist(),
                    "tiles": "".join(here),
                    "n": [here.count(mark) for mark in classes],
                }
            )
        return {
            "query": query.name,
            "answer": answer_label(query, answer),
            "level": self.names[depth],
            "above": self.names[depth - 1],
            "n_areas": sizes[depth],
            "edges": list(MAP_CLASSES),
            "areas": areas,
        }


def _half_widths(wide: Ints) -> dict[str, str]:
    """Return halves of the widths above 0 that half, and 95 in 100, do not exceed; nothing if there are none."""
    wide = wide[wide > 0]
    if not len(wide):
        return {}
    ends = {"half_width_50": (1, 2), "half_width_95": (19, 20)}
    return {name: str(Fraction(_quantile(wide, *share), 2)) for name, share in ends.items()}


def _quantile(values: Ints, part: int, of: int) -> int:
    """Return the least value that at least a part of all do not exceed."""
    place = (len(values) * part + of - 1) // of - 1
    return int(np.partition(values, place)[place])


def rounded(value: object, form: str) -> str:
    """Write a number as a report may show it: losses, chances and errors no smaller than they are."""
    if form == "text":
        return str(value)
    exact = Fraction(str(value))
    if form == "whole":
        if exact.denominator != 1:
            raise ValueError(value)
        return f"{int(exact):,}"
    if form == "percent":
        return f"{_with_point(round(exact * 1000), 1)} %"
    if form == "percent_up":
        return f"{_with_point(-(-1000 * exact.numerator // exact.denominator), 1)} %"
    digits = DIGITS[form]
    scaled = exact * 10**digits
    return _with_point(-(-scaled.numerator // scaled.denominator), digits)


def _with_point(scaled: int, digits: int) -> str:
    whole, rest = divmod(abs(scaled), 10**digits)
    return f"{'-' if scaled < 0 else ''}{whole:,}.{rest:0{digits}}"


def check_report_file(release: Path, data: bytes, file: str, outlines: Outlines | None = None) -> CheckResult:
    """Compare a report that lies elsewhere with a release."""
    return run_check(
        Session(release), "report", lambda session, out: compare_report(session, data, out, file, outlines)
    )
