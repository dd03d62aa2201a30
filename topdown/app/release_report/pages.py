"""The pages of a report: what a director, a lawyer and a journalist read of a release, from its files alone."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from topdown.app.release_report.numbers import Form, found, written
from topdown.model import KINDS as RULE_KINDS

FOLDER = Path(__file__).parent
LANGUAGES = tuple(sorted(path.stem for path in (FOLDER / "text").glob("*.toml")))
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
KINDS = tuple(kind.kind for kind in RULE_KINDS)
Words = Mapping[str, Any]
WIDTH, HEIGHT, LEFT, BOTTOM = 460, 330, 62, 46
_BLUE, _GREY, _INK = "#1f5a8a", "#767676", "#222"


@dataclass(frozen=True)
class Content:
    """What pages are made from.

    Args:
        documents: of the release, by file name, and what is derived from its tables under `derived`.
        words: of one language.
    """

    documents: Mapping[str, Any]
    words: Words

    def say(self, key: str, **slots: str) -> str:
        """Return a sentence with HTML in its slots; everything else in it is escaped."""
        text: Any = self.words
        for part in key.split("."):
            text = text[part]
        return escape(str(text), quote=False).format(**slots)

    def at(self, source: str) -> Any:
        """Return what stands at a place; see `found`."""
        return found(self.documents, source)

    def has(self, source: str) -> bool:
        """Tell whether there is such a place."""
        try:
            self.at(source)
        except (LookupError, TypeError, ValueError):
            return False
        return True

    def number(self, source: str, form: Form) -> str:
        """Return a number as HTML that names its place and its form, so that a check can derive it anew."""
        value = self.at(source)
        return (
            f'<data value="{escape(str(value))}" data-source="{escape(source)}" data-form="{form}">'
            f"{escape(written(value, form))}</data>"
        )

    def text(self, source: str) -> str:
        """Return a text of the release as HTML."""
        return escape(str(self.at(source)))

    def quote(self, source: str) -> str:
        """Return a sentence that the release states, in English, as HTML."""
        return f'<q lang="en">{self.text(source)}</q>'


def report_html(documents: Mapping[str, Any], language: str) -> str:
    """Return the report of a release as one HTML file: no script, no request, the same bytes for the same release.

    Args:
        documents: certificate.json, plan.json and solve.json of the release, and `derived` (see `derived_document`).
        language: one of `LANGUAGES`.
    """
    words = tomllib.loads((FOLDER / "text" / f"{language}.toml").read_text(encoding="utf-8"))
    content = Content(documents, words)
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
        f'<p class="lead">{c.say("report")} · {c.text("plan.json#/release/agency")}</p>'
        f"<h1>{c.text('plan.json#/release/title')}</h1>{stamp}"
        + (f'<p class="stamp">{draft}</p>' if draft else "")
        + f'<ul class="chips"><li>{checks}</li><li>{problems}</li></ul>'
    )


def _first(c: Content) -> str:
    names = ", ".join(escape(one["name"]) for one in _invariants(c, "exact"))
    slots = {
        "unit": c.text("plan.json#/schema/unit"),
        "leaf": c.text("derived#/leaf"),
        "people": c.number("derived#/n_records", "whole"),
        "leaves": c.number("derived#/n_leaves", "whole"),
    }
    accuracy = ""
    if c.has("derived#/total_noise/leaf/stddev"):
        more = {
            "leaf_noise": c.number("derived#/total_noise/leaf/stddev", "up1"),
            "best_noise": c.number("derived#/total_noise/best/stddev", "up1"),
            "best": c.text("derived#/total_noise/best/level"),
        }
        accuracy = f"<p><b>{c.say('first.accuracy')}</b> {c.say('first.accuracy_text', **slots, **more)}</p>"
    rows = (
        f"<p><b>{c.say('first.what')}</b> {c.say('first.what_text', **slots)}</p>"
        f"<p><b>{c.say('first.protection')}</b> {c.quote('certificate.json#/privacy/sentence')}</p>{accuracy}"
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
    points = [(one["alpha"], one["power"]) for one in c.at(f"{at}/curve")]
    picture = _curve([(_share(a), float(power[1])) for a, power in points], dict(c.words["privacy"]) | {
        "description": c.words["privacy"]["picture"],
    })  # fmt: skip
    tests = [
        [c.number(f"{at}/curve/{i}/alpha", "percent"), c.number(f"{at}/curve/{i}/power/1", "percent_up")]
        for i in range(len(points))
    ]
    rows = [_secret(c, f"{at}/secrets/{i}") for i in range(len(c.at(f"{at}/secrets")))]
    parts = [
        f'<p class="lead">{c.say("privacy.lead")}</p><figure>{picture}</figure>',
        f"<h3>{c.say('privacy.suspicions')}</h3>{_table(c.words['privacy']['columns'], tests, numbers=(0, 1))}",
        f"<h3>{c.say('privacy.rows')}</h3>{_table(c.words['privacy']['row_columns'], rows, numbers=(2, 3, 4))}",
        f'<p class="note">{c.say("privacy.row_note")}</p>',
    ]
    for delta in c.at(f"{at}/usual/epsilon") if c.has(f"{at}/usual/epsilon") else ():
        epsilon = c.number(f"{at}/usual/epsilon/{_key(delta)}", "up2")
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
    conditional = ", ".join(escape(one) for one in c.at(f"{at}/conditional_on"))
    if conditional:
        parts.append(f"<p>{c.say('privacy.conditional', names=conditional)}</p>")
    everything = f"{at}/everything_released"
    if c.has(everything):
        slots = {
            "data_set": c.text(f"{everything}/data_set"),
            "charged": c.number(f"{everything}/charged", "text"),
            "loss_name": c.text(f"{everything}/loss_name"),
            "record": c.number(f"{everything}/up_to/record", "whole"),
            "date": c.text(f"{everything}/up_to/date"),
        }
        sentences = "".join(
            f"<p>{c.quote(f'{everything}/secrets/{i}/sentence')}</p>"
            for i in range(len(c.at(f"{everything}/secrets")))
        )
        parts.append(
            f"<h3>{c.say('privacy.everything')}</h3><p>{c.say('privacy.everything_text', **slots)}</p>{sentences}"
            f"{_history(c, everything)}"
        )
    return "".join(parts)


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
        return [name, escape(row["status"]), "–", "–", "–"]
    delta = next(iter(row["epsilon"]))
    return [
        name,
        escape(row["status"]),
        c.number(f"{at}/epsilon/{_key(delta)}/1", "up2"),
        escape(delta),
        c.number(f"{at}/right_in_100", "whole"),
    ]


def _invariants(c: Content, kind: str) -> list[Mapping[str, Any]]:
    invariants = c.at("plan.json#/invariants")
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
            level = one.get("level") or c.at("derived#/leaf")
            rows.append(
                [
                    escape(one["name"]),
                    escape(words["kinds"].get(kind, kind.replace("_", " "))),
                    escape(level),
                    *decided,
                ]
            )
    return f'<p class="lead">{c.say("exact.lead")}</p>{_table(words["columns"], rows)}'


def _budget(c: Content) -> str:
    levels, unit = c.at("plan.json#/levels"), c.text("plan.json#/schema/unit")
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
            share=c.number(f"plan.json#/unspent/{i}/1", "percent"),
            level=c.text(f"plan.json#/unspent/{i}/0"),
        )
        + "</p>"
        for i in range(len(c.at("plan.json#/unspent")))
    )
    head = [*c.words["budget"]["noise_columns"], *names]
    return (
        f'<p class="lead">{c.say("budget.lead")}</p><figure>{_bars(shares, c.words["budget"]["picture"])}</figure>'
        f"<h3>{c.say('budget.noise', unit=unit)}</h3>{_table(head, noise, numbers=range(1, len(head)))}"
        f"<h3>{c.say('budget.numbers')}</h3>"
        f"{_table(c.words['budget']['numbers_columns'], numbers, numbers=range(1, 5))}{unspent}"
    )


def _accuracy(c: Content) -> str:
    if not c.at("derived#/intervals"):
        return f"<p>{c.say('accuracy.without')}</p>"
    rows = [
        [
            escape(one["query"]),
            escape(one["level"]),
            c.number(f"derived#/intervals/{i}/n_counts", "whole"),
            c.number(f"derived#/intervals/{i}/half_width_50", "up1"),
            c.number(f"derived#/intervals/{i}/half_width_95", "up1"),
        ]
        for i, one in enumerate(c.at("derived#/intervals"))
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


SOLVE_COLUMNS: dict[str, Form] = {
    "n_problems": "whole",
    "n_unconverged": "whole",
    "max_kkt_residual_persons": "text",
    "n_roundings": "whole",
    "n_roundings_optimal": "whole",
}


def _made(c: Content) -> str:
    solved = [
        [
            escape(level["level"]),
            *(c.number(f"solve.json#/levels/{i}/{key}", form) for key, form in SOLVE_COLUMNS.items()),
        ]
        for i, level in enumerate(c.at("solve.json#/levels"))
    ]
    at = "certificate.json#/checks"
    checks = [
        [
            escape(one["name"]),
            c.number(f"{at}/{i}/n_checked", "whole"),
            c.number(f"{at}/{i}/n_failed", "whole"),
        ]
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
        f"<h3>{c.say('made.solve')}</h3>{_table(words['solve_columns'], solved, numbers=range(1, 6))}"
        f"<h3>{c.say('made.checks')}</h3>{_table(words['check_columns'], checks, numbers=(1, 2))}"
        f"<h3>{c.say('made.files')}</h3>{_table(words['file_columns'], files)}"
        f"<h3>{c.say('made.software')}</h3><p>{software}</p>"
    )


def _sign(c: Content) -> str:
    rows = [[escape(role), "", "", ""] for role in c.words["sign"]["roles"]]
    left = c.at("certificate.json#/open_answers")
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


def _key(name: str) -> str:
    """Write a key as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _share(exact: str) -> float:
    over, _, under = exact.partition("/")
    return float(over) / float(under or 1)


def _curve(points: Sequence[tuple[float, float]], words: dict[str, str]) -> str:
    """Draw bounds on the power of every attack by its share of false alarms; lines between them guide the eye.

    Args:
        points: (share of false alarms, share detected), both 0 .. 1, by increasing false alarms.
        words: title, description, false_alarms, detected, guessing.
    """
    whole = [(0.0, 0.0), *points, (1.0, 1.0)]
    line = " ".join(f"{_x(a):.1f},{_y(b):.1f}" for a, b in whole)
    dots = "".join(f'<circle cx="{_x(a):.1f}" cy="{_y(b):.1f}" r="3" fill="{_BLUE}"/>' for a, b in points)
    ticks = "".join(
        f'<path d="M{_x(t):.1f} {_y(0):.1f}V{_y(1):.1f}M{_x(0):.1f} {_y(t):.1f}H{_x(1):.1f}" stroke="#e3e6ea"/>'
        f'<text x="{_x(t):.1f}" y="{_y(0) + 16:.1f}" text-anchor="middle">{t:.0%}</text>'
        f'<text x="{_x(0) - 6:.1f}" y="{_y(t) + 4:.1f}" text-anchor="end">{t:.0%}</text>'
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(words["description"])}" '
        f'font-size="12" fill="{_INK}">{ticks}'
        f'<polygon points="{line} {_x(1):.1f},{_y(0):.1f}" fill="{_BLUE}" fill-opacity=".1"/>'
        f'<path d="M{_x(0):.1f} {_y(0):.1f}L{_x(1):.1f} {_y(1):.1f}" stroke="{_GREY}" stroke-dasharray="4 4"/>'
        f'<polyline points="{line}" fill="none" stroke="{_BLUE}" stroke-width="1.2"/>{dots}'
        f'<text x="{_x(0.62):.1f}" y="{_y(0.52):.1f}" fill="{_GREY}">{escape(words["guessing"])}</text>'
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(words['false_alarms'])}</text>"
        f'<text transform="translate(14 {(HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(words['detected'])}</text></svg>"
    )


def _bars(rows: Sequence[tuple[str, float, str]], description: str) -> str:
    """Draw one bar a row.

    Args:
        rows: (name, share 0 .. 1 of the longest bar, what stands behind it).
        description: for readers who do not see it.
    """
    step, left, width = 26, 150, 620
    most = max((share for _, share, _ in rows), default=1.0) or 1.0
    scale = (width - left - 90) / most
    drawn = "".join(
        f'<text x="{left - 8}" y="{step * i + 18}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{left}" y="{step * i + 6}" width="{scale * share:.1f}" height="16" fill="#8a94a0"/>'
        f'<text x="{left + scale * share + 6:.1f}" y="{step * i + 18}">{escape(text)}</text>'
        for i, (name, share, text) in enumerate(rows)
    )
    return (
        f'<svg viewBox="0 0 {width} {step * len(rows) + 8}" role="img" aria-label="{escape(description)}" '
        f'font-size="12" fill="{_INK}">{drawn}</svg>'
    )


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - 14)


def _y(share: float) -> float:
    return (HEIGHT - BOTTOM) - share * (HEIGHT - BOTTOM - 12)
