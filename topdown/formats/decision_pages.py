"""Pages that are made before anything is spent: a plan over several budgets, and the errors of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from topdown.formats.report_pages import PAGES
from topdown.formats.report_parts import NONE, Content, Shell, Write, share_of, table, whole_page, words_of

AREA_SIZES = (10, 100, 1000, 10_000, 100_000, 1_000_000)
"""Sizes of areas beside which errors of totals are shown before a decision, in records."""


def decision_html(documents: Mapping[str, Any], language: str, write: Write) -> str:
    """Return the report of a plan before anything is spent, as one HTML file that says it is no release.

    Args:
        documents: plan.json; `derived` (leaf and noise); `decision`: title, plan, delta, and `points` with
            loss_name, budget, epsilon, certified, right_in_100, sentence, errors by level and query, and totals by
            level, with the error as a share of each of `AREA_SIZES`; `other`: the same of a second plan, or None.
        language, write: as for `report_html`.
    """
    c = Content(documents, words_of(language), write)
    title = f"{c.answer('plan.json#/release/title', 'open_title')} · {c.text('plan.json#/release/id')}"
    header = (
        f'<p class="lead">{c.say("decision.report")} · {c.answer("plan.json#/release/agency", "open_agency")}</p>'
        f"<h1>{c.answer('plan.json#/release/title', 'open_title')}</h1>"
        f'<p class="stamp">{c.say("decision.stamp")}</p>'
    )
    pages = {
        "decision": _decision(c),
        "sizes": _sizes(c),
        "errors": _errors(c),
        "exact": PAGES["exact"](c),
        "budget": PAGES["budget"](c),
    }
    shown = {name: html for name, html in pages.items() if html}
    return whole_page(c, Shell(title, header, f"{title} · {c.say('decision.stamp')}"), shown)


def simulation_html(documents: Mapping[str, Any], language: str, write: Write) -> str:
    """Return the report of a simulation as one HTML file that says it is no release."""
    c = Content(documents, words_of(language), write)
    title = c.say("simulation.heading", plan=escape(c.at("simulation.json#/plan_hash")[:8]))
    stamp = f'<p class="stamp">{c.say("simulation.stamp")}</p>'
    header = f'<p class="lead">{c.say("simulation.report")}</p><h1>{title}</h1>{stamp}'
    at, words = "simulation.json#", c.words["simulation"]
    slots = {
        "truth": c.say(f"simulation.truth.{c.at(f'{at}/truth/kind')}", name=c.text(f"{at}/truth/name")),
        "records": c.number(f"{at}/truth/n_records", "whole"),
        "replicates": c.number(f"{at}/replicates", "whole"),
        "seed": c.number(f"{at}/seed", "text"),
        "unit": c.text(f"{at}/unit"),
    }
    parts = [f'<p class="lead">{c.say("simulation.lead", **slots)}</p>']
    if c.at(f"{at}/truth/reason"):
        parts.append(f"<p>{c.say('simulation.reason', reason=c.text(f'{at}/truth/reason'))}</p>")
    for i, level in enumerate(c.at(f"{at}/levels")):
        rows = [
            [
                escape(query["query"]),
                *(
                    c.number_or_none(f"{at}/levels/{i}/queries/{j}/{key}", "near2")
                    for key in ("mae", "mae_standard_error", "bias")
                ),
            ]
            for j, query in enumerate(level["queries"])
        ]
        sizes = [
            [
                c.span(size),
                c.number(f"{size}/n_areas", "whole"),
                c.number(f"{size}/mae", "near2"),
                c.number_or_none(f"{size}/mae_of_mean", "percent"),
                c.number(f"{size}/bias", "near2"),
            ]
            for j in range(len(level["totals_by_size"]))
            for size in [f"{at}/levels/{i}/totals_by_size/{j}"]
        ]
        parts.append(
            f"<h3>{escape(level['level'])}</h3>{table(words['columns'], rows, numbers=range(1, 4))}"
            f"{table(words['size_columns'], sizes, numbers=range(1, 5))}"
        )
    return whole_page(
        c,
        Shell(title, header, c.say("simulation.stamp")),
        {"simulation": "".join([*parts, f'<p class="note">{c.say("simulation.note")}</p>'])},
    )


def _decision(c: Content) -> str:
    """Return one row a budget: what to write, the attacker's chance, and the error of totals by level."""
    words, unit = c.words["decision"], c.record
    parts = [f'<p class="lead">{c.say("decision.lead")}</p>']
    for name in ("decision", "other"):
        if c.at(f"{name}#/") is None:
            continue
        points = c.at(f"{name}#/points")
        levels = [one["level"] for one in points[0]["errors"] if one["query"] == "total"]
        rows = []
        for i, point in enumerate(points):
            at = f"{name}#/points/{i}"
            totals = [j for j, one in enumerate(point["errors"]) if one["query"] == "total"]
            rows.append(
                [
                    *c.numbers(at, epsilon="text", certified="up4", budget="text", right_in_100="whole"),
                    *(_error(c, f"{at}/errors/{j}") for j in totals),
                ]
            )
        head = [*words["columns"], c.text(f"{name}#/points/0/loss_name"), words["right"], *levels]
        title = c.answer(f"{name}#/title", "open_title")
        parts += [
            f"<h3>{c.say(f'decision.{name}', title=title, plan=c.text(f'{name}#/plan'))}</h3>",
            table(head, rows, numbers=range(len(head))),
            *(
                f"<p>{c.say('errors.decision', epsilon=escape(points[i]['epsilon']))}: "
                f"{c.quote(f'{name}#/points/{i}/sentence')}</p>"
                for i in sorted({0, len(points) - 1})
            ),
        ]
    slots = {"unit": unit, "delta": c.number("decision#/delta", "text")}
    return "".join([*parts, f'<p class="note">{c.say("decision.note", **slots)}</p>'])


def _error(c: Content, at: str) -> str:
    """Return the error of an estimate, or of the measured answer where no estimate is covered."""
    return c.number_or_none(f"{at}/estimate" if c.at(f"{at}/estimate") is not None else f"{at}/noise", "up1")


def _plans(c: Content) -> tuple[str, ...]:
    """Return the names of the plans that stand side by side."""
    return ("decision",) if c.at("other#/") is None else ("decision", "other")


def _columns(c: Content, first: str) -> list[str]:
    """Return the head of a table with a column for every epsilon and plan."""
    points = c.at("decision#/points")
    return [first] + [
        c.words["errors"][name].format(epsilon=point["epsilon"]) for point in points for name in _plans(c)
    ]


def _sizes(c: Content) -> str:
    """Return a table for each level: errors of totals beside the size of the area, of both plans side by side."""
    unit = c.record
    head = _columns(c, c.words["sizes"]["size"].format(unit=c.unit.record))
    places = {
        (name, one["level"]): j
        for name in _plans(c)
        for j, one in enumerate(c.at(f"{name}#/points/0/totals"))
    }
    points = range(len(c.at("decision#/points")))
    parts, exact = [], []
    for level in dict.fromkeys(level for _, level in places):
        at = [
            f"{name}#/points/{i}/totals/{places[name, level]}/shares" if (name, level) in places else None
            for i in points
            for name in _plans(c)
        ]
        shares = [[share_of(c.at(f"{one}/{k}")) for one in at if one] for k in range(len(AREA_SIZES))]
        if not max(shares[0]):
            exact.append(level)
            continue
        last = next((k for k, here in enumerate(shares) if max(here) <= 0.01), len(AREA_SIZES) - 1)
        first = next((k for k, here in enumerate(shares[:last]) if min(here) <= 1), last)
        rows = [
            [
                c.number(f"sizes#/{k}", "whole"),
                *(c.number(f"{one}/{k}", "percent_up") if one else NONE for one in at),
            ]
            for k in range(first, last + 1)
        ]
        parts.append(f"<h3>{escape(level)}</h3>{table(head, rows, numbers=range(len(head)))}")
    if exact:
        parts.append(f"<p>{c.say('sizes.exact', levels=escape(', '.join(exact)))}</p>")
    lead = f'<p class="lead">{c.say("sizes.lead", unit=unit)}</p>'
    return "".join([lead, *parts, f'<p class="note">{c.say("sizes.note")}</p>']) if parts else ""


def _errors(c: Content) -> str:
    """Return a table for each level: errors of each query by budget, of both plans side by side."""
    parts = [f'<p class="lead">{c.say("errors.lead", unit=c.record)}</p>']
    both, head = _plans(c), _columns(c, c.words["errors"]["query"])
    points = c.at("decision#/points")
    places = {
        (name, one["level"], one["query"]): j
        for name in both
        for j, one in enumerate(c.at(f"{name}#/points/0/errors"))
    }
    for level in dict.fromkeys(level for _, level, _ in places):
        queries = dict.fromkeys(query for _, at, query in places if at == level)
        rows = [
            [
                escape(query),
                *(
                    _error(c, f"{name}#/points/{i}/errors/{places[name, level, query]}")
                    if (name, level, query) in places
                    else NONE
                    for i in range(len(points))
                    for name in both
                ),
            ]
            for query in queries
        ]
        parts.append(f"<h3>{escape(level)}</h3>{table(head, rows, numbers=range(1, len(head)))}")
    return "".join([*parts, f'<p class="note">{c.say("errors.note")}</p>'])
