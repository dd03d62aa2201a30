"""What a release says about privacy: true for every step, size and public fact, or not said."""

from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from pgsr import Budget, Plan, Sizes, new_ledger, tree_of
from pgsr.level_noise import calibrate
from pgsr.neighbours import NUMBER, PUBLIC, relation_name
from pgsr.privacy_section import privacy_section, step_numbers
from pgsr.releasing import level_laws, with_spend_note
from pgsr.sensitivity_audit import compositions, naive_vector
from tests.helpers.groups import place_of
from topdown.errors import ConfigError, TopdownError
from topdown.privacy.ledger import DrawnLaw, Intent, Limits, disk_errors, open_ledger, spend_note

TREE = tree_of([[-1], [0, 0]])
STEPS = ("move", "new", "dropped")


MEASURES = {
    "histogram": ("M_H^dp", "tail"),
    "cumulative": ("tracking", "cumulative"),
    "tail": ("tracking", "tail"),
    "chain": ("M_c^ch", "cumulative"),
    "tail_chain": ("M_c^ch", "tail"),
}


def planned(sizes, budget, relations=None, public=None, kind="tail"):
    """Return a plan that measures a kind of vector, and its noise."""
    mechanism, direction = MEASURES[kind]
    unit = "household" if relations == ("household",) else "person"
    plan = Plan(sizes, budget, mechanism, direction, relations, unit, public=public or {})
    return plan, calibrate(kind, TREE, sizes, budget, plan.steps)


def rows(plan, noise):
    """Return the rows of a release by step."""
    found = privacy_section(plan, TREE, noise)
    return {row["relation"]: row for row in found["secrets"]}


def exact_answers(leaves, true_largest, sizes, public):
    """Return what a release publishes exactly about leaf counts that have sizes up to `true_largest`."""
    regions = {"A": leaves[:, 0].sum(), "B": leaves[:, 1].sum()}
    last = sizes.largest - sizes.smallest + 1
    known = {NUMBER: leaves.sum(), PUBLIC: tuple(regions[name] for name in public)}
    if sizes.too_large == "refuse":
        known[f"no group larger than {sizes.largest}"] = not leaves[last:].any()
    return {name: value for name, value in known.items() if name != PUBLIC or public}


def changes(relation, sizes, public):
    """Return, over all pairs one step apart with one size more than is counted, which exact answers differ."""
    n_rows, found = sizes.n_sizes + 1, []
    entered = {"new": range(2 - sizes.smallest), "appears": range(n_rows)}.get(relation, [sizes.n_sizes - 1])
    for total in (0, 1, 2):
        for cells in compositions(total, n_rows * 2):
            here = np.array(cells).reshape(n_rows, 2)
            before = exact_answers(here, n_rows, sizes, public)
            if before.get(f"no group larger than {sizes.largest}") is False:
                continue  # refused: it is no data set of this release
            steps = [(None, row) for row in entered]
            if relation in ("move", "household"):
                far = 1 if relation == "move" else n_rows
                steps = [(a, b) for a, b in permutations(range(n_rows), 2) if 0 < b - a <= far or far > 1]
            for (gone, row), leaf in product(steps, (0, 1)):
                other = here.copy()
                if gone is not None:
                    if here[gone, leaf] == 0:
                        continue
                    other[gone, leaf] -= 1
                other[row, leaf] += 1
                after = exact_answers(other, n_rows, sizes, public)
                found.append({name for name in before if before[name] != after[name]})
    return found


@pytest.mark.parametrize("public", [{}, {"A": 1}])
@pytest.mark.parametrize("too_large", ["refuse", "top-code"])
@pytest.mark.parametrize("smallest", [0, 1])
def test_status_is_what_all_pairs_say(smallest, too_large, public):
    """A step that every pair shows in an exact number must carry no loss; one that some show is conditional."""
    sizes = Sizes(3, smallest, too_large)
    found = [rows(*planned(sizes, Budget(1), steps, public)) for steps in (STEPS, ("household",))]
    for relation, row in (item for stated in found for item in stated.items()):
        pairs = changes(relation, sizes, public)
        status = "disclosed" if all(pairs) else "conditional" if any(pairs) else "protected"
        assert status == row["status"], relation
        assert set().union(*pairs) == set(row["exact"]), relation
        shown = {"loss", "epsilon", "best_guess", "right_in_100", "n_counts_moved"}
        assert (shown & set(row) == set()) == (status == "disclosed")
        if status == "disclosed":
            assert row["sentence"] == f"disclosed by: {NUMBER}"


def test_every_statement_names_what_is_exact():
    """A sentence without its conditions would promise to hide what is printed."""
    plan, noise = planned(Sizes(3), Budget(1), public={"A": 2})
    stated = privacy_section(plan, TREE, noise)
    assert stated["conditional_on"] == ["number of groups", "no group larger than 3", PUBLIC]
    assert all(name in stated["secrets"][0]["sentence"] for name in stated["conditional_on"])


def best_guess_by_hand(scales, pattern):
    """Total up max(P, Q) / 2 over a wide box of outputs, in floats, for entries that move by one."""
    total = np.ones(1)
    other = np.ones(1)
    for scale, n in zip(scales, pattern, strict=True):
        x = np.arange(-60, 62)
        a = np.exp(-1 / float(scale))
        here, there = a ** np.abs(x), a ** np.abs(x - 1)
        for _ in range(n):
            total = np.outer(total, here / here.sum()).ravel()
            other = np.outer(other, there / there.sum()).ravel()
    return float(np.maximum(total, other).sum() / 2)


@pytest.mark.parametrize(
    ("scales", "pattern"), [((3,), (1,)), ((3,), (2,)), ((2, 5), (1, 1)), ((4, 3), (2, 1))]
)
def test_best_guess_of_geometric_noise(scales, pattern):
    """The printed chance is that of the best test between the two output laws, not a bound far above it."""
    found = step_numbers("geometric", [(Fraction(s), n) for s, n in zip(scales, pattern, strict=True)])
    low, high = map(float, found["best_guess"])
    assert pytest.approx(best_guess_by_hand(scales, pattern), abs=1e-6) == high
    assert high - low < 1e-11
    assert high <= 1 / (1 + np.exp(-float(found["epsilon"]["0"][1]))) + 1e-12


def test_best_guess_of_long_chains_is_a_bound():
    """Where the law has too many values, the bound of pure privacy is printed, and one size more must not jump."""
    chain = step_numbers("geometric", [(Fraction(3144 * 3), 3144), (Fraction(3), 1)])["best_guess"]
    shorter = step_numbers("geometric", [(Fraction(900), 200), (Fraction(900), 200)])["best_guess"]
    assert chain[0] == "0.5"
    assert float(chain[1]) >= float(shorter[1])


def test_what_the_ledger_is_told():
    """The laws recorded must be those drawn, level by level, and cost what was charged."""
    for loss, name in (("epsilon", "two_sided_geometric"), ("rho", "discrete_gaussian")):
        budget = Budget(**{loss: "1/2"}, shares=("1/4", "3/4"))
        plan = calibrate("tail", TREE, Sizes(4, 0), budget, STEPS[:2])
        laws = level_laws(plan, ("nation", "state"))
        for (level, law), parameter in zip(laws.items(), plan.parameters, strict=True):
            assert law == DrawnLaw(name, parameter, 1, 2, level, "group sizes")
        assert plan.loss == sum(law.loss for law in laws.values())
    assert relation_name(("move", "new"), 1) == "steps of group sizes: move+new"
    assert relation_name(("move", "new"), 0) == "steps of group sizes: move+new of size 0 or 1"


def test_the_worst_pair_that_agrees_is_the_stated_one():
    """The loss of a protected row is reached by a pair that agrees on what is exact, and never exceeded."""
    for kind, loss, too_large in product(
        ("histogram", "cumulative", "tail", "chain", "tail_chain"), ("epsilon", "rho"), ("refuse", "top-code")
    ):
        budget = Budget(**{loss: 1}, shares=("1/3", "2/3"))
        plan, noise = planned(Sizes(3, 1, too_large), budget, ("move", "new"), kind=kind)
        half = 2 if loss == "rho" else 1
        worst = Fraction(0)
        for cells in compositions(2, 6):
            here = np.array(cells).reshape(3, 2)
            for row, leaf in product((0, 1), (0, 1)):
                if here[row, leaf]:
                    other = here.copy()
                    other[row, leaf] -= 1
                    other[row + 1, leaf] += 1
                    a, b = naive_vector(kind, TREE, here), naive_vector(kind, TREE, other)
                    moved = [
                        sum(abs(x - y) for x, y in zip(*pair, strict=True)) for pair in zip(a, b, strict=True)
                    ]
                    cost = sum(Fraction(n) / (half * p) for n, p in zip(moved, noise.parameters, strict=True))
                    worst = max(worst, cost)
        assert str(worst) == rows(plan, noise)["move"]["loss"], (kind, loss)


@pytest.mark.parametrize("kind", [ConfigError, OSError, ValueError, KeyboardInterrupt])
def test_whatever_ends_a_run_says_what_it_spent(tmp_path, kind):
    """Nothing before the charge, the loss after it, by the ledger itself: a guess would be paid for twice."""
    place = place_of(tmp_path / "book.jsonl")
    place = replace(place, id=new_ledger(place))
    law = DrawnLaw("discrete_gaussian", Fraction(3, 2), 1, 1, "nation", "group sizes")

    @with_spend_note
    def run(charge):
        with spend_note(place, "plan"), disk_errors(tmp_path):
            if charge:
                with open_ledger(place) as ledger:
                    ledger.intent(
                        Intent("r", "plan", (law,), (), 1, ("nation",), "j", "add_remove"),
                        Limits(Fraction(9)),
                    )
            raise kind("ended")

    def told(charge):
        with pytest.raises(TopdownError if kind is OSError else kind) as caught:
            run(charge)
        notes = [note.split(": ", 1) for note in getattr(caught.value, "__notes__", ())]
        return dict([*getattr(caught.value, "details", ()), *notes])["this run spent"]

    kept = "; finished noise is kept: go on with --resume"
    assert ["nothing", f"rho 1/3{kept}", "nothing"] == [told(False), told(True), told(False)]
