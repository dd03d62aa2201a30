"""`topdown report --boundaries`: the map of a report with the office's own outlines."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers.html_pages import check_html
from tests.pinned.releases import ESTIMATES, generate

A_ROW = 7
EDGES = [Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2)]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release with intervals, and so with a map."""
    folder = tmp_path_factory.mktemp("mapped")
    generate(folder, edit=lambda text: text.replace("[budget]", ESTIMATES))
    return folder / "release"


@pytest.fixture(scope="module")
def codes(release: Path) -> list[str]:
    """Return the geocodes of the areas on the map, of the deepest level of at most 400."""
    levels = [one["name"] for one in json.loads((release / "plan.json").read_text())["levels"]]
    found = [
        pq.read_table(release / "tables" / "total" / f"{level}.parquet")["geocode"].to_pylist()
        for level in levels
    ]
    return next(areas for areas in reversed(found) if 2 <= len(areas) <= 400)


def square(i: int) -> list[list[int]]:
    """Return a closed ring, a tile of a chessboard of metres, with a point on an edge that says nothing."""
    x, y = 1000 * (i % A_ROW), -1000 * (i // A_ROW)
    return [[x, y], [x + 500, y], [x + 1000, y], [x + 1000, y - 1000], [x, y - 1000], [x, y]]


def geojson(codes: list[str]) -> dict[str, Any]:
    """Return squares as GeoJSON, one as a list of parts, an area of another country, and a feature without surface."""
    features = [
        {
            "type": "Feature",
            "properties": {"CODE": code},
            "geometry": {"type": "Polygon", "coordinates": [square(i)]},
        }
        for i, code in enumerate(codes)
    ]
    features[0]["geometry"] = {"type": "MultiPolygon", "coordinates": [[square(0)]]}
    far = {"type": "Polygon", "coordinates": [[[10**6, 0], [10**7, 0], [10**7, 10**7], [10**6, 0]]]}
    features.append({"type": "Feature", "properties": {"CODE": "abroad"}, "geometry": far})
    features.append({"type": "Feature", "properties": None, "geometry": None})
    return {"type": "FeatureCollection", "features": features}


def topojson(codes: list[str]) -> dict[str, Any]:
    """Return the same squares as TopoJSON: two arcs for each, in steps of 500 metres, the second backwards."""
    arcs, geometries = [], []
    for i, code in enumerate(codes):
        ring = [[x // 500, y // 500] for x, y in square(i)]
        for arc in (ring[:4], ring[:2:-1]):
            steps = [[b[0] - a[0], b[1] - a[1]] for a, b in pairwise(arc)]
            arcs.append([arc[0], *steps])
        polygon = [[2 * i, ~(2 * i + 1)]]
        geometries.append({"type": "Polygon", "properties": {"CODE": code}, "arcs": polygon})
    geometries[0] |= {"type": "MultiPolygon", "arcs": [geometries[0]["arcs"]]}
    return {
        "type": "Topology",
        "transform": {"scale": [500, 500], "translate": [0, 0]},
        "arcs": arcs,
        "objects": {"areas": {"type": "GeometryCollection", "geometries": geometries}},
    }


def save(path: Path, document: object) -> Path:
    """Write JSON in a folder of its own."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def test_areas_are_drawn_where_they_lie_with_their_own_marks(topdown, release, codes, tmp_path) -> None:
    """A map that shades the neighbour instead would be believed: the shade of each place is derived here once more."""
    file = save(tmp_path / "geo" / "areas.json", geojson(codes))
    asked = ("report", release, "--boundaries", file, "--boundary-key", "CODE", "--out")
    assert topdown(*asked, tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    check_html(page)
    drawn = re.findall(r'<path d="M(\d+) (\d+)[^"]*" fill="[^"]*"><title>([^:]*): (.)</title>', page)
    assert sorted(code for *_, code, _ in drawn) == sorted(codes)
    scale = 1280 / (1000 * min(A_ROW, len(codes)))
    said = re.search(r'<section id="map".*?<p class="lead">(.*?)</p>', page, flags=re.DOTALL)[1]
    words = re.search(r"(.*): (.*), in .* areas of level (\w+)\.", re.sub("<[^>]*>", "", said)).groups()
    query, answer, level = words
    (table,) = (release / "tables").glob(f"{re.sub('[^a-z0-9_]+', '*', query)}/{level}.parquet")
    rows = pq.read_table(table).to_pylist()
    columns = list(rows[0])
    names = columns[columns.index("geocode") + 1 : columns.index("count")]
    marks = {
        row["geocode"]: str(sum(Fraction(row["high"] - row["low"], 2 * row["count"]) >= e for e in EDGES))
        for row in rows
        if row["count"] and ", ".join(str(row[name]) for name in names) == answer
    }
    assert len({marks.get(code, "-") for code in codes}) > 1
    for x, y, code, mark in drawn:
        place = codes.index(code)
        # a path may begin at any corner
        assert (int(x) - 1) / (1000 * scale) - place % A_ROW == pytest.approx(0, abs=1.01)
        assert (int(y) - 1) / (1000 * scale) - place // A_ROW == pytest.approx(0, abs=1.01)
        assert mark == marks.get(code, "-")
    assert "areas.json" in page

    assert topdown(*asked, tmp_path / "page.html", "--check").code == 0
    assert topdown("report", release, "--out", tmp_path / "page.html", "--check").code == 1
    turned = save(tmp_path / "turned" / "areas.json", geojson(codes[1:] + codes[:1]))
    other = ("report", release, "--boundaries", turned, "--boundary-key", "CODE", "--out")
    assert topdown(*other, tmp_path / "page.html", "--check").code == 1


def test_topojson_draws_the_same_page(topdown, release, codes, tmp_path) -> None:
    """Arcs read forwards that run backwards tear every area that shares them."""
    pages = []
    for name, document in (("geo", geojson(codes)), ("topo", topojson(codes))):
        file = save(tmp_path / name / "areas.json", document)
        out = tmp_path / f"{name}.html"
        assert (
            topdown("report", release, "--boundaries", file, "--boundary-key", "CODE", "--out", out).code == 0
        )
        pages.append(out.read_bytes())
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda document: document["features"].pop(0), "D151"),
        (
            lambda document: document["features"][0].update(
                geometry={"type": "Point", "coordinates": [1, 2]}
            ),
            "D151",
        ),
        (lambda document: document.update(type="Feature"), "D150"),
        (lambda document: document["features"][1]["geometry"].update(coordinates=[["x"]]), "D150"),
        (
            lambda document: document["features"][1]["geometry"].update(coordinates=[[[1, float("nan")]]]),
            "D150",
        ),
        (lambda document: document["features"][1]["geometry"].update(coordinates=[[[1]]]), "D150"),
        (lambda document: document.pop("features"), "D150"),
    ],
)
def test_what_cannot_be_drawn_is_refused(topdown, release, codes, tmp_path, change, code) -> None:
    """An area left out of a map looks as if nobody lived there."""
    document = geojson(codes)
    change(document)
    file = save(tmp_path / "areas" / "areas.json", document)
    said = topdown(
        "report", release, "--boundaries", file, "--boundary-key", "CODE", "--out", tmp_path / "p.html"
    )
    assert (said.code, code in said.err, (tmp_path / "p.html").exists()) == (2, True, False), said.err


def test_a_report_without_a_map_takes_no_boundaries(topdown, tmp_path) -> None:
    """A file that is read and drawn nowhere would be taken for drawn."""
    generate(tmp_path / "plain")
    file = save(tmp_path / "areas" / "areas.json", geojson(["1"]))
    said = topdown(
        "report", tmp_path / "plain" / "release", "--boundaries", file, "--out", tmp_path / "p.html"
    )
    assert said.refusal == "D152"
