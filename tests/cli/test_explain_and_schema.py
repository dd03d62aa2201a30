"""Every error code has a page; every JSON document has a schema."""

import ast
import json
import re
from pathlib import Path

import pytest

import pgsr
import topdown as engine
from pgsr.formats import OF_TOPDOWN
from pgsr.formats import document_names as pgsr_names
from pgsr.study_commands import OWN_PAGES, known_pages
from topdown.app import FAMILIES, pages
from topdown.formats import document_names

PACKAGES = {"topdown": (engine, pages), "pgsr": (pgsr, known_pages)}
SHARED_PAGES = {"B004", "X001", "X130"}  # raised in the ledger and the screens that pgsr shares


def _codes(package) -> dict[str, str]:
    """Return every code that stands in a text of a package (docstrings too), with the place of the first."""
    tree, found = Path(package.__file__).parent, {}
    for path in sorted(tree.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            for code in re.findall(r"\b[CDBIHVAX][0-9]{3}\b", text):
                found.setdefault(code, f"{path.relative_to(tree)}:{node.lineno}")
    return found


@pytest.mark.parametrize("name", PACKAGES)
def test_every_code_in_the_tree_has_a_page(name):
    """`explain CODE` must answer for every code a user can see."""
    package, known = PACKAGES[name]
    found = _codes(package)
    assert len(found) > 20
    assert {code: place for code, place in found.items() if code not in known()} == {}


def test_there_are_no_idle_pages():
    """A page of a code that nobody raises hides topdown's page or describes an error that is gone."""
    assert set(pages(OWN_PAGES)) - set(_codes(pgsr)) == SHARED_PAGES
    assert set(pages()) - set(_codes(engine)) - set(_codes(pgsr)) == set()


def test_pages_are_whole():
    """A page without a reason or a fix explains nothing."""
    for code, page in {**pages(), **known_pages()}.items():
        assert code[0] in FAMILIES
        assert min(len(page.title), len(page.why), len(page.fix)) > 5, code


def test_pgsr_explains_both(pgsr_cli, check):
    """One command answers for both engines; where both have a page, the one with pgsr's own command must win."""
    assert pgsr_cli("explain", "c162").out.startswith("C162  the published calibration is not private")
    assert pgsr_cli("explain", "D014").out == pgsr_cli("explain", "d014").out
    assert pages()["D014"].why in " ".join(pgsr_cli("explain", "D014", width=300).out.split())
    assert "pgsr release run.toml --resume" in pgsr_cli("explain", "X130").out
    everything = pgsr_cli("explain", "--json").document
    check(everything)
    assert list(known_pages()) == [page["code"] for page in everything["pages"]]
    said = pgsr_cli("explain", "Z999")
    assert said.code == 2
    assert "pgsr explain" in said.err


@pytest.mark.parametrize("name", pgsr_names())
def test_pgsr_schema_prints(pgsr_cli, name):
    """The schema that ships is the one that prints, under the short and the long name; some are topdown's."""
    said = pgsr_cli("schema", name).ok()
    owner = "topdown" if name in OF_TOPDOWN else "pgsr"
    found = json.loads(said.out)
    version = found["properties"]["version"]["const"]
    assert f"{owner}.{name}.{version}" == found["$id"]
    assert said.out == pgsr_cli("schema", f"{owner}.{name}").out


def test_explain_one_and_all(topdown, check):
    """Lower case is understood; the list holds every page."""
    said = topdown("explain", "b004").ok()
    assert said.out.startswith("B004  the ledger has not enough left")
    everything = topdown("explain", "--json").document
    check(everything)
    assert list(pages()) == [page["code"] for page in everything["pages"]]
    assert topdown("explain", "Z999").code == 2


@pytest.mark.parametrize("name", document_names())
def test_schema_prints(topdown, name):
    """The schema that ships is the one that prints, under the short and the long name."""
    said = topdown("schema", name).ok()
    assert re.fullmatch(rf"topdown\.{re.escape(name)}\.[123]", json.loads(said.out)["$id"])
    assert said.out == topdown("schema", f"topdown.{name}").out


@pytest.mark.parametrize(("program", "names"), [("topdown", document_names), ("pgsr_cli", pgsr_names)])
def test_schema_lists(request, check, program, names):
    """Without a name the command lists every document that has a schema."""
    run = request.getfixturevalue(program)
    document = run("schema", "--json").document
    check(document)
    assert names() == list(document["schemas"])
    assert run("schema", "nothing").code == 2
