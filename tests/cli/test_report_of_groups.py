"""`pgsr report` and `topdown report CHOICE`: pages whose every number is one of the folder's files."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.helpers.html_pages import check_accessible, check_html
from tests.pinned.releases import made_once
from topdown.app import LANGUAGES


@pytest.fixture(scope="module")
def choices() -> list[Path]:
    """Return a choice of every kind."""
    return sorted(path.parent for path in made_once("choices").rglob("selection.json"))


@pytest.fixture(scope="module")
def groups() -> list[Path]:
    """Return releases of group sizes by every mechanism."""
    every = sorted(made_once("group_sizes").rglob("certificate.json"))
    found = {path.parent: json.loads(path.read_text()) for path in every}
    return [at for at, stated in found.items() if stated["type"] == "pgsr.certificate" and stated["release"]]


def check_page(program, folder: Path, out: Path, least: int) -> str:
    """Write and check the page of a folder in every language; a changed digit or word must be found. Return it."""
    for language in LANGUAGES:
        said = program("report", folder, "--out", out, "--language", language, "--force", "--json")
        assert said.code == 0, (folder, said.out)
        assert said.document["n_numbers"] >= least
        page = out.read_text(encoding="utf-8")
        check_html(page)
        checked = program("report", folder, "--out", out, "--check", "--json")
        assert (checked.code, checked.document["language"]) == (0, language), checked.document
    places = [found.start() for found in re.finditer(r"[0-9](?=[^<>]*</data>)", page)]
    for place in places[:: max(1, len(places) // 4)]:
        digit = "1" if page[place] != "1" else "2"
        out.write_text(page[:place] + digit + page[place + 1 :], encoding="utf-8")
        assert program("report", folder, "--out", out, "--check").code == 1
    out.write_text(page.replace("</main>", "<p>and more</p></main>"), encoding="utf-8")
    assert program("report", folder, "--out", out, "--check").code == 1
    return page


def test_every_kind_of_choice_has_its_page_and_picture(topdown, choices, tmp_path) -> None:
    """A page that names another candidate than was chosen, or leaves one out, would be false about the result."""
    kinds = set()
    for folder in choices:
        page = check_page(topdown, folder, tmp_path / "page.html", 4)
        question = json.loads((folder / "selection.json").read_text())["question"]
        result = json.loads((folder / "result.json").read_text())
        kinds.add(question["kind"])
        for rank, name in enumerate(result["chosen"], start=1):
            assert f"<td>{rank}</td><td>{name}</td>" in page
        if "candidates" in question:
            (picture,) = re.findall(r"<svg.*?</svg>", page)
            marks = picture.count("<path" if question["candidates"][0]["latitude"] is None else 'r="6"')
            assert marks == len(result["chosen"])
    assert kinds == {"sites", "order", "frequent"}


@pytest.mark.slow
def test_everybody_can_read_these_pages(topdown, pgsr_cli, choices, groups, tmp_path) -> None:
    """Pictures without words and tables that only a mouse can scroll leave readers out."""
    for program, folders in ((topdown, choices), (pgsr_cli, groups[:2])):
        for folder in folders:
            page = check_page(program, folder, tmp_path / "page.html", 4)
            check_accessible(page, tmp_path, widths=(400, 1400))


def test_a_choice_with_places_is_drawn_where_it_lies(topdown, choices, tmp_path) -> None:
    """A map with east for west would show other sites than were chosen."""
    places = {
        "North": ("41.6", "-71.5"),
        "South": ("41.4", "-71.5"),
        "East": ("41.5", "-71.4"),
        "West": ("41.5", "-71.6"),
    }
    folder = tmp_path / "choice"
    shutil.copytree(next(at for at in choices if at.name == "sites"), folder)
    question, result = (json.loads((folder / name).read_text()) for name in ("selection.json", "result.json"))
    question["question"]["candidates"] = [
        {"name": name, "district": None, "latitude": latitude, "longitude": longitude}
        for name, (latitude, longitude) in places.items()
    ]
    result["chosen"] = list(places)
    (folder / "selection.json").write_text(json.dumps(question))
    (folder / "result.json").write_text(json.dumps(result))
    assert topdown("report", folder, "--out", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    drawn = re.findall(r'<text x="([0-9.]+)" y="([0-9.]+)"[^>]*>([A-Z][a-z]+)<', page)
    at = {name: (float(x), float(y)) for x, y, name in drawn}
    assert set(at) == set(places)
    assert at["West"][0] < at["North"][0] == at["South"][0] < at["East"][0]
    assert at["North"][1] < at["East"][1] == at["West"][1] < at["South"][1]
    across, down = at["East"][0] - at["West"][0], at["South"][1] - at["North"][1]
    assert across / down == pytest.approx(0.749, abs=0.01)  # the cosine of 41.5 degrees


@pytest.mark.slow
def test_releases_of_every_mechanism_have_a_report(pgsr_cli, groups, tmp_path) -> None:
    """A mechanism whose report fails, or shows a width that its intervals do not have, would be found by its reader."""
    assert len(groups) > 5
    for folder in groups:
        check_page(pgsr_cli, folder, tmp_path / "page.html", 20)


def test_a_release_of_group_sizes_has_two_pages(pgsr_cli, practice, tmp_path) -> None:
    """What was measured, and intervals by size: the widths on the page are those of the table that everybody reads."""
    import pyarrow.parquet as pq

    folder = tmp_path / "release"
    assert pgsr_cli("release", practice / "run.toml", "--yes", "--out", folder, "--quiet").code == 0
    page = check_page(pgsr_cli, folder, tmp_path / "page.html", 40)
    assert re.findall(r'<section id="(\w+)"', page) == ["group_measured", "group_intervals"]
    counts = pq.read_table(folder / "counts.parquet").to_pandas()
    here = counts[(counts.level == "county") & (counts["size"] == 1)]
    widths = sorted(((here.upper_95 - here.lower_95) / 2).tolist())
    median = widths[-(-len(widths) // 2) - 1]
    row = next(part for part in page.split("<tr>") if "<td>county</td>" in part and ">1</data></td>" in part)
    assert f'value="{int(here["count"].sum())}"' in row
    assert f">{median:.1f}</data>" in row
    assert pgsr_cli("report", tmp_path, "--out", tmp_path / "none.html").code == 2
