"""The record of a choice in a ledger: its loss, and what a book refuses."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest

from topdown.errors import BudgetError
from topdown.privacy.accountant import WholeLoss
from topdown.privacy.ledger import (
    Choice,
    LedgerBinding,
    LedgerLocation,
    Limits,
    create_ledger,
    from_fields,
    open_ledger,
    to_fields,
)
from topdown.selection import subsampling

F = Fraction


def choice(epsilon: str = "1/2", neighbours: str = "bounded") -> Choice:
    """Return the intent of a choice as the planner makes it."""
    plan = subsampling(epsilon, neighbours)
    head = ("sites", "ab" * 32, neighbours, F(epsilon), plan.rate, plan.base)
    return Choice(*head, 1, ("answer",), "j1")


@pytest.mark.parametrize("epsilon", ["1/1000000", "1/10", "1/2", "1", "10"])
@pytest.mark.parametrize("neighbours", ["bounded", "add_remove"])
def test_a_choice_charges_what_it_costs_and_little_more(epsilon, neighbours):
    """A charge below the loss of randomised response would let a ledger hold more than its limit."""
    one = choice(epsilon, neighbours)
    odds, rho = one.exp_epsilon, WholeLoss((), ((one.epsilon, one.exp_epsilon),)).rho
    with mpmath.workdps(60):
        exact = mpmath.log(mpmath.mpf(odds.numerator) / odds.denominator)
        due = F(str(exact)) * (odds - 1) / (odds + 1)
    assert due <= rho * (1 + F(1, 10**40))
    assert rho <= due * (1 + F(1, 10**5))
    assert rho <= F(epsilon) ** 2 / 2
    assert one.loss == F(epsilon)
    assert one.exp_epsilon == subsampling(epsilon, neighbours).exp_epsilon


def test_a_choice_is_read_back_as_it_was_written():
    """A number that is lost on the way is spent without a trace."""
    one = choice()
    assert from_fields(to_fields(one) | {"time": "2026-01-02T03:04:05Z"})[0] == one


def test_an_epsilon_below_what_rate_and_base_keep_is_no_choice():
    """A ledger that believes any epsilon could be charged nothing for everything."""
    with pytest.raises(ValueError, match="keeps no such epsilon"):
        replace(choice(), epsilon=F(49, 100))
    with pytest.raises(ValueError, match="keeps no such epsilon"):
        replace(choice(neighbours="add_remove"), neighbours="bounded")
    for wrong in ({"rate": F(0)}, {"base": F(1)}, {"covers": ()}, {"neighbours": "step"}):
        with pytest.raises(ValueError, match="a choice"):
            replace(choice(), **wrong)


def test_a_book_of_another_relation_refuses_a_choice(tmp_path):
    """A choice about replaced records says nothing of one more record: its epsilon would be added to something else."""
    path = tmp_path / "ledger.jsonl"
    place = create_ledger(LedgerLocation(path, tmp_path, "", LedgerBinding("toy", "add_remove", "person")))
    with open_ledger(place) as ledger:
        with pytest.raises(BudgetError, match="publish their number") as error:
            ledger.intent(choice(), Limits(F(10)))
        assert (error.value.code, ledger.book.charged) == ("B021", {})
