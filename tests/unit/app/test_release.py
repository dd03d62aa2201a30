"""`Release`: what it reads is what the files say, drawn as a picture, shown in a notebook short and escaped."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pandas as pd
import pyarrow.parquet as pq
import pytest

import pgsr
import topdown
from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.notebook import MOST_ROWS, card


def test_tables_are_the_files(town):
    """A table that differs from the published file would be another release."""
    release = topdown.Release(town.release)
    files = {str(p.relative_to(town.release / "tables")) for p in town.release.glob("tables/*/*.parquet")}
    assert len(files) == len(release.tables) * len(release.levels) > 6
    for query in release.tables:
        folder = query.replace(" * ", "_by_")
        for level in release.levels:
            path = town.release / "tables" / folder / f"{level}.parquet"
            table = release.table(query, level)
            pd.testing.assert_frame_equal(pd.read_parquet(path), table)
            assert pq.read_table(path).equals(release.arrow(query, level))
            assert table["count"].sum() == 400


def test_records_plan_and_certificate_are_the_files(town):
    """The records must be those of the microdata, the plan the one that was paid for."""
    release = topdown.Release(str(town.release))
    records = release.microdata()
    pd.testing.assert_frame_equal(pd.read_parquet(town.release / "microdata" / "persons.parquet"), records)
    assert 400 == records["count"].sum() == town.made.n_records
    assert topdown.plan(town.run).plan_hash == release.plan.plan_hash
    assert release.certificate["plan_hash"] == release.plan.plan_hash
    assert [level.name for level in release.plan.levels] == list(release.levels)


@pytest.mark.parametrize(
    ("query", "level", "code", "named"),
    [("income", "block", "C024", "age"), ("total", "moon", "C181", "block")],
)
def test_an_unknown_table_names_those_there_are(town, query, level, code, named):
    """An error that does not say what there is sends people to the source, or to a path of their own making."""
    with pytest.raises(topdown.TopdownError) as refused:
        topdown.Release(town.release).table(query, level)
    assert (refused.value.code, named in refused.value.fix) == (code, True)


def test_any_table_is_counted_from_the_records(town):
    """A table that a reader needs and nobody published was refused, though the command line makes it."""
    release, query = topdown.Release(town.release), "dwelling * age"
    assert query not in release.tables
    records, leaves = release.microdata(), release.levels[-1]
    by_hand = records.groupby(["geocode", "dwelling", "age"], observed=True)["count"].sum()
    found = release.table(query, leaves)
    assert by_hand.to_dict() == found.set_index(["geocode", "dwelling", "age"])["count"].to_dict()
    for level in release.levels:
        assert release.table(query, level)["count"].sum() == 400


def test_noisy_answers_are_those_of_the_files(town):
    """An answer under another label, or of another area, is another measurement."""
    release = topdown.Release(town.release)
    level = release.levels[-1]
    stored = pq.read_table(town.release / "measurements" / level / "part-000.parquet").to_pylist()
    for query in {m.query for m in release.plan.level(level).measurements}:
        found = release.measurements(query, level)
        for code in found["geocode"].unique()[:3]:
            (row,) = [at for at in stored if (at["node"], at["query"]) == (code, query)]
            assert row["answers"] == found[found["geocode"] == code]["noisy"].tolist()
    with fails_with("C181"):
        release.measurements("income", level)


def test_what_is_no_finished_release_is_refused(town, tmp_path):
    """Half a release read as a whole one would be published."""
    for folder in (tmp_path / "nothing", tmp_path):
        with fails_with("C088"):
            topdown.Release(folder)
    half = shutil.copytree(town.release, tmp_path / "half")
    (half / "manifest.json").unlink()
    with pytest.raises(topdown.TopdownError, match="not a finished release"):
        topdown.Release(half)


@pytest.mark.parametrize(
    "name", ["tables/total/block.parquet", "microdata/persons.parquet", "certificate.json"]
)
@pytest.mark.parametrize("gone", [True, False])
def test_a_damaged_file_is_named(town, tmp_path, name, gone):
    """A traceback of a library would not say which file to get again."""
    broken = shutil.copytree(town.release, tmp_path / "broken")
    release = topdown.Release(broken)
    (broken / name).unlink()
    if not gone:
        (broken / name).write_bytes(b"PAR1 no more")
    with pytest.raises(topdown.TopdownError) as refused:
        _ = {
            "tables": lambda: release.table("total", "block"),
            "microdata": release.microdata,
            "certificate.json": lambda: release.certificate,
        }[name.split("/")[0]]()
    assert ("V090", str(broken / name)) == (refused.value.code, refused.value.file)


def test_a_picture_has_the_counts_and_intervals_of_the_table(town, tmp_path):
    """A bar that is not the count beside it, or an interval that is left out, misleads whoever looks at it only."""
    topdown.resolve(town.release, tmp_path / "tree", targets="tree", coverage="9/10", name="tree")
    release = topdown.Release(tmp_path / "tree")
    level = release.levels[-1]
    picture, table = release.plot("total", level, most=5), release.table("total", level)
    root = ET.fromstring(picture._repr_svg_())  # noqa: S314 - our own text
    texts = [found.text for found in root.iter() if found.tag.endswith("text")]
    rows = table.head(5)
    assert rows["geocode"].astype(str).tolist() == texts[0::2]
    said = [
        f"{count:,} ({low:,} to {high:,})"
        for count, low, high in zip(rows["count"], rows["low"], rows["high"], strict=True)
    ]
    assert said == texts[1::2]
    assert len(rows) == len([found for found in root.iter() if found.tag.endswith("path")])
    widths = [float(found.attrib["width"]) for found in root.iter() if found.tag.endswith("rect")]
    longest = max(rows["count"].max(), 1)
    assert widths == pytest.approx([max(widths) * count / longest for count in rows["count"]], abs=0.1)


def test_areas_and_answers_are_chosen(town, tmp_path):
    """A state has more areas than a picture has room for."""
    release = topdown.Release(town.release)
    level = release.levels[-1]
    table = release.table("total", level)
    code = str(table["geocode"].iloc[table["count"].argmax()])
    picture = release.plot("sex", level, areas=[code])
    assert code in picture.svg
    assert re.fullmatch(r"Chart\('sex at \w+, \d+ of \d+ counts'\)", repr(picture))
    assert "<script" not in picture.svg
    picture.save(tmp_path / "sex.svg")
    assert (tmp_path / "sex.svg").read_text(encoding="utf-8") == picture._repr_svg_()
    with fails_with("C080", ConfigError):
        picture.save(tmp_path / "sex.svg")
    for wrong in ({"areas": ["nowhere"]}, {"most": 0}):
        with fails_with("C005", ConfigError):
            release.plot("sex", level, **wrong)


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
        "compare": topdown.plan(town.run).compare(topdown.plan(town.run)),
    }


def test_values_are_short_and_plain(values):
    """The last line of a cell is shown: pages of numbers, colours or markup of others would fill the notebook."""
    for name, value in values.items():
        line, html = repr(value), value._repr_html_()
        assert len(line) <= MOST, name
        assert len(html) < 12_000, name
        assert "\x1b" not in line + html
        assert plain(html), name
        assert not WALL.search(line + html), name


def test_parts_of_a_plan_are_shown_in_a_line(values):
    """Whoever looks at what a plan has would get its 6,000 characters of numbers."""
    planned = values["plan"]
    for part in (planned.plan, planned.summary, planned.budget_for(1), planned.compare_noise("1/1000")):
        assert len(repr(part)) <= MOST
        assert not WALL.search(repr(part))


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
