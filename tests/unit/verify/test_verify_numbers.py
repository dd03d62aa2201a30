"""Verify shares no code with what it verifies, and finds the same losses by engines of its own."""

import ast
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import topdown
from topdown.privacy import loss_numbers
from topdown.privacy.accountant import Composition, PureLoss
from topdown.verify import (
    ALPHAS,
    Comparison,
    Findings,
    MovedCounts,
    StatedRow,
    loss_of,
    read_decimal,
    read_enclosure,
    tight_formula,
    usual_formula,
)
from topdown.verify.gaussian_sums import GaussianSum, _lattice_ends

LAWS = {
    "one count": [(Fraction(10), 1, 2)],
    "census-like": [(Fraction(80), 1, 2), (Fraction(75), 1, 2), (Fraction(400), 1, 6)],
    "next to nothing": [(Fraction(10**9), 1, 2)],
    "hardly any noise": [(Fraction(1, 50), 1, 2), (Fraction(1, 40), 1, 2)],
    "as good as none": [(Fraction(1, 4000), 1, 2)],
    "no sum is quick": [(Fraction(10**19), 1, 10**12)],
    "a sum for epsilon, bounds for the guess": [
        (Fraction(1, 1000), 1, 2),
        (Fraction(101), 1, 2),
        (Fraction(223), 1, 2),
        (Fraction(1999, 10), 1, 2),
    ],
    "narrow beside wide": [
        *((Fraction(v), 1, 2) for v in (2, 4, 5, 10, 20)),
        *((Fraction(n**4, 3), 1, n) for n in range(5, 20)),
    ],
    "shifted": [(Fraction(30), 3, 1), (Fraction(20), 2, 2)],
}


def contradictions(law: str, moved: list[tuple[Fraction, int, int]], numbers: dict[str, Any]) -> list[str]:
    """Return what is found wrong with the numbers of one row."""
    row = StatedRow(
        {"name": "x"}, loss_of(law, [MovedCounts(*row) for row in moved]), lambda times: f"at most {times}"
    )
    out = Findings()
    deltas = tuple(numbers["epsilon"])
    stated = numbers | {"name": "x", "sentence": f"at most {numbers['right_in_100']}"}
    Comparison(out, deltas).rows("V133", "secrets", [stated], [row])
    return [f"{f.text}: {f.expected} {f.found}" for f in out.kept]


@pytest.mark.parametrize("name", LAWS)
def test_stated_numbers_are_enclosures_of_what_is_found(name: str) -> None:
    """An honest certificate that verify refuses, tiny epsilons and huge budgets included, would stop a release."""
    stated = loss_numbers(Composition.of(LAWS[name]), ("1e-10", "1e-6"))
    assert not contradictions("discrete_gaussian", LAWS[name], stated)


@pytest.mark.parametrize("name", LAWS)
def test_curves_of_other_engines_agree(name: str) -> None:
    """A curve is a search over many thresholds; where it goes to and fro it must still end, with narrow ends."""
    loss = loss_of("discrete_gaussian", [MovedCounts(*row) for row in LAWS[name]])
    certified = Composition.of(LAWS[name]).trade_off_curve(ALPHAS, engine="auto")
    for mine, other in zip(loss.powers, certified, strict=True):
        assert mine.lower <= 1 - other.lower
        assert 1 - other.upper <= mine.upper
        assert mine.upper - mine.lower <= mine.upper / 10_000


ON_LATTICES = {
    "errors of second order": [(Fraction(900), 7, 3), (Fraction(5_000), 1, 40), (Fraction(77, 2), 2, 4)],
    "of no order": LAWS["census-like"],
}


@pytest.mark.parametrize("name", ON_LATTICES)
def test_lattices_alone_enclose_the_certified_epsilon(name: str) -> None:
    """What a wrong extrapolation loses is less than the slack that all ends have: without slack it shows."""
    groups = ON_LATTICES[name]
    certified = Composition.of(groups).epsilon("1e-10")
    tilt = math.sqrt(20 * math.log(10) / float(2 * GaussianSum(groups).rho))
    low, high = _lattice_ends(tuple(groups), "epsilon", 1e-10, tilt, 0.0)
    assert low <= certified.lower <= certified.upper <= high


@pytest.mark.parametrize("scale", ["1/1000", "1/3", "7", "10000000"])
def test_pure_losses_agree(scale: str) -> None:
    """Geometric noise is summed exactly on both sides, in other arithmetic."""
    moved = [(Fraction(scale), 1, 2), (Fraction(5), 1, 2)]
    stated = loss_numbers(PureLoss.of_geometric((s, n) for s, _, n in moved), ("1e-10",))
    assert not contradictions("two_sided_geometric", moved, stated)


@pytest.mark.parametrize("name", LAWS)
def test_the_numbers_of_less_noise_are_refused(name: str) -> None:
    """One count left out of a composition is the smallest lie about it."""
    (variance, shift, n), *rest = LAWS[name]
    more = [(variance, shift, n + 1), *rest]
    stated = loss_numbers(Composition.of(LAWS[name]), ("1e-10",))
    assert contradictions("discrete_gaussian", more, stated)


def test_small_numbers_are_read_as_they_are_printed() -> None:
    """Enclosures print small ends as 9.1e-7: a reader that stops at the e would refuse an honest certificate."""
    assert (Fraction(91, 10**8), Fraction(92, 10**8)) == read_enclosure(["9.1e-7", "9.2e-7"])
    assert read_decimal("1.5e2") == 150
    for text in ("e5", "1e", "-1", "1e--7", "inf", "0x1", "1_0", " 1", "1e-1000", "١"):
        with pytest.raises(ValueError, match="decimal"):
            read_decimal(text)


def test_closed_forms_are_those_of_the_papers() -> None:
    """The formulas are checked against numbers found elsewhere: rho 1/2 and 10 at delta 1e-10."""
    assert float(usual_formula(Fraction(1, 2), 10)) == pytest.approx(7.286140424, rel=1e-9)
    for rho in (Fraction(1, 2), Fraction(10)):
        grid = [1 + 10 ** (k / 2000) for k in range(-4000, 4000)]
        assert float(tight_formula(rho, 10)) == pytest.approx(
            min(_bound(float(rho), a) for a in grid), rel=1e-6
        )


def _bound(rho: float, order: float) -> float:
    from math import log

    return order * rho + (10 * log(10) - log(order)) / (order - 1) + log(1 - 1 / order)


def test_the_gaussian_comparison_is_of_the_same_rho() -> None:
    """With wide noise the closed form is all but exact; half of rho put in would show here."""
    stated = loss_numbers(Composition.of(LAWS["census-like"]), ("1e-10",))
    exact = float(stated["epsilon"]["1e-10"][0])
    assert stated["usual"]["gaussian_comparison"]["1e-10"] == pytest.approx(exact, rel=1e-2)


FILES = sorted((Path(topdown.__file__).parent / "verify").glob("*.py"))
LIBRARIES = {
    "__future__", "abc", "collections", "contextlib", "csv", "dataclasses", "decimal", "fractions", "functools",
    "hashlib", "html", "io", "itertools", "json", "math", "msgspec", "numpy", "operator", "os", "pathlib",
    "pyarrow", "re", "stat", "textwrap", "time", "topdown", "typing", "zlib",
}  # fmt: skip
SUMS_OF_NOISE = {"gaussian_sums", "change_losses", "stated_losses"}
"""Where losses are computed in float64, with ends: they are held against a certificate's, and make none."""


def imported(tree: ast.AST) -> set[str]:
    """Return the name of every imported package."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where code comes from"
            names.add(str(node.module).split(".")[0])
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_imports_only_common_libraries(path: Path) -> None:
    """A library for solving, drawing or composing would be trusted with what is to be found anew."""
    assert imported(ast.parse(path.read_text(encoding="utf-8"))) <= LIBRARIES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_floats_in_exact_arithmetic(path: Path) -> None:
    """A float division or literal could round a count or a loss; sizes of residuals are the one exception."""
    floats = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, float)
    ]
    allowed = {"check_solver": {1e-6, 1e-5, 0.1, 0.0}, "exact_arithmetic": {0.0, 1.0}}.get(path.stem, set())
    assert path.stem in SUMS_OF_NOISE or set(floats) <= allowed


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_dynamic_imports(path: Path) -> None:
    """importlib, eval or pickle would go round the test above, or run what a file says."""
    names = {
        node.id
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name)
    }
    assert not names & {"eval", "exec", "__import__", "importlib", "pickle"}
