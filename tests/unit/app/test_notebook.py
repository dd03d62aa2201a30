"""Public values in a notebook: short, escaped, and silent about what is confidential."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser

import pytest

import pgsr
import topdown
from topdown.notebook import MOST_ROWS, card

MOST = 300
WALL = re.compile(r"Fraction\(|[0-9]{24}")  # what nobody reads: numbers as Python writes them


class Tags(HTMLParser):
    """Counts tags that are opened and closed, and notes those that are not of a plain table."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.odd = 0, set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag and its attributes."""
        self.open += 1
        self.odd |= {tag} - {"div", "b", "table", "tr", "td", "th", "p"} | {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        """Count it back."""
        self.open -= 1


def plain(html: str) -> bool:
    """Tell whether HTML is a plain table, closed, without attributes."""
    tags = Tags()
    tags.feed(html)
    return (tags.open, tags.odd) == (0, set())


@pytest.fixture(scope="module")
def values(town) -> dict[str, object]:
    """Return a public value of each kind."""
    truth = town.run.parent / "persons.csv.gz"
    schema = topdown.Schema.from_lists({"sex": ["f", "m"], "age": ["0-17", "18+"]})
    tree = topdown.Geography.from_table({"town": ["1", "2"]}, ["land", "town"])
    return {
        "synth": topdown.synth(town.run.parent.parent / "more", schema="toy", people=50),
        "plan": topdown.plan(town.run),
        "generate": town.made,
        "verify": topdown.verify(town.release),
        "audit": topdown.audit(town.release),
        "audit_ledger": topdown.audit_ledger(town.release / "ledger.jsonl"),
        "simulate": topdown.simulate(town.run, truth),
        "evaluate": topdown.evaluate(town.release, truth),
        "Release": topdown.Release(town.release),
        "Schema": schema,
        "Geography": tree,
        "Settings": topdown.Settings.from_shares(schema, {"land": "1/3", "town": "2/3"}),
        "Budget": topdown.Budget(epsilon="1/3", delta="1e-9"),
        "Invariants": topdown.Invariants.from_tables(schema, never=[{"cells": {"sex": ["f"]}}]),
        "of values": topdown.plan(schema=schema, geography=tree, epsilon="1/3", delta="1e-9"),
        "noise": topdown.noise(epsilon="1/3", delta="1e-9"),
        "account": topdown.account(gaussian=["1000/3"], optimal=[("1/3", "1e-9")]),
        "select": topdown.select(town.run, "frequent", "1/3", query=["sex"]),
        "pgsr": pgsr.plan(sizes=4, rho="1/3"),
    }


def test_values_are_short_and_plain(values):
    """The last line of a cell is shown: pages of numbers, colours or markup of others would fill the notebook."""
    for name, value in values.items():
        assert len(repr(value)) <= MOST, name
        assert "\x1b" not in repr(value) + value._repr_html_()
        assert plain(value._repr_html_()), name
        assert len(value._repr_html_()) < 12_000, name
        assert not WALL.search(repr(value) + value._repr_html_()), name


def test_an_evaluation_shows_no_error(values):
    """A notebook that is shared would publish real errors."""
    shown = re.sub(r"made-up", "", repr(values["evaluate"]) + values["evaluate"]._repr_html_())
    assert "CONFIDENTIAL" in shown
    assert not re.search(r"\d", shown)


def test_what_others_wrote_is_not_run(town, tmp_path):
    """A release of strangers must not bring markup of its own."""
    bad = shutil.copytree(town.release, tmp_path / "<script>alert(1)<b>")
    assert plain(topdown.Release(bad)._repr_html_())
    (bad / "plan.json").write_text(json.dumps({"type": "<img src=x>", "plan_hash": "<i>"}), encoding="utf-8")
    assert plain(topdown.Release(bad)._repr_html_())
    assert plain(topdown.verify(bad)._repr_html_())
    long = card("<a>", [["x" * 10_000, "\x1b[31m"]] * 100, head=("<",), note="&")
    assert plain(long)
    assert "\x1b" not in long
    assert long.count("<tr>") == MOST_ROWS + 2


class Bar:
    """A bar of tqdm's kind."""

    made: list[Bar] = []  # noqa: RUF012 - of this test alone

    def __init__(self, total: int, desc: str) -> None:
        self.total, self.desc, self.n, self.closed = total, desc, 0, False
        Bar.made.append(self)

    def update(self, n: int) -> None:
        """Go on."""
        assert not self.closed
        self.n += n

    def close(self) -> None:
        """End it."""
        self.closed = True


def test_a_class_of_bars_is_a_report(town, capsys):
    """Bars that stay open or run over their end fill a notebook with broken lines."""
    Bar.made.clear()
    topdown.verify(town.release, solve=True, report=Bar)
    topdown.simulate(town.run, town.run.parent / "persons.csv.gz", replicates=3, report=Bar)
    assert {"solve", "simulate"} <= {bar.desc for bar in Bar.made}
    for bar in Bar.made:
        assert (bar.closed, bar.n <= bar.total) == (True, True)
    assert [(bar.n, bar.total) for bar in Bar.made if bar.desc == "simulate"] == [(3, 3)]
    with pytest.raises(topdown.TopdownError):
        topdown.simulate(town.run, town.run, report=Bar)
    assert all(bar.closed for bar in Bar.made)
    assert capsys.readouterr().out == ""
