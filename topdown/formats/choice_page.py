"""The report of a choice for people: what was chosen, on a map where candidates have places, and what is promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import cos, radians
from typing import Any

from topdown.formats.report_pages import everything_released
from topdown.formats.report_parts import (
    Content,
    Shell,
    Write,
    picture,
    svg_picture,
    table,
    whole_page,
    words_of,
)

WIDE, HIGH, MARGIN = 620, 420, 60
_BLUE, _GREY = "#1f5a8a", "#6b6b6b"
_IN_A_ROW, _BOX, _STEP = 3, 14, 26


def choice_documents(
    certificate: Mapping[str, Any], selection: Mapping[str, Any], result: Mapping[str, Any], sha256: str
) -> dict[str, Any]:
    """Return what the page of a choice is made from."""
    derived = {
        "n_candidates": len(selection["question"].get("candidates", ())),
        "n_chosen": len(result["chosen"]) + len(result["frequent"]),
        "certificate_sha256": sha256,
    }
    documents = {"certificate.json": certificate, "selection.json": selection, "result.json": result}
    return documents | {"derived": derived}


def choice_html(documents: Mapping[str, Any], language: str, write: Write) -> str:
    """Return the report of a choice as one HTML file: no script, no request, the same bytes for the same choice."""
    c = Content(documents, words_of(language), write)
    kind = c.at("selection.json#/question/kind")
    title = c.say(f"choice.{kind}")
    header = (
        f'<p class="lead">{c.say("choice.report")} · {c.text("selection.json#/data_set")}</p><h1>{title}</h1>'
    )
    footer = f"{title} · topdown {c.text('certificate.json#/engine')}"
    return whole_page(
        c, Shell(title, header, footer), {"choice": _chosen(c, kind), "choice_privacy": _promise(c)}
    )


def _chosen(c: Content, kind: str) -> str:
    if kind == "frequent":
        return f"<p>{c.say('choice.found', n=c.number('derived#/n_chosen', 'whole'))}</p>{_answers(c)}"
    slots = {
        "n": c.number("derived#/n_chosen", "whole"),
        "of": c.number("derived#/n_candidates", "whole"),
        "unit": c.text("selection.json#/unit"),
    }
    chosen, candidates = c.at("result.json#/chosen"), c.at("selection.json#/question/candidates")
    words = c.words["choice"]
    located = all(one["latitude"] is not None and one["longitude"] is not None for one in candidates)
    shapes, high = (_on_map if located else _in_list)(candidates, set(chosen))
    about = (words["picture"], words["on_map" if located else "in_list"])
    drawn = svg_picture("choice", (WIDE, high), about, shapes)
    rows = [[escape(str(i)), escape(name)] for i, name in enumerate(chosen, start=1)]
    return (
        f"<p>{c.say(f'choice.{kind}_text', **slots)}</p>{picture(drawn)}"
        f'{table(c.words["choice"]["columns"], rows)}<p class="note">{c.say("choice.note")}</p>'
    )


def _answers(c: Content) -> str:
    rows = [
        [
            escape(one["area"]),
            escape(one["query"]),
            escape(", ".join(f"{k} {v}" for k, v in one["values"].items())),
        ]
        for one in c.at("result.json#/frequent")
    ]
    return table(c.words["choice"]["frequent_columns"], rows)


def _on_map(candidates: Sequence[Mapping[str, Any]], chosen: set[str]) -> tuple[str, int]:
    """Draw candidates at their places, north up, one scale for both directions at their mean latitude."""
    north = [float(one["latitude"]) for one in candidates]
    narrow = cos(radians(sum(north) / len(north)))
    east = [float(one["longitude"]) * narrow for one in candidates]
    wide, high = max(east) - min(east), max(north) - min(north)
    scale = min((WIDE - 2 * MARGIN) / max(wide, 1e-9), (HIGH - 2 * MARGIN) / max(high, 1e-9))
    left, top = (WIDE - scale * wide) / 2 - scale * min(east), (HIGH - scale * high) / 2 + scale * max(north)
    drawn = [f'<rect x="1" y="1" width="{WIDE - 2}" height="{HIGH - 2}" fill="none" stroke="#d5dae0"/>']
    for one, x, y in sorted(
        zip(candidates, east, north, strict=True), key=lambda row: row[0]["name"] in chosen
    ):
        across, down = f"{left + scale * x:.1f}", f"{top - scale * y:.1f}"
        if one["name"] in chosen:
            drawn.append(
                f'<circle cx="{across}" cy="{down}" r="6" fill="{_BLUE}"/><text x="{across}" y="{down}" dy="-9" '
                'text-anchor="middle" stroke="#fff" stroke-width="3" paint-order="stroke">'
                f"{escape(one['name'])}</text>"
            )
        else:
            drawn.append(f'<circle cx="{across}" cy="{down}" r="4" fill="#fff" stroke="{_GREY}"/>')
    return "".join(drawn), HIGH


def _in_list(candidates: Sequence[Mapping[str, Any]], chosen: set[str]) -> tuple[str, int]:
    """Draw a box for every candidate, with a tick in it if it was chosen."""
    drawn = []
    for i, one in enumerate(candidates):
        x, y = 8 + (i % _IN_A_ROW) * (WIDE // _IN_A_ROW), 8 + (i // _IN_A_ROW) * _STEP
        taken = one["name"] in chosen
        box = f'<rect x="{x}" y="{y}" width="{_BOX}" height="{_BOX}" fill="{_BLUE if taken else "#fff"}" '
        tick = (
            f'<path d="M{x + 3} {y + 7}l3 4l6 -8" stroke="#fff" stroke-width="2" fill="none"/>'
            if taken
            else ""
        )
        drawn.append(
            f'{box}stroke="{_GREY}"/>{tick}<text x="{x + 22}" y="{y + 12}">{escape(one["name"])}</text>'
        )
    return "".join(drawn), 16 + _STEP * -(-len(candidates) // _IN_A_ROW)


def _promise(c: Content) -> str:
    at = "certificate.json#"
    loss = {"epsilon": c.number(f"{at}/epsilon", "text"), "n": c.number(f"{at}/n_attempts", "whole")}
    hidden = "".join(
        f'<li lang="en">{c.text(f"{at}/not_protected/{i}")}</li>'
        for i in range(len(c.at(f"{at}/not_protected")))
    )
    return (
        f'<div class="summary"><p>{c.quote(f"{at}/sentence")}</p></div><p>{c.say("choice_privacy.loss", **loss)}</p>'
        f"<h3>{c.say('choice_privacy.hidden')}</h3><ul>{hidden}</ul>"
        f"{everything_released(c, f'{at}/everything_released')}"
        f'<p class="note">{c.say("choice_privacy.check")} <code>{c.text("derived#/certificate_sha256")}</code></p>'
    )
