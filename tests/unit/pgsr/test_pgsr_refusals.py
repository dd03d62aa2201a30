"""What is refused before a charge, and that it leaves no trace."""

from fractions import Fraction

import pytest

from pgsr import Budget, Plan, Policy, Sizes
from pgsr.exact_arguments import fraction
from pgsr.formats import Names
from tests.helpers.failing import fails_with
from tests.helpers.groups import GROUPS, PEOPLE, REGIONS, book, change_limits, changed, released
from topdown.errors import BudgetError, ConfigError, DataError
from topdown.privacy.ledger import Limits


@pytest.mark.parametrize(
    ("groups", "options", "code"),
    [
        (changed(size=[1, 2, -3, 1, 2, 2]), {}, "D133"),
        (changed(size=[1, 2, 9, 1, 2, 2]), {}, "D133"),
        (changed(size=[0, 2, 3, 1, 2, 2]), {}, "D133"),
        (changed(size=["x", 2, 3, 1, 2, 2]), {}, "D133"),
        (changed(region=["GA", "GA", "FR", "NY", "NY", "NY"]), {}, "D131"),
        (changed(region=["GA", "GA", "US", "NY", "NY", "NY"]), {}, "D131"),
        (changed(unit=list("AACDEF")), {}, "D133"),
        ({"region": ["GA"], "size": [1], "count": [-2]}, {}, "D133"),
        ({"place": ["GA"]}, {}, "D132"),
        (PEOPLE | {"quantity": [1, 1, 2, 0]}, {"smallest": 0}, "D134"),
        (PEOPLE | {"user": ["01", "01", "03", "04"]}, {"smallest": 0}, "D135"),
        (PEOPLE | {"region": ["GA", "GA", "NY", "NY"]}, {"smallest": 0}, "D135"),
        (GROUPS, {"total": 7}, "D136"),
        (GROUPS, {"public": {"GA": 4}}, "D136"),
        (GROUPS, {"total": 6, "public": {"US": 5}}, "D136"),
        (GROUPS, {"public": {"FR": 1}}, "D131"),
        (GROUPS, {"calibration": "published", "mechanism": "M_c^ch"}, "C162"),
        (GROUPS, {"shares": ["1/2", "1/4"]}, "B111"),
        (GROUPS, {"epsilon_limit": "1/4"}, "B004"),
        (GROUPS, {"relations": ("new",)}, "C169"),
        (GROUPS, {"relations": ("new", "dropped")}, "C169"),
        (GROUPS, {"sizes": 1, "too_large": "top-code"}, "C169"),
        (GROUPS, {"relations": ("household",), "unit": "household"}, "B007"),
        (GROUPS, {"unit": "household"}, "B007"),
        (GROUPS, {"ledger_id": ""}, "C170"),
        (GROUPS, {"ledger_id": "0" * 16}, "B007"),
        (GROUPS, {"data_set": "others"}, "B007"),
        (GROUPS, {"ledger": None}, "C163"),
        (GROUPS, {"ledger": "nowhere.jsonl"}, "B011"),
        ({"region": ["GA"], "size": [1], "count": [2**40]}, {"sizes": 2000}, "C146"),
        ({"region": ["GA"], "size": [1], "count": [2**60]}, {}, "D133"),
    ],
)
def test_bad_input_draws_and_charges_nothing(tmp_path, groups, options, code):
    """A refused release must leave neither files nor a spent budget."""
    settings = {"mechanism": "tracking", "epsilon": "1/2", "sizes": 5} | book(tmp_path) | options
    with fails_with(code) as caught:
        released(groups, REGIONS, out=tmp_path / "out", **settings)
    assert caught.value.exit_code == 2
    assert caught.value.fix
    assert dict(caught.value.details)["this run spent"] == "nothing"
    assert not (tmp_path / "out").exists()
    assert "intent" not in (tmp_path / "groups.ledger.jsonl").read_text()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"epsilon": 0.5}, "C142"),
        ({"epsilon": "0"}, "C144"),
        ({"epsilon": "-1/2"}, "C144"),
        ({"mechanism": "M_x"}, "C153"),
        ({"rho": "1/2"}, "C161"),
        ({"sizes": 0}, "C158"),
        ({"too_large": "drop"}, "C160"),
        ({"epsilon": None}, "C161"),
        ({"smallest": 2}, "C159"),
        ({"direction": "up"}, "C154"),
        ({"relations": ("swap",)}, "C168"),
        ({"calibration": "mine"}, "C156"),
        ({"calibration": "published", "shares": ["1"]}, "C157"),
        ({"calibration": "published", "rho": "1", "epsilon": None}, "C157"),
        ({"rho": 0.5, "epsilon": None}, "C142"),
        ({"epsilon": "one"}, "C143"),
        ({"epsilon_limit": 0.5}, "C142"),
        ({"limit_reason": "a\nb"}, "C166"),
        ({"ledger": "a\0b"}, "C172"),
    ],
)
def test_a_decision_that_cannot_be_is_refused_when_it_is_made(options, code):
    """A plan, ledger or policy that exists is whole, so that `release` meets no half of one."""
    settings = {"sizes": 5, "ledger": "book.jsonl", "ledger_id": "0" * 16, "out": "out"}
    chosen = {"mechanism": "tracking", "epsilon": "1/2"} | settings | options
    with fails_with(code, ConfigError) as caught:
        released(GROUPS, REGIONS, **chosen)
    assert caught.value.exit_code == 2
    assert caught.value.fix


@pytest.mark.parametrize("typed", ["1e-10", "1E-10", "0.00000001 %", "1/10000000000", "0.0000000001"])
def test_exact_numbers_are_typed_as_in_every_document(typed):
    """A delta of 1e-10 was refused here alone, where the changelog speaks of one rule."""
    tiny = Fraction(1, 10**10)
    assert fraction("delta limit", typed) == tiny
    assert Policy(epsilon_limit="2", delta_limit=typed).limits == Limits(epsilon=Fraction(2), delta=tiny)


@pytest.mark.parametrize(
    "typed", ["1,5", "1e99", "1e-99", "1e999999999", "1/0", "", "1" * 62, "9" * 5000, "nan"]
)
def test_numbers_that_are_none_are_refused(typed):
    """A number of a billion digits stops a machine; one with a comma is two numbers."""
    with pytest.raises(ConfigError) as caught:
        fraction("epsilon", typed)
    assert caught.value.code == "C143"


def test_error_messages_carry_no_confidential_value(tmp_path):
    """The wrong region and size belong in the private file, not on a screen."""
    source = tmp_path / "groups.csv"
    source.write_text("unit,region,size\nA,GA,1\nB,SECRET,2\n")
    with pytest.raises(DataError) as caught:
        released(source, REGIONS, "tracking", "1/2", sizes=5, out=tmp_path / "out")
    assert "SECRET" not in str(caught.value.to_json())
    listed = tmp_path / "PRIVATE-input-errors.csv"
    assert listed.stat().st_mode & 0o777 == 0o600
    assert "3,region" in listed.read_text()


def test_the_same_plan_is_not_charged_twice_unasked(tmp_path):
    """Two noisy versions of one release must be somebody's wish, and both be in the ledger."""
    settings = {"sizes": 4} | book(tmp_path) | {"epsilon_limit": 10}
    released(GROUPS, REGIONS, "tracking", 1, out=tmp_path / "a", **settings)
    with fails_with("B013") as caught:
        released(GROUPS, REGIONS, "tracking", 1, out=tmp_path / "b", **settings)
    assert dict(caught.value.details)["this run spent"] == "nothing"
    released(GROUPS, REGIONS, "tracking", 1, out=tmp_path / "b", again=True, **settings)
    assert (tmp_path / "groups.ledger.jsonl").read_text().count('"kind":"intent"') == 2


def test_a_ledger_takes_both_kinds_of_noise_under_limits_of_all(tmp_path):
    """One data set has one ledger: without a limit of everything a second release is beyond what the first left."""
    named = book(tmp_path)
    released(GROUPS, REGIONS, "tracking", "1/2", sizes=4, out=tmp_path / "one", **named)
    gaussian = {"rho": "1/8", "sizes": 4, **named}
    with fails_with("B004", BudgetError):
        released(GROUPS, REGIONS, "tracking", None, out=tmp_path / "two", **gaussian)
    limits = {"rho_limit": "1/4", "epsilon_limit": "4", "delta_limit": "1/1000000"}
    with fails_with("B066", BudgetError):
        released(GROUPS, REGIONS, "tracking", None, out=tmp_path / "two", **gaussian, **limits)
    change_limits(named, Limits(Fraction(1, 4), Fraction(4), Fraction(1, 10**6)))
    assert released(GROUPS, REGIONS, "tracking", None, out=tmp_path / "two", **gaussian, **limits).is_release


@pytest.mark.parametrize("name", ["title", "agency", "contact", "licence"])
@pytest.mark.parametrize(
    "text", ["A\n\nHow well people are protected\nWholly.", "A\n", "A\x1b[2J", "A" * 2001]
)
def test_what_readme_says_of_a_release_stands_in_one_line_each(name, text):
    """A title could put a section of its own into README.txt above that on privacy, and pgsr verify passed."""
    with fails_with("C015", ConfigError, match=name):
        Plan(Sizes(3), Budget(rho="1/8"), names=Names(**{name: text}))
