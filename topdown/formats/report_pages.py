"""The pages of a release's report: what a director, a lawyer and a journalist read of it, from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from html import escape
from itertools import pairwise
from typing import Any

from topdown.formats.report_parts import (
    BOUNDARIES,
    NONE,
    TILE_MARKS,
    Content,
    Form,
    Outlines,
    Shell,
    Write,
    bar_picture,
    curve_picture,
    outline_map,
    picture,
    pointer_key,
    share_of,
    table,
    tile_map,
    tile_picture,
    whole_page,
    words_of,
)

READ_LINES = (
    ("R", 'arrow::open_dataset(Sys.glob("microdata/*.parquet"))'),
    ("Python", 'pandas.concat(map(pandas.read_parquet, sorted(glob.glob("microdata/*.parquet"))))'),
    ("DuckDB", "SELECT sum(count) FROM 'microdata/*.parquet'"),
)
VERIFY = "<code>topdown verify FOLDER</code>"


def report_html(documents: Mapping[str, Any], language: str, write: Write) -> str:
    """Return the report of a release as one HTML file: no script, no request, the same bytes for the same release.

    Args:
        documents: certificate.json, plan.json and solve.json of the release, and `derived`, what follows from its
            tables; also `BOUNDARIES`, outlines of the areas of the map, if it is not drawn in tiles.
        language: one of `LANGUAGES`.
    """
    c = Content(documents, words_of(language), write)
    title = f"{c.answer('plan.json#/release/title', 'open_title')} · {c.text('plan.json#/release/id')}"
    footer = f"{title} · topdown {c.text('certificate.json#/engine')}"
    pages = {name: page(c) for name, page in PAGES.items()}
    return whole_page(
        c, Shell(title, _header(c), footer), {name: html for name, html in pages.items() if html}
    )


def _header(c: Content) -> str:
    stamps = c.at("certificate.json#/stamps")
    n_open = len(c.at("certificate.json#/open_answers"))
    stamp = "".join(f'<p class="stamp">{escape(str(one))}</p>' for one in stamps)
    draft = c.say("draft", n=c.number("derived#/n_open", "whole")) if n_open else ""
    n_changed = c.at("derived#/n_failsafe")
    problems = (
        c.say("problems", n=c.number("derived#/n_failsafe", "whole")) if n_changed else c.say("no_problem")
    )
    checks = c.say(
        "checks_passed",
        ok=c.number("derived#/n_checks_ok", "whole"),
        all=c.number("derived#/n_checks", "whole"),
    )
    return (
        f'<p class="lead">{c.say("report")} · {c.answer("plan.json#/release/agency", "open_agency")}</p>'
        f"<h1>{c.answer('plan.json#/release/title', 'open_title')}</h1>{stamp}"
        + (f'<p class="stamp">{draft}</p>' if draft else "")
        + f'<ul class="chips"><li>{checks}</li><li>{problems}</li></ul>'
    )


def _first(c: Content) -> str:
    known = "certificate.json#/privacy/conditional_on"
    names = ", ".join(escape(str(one)) for one in (c.at(known) if c.has(known) else ()))
    slots = {
        "unit": c.record,
        "leaf": c.text("derived#/leaf"),
        "people": c.number("derived#/n_records", "whole"),
        "leaves": c.number("derived#/n_leaves", "whole"),
    }
    stated = "certificate.json#/privacy/sentence"
    paragraphs = {
        "what": c.say("first.what_text", **slots),
        "protection": c.quote(stated) if c.has(stated) else "",
        "accuracy": _accuracy_of_totals(c, slots),
        "exact": c.say("first.exact_text", names=names) if names else c.say("first.exact_none"),
    }
    silent = c.say("first.silent_text", protected=c.of_unit("first.one_record", "first.one_unit"))
    rows = "".join(
        f"<p><b>{c.say(f'first.{key}')}</b> {text}</p>" for key, text in paragraphs.items() if text
    )
    cited = c.say(
        "first.cite_text",
        agency=c.answer("plan.json#/release/agency", "open_agency"),
        title=c.answer("plan.json#/release/title", "open_title"),
        id=c.text("plan.json#/release/id"),
        fingerprint=f"<code>{c.text('derived#/certificate_sha256')}</code>",
    )
    return (
        f'<div class="summary">{rows}</div><h3>{c.say("first.silent")}</h3>'
        f"<p>{silent}</p><h3>{c.say('first.cite')}</h3><p>{cited}</p>"
        f"<h3>{c.say('first.check')}</h3><p>{c.say('first.check_text', command=VERIFY)}</p>"
    )


def _accuracy_of_totals(c: Content, slots: Mapping[str, str]) -> str:
    """Say how far off totals of the leaves are: exact, by intervals, or else by noise; nothing if none is known."""
    leaf = c.at("derived#/leaf")
    rows = c.at("derived#/intervals")
    at = next((i for i, row in enumerate(rows) if (row["query"], row["level"]) == ("total", leaf)), None)
    if at is not None:
        source = f"derived#/intervals/{at}"
        more = {q: c.number(f"{source}/half_width_{q}", "up1") for q in ("50", "95")}
        coverage = c.number("plan.json#/estimates/coverage", "percent")
        said = c.say("first.interval_text", **slots, coverage=coverage, half=more["50"], most=more["95"])
        said += f" {c.say('first.afterwards')}" if c.has("plan.json#/measured") else ""
        spread = Fraction(c.at(f"{source}/half_width_50"))
    elif any(one["level"] == leaf for one in c.at("plan.json#/invariants/exact")):
        return c.say("first.exact_totals", **slots)
    elif not c.has("derived#/total_noise/leaf/stddev"):
        return ""
    else:
        said = c.say(
            "first.noise_text",
            **slots,
            noise=c.number("derived#/total_noise/leaf/stddev", "up1"),
            best_noise=c.number("derived#/total_noise/best/stddev", "up1"),
            best=c.text("derived#/total_noise/best/level"),
        )
        spread = Fraction(c.at("derived#/total_noise/leaf/stddev"))
    too_wide = 20 * spread * c.at("derived#/n_leaves") > c.at("derived#/n_records")
    return f"{said} {c.say('first.combine', **slots)}" if too_wide else said


def _privacy(c: Content) -> str:
    at, words = "certificate.json#/privacy", c.words["privacy"]
    parts = []
    if c.has(f"{at}/curve"):
        points = [(one["alpha"], one["power"]) for one in c.at(f"{at}/curve")]
        drawn = curve_picture([(share_of(a), float(power[1])) for a, power in points], words)
        tests = [
            [c.number(f"{at}/curve/{i}/alpha", "percent"), c.number(f"{at}/curve/{i}/power/1", "percent_up")]
            for i in range(len(points))
        ]
        rows = [_secret(c, f"{at}/secrets/{i}") for i in range(len(c.at(f"{at}/secrets")))]
        about = c.of_unit("privacy.suspicions", "privacy.suspicions_unit")
        change = c.of_unit("privacy.change", "privacy.change_unit")
        lead = c.say(
            "privacy.lead_presence" if c.at(f"{at}/secrets/0/kind") == "presence" else "privacy.lead"
        )
        parts += [
            f'<p class="lead">{lead}</p>{picture(drawn)}',
            f"<h3>{about}</h3>{table(words['columns'], tests, numbers=(0, 1))}",
            f"<h3>{c.say('privacy.rows')}</h3>{table([change, *words['row_columns']], rows, numbers=(2, 3, 4))}",
            f'<p class="note">{c.say("privacy.row_note")}</p>',
        ]
    for delta in c.at(f"{at}/usual/epsilon") if c.has(f"{at}/usual/epsilon") else ():
        epsilon = c.number(f"{at}/usual/epsilon/{pointer_key(delta)}", "up2")
        formula = c.text(f"{at}/usual/formula")
        parts.append(
            f"<p>{c.say('privacy.usual', formula=formula, epsilon=epsilon, delta=escape(delta))}</p>"
        )
    loss = {
        "unit": c.text(f"{at}/unit"),
        "relation": c.text(f"{at}/neighbours"),
        "loss": _with_delta(c, f"{at}/loss", f"{at}/delta"),
        "loss_name": _of_loss(c.text(f"{at}/loss_name")),
    }
    differ = c.of_unit("privacy.one_record", "privacy.one_unit")
    parts.append(
        f"<h3>{c.say('privacy.unit')}</h3><p>{c.say('privacy.unit_text', differ=differ, **loss)}</p>"
    )
    known = c.at(f"{at}/conditional_on") if c.has(f"{at}/conditional_on") else ()
    if conditional := ", ".join(escape(one) for one in known):
        parts.append(f"<p>{c.say('privacy.conditional', names=conditional)}</p>")
    if c.has(f"{at}/everything_released"):
        parts.append(everything_released(c, f"{at}/everything_released"))
    return "".join(parts)


def everything_released(c: Content, at: str) -> str:
    """Return what everything costs that was charged to a ledger, and what persons did to it."""
    slots = {
        "data_set": c.text(f"{at}/data_set"),
        "charged": _charged(c, at),
        "record": c.number(f"{at}/up_to/record", "whole"),
        "date": c.text(f"{at}/up_to/date"),
    }
    rows = range(len(c.at(f"{at}/secrets")))
    sentences = "".join(f"<p>{c.quote(f'{at}/secrets/{i}/sentence')}</p>" for i in rows)
    return (
        f"<h3>{c.say('privacy.everything')}</h3><p>{c.say('privacy.everything_text', **slots)}</p>{sentences}"
        f"{_history(c, at)}"
    )


def _charged(c: Content, everything: str) -> str:
    """Write the sums of what a ledger was charged for, by kind of loss, and of delta."""
    at = f"{everything}/charged"
    delta = {"epsilon_delta": f"{everything}/charged_delta"}
    return ", ".join(
        f"{_of_loss(name)} {_with_delta(c, f'{at}/{name}', delta.get(name, ''))}" for name in c.at(at)
    )


def _of_loss(name: str) -> str:
    """Return what a number of a kind of loss is: of a pair, its epsilon."""
    return name.removesuffix("_delta")


def _with_delta(c: Content, loss: str, delta: str) -> str:
    """Write a loss, and the delta beside it where there is one."""
    return c.number(loss, "text") + (f", delta {c.number(delta, 'text')}" if delta and c.has(delta) else "")


def _history(c: Content, everything: str) -> str:
    """Write who attested that the ledger is complete, and who saw that the noise of a refunded charge was destroyed."""
    return "".join(
        f"<p>{c.say(f'privacy.{word}', **{key: c.text(f'{everything}/{name}/{i}/{key}') for key in keys})}</p>"
        for name, word, keys in (
            ("attestations", "attested", ("by", "date", "reason")),
            ("refunds", "refunded", ("by", "date", "reason")),
        )
        for i in range(len(c.at(f"{everything}/{name}")))
    )


def _secret(c: Content, at: str) -> list[str]:
    row = c.at(at)
    name = escape(row["name"])
    if row["exact"]:
        name += f'<br><span class="note">{escape(", ".join(row["exact"]))}</span>'
    if "epsilon" not in row:
        return [name, escape(row["status"]), NONE, NONE, NONE]
    delta = next(iter(row["epsilon"]))
    return [
        name,
        escape(row["status"]),
        c.number(f"{at}/epsilon/{pointer_key(delta)}/1", "up2"),
        escape(delta),
        c.number(f"{at}/right_in_100", "whole"),
    ]


def _exact(c: Content) -> str:
    words, at = c.words["exact"], "plan.json#/invariants"
    by_kind = sorted(c.at(at).items(), key=lambda kind: kind[0] != "exact")  # statistics first, then rules
    rows = []
    for kind, found in by_kind:
        for i, one in enumerate(found if isinstance(found, list) else ()):
            decided = (
                c.answer(f"{at}/{kind}/{i}/basis/{key}") for key in ("legal_basis", "decided_by", "date")
            )
            level = one.get("level") or c.at("derived#/leaf")
            named = words["kinds"].get(kind, kind.replace("_", " "))
            rows.append([escape(one["name"]), escape(named), escape(level), *decided])
    return f'<p class="lead">{c.say("exact.lead")}</p>{table(words["columns"], rows)}'


def _budget(c: Content) -> str:
    levels, unit = c.at("plan.json#/levels"), c.record
    shares = [
        (level["name"], share_of(level["share"]), f"{100 * share_of(level['share']):.1f} %")
        for level in levels
    ]
    head, noise = _by_query(c, "budget", "stddev", "up1")
    numbers = [
        [
            escape(level["name"]),
            *c.numbers(
                f"plan.json#/levels/{i}", n_nodes="whole", n_measured="whole", share="percent", loss="up4"
            ),
        ]
        for i, level in enumerate(levels)
    ]
    unspent = "".join(
        "<p>"
        + c.say(
            "budget.unspent",
            share=c.number(f"plan.json#/unspent/{i}/1", "percent"),
            level=c.text(f"plan.json#/unspent/{i}/0"),
        )
        + "</p>"
        for i in range(len(c.at("plan.json#/unspent")))
    )
    return (
        f'<p class="lead">{c.say("budget.lead")}</p>{picture(bar_picture(shares, c.words["budget"]))}'
        f"<h3>{c.say('budget.noise', unit=unit)}</h3>{table(head, noise, numbers=range(1, len(head)))}"
        f"<h3>{c.say('budget.numbers')}</h3>"
        f"{table(c.words['budget']['numbers_columns'], numbers, numbers=range(1, 5))}{unspent}"
    )


def _by_query(c: Content, page: str, key: str, form: Form) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of a table of the noise of every measured answer, by query and level."""
    levels = c.at("plan.json#/levels")
    places = {
        (m["query"], level["name"]): f"derived#/noise/{i}/{j}/{key}"
        for i, level in enumerate(levels)
        for j, m in enumerate(level["measurements"])
    }
    names = [level["name"] for level in levels]
    rows = [
        [
            escape(query),
            *(c.number(places[query, at], form) if (query, at) in places else NONE for at in names),
        ]
        for query in dict.fromkeys(query for query, _ in places)
    ]
    return [*c.words[page]["noise_columns"], *names], rows


def _accuracy(c: Content) -> str:
    unit = c.record
    has_intervals = bool(c.at("derived#/intervals"))
    sizes = [
        [
            c.text(f"{at}/level"),
            c.span(at),
            c.number(f"{at}/n_areas", "whole"),
            c.number_or_none(f"{at}/noise_share", "percent_up"),
            *(c.number_or_none(f"{at}/half_width_{q}", "up1") for q in ((50, 95) if has_intervals else ())),
        ]
        for i in range(len(c.at("derived#/sizes")))
        for at in [f"derived#/sizes/{i}"]
    ]
    words = c.words["accuracy"]
    head = words["size_columns"] + (words["size_interval_columns"] if has_intervals else [])
    parts = [
        f'<p class="lead">{c.say("accuracy.lead", unit=unit)}</p>',
        f"<h3>{c.say('accuracy.sizes')}</h3>{table(head, sizes, numbers=range(1, len(head)))}",
        f'<p class="note">{c.say("accuracy.size_note", unit=unit)}</p>',
    ]
    if c.at("plan.json#/schema/name") == "pl94":
        there = {level: c.number(f"derived#/production/{level}", "up2") for level in ("block", "tract")}
        there["year"] = c.number("derived#/production/year", "text")
        place = c.text("derived#/production/place")
        parts.append(f'<p class="note">{c.say("accuracy.production", place=place, **there)}</p>')
    if not has_intervals:
        said = "of_one" if c.has("plan.json#/estimates/coverage") else "without"
        said = "extended" if c.has("plan.json#/base") else said
        return "".join([*parts, f"<p>{c.say(f'accuracy.{said}')}</p>"])
    levels = [level["name"] for level in c.at("plan.json#/levels")]
    places = {
        (one["query"], one["level"]): f"derived#/intervals/{i}/half_width"
        for i, one in enumerate(c.at("derived#/intervals"))
    }
    rows = [
        [escape(query), *(_two_widths(c, places.get((query, level))) for level in levels)]
        for query in dict.fromkeys(query for query, _ in places)
    ]
    slots = {"coverage": c.number("plan.json#/estimates/coverage", "percent"), "unit": unit}
    parts += [
        f"<h3>{c.say('accuracy.tables')}</h3><p>{c.say('accuracy.tables_text', **slots)}</p>",
        table([words["table"], *levels], rows, numbers=range(1, len(levels) + 1)),
        f'<p class="note">{c.say("accuracy.note")}</p>',
    ]
    parts += [f"<p>{c.say('first.afterwards')}</p>"] if c.has("plan.json#/measured") else []
    return "".join(parts)


def _two_widths(c: Content, at: str | None) -> str:
    """Return what half and nineteen in twenty of the half widths do not exceed, or a dash."""
    return NONE if at is None else f"{c.number(f'{at}_50', 'up1')} / {c.number(f'{at}_95', 'up1')}"


def _groups(c: Content) -> str:
    unit, words = c.record, c.words["groups"]
    head, rows = _by_query(c, "groups", "ten_times", "whole")
    parts = [
        f'<p class="lead">{c.say("groups.lead")}</p><h3>{c.say("groups.noise")}</h3>',
        f"<p>{c.say('groups.noise_text', unit=unit)}</p>{table(head, rows, numbers=range(1, len(head)))}",
    ]
    if found := c.at("derived#/groups"):
        sizes = [
            [
                escape(one["level"]),
                c.span(at),
                *c.numbers(at, n_counts="whole", share_50="percent_up", wider_than_a_tenth="percent_up"),
            ]
            for i, one in enumerate(found)
            for at in [f"derived#/groups/{i}"]
        ]
        parts += [
            f"<h3>{c.say('groups.intervals')}</h3><p>{c.say('groups.intervals_text', unit=unit)}</p>",
            table(words["columns"], sizes, numbers=range(1, 5)),
        ]
    return "".join([*parts, f"<h3>{c.say('groups.use')}</h3><p>{c.say('groups.use_text')}</p>"])


def _use(c: Content) -> str:
    """Return what is unlike the records of people, for which totals the noise is small, and lines that read a file."""
    words, slots = c.words["use"], {"unit": c.record, "leaf": c.text("derived#/leaf")}
    slots |= {key: c.number(f"derived#/totals/{key}", "whole") for key in ("n_leaves", "n_empty", "n_small")}
    seen = [[c.say(f"use.seen.{i}.{j}", **slots) for j in range(3)] for i in range(len(words["seen"]))]
    fit = [
        [
            c.text(f"{at}/level"),
            c.number(f"{at}/n_areas", "whole"),
            *(c.number_or_none(f"{at}/{key}", "whole") for key in ("n_within_5", "n_within_25")),
        ]
        for i in range(len(c.at("derived#/fit")))
        for at in [f"derived#/fit/{i}"]
    ]
    lines = [[escape(name), f"<code>{escape(line)}</code>"] for name, line in READ_LINES]
    return "".join(
        [
            f'<p class="lead">{c.say("use.lead")}</p>{table(words["columns"], seen)}',
            f"<h3>{c.say('use.fit')}</h3>{table(words['fit_columns'], fit, numbers=range(1, 4))}",
            f'<p class="note">{c.say("use.fit_note")}</p>',
            f"<h3>{c.say('use.read')}</h3>{table(words['read_columns'], lines)}",
            f"<p>{c.say('use.read_text', **slots)}</p>",
        ]
    )


def _map(c: Content) -> str:
    """Return a map of the areas of one level, as outlines if any are given, else in tiles; none without one."""
    found, words = c.at("derived#/map"), c.words["map"]
    if found is None:
        return ""
    edges = [c.number(f"derived#/map/edges/{i}", "percent") for i in range(len(found["edges"]))]
    classes = [c.say("map.under", edge=edges[0])]
    classes += [c.say("map.between", low=low, high=high) for low, high in pairwise(edges)]
    classes += [c.say("map.over", edge=edges[-1]), c.say("map.empty")]
    slots = {key: c.text(f"derived#/map/{key}") for key in ("query", "answer", "level", "above")}
    slots |= {
        "n": c.number("derived#/map/n_areas", "whole"),
        "coverage": c.number("plan.json#/estimates/coverage", "percent"),
    }
    rows = [
        [
            escape(area["geocode"]),
            *(c.number(f"derived#/map/areas/{i}/n/{j}", "whole") for j in range(len(area["n"]))),
        ]
        for i, area in enumerate(found["areas"])
    ]
    legend = "".join(
        f"<li>{tile_picture(mark)} {text}</li>" for mark, text in zip(TILE_MARKS, classes, strict=True)
    )
    outlines: Outlines | None = c.documents.get(BOUNDARIES)
    kind = "tile" if outlines is None else "outline"
    about = (words["picture"].format(**found), words[f"{kind}_described"].format(**found))
    if outlines is None:
        drawn = tile_map([(area["geocode"], area["tiles"]) for area in found["areas"]], about)
    else:
        slots["source"] = escape(outlines.source)
        marks = (
            (code, mark)
            for area in found["areas"]
            for code, mark in zip(area["codes"], area["tiles"], strict=True)
        )
        drawn = outline_map(outlines, marks, about)
    return (
        f'<p class="lead">{c.say(f"map.{kind}_lead", **slots)}</p>'
        f"{picture(drawn)}"
        f'<ul class="legend">{legend}</ul>'
        f'<p class="note">{c.say("map.chosen", **slots)} {c.say(f"map.{kind}_note", **slots)}</p>'
        f"<h3>{c.say('map.table', **slots)}</h3>"
        f"{table([found['above'], *words['columns']], rows, numbers=range(1, 7))}"
    )


SOLVE_COLUMNS: dict[str, Form] = {
    "n_problems": "whole",
    "n_unconverged": "whole",
    "max_kkt_residual_persons": "text",
    "n_roundings": "whole",
    "n_roundings_optimal": "whole",
}


def _made(c: Content) -> str:
    solved = [
        [escape(level["level"]), *c.numbers(f"solve.json#/levels/{i}", **SOLVE_COLUMNS)]
        for i, level in enumerate(c.at("solve.json#/levels"))
    ]
    at = "certificate.json#/checks"
    checks = [
        [escape(one["name"]), *c.numbers(f"{at}/{i}", n_checked="whole", n_failed="whole")]
        for i, one in enumerate(c.at(at))
    ]
    files = [
        [f"<code>{escape(name)}</code>", f"<code>{escape(digest)}</code>"]
        for name, digest in c.at("certificate.json#/files").items()
        if name.count("/") < 2
    ]
    software = ", ".join(
        f"{escape(k)} {escape(str(v))}" for k, v in c.at("certificate.json#/software").items()
    )
    words = c.words["made"]
    return (
        f'<p class="lead">{c.say("made.lead")}</p>'
        f"<h3>{c.say('made.solve')}</h3>{table(words['solve_columns'], solved, numbers=range(1, 6))}"
        f"<h3>{c.say('made.checks')}</h3>{table(words['check_columns'], checks, numbers=(1, 2))}"
        f"<h3>{c.say('made.files')}</h3>{table(words['file_columns'], files)}"
        f"<h3>{c.say('made.software')}</h3><p>{software}</p>"
    )


def _sign(c: Content) -> str:
    words, privacy = c.words["sign"], "certificate.json#/privacy"
    slots = {
        "loss": _with_delta(c, f"{privacy}/loss", f"{privacy}/delta"),
        "loss_name": _of_loss(c.text(f"{privacy}/loss_name")),
        "protected": c.of_unit("sign.one_record", "sign.one_unit"),
        "bound": c.of_unit("sign.each_once", "sign.bounded"),
        "relation": c.text(f"{privacy}/neighbours"),
        "mechanism": c.text("plan.json#/mechanism"),
        "engine": c.text("certificate.json#/engine"),
        "ok": c.number("derived#/n_checks_ok", "whole"),
        "all": c.number("derived#/n_checks", "whole"),
        "charged": _charged(c, f"{privacy}/everything_released"),
        "record": c.number(f"{privacy}/everything_released/up_to/record", "whole"),
        "date": c.text(f"{privacy}/everything_released/up_to/date"),
        "changed": c.number("derived#/n_failsafe", "whole"),
    }
    items = [
        [str(n + 1), escape(topic), escape(answer, quote=False).format(**slots)]
        for n, (topic, answer) in enumerate(words["items"])
    ]
    left = c.at("certificate.json#/open_answers")
    listed = "".join(f"<li><code>{escape(one)}</code></li>" for one in left)
    return (
        f'<p class="lead">{c.say("sign.lead")}</p>'
        f"<h3>{c.say('sign.checklist')}</h3>{table(words['item_columns'], items)}"
        + (f"<p>{c.say('sign.open')}</p><ul>{listed}</ul>" if left else "")
        + f"<h3>{c.say('sign.signatures')}</h3>"
        + table(words["columns"], [[escape(role), "", "", ""] for role in words["roles"]], ink=True)
        + f'<p class="note">{c.say("sign.note")}</p>'
    )


PAGES: dict[str, Callable[[Content], str]] = {
    "first": _first,
    "privacy": _privacy,
    "exact": _exact,
    "budget": _budget,
    "accuracy": _accuracy,
    "groups": _groups,
    "map": _map,
    "use": _use,
    "made": _made,
    "sign": _sign,
}
"""Name of a page, which is its anchor and the table of its words, and what writes it; nothing, and it is left out."""
