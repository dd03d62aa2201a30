"""How-to pages: every command run, every line compared, every snippet executed, every link followed."""

import importlib
import json
import re
import shutil
from pathlib import Path

import pytest

import topdown
from examples import field_offices
from tests.helpers.pages import run_page
from tests.helpers.processes import run_python

NOISE_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "optimal-noise.md"


def test_the_page_of_noise_says_what_it_says(topdown, toy, tmp_path, monkeypatch):
    """A command or a figure on the page that no longer holds misleads whoever follows it."""
    monkeypatch.chdir(tmp_path)
    toy(tmp_path)
    assert run_page(NOISE_PAGE, topdown) == 17
    assert (tmp_path / "law.json").exists()
    assert (tmp_path / "law.svg").exists()


def test_one_count_beside_the_discrete_gaussian(topdown):
    """The page says: below a ninth of its variance, at epsilon 1 and delta 1/1000000."""
    found = topdown(
        *["noise", "--epsilon", "1", "--delta", "1/1000000", "--loss", "l2", "--compare", "--json"]
    ).document
    other = next(o for o in found["others"] if o["name"] == "discrete Gaussian")
    assert 9 * float(found["variance"]) < float(other["expected_loss"])


REAL_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "optimal-noise-real.md"


@pytest.mark.slow
def test_the_page_of_real_answers_says_what_it_says(topdown, tmp_path, monkeypatch):
    """A command or a figure on the page that no longer holds misleads whoever follows it."""
    monkeypatch.chdir(tmp_path)
    assert run_page(REAL_PAGE, topdown) == 5


PGSR_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "pgsr.md"


def test_the_page_of_pgsr_runs(topdown, pgsr_cli, tmp_path):
    """A command, table or file name on the page that no longer works stops a reader at the first step."""
    pytest.importorskip("pandas")
    printed = []
    assert run_page(PGSR_PAGE, topdown, pgsr_cli, printed) == 8 + len(printed)
    assert all("municipality" in text for text in printed)
    assert len(printed) == 2
    assert len((tmp_path / "groups.csv").read_text().splitlines()) == 11
    named = set(
        re.findall(r"`(\w+\.(?:parquet|json|jsonl|csv|toml))`", PGSR_PAGE.read_text(encoding="utf-8"))
    )
    written = {path.name for path in (*tmp_path.iterdir(), *(tmp_path / "release").iterdir())}
    assert named <= written | {"groups.ledger.jsonl"}


PYTHON_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "python.md"
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_how_to_page_runs(tmp_path):
    """A line on the page that no longer works stops a reader at the first step."""
    program = "\n".join(PYTHON_BLOCK.findall(PYTHON_PAGE.read_text(encoding="utf-8")))
    lines = run_python("-c", program, cwd=tmp_path, timeout=240).stdout.splitlines()
    assert "2000 True" in lines  # the release
    assert "2000 2000" in lines  # its tables and records
    assert "this run spent: nothing" in lines
    assert [line for line in lines if line.endswith("False")] == []
    assert any(line.startswith("solve ") for line in lines)
    assert not (tmp_path / "elsewhere").exists()


def test_the_how_to_page_names_what_there_is():
    """A name on the page that the package lacks sends a reader to the source."""
    text = PYTHON_PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"topdown\.(\w+)", text))
    assert named <= set(topdown.__all__)
    functions = {name for name in topdown.__all__ if name.islower()}
    assert functions <= named


RESOLVE_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "resolve.md"


def test_the_page_runs_and_its_documents_are_in_form(topdown, release, check):
    """A command on the page that fails, or a document out of form, stops a reader who wanted one table more."""
    shutil.copytree(release, "release")
    assert run_page(RESOLVE_PAGE, topdown) == 2
    for name in ("plan.json", "certificate.json"):
        check(json.loads((Path("tree") / name).read_text(encoding="utf-8")))
    made = topdown("resolve", "release", "--out", "more", "--targets", "tree", "--workers", 1, "--json")
    check(made.document)
    assert (made.code, made.document["release_id"][-9:]) == (0, "-resolved")
    assert topdown("resolve", "release", "--out", "no", "--targets", "own").refusal == "C252"


SELECTION_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "selection.md"


def test_the_page_runs_and_prints_what_it_says(topdown, toy):
    """A line on the page that no longer works stops a reader at the first step."""
    toy(Path())
    Path("offices.csv").write_text("candidate,geocode\nNorth,1101\nNorth,1102\nSouth,12\nEast,1301\n")
    printed = []
    assert run_page(SELECTION_PAGE, topdown, printed=printed) == 7
    items, cost = printed[-1].splitlines()[-2:]
    assert f"# {cost} = e^(1/2)" in SELECTION_PAGE.read_text(encoding="utf-8")
    assert {"0", "1", "2"} >= set(re.findall(r"\d", items))


def test_the_functions_of_the_table_are_there():
    """A name on the page that there is not sends a reader to the source."""
    named = re.findall(r"^\| `(\w+)\.(\w+)` \|", SELECTION_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == 9
    for module, function in named:
        assert callable(getattr(importlib.import_module(f"topdown.selection.{module}"), function))


def test_the_offices_of_the_picture_are_chosen_and_drawn(tmp_path):
    """A picture that the example cannot make again shows something else than the code does."""
    chosen, best = field_offices.choose(tmp_path)
    assert len(set(chosen)) == len(set(best)) == field_offices.K
    drawn = (tmp_path / "offices.svg").read_text(encoding="utf-8")
    shown = SELECTION_PAGE.with_name("field-offices.svg").read_text(encoding="utf-8")
    for text in (drawn, shown):
        assert "looks at everybody: 59 % within 2 km" in text
        assert "private, epsilon 1/10: " in text
        assert text.count("<text") == 2 * (field_offices.K + 1)
    covers, people = field_offices.reached(tmp_path, tmp_path / "offices"), field_offices.residents(tmp_path)
    assert field_offices.share(chosen, covers, people) > 0.7 * field_offices.share(best, covers, people)


PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "your-own-invariants.md"


def test_the_page_runs_and_says_what_it_says(topdown):
    """A verdict on the page that the program does not give would mislead an office about its own law."""
    verdicts = set()

    def judged(*arguments):
        if arguments[0] == "implied":
            verdicts.update(v["kind"] for v in topdown(*arguments, "--json").document.get("verdicts", ()))
        return topdown(*arguments)

    assert run_page(PAGE, judged) > 10
    # an integer program needs a run file
    assert verdicts == {"complete_integral", "not_guaranteed", "refused"}


HOUSEHOLDS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "households.md"


def test_the_page_of_households_makes_a_release(topdown, tmp_path, monkeypatch):
    """A draft that asks for other noise, or does not read the column, is refused before the reader has a plan."""
    monkeypatch.chdir(tmp_path)
    assert run_page(HOUSEHOLDS_PAGE, topdown) == 4
    assert topdown("verify", "release").code == 0
    assert "ignore = []" in Path("run.toml").read_text(), "the run file says that households are not read"
