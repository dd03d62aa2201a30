"""Every error code has a page; every JSON document has a schema."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

import topdown as package
from topdown.documents import document_names
from topdown.explain import FAMILIES, pages

TREE = Path(package.__file__).parent


def _codes() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(TREE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and re.fullmatch(r"[CDBIHVAX][0-9]{3}", text):
                found.setdefault(text, f"{path.relative_to(TREE)}:{node.lineno}")
    return found


def test_every_code_in_the_tree_has_a_page():
    """`topdown explain CODE` must answer for every code a user can see."""
    missing = {code: place for code, place in _codes().items() if code not in pages()}
    assert missing == {}


def test_pages_are_whole():
    """A page without a reason or a fix explains nothing."""
    for code, page in pages().items():
        assert code[0] in FAMILIES
        assert min(len(page.title), len(page.why), len(page.fix)) > 5, code


def test_explain_one_and_all(topdown, check):
    """Lower case is understood; the list holds every page."""
    said = topdown("explain", "b004")
    assert said.code == 0
    assert said.out.startswith("B004  the ledger has not enough left")
    everything = topdown("explain", "--json").document
    check(everything)
    assert list(pages()) == [page["code"] for page in everything["pages"]]
    assert topdown("explain", "Z999").code == 2


@pytest.mark.parametrize("name", document_names())
def test_schema_prints(topdown, name):
    """The schema that ships is the one that prints, under the short and the long name."""
    said = topdown("schema", name)
    assert said.code == 0
    assert f"topdown.{name}.1" == json.loads(said.out)["$id"]
    assert said.out == topdown("schema", f"topdown.{name}").out


def test_schema_lists(topdown, check):
    """Without a name the command lists what there is."""
    document = topdown("schema", "--json").document
    check(document)
    assert document_names() == list(document["schemas"])
    assert topdown("schema", "nothing").code == 2


def test_the_validator_can_fail(check):
    """A validator that accepts everything would make all schema tests empty."""
    good = {
        "type": "topdown.init",
        "version": 1,
        "run_file": "r",
        "open_answers": [],
        "missing_files": [],
        "check_prefix_lengths": False,
    }
    check(good)
    for bad in (
        good | {"version": 2},
        good | {"run_file": None},
        good | {"open_answers": [1]},
        good | {"more": 1},
        {k: v for k, v in good.items() if k != "run_file"},
    ):
        with pytest.raises(AssertionError):
            check(bad)
