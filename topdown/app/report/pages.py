"""The pages of a report: what a director, a lawyer and a journalist read of a release, from its files alone."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from topdown.app.report.figures import bars, curve
from topdown.app.report.numbers import Form, Numbers

FOLDER = Path(__file__).parent
LANGUAGES = tuple(sorted(path.stem for path in (FOLDER / "text").glob("*.toml")))
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
KINDS = ("exact", "none_where_zero", "at_least", "at_most", "never", "no_more_than")
Words = Mapping[str, Any]


@dataclass(frozen=True)
class Content:
    """What pages are made from.

    Args:
        numbers: documents of the release, with what is derived from its tables under `derived`.
        words: of one language.
    """

    numbers: Numbers
    words: Words

    def say(self, key: str, **slots: str) -> str:
        """Return a sentence with HTML in its slots; everything else in it is escaped."""
        text: Any = self.words
        for part in key.split("."):
            text = text[part]
        return escape(str(text), quote=False).format(**slots)

    def number(self, source: str, form: Form) -> str:
        """Return a number of the release as HTML."""
        return self.numbers.number(source, form)

    def text(self, source: str) -> str:
        """Return a text of the release as HTML."""
        return escape(str(self.numbers.at(source)))


def report_html(documents: Mapping[str, Any], language: str) -> str:
    """Return the report of a release as one HTML file: no script, no request, the same bytes for the same release.

    Args:
        documents: certificate.json, plan.json and solve.json of the release, and `derived` (see `derived_document`).
        language: one of `LANGUAGES`.
    """
    words = tomllib.loads((FOLDER / "text" / f"{language}.toml").read_text(encoding="utf-8"))
    content = Content(Numbers(documents), words)
    title = f"{content.text('plan.json#/release/title')} · {content.text('plan.json#/release/id')}"
    index = "".join(f'<li><a href="#{name}">{content.say(f"{name}.title")}</a></li>' for name in PAGES)
    sections = "".join(
        f'<section id="{name}" aria-labelledby="title-{name}"><h2 id="title-{name}">{content.say(f"{name}.title")}</h2>'
        f"{page(content)}</section>\n"
        for name, page in PAGES.items()
    )
    style = (FOLDER / "report.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n<html lang="{words["language"]}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n<header>{_header(content)}</header>\n"
        f'<nav aria-label="{content.say("report")}"><ul>{index}</ul></nav>\n<main>\n{sections}</main>\n'
        f"<footer><p>{title} · topdown {content.text('certificate.json#/engine')}</p></footer>\n</body>\n</html>\n"
    )


def _header(c: Content) -> str:
    stamps = c.numbers.at("certificate.json#/stamps")
    n_open = len(c.numbers.at("certificate.json#/open_answers"))
    stamp = "".join(f'<p class="stamp">{escape(str(one))}</p>' for one in stamps)
    draft = c.say("draft", n=c.number("derived#/n_open", "whole")) if n_open else ""
    n_changed = c.numbers.at("derived#/n_failsafe")
    problems = (
        c.say("problems", n=c.number("derived#/n_failsafe", "whole")) if n_changed else c.say("no_problem")
    )
    checks = c.say(
        "checks_passed",
        ok=c.number("derived#/n_checks_ok", "whole"),
        all=c.number("derived#/n_checks", "whole"),
    )
    return (
        f'<p class="lead">{c.say("report")} · {c.text("plan.json#/release/agency")}</p>'
        f"<h1>{c.text('plan.json#/release/title')}</h1>{stamp}"
        + (f'<p class="stamp">{draft}</p>' if draft else "")
        + f'<ul class="chips"><li>{checks}</li><li>{problems}</li></ul>'
    )


def _first(c: Content) -> str:
    exact = [name for kind in KINDS for name in _invariants(c, kind) if kind == "exact"]
    names = ", ".join(escape(one["name"]) for one in exact)
    slots = {
        "unit": c.text("plan.json#/schema/unit"),
        "leaf": c.text("derived#/leaf"),
        "people": c.number("derived#/n_records", "whole"),
        "leaves": c.number("derived#/n_leaves", "whole"),
    }
    accuracy = ""
    if c.numbers.has("derived#/total_noise/leaf/stddev"):
        more = {
            "leaf_noise": c.number("derived#/total_noise/leaf/stddev", "up1"),
            "best_noise": c.number("derived#/total_noise/best/stddev", "up1"),
            "best": c.text("derived#/total_noise/best/level"),
        }
        accuracy = f"<p><b>{c.say('first.accuracy')}</b> {c.say('first.accuracy_text', **slots, **more)}</p>"
    rows = (
        f"<p><b>{c.say('first.what')}</b> {c.say('first.what_text', **slots)}</p>"
        f"<p><b>{c.say('first.protection')}</b> {c.text('certificate.json#/privacy/sentence')}</p>{accuracy}"
        f"<p><b>{c.say('first.exact')}</b> "
        f"{c.say('first.exact_text', names=names) if names else c.say('first.exact_none')}</p>"
    )
    cited = c.say(
        "first.cite_text",
        agency=c.text("plan.json#/release/agency"),
        title=c.text("plan.json#/release/title"),
        id=c.text("plan.json#/release/id"),
        fingerprint=f"<code>{c.text('derived#/certificate_sha256')}</code>",
    )
    return (
        f'<div class="summary">{rows}</div><h3>{c.say("first.silent")}</h3>'
        f"<p>{c.say('first.silent_text', unit=slots['unit'])}</p><h3>{c.say('first.cite')}</h3><p>{cited}</p>"
        f"<h3>{c.say('first.check')}</h3><p>{c.say('first.check_text')}</p>"
    )


def _privacy(c: Content) -> str:
    at = "certificate.json#/privacy"
    points = [(one["alpha"], one["power"]) for one in c.numbers.at(f"{at}/curve")]
    picture = curve([(_share(a), float(power[1])) for a, power in points], dict(c.words["privacy"]) | {
        "description": c.words["privacy"]["picture"],
    })  # fmt: skip
    tests = [
        [c.number(f"{at}/curve/{i}/alpha", "percent"), c.number(f"{at}/curve/{i}/power/1", "percent")]
        for i in range(len(points))
    ]
    rows = [_secret(c, f"{at}/secrets/{i}") for i in range(len(c.numbers.at(f"{at}/secrets")))]
    parts = [
        f'<p class="lead">{c.say("privacy.lead")}</p><figure>{picture}</figure>',
        f"<h3>{c.say('privacy.suspicions')}</h3>{_table(c.words['privacy']['columns'], tests, numbers=(0, 1))}",
        f"<h3>{c.say('privacy.rows')}</h3>{_table(c.words['privacy']['row_columns'], rows, numbers=(2, 3, 4))}",
        f'<p class="note">{c.say("privacy.row_note")}</p>',
    ]
    for delta in c.numbers.at(f"{at}/usual/epsilon") if c.numbers.has(f"{at}/usual/epsilon") else ():
        epsilon = c.number(f"{at}/usual/epsilon/{delta}", "up2")
        formula = c.text(f"{at}/usual/formula")
        parts.append(
            f"<p>{c.say('privacy.usual', formula=formula, epsilon=epsilon, delta=escape(delta))}</p>"
        )
    loss = {
        "unit": c.text(f"{at}/unit"),
        "relation": c.text(f"{at}/neighbours"),
        "loss": c.number(f"{at}/loss", "text"),
        "loss_name": c.text(f"{at}/loss_name"),
    }
    parts.append(f"<h3>{c.say('privacy.unit')}</h3><p>{c.say('privacy.unit_text', **loss)}</p>")
    conditional = ", ".join(escape(one) for one in c.numbers.at(f"{at}/conditional_on"))
    if conditional:
        parts.append(f"<p>{c.say('privacy.conditional', names=conditional)}</p>")
    everything = f"{at}/everything_released"
    if c.numbers.has(everything):
        slots = {
            "data_set": c.text(f"{everything}/data_set"),
            "charged": c.number(f"{everything}/charged", "text"),
            "loss_name": c.text(f"{everything}/loss_name"),
        }
        sentences = "".join(
            f"<p>{c.text(f'{everything}/secrets/{i}/sentence')}</p>"
            for i in range(len(c.numbers.at(f"{everything}/secrets")))
        )
        parts.append(
            f"<h3>{c.say('privacy.everything')}</h3><p>{c.say('privacy.everything_text', **slots)}</p>{sentences}"
        )
    return "".join(parts)


def _secret(c: Content, at: str) -> list[str]:
    row = c.numbers.at(at)
    name = escape(row["name"])
    if row["exact"]:
        name += f'<br><span class="note">{escape(", ".join(row["exact"]))}</span>'
    if "epsilon" not in row:
        return [name, escape(row["status"]), "–", "–", "–"]
    delta = next(iter(row["epsilon"]))
    place = delta.replace("~", "~0").replace("/", "~1")
    return [
        name,
        escape(row["status"]),
        c.number(f"{at}/epsilon/{place}/1", "up2"),
        escape(delta),
        c.number(f"{at}/right_in_100", "whole"),
    ]


def _invariants(c: Content, kind: str) -> list[Mapping[str, Any]]:
    invariants = c.numbers.at("plan.json#/invariants")
    return list(invariants.get(kind, ()))


def _exact(c: Content) -> str:
    words = c.words["exact"]
    rows = []
    for kind in KINDS:
        for one in _invariants(c, kind):
            basis = one.get("basis", {})
            decided = [
                escape(basis.get(key) or words["open"]) for key in ("legal_basis", "decided_by", "date")
            ]
            level = one.get("level") or c.numbers.at("derived#/leaf")
            rows.append([escape(one["name"]), escape(words["kinds"][kind]), escape(level), *decided])
    return f'<p class="lead">{c.say("exact.lead")}</p>{_table(words["columns"], rows)}'


def _budget(c: Content) -> str:
    levels, unit = c.numbers.at("plan.json#/levels"), c.text("plan.json#/schema/unit")
    shares = [
        (level["name"], _share(level["share"]), f"{100 * _share(level['share']):.1f} %") for level in levels
    ]
    places = {
        (m["query"], level["name"]): f"derived#/noise/{i}/{j}"
        for i, level in enumerate(levels)
        for j, m in enumerate(level["measurements"])
    }
    queries = dict.fromkeys(query for query, _ in places)
    names = [level["name"] for level in levels]
    noise = [
        [
            escape(query),
            *(c.number(places[query, at], "up1") if (query, at) in places else "–" for at in names),
        ]
        for query in queries
    ]
    numbers = [
        [
            escape(level["name"]),
            c.number(f"plan.json#/levels/{i}/n_nodes", "whole"),
            c.number(f"plan.json#/levels/{i}/n_measured", "whole"),
            c.number(f"plan.json#/levels/{i}/share", "percent"),
            c.number(f"plan.json#/levels/{i}/loss", "up4"),
        ]
        for i, level in enumerate(levels)
    ]
    unspent = "".join(
        "<p>"
        + c.say(
            "budget.unspent",
            share=c.number(f"plan.json#/unspent/{i}/share", "percent"),
            level=c.text(f"plan.json#/unspent/{i}/level"),
        )
        + "</p>"
        for i in range(len(c.numbers.at("plan.json#/unspent")))
    )
    head = [*c.words["budget"]["noise_columns"], *names]
    return (
        f'<p class="lead">{c.say("budget.lead")}</p><figure>{bars(shares, c.words["budget"]["picture"])}</figure>'
        f"<h3>{c.say('budget.noise', unit=unit)}</h3>{_table(head, noise, numbers=range(1, len(head)))}"
        f"<h3>{c.say('budget.numbers')}</h3>"
        f"{_table(c.words['budget']['numbers_columns'], numbers, numbers=range(1, 5))}{unspent}"
    )


def _accuracy(c: Content) -> str:
    if not c.numbers.at("derived#/intervals"):
        return f"<p>{c.say('accuracy.without')}</p>"
    rows = [
        [
            escape(one["query"]),
            escape(one["level"]),
            c.number(f"derived#/intervals/{i}/n_counts", "whole"),
            c.number(f"derived#/intervals/{i}/half_width_50", "up1"),
            c.number(f"derived#/intervals/{i}/half_width_95", "up1"),
        ]
        for i, one in enumerate(c.numbers.at("derived#/intervals"))
    ]
    slots = {
        "coverage": c.number("plan.json#/estimates/coverage", "percent"),
        "unit": c.text("plan.json#/schema/unit"),
    }
    return (
        f'<p class="lead">{c.say("accuracy.lead", **slots)}</p>'
        f"{_table(c.words['accuracy']['columns'], rows, numbers=(2, 3, 4))}"
        f'<p class="note">{c.say("accuracy.note")}</p>'
    )


def _made(c: Content) -> str:
    solved = [
        [
            escape(level["level"]),
            *(
                c.number(f"solve.json#/levels/{i}/{key}", form)
                for key, form in (
                    ("n_problems", "whole"),
                    ("n_unconverged", "whole"),
                    ("max_kkt_residual_persons", "text"),
                    ("n_roundings", "whole"),
                    ("n_roundings_optimal", "whole"),
                )
            ),
        ]
        for i, level in enumerate(c.numbers.at("solve.json#/levels"))
    ]
    at = "certificate.json#/checks"
    checks = [
        [
            escape(one["name"]),
            c.number(f"{at}/{i}/n_checked", "whole"),
            c.number(f"{at}/{i}/n_failed", "whole"),
        ]
        for i, one in enumerate(c.numbers.at(at))
    ]
    files = [
        [f"<code>{escape(name)}</code>", f"<code>{escape(digest)}</code>"]
        for name, digest in c.numbers.at("certificate.json#/files").items()
        if name.count("/") < 2
    ]
    software = ", ".join(
        f"{escape(k)} {escape(str(v))}" for k, v in c.numbers.at("certificate.json#/software").items()
    )
    words = c.words["made"]
    return (
        f'<p class="lead">{c.say("made.lead")}</p>'
        f"<h3>{c.say('made.solve')}</h3>{_table(words['solve_columns'], solved, numbers=range(1, 6))}"
        f"<h3>{c.say('made.checks')}</h3>{_table(words['check_columns'], checks, numbers=(1, 2))}"
        f"<h3>{c.say('made.files')}</h3>{_table(words['file_columns'], files)}"
        f"<h3>{c.say('made.software')}</h3><p>{software}</p>"
    )


def _sign(c: Content) -> str:
    rows = [[escape(role), "", "", ""] for role in c.words["sign"]["roles"]]
    left = c.numbers.at("certificate.json#/open_answers")
    listed = "".join(f"<li><code>{escape(one)}</code></li>" for one in left)
    return (
        f'<p class="lead">{c.say("sign.lead")}</p>'
        + _table(c.words["sign"]["columns"], rows, ink=True)
        + (f"<p>{c.say('sign.open')}</p><ul>{listed}</ul>" if left else "")
    )


PAGES: dict[str, Callable[[Content], str]] = {
    "first": _first,
    "privacy": _privacy,
    "exact": _exact,
    "budget": _budget,
    "accuracy": _accuracy,
    "made": _made,
    "sign": _sign,
}
"""Name of a page, which is its anchor and the table of its words, and what writes it."""


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int] = (), ink: bool = False
) -> str:
    """Return a table; cells are HTML, the head is text."""
    right = set(numbers)
    mark = [' class="n"' if i in right else "" for i in range(len(head))]
    top = "".join(f'<th scope="col"{m}>{escape(name)}</th>' for m, name in zip(mark, head, strict=True))
    cell = ' class="ink"' if ink else ""
    body = "".join(
        "<tr>" + "".join(f"<td{m or cell}>{text}</td>" for m, text in zip(mark, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _share(exact: str) -> float:
    over, _, under = exact.partition("/")
    return float(over) / float(under or 1)
