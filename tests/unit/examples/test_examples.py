"""The gallery notebook and the examples of private learning run, and say what is true."""

import ast
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import private_coordinate_descent as descent
from examples import private_naive_bayes as bayes
from examples.learning_noise import CELLS, DELTA, KINDS, draw, mean_loss
from tests.helpers.processes import run_python

ROOT = Path(__file__).resolve().parents[3]


def test_losses_fall_in_the_stated_order() -> None:
    """The comparison rests on this order; error rates of one data set may come out in another."""
    losses = [mean_loss(kind) for kind in KINDS]
    assert sorted(losses, reverse=True) == losses
    assert pytest.approx(losses[-1], abs=1e-3) == 0.6908


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_stated_loss_and_delta(kind: str) -> None:
    """Noise drawn from another law than the one compared would make the whole table meaningless."""
    n = 200_000
    x = draw(kind, (n,), np.random.default_rng(5))
    spread = np.abs(x).std() / math.sqrt(n)
    assert abs(np.abs(x).mean() - mean_loss(kind)) < 5 * spread
    assert abs(x.mean()) < 5 * x.std() / math.sqrt(n)
    edges = np.arange(-6 * CELLS, 6 * CELLS + 1) / CELLS - 0.5 / CELLS
    p = np.histogram(x, edges)[0] / n
    needed = np.maximum(p[CELLS:] - math.e * p[:-CELLS], 0).sum() + p[:CELLS].sum()
    assert needed < float(DELTA) + 0.01  # positive parts of sampling errors add up
    if kind != "GN":
        assert needed > float(DELTA) - 0.03


def test_naive_bayes_counts_what_a_record_moves() -> None:
    """A sensitivity above 1 would need more noise than is drawn; a budget of fewer releases would be a lie."""
    patients = bayes.made_up(3)
    before = bayes.count(patients)
    other = bayes.Patients(patients.classes.copy(), patients.values.copy(), patients.numbers.copy())
    other.classes[0] = 1 - other.classes[0]
    other.values[0] = (other.values[0] + 1) % bayes.N_VALUES
    other.numbers[0] = 1 - other.numbers[0]
    after = bayes.count(other)
    parts = zip(vars(before).values(), vars(after).values(), strict=True)
    moved = np.concatenate([np.abs(a - b).ravel() for a, b in parts])
    assert moved.max() <= 1 + 1e-9
    spent = bayes.spent()
    assert (moved > 1e-12).sum() <= spent.n_touched
    assert moved.size == spent.n_releases
    assert "promises nothing" in spent.lines()[1]


def test_a_step_moves_by_two_at_most() -> None:
    """The noise of a step is drawn for a sensitivity of 2."""
    features, _ = descent.made_up(3)
    assert np.abs(features).max() <= 1
    spent = descent.spent()
    assert (spent.n_releases, spent.n_touched) == (400, 400)
    assert "delta 40, and a delta of 1 or more" in spent.lines()[1]


def test_examples_learn_something() -> None:
    """An example that guesses compares nothing."""
    patients = bayes.made_up(1)
    assert bayes.error(bayes.count(patients), patients) < 0.25
    features, labels = descent.made_up(1)
    point = descent.descend(features, labels, None, 1)
    assert descent.error(point, features, labels) < 0.25
    assert len(bayes.main(n_draws=3)) == 13


def test_the_examples_run_as_their_first_lines_say() -> None:
    """A reader copies that line."""
    for name in ("private_naive_bayes", "private_coordinate_descent"):
        text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
        assert f"`python -m examples.{name}`" in text
    ran = run_python("-m", "examples.private_naive_bayes", cwd=ROOT)
    assert "promises nothing" in ran.stdout


GALLERY = Path(__file__).resolve().parents[3] / "examples" / "gallery.ipynb"


def cells() -> list[dict[str, Any]]:
    """Return the cells of the notebook."""
    found: list[dict[str, Any]] = json.loads(GALLERY.read_text(encoding="utf-8"))["cells"]
    return found


def run(source: str, names: dict[str, object]) -> str:
    """Run a cell as a notebook does; return what its last expression shows."""
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(GALLERY), "exec"), names)  # noqa: S102 - a notebook is a program
    if not isinstance(last, ast.Expr):
        return ""
    value = eval(compile(ast.Expression(last.value), str(GALLERY), "eval"), names)  # noqa: S307
    return str(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))


@pytest.mark.slow
def test_the_gallery_runs(tmp_path, monkeypatch: pytest.MonkeyPatch, capsys):
    """A cell that fails, or prints colours that a notebook cannot show, stops whoever tries the library."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    shown = [run("".join(cell["source"]), names) for cell in cells() if cell["cell_type"] == "code"]
    assert len(shown) >= 10
    assert names["checks"].ok  # type: ignore[attr-defined]
    assert max(map(len, shown)) < 8_000
    assert "\x1b" not in "".join(shown)
    assert "Fraction(" not in "".join(shown)
    assert capsys.readouterr().out == ""
    assert "in another way" in (tmp_path / "tree" / "README.txt").read_text(encoding="utf-8")


def test_nothing_shown_is_stored():
    """Outputs in the file would be numbers of another run; cells without text, a page nobody can follow."""
    kinds = [cell["cell_type"] for cell in cells()]
    assert kinds.count("markdown") >= 6
    for cell in cells():
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
        assert max(len(line.rstrip("\n")) for line in cell["source"]) <= 130
