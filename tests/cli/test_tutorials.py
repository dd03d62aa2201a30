"""The tutorials, typed from top to bottom."""

import csv
import re
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.pages import OPTIONAL, run_page

DOCS = Path(__file__).resolve().parents[2] / "docs"
COMING_FROM = sorted((DOCS / "coming-from").glob("*.md"))
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.parent != DOCS / "site")


@pytest.mark.slow
def test_first_release(topdown, tmp_path):
    """The first page that anybody types must not end in a message that it does not show."""
    assert run_page(DOCS / "tutorials" / "first-release.md", topdown) == 8


@pytest.mark.slow
def test_districts_with_intervals(topdown, tmp_path):
    """Intervals of districts are asked for by people who add up what does not add up."""
    assert run_page(DOCS / "tutorials" / "districts.md", topdown) == 9
    assert (tmp_path / "districts" / "areas" / "adult.csv").is_file()


def test_your_own_country(topdown, tmp_path):
    """A newcomer whose second command is refused does not type a third."""
    assert run_page(DOCS / "tutorials" / "your-own-country.md", topdown) == 10
    assert (tmp_path / "districts" / "areas" / "sex_by_marital.csv").is_file()
    assert b"people.csv" not in b"".join(path.read_bytes() for path in tmp_path.glob("release/*.json"))
    installed = sum(find_spec(name) is not None for name in OPTIONAL)
    assert run_page(DOCS / "how-to" / "read-a-release.md", topdown) == 3 + installed
    check_files_for_r_and_qgis(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", COMING_FROM, ids=lambda page: page.stem)
def test_first_lines_for_people_from_elsewhere(topdown, tmp_path, page):
    """Somebody who tries us beside what she knows types these lines first."""
    assert run_page(page, topdown) >= 2


def check_files_for_r_and_qgis(folder: Path) -> None:
    """Check what R and QGIS read without being told: text stays text, every column has its kind."""
    for path in (
        *folder.glob("release/tables/*/*.parquet"),
        folder / "release" / "microdata" / "persons.parquet",
    ):
        kinds = {field.name: field.type for field in pq.read_schema(path)}
        plain = {kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds.values()}
        assert plain <= {pa.string(), pa.int32(), pa.int64(), pa.float64()}, path
        assert kinds["geocode"] in (pa.string(), pa.dictionary(pa.int32(), pa.string())), path
    wide = sorted(folder.glob("tables/wide/*/*.csv"))
    assert wide
    for path in wide:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        kinds = path.with_suffix(".csvt").read_text().strip().split(",")
        assert len(kinds) == len(header)
        text = {name for name, kind in zip(header, kinds, strict=True) if kind == '"String"'}
        assert {"geocode"} <= text <= {"geocode", "level", "name"}
        assert all(
            v.isdigit() for row in rows for name, v in zip(header, row, strict=True) if name not in text
        )
        assert path.stem != "settlement" or "007" in {row[header.index("geocode")] for row in rows}


FOR_NEWCOMERS = ("tutorials", "coming-from")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_of_pages_lead_somewhere(page):
    """A page that was renamed leaves a dead link; a long line is read by nobody in a terminal."""
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        assert (page.parent / target).is_file(), target
    if page.parent.name in FOR_NEWCOMERS:
        prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert [line for line in prose.splitlines() if len(line) > 120 and not line.startswith("|")] == []


def test_every_page_is_in_the_list_once():
    """A page that no list names is found by nobody."""
    listed = [
        (DOCS / target).resolve() for target in LINK.findall((DOCS / "README.md").read_text(encoding="utf-8"))
    ]
    assert [page.resolve() for page in PAGES if page.name != "README.md"] == sorted(listed)
    assert "docs/README.md" in (DOCS.parent / "README.md").read_text(encoding="utf-8")
