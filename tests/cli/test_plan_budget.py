"""`topdown plan --budget-for`: what it proposes costs what was wished when it is planned."""

from fractions import Fraction

import pytest

from tests.helpers.policies import inexact_toy
from tests.helpers.schemas import problems
from topdown.formats import document_schema

OTHER = {
    "bounded": {},
    "add_remove": {'"bounded"': '"add_remove"'},
    "geometric": {"rho =": "epsilon =", '"discrete_gaussian"': '"geometric"'},
}


def write(folder, toy, kind, budget="2"):
    """Write a toy run of a kind with a budget; return the run file."""
    run = toy(folder)
    (folder / "free.toml").write_text(inexact_toy())
    text = (
        run.read_text()
        .replace('rho = "2"', f'rho = "{budget}"')
        .replace("rho_limit = ", 'rho_limit = "100" # ')
    )
    for old, new in (OTHER[kind] | {'invariants = "toy"': 'invariants = "free.toml"'}).items():
        assert old in text
        text = text.replace(old, new)
    run.write_text(text)
    return run


@pytest.mark.parametrize(
    ("kind", "wish", "epsilon", "delta"),
    [
        ("bounded", "5", "5", Fraction(1, 10**10)),
        ("add_remove", "1/2:1e-6", "1/2", Fraction(1, 10**6)),
        ("geometric", "3", "3", Fraction(1, 10**10)),
    ],
)
def test_the_proposed_budget_costs_what_was_wished(topdown, toy, tmp_path, kind, wish, epsilon, delta):
    """A budget that costs more breaks a promise; one that costs much less gives accuracy away."""
    said = topdown("plan", write(tmp_path / "a", toy, kind), "--budget-for", wish, "--json")
    assert (said.code, problems(said.document, document_schema("plan_summary"))) == (0, [])
    found = said.document["budget_for"]
    assert (found["epsilon"], Fraction(found["delta"])) == (epsilon, delta)
    plan = topdown("plan", write(tmp_path / "b", toy, kind, found["budget"]), "--json").document
    if kind == "geometric":
        low = high = Fraction(plan["privacy"]["loss"])
    else:
        rhos = ",".join(f"{q['loss']}*1" for q in plan["queries"])
        counted = topdown(
            "account", "--rho", rhos, "--delta", str(delta), "--neighbours", kind, "--json"
        ).document
        low, high = (Fraction(x) for x in next(iter(counted["epsilon"].values())))
    assert Fraction(99, 100) * Fraction(epsilon) < low <= high <= Fraction(epsilon)
    assert high <= Fraction(found["certified"]) <= Fraction(epsilon)


@pytest.mark.parametrize(
    ("wish", "code"), [("0", "C151"), ("101", "C151"), ("1:0", "C152"), ("1:1", "C152"), ("x", "A001")]
)
def test_a_wish_that_no_budget_meets(topdown, toy, tmp_path, wish, code):
    """A wish without a meaning must not end in a number."""
    assert topdown("plan", toy(tmp_path / "a"), "--budget-for", wish, "--json").refusal == code


def test_the_screen_says_what_to_write(topdown, toy, tmp_path):
    """The line is copied into the run file as it stands."""
    said = topdown("plan", toy(tmp_path / "a"), "--budget-for", "5").out.replace("\u00a0", " ")
    assert 'rho = "' in said
    assert "Budget for ε 5 at δ 1/10000000000, all shares as they are" in " ".join(said.split())
    assert "ρ 2.0000 to spend" in said
