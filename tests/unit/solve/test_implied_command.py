"""`topdown implied`: screens, JSON and refusals."""

import json

import pytest

from tests.helpers.schemas import problems
from topdown.cli import main
from topdown.formats import document_schema


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run the command; return code and output."""
    code = main(["implied", *arguments])
    return code, capsys.readouterr().out


def test_example_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """The paper's first example is what a reader types first."""
    code, out = run(capsys, "--example", "college-town")
    assert code == 0
    assert "  F + C >= 98\n  C + M >= 98\n" in out
    assert "Refused: (48, 49, 99) breaks F + C >= 98." in out
    assert out.endswith("Elimination of the leaves gives the same constraints.\n")


@pytest.mark.parametrize("name", ["college-town", "two-by-two", "appendix", "seven-counties"])
def test_example_json(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The document must match its schema, and theorem and elimination must agree."""
    code, out = run(capsys, "--example", name, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["elimination_agrees"] is True
    assert problems(document, document_schema("implied")) == []


def test_bundled_invariants(capsys: pytest.CaptureFixture[str]) -> None:
    """Constraints read as algebra over public columns, with a verdict a level."""
    code, out = run(capsys, "pl94_2020", "--schema", "pl94", "--levels", "state,county,block")
    assert code == 0
    assert "x[hhgq=college] >= sum gq_college" in out
    assert "x[hhgq=nursing & votingage=under_18] = 0" in out
    assert "pl94_2020: complete and integral at every level" in out
    code, out = run(capsys, "pl94_2020", "--schema", "pl94", "--json")
    document = json.loads(out)
    assert problems(document, document_schema("implied")) == []
    assert [v["needs"] for v in document["verdicts"]] == ["combination_table", "nothing", "nothing"]


@pytest.mark.parametrize(
    "arguments",
    [(), ("toy",), ("toy", "--example", "appendix"), ("toy", "--schema", "toy", "--levels", "a,b")],
)
def test_wrong_use(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    """A user error ends with code 2 and a fix, never a traceback."""
    assert run(capsys, *arguments)[0] == 2
