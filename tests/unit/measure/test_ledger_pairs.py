"""A ledger of epsilon and delta: both add up exactly, each has its limit, and no other loss is booked beside them."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.model_disk import ModelDisk
from topdown.errors import BudgetError
from topdown.privacy.ledger import (
    DrawnLaw,
    Intent,
    LedgerBinding,
    LedgerLocation,
    create_ledger,
    from_fields,
    open_ledger,
    to_fields,
)

PATH, FOLDER = Path("/ledger/people.jsonl"), Path("/secret")
TIME = {"time": "2020-01-01T00:00:00Z"}
PAIR = DrawnLaw("optimal_integer", Fraction(1, 3), 1, 2, "land", "total", (), Fraction(1, 7_000))
GAUSSIAN = DrawnLaw("discrete_gaussian", Fraction(3), 1, 2, "land", "total")
GEOMETRIC = DrawnLaw("two_sided_geometric", Fraction(3), 1, 2, "land", "total")
LIMIT, DELTA_LIMIT = Fraction(2), Fraction(7, 10_000)


def intent(*laws: DrawnLaw, n: int = 1) -> Intent:
    """Return an intent of some laws."""
    return Intent(f"r{n}", f"{n:064x}", laws, (), 1, ("land",), f"j{n}")


def place(disk: ModelDisk, loss_name: str = "epsilon_delta") -> LedgerLocation:
    """Make a ledger of a kind of loss."""
    empty = LedgerLocation(PATH, FOLDER, "", LedgerBinding("people", "bounded", "person", loss_name))
    return create_ledger(empty, disk)


def test_both_add_up_and_a_void_takes_both_back():
    """A sum of epsilons beside a lost delta would let delta be spent without end."""
    disk = ModelDisk()
    where = place(disk)
    with open_ledger(where, disk) as ledger:
        for n in (1, 2):
            ledger.intent(intent(PAIR, n=n), LIMIT, "law", DELTA_LIMIT)
        ledger.void(1, "burnt", "A. Person")
    with open_ledger(where, disk) as ledger:
        assert (Fraction(2, 3), Fraction(2, 7_000)) == (ledger.book.charged, ledger.book.charged_delta)
        made = ledger.book.intents[2]
        assert (made.limit, made.delta_limit) == (LIMIT, DELTA_LIMIT)


@pytest.mark.parametrize(
    ("limit", "delta_limit", "sign"),
    [(Fraction(1), DELTA_LIMIT, "ε"), (LIMIT, Fraction(3, 7_000), "δ"), (LIMIT, Fraction(0), "δ")],
)
def test_each_limit_holds_alone(limit, delta_limit, sign):
    """A release that fits one limit must not pass the other; nothing may be written for it."""
    disk = ModelDisk()
    where = place(disk)
    with open_ledger(where, disk) as ledger:
        if delta_limit:
            ledger.intent(intent(PAIR), LIMIT, "", DELTA_LIMIT)
        before = disk.read(PATH)
        with pytest.raises(BudgetError, match=sign) as caught:
            ledger.intent(intent(PAIR, n=2), limit, "", delta_limit)
        assert caught.value.code == "B004"
        assert before == disk.read(PATH)


@pytest.mark.parametrize(
    ("loss_name", "law"),
    [("rho", PAIR), ("epsilon", PAIR), ("epsilon_delta", GAUSSIAN), ("epsilon_delta", GEOMETRIC)],
)
def test_no_loss_is_booked_beside_another_kind(loss_name, law):
    """Noise of finitely many values has no rho; booked as one it would be lost among the others."""
    disk = ModelDisk()
    with open_ledger(place(disk, loss_name), disk) as ledger:
        with pytest.raises(BudgetError, match="two kinds") as caught:
            ledger.intent(intent(law), Fraction(100), "", Fraction(1, 10))
        assert caught.value.code == "B009"
        assert not ledger.book.intents


@pytest.mark.parametrize("other", ["rho", "epsilon"])
def test_a_ledger_of_another_loss_is_refused_with_the_reason(other):
    """Whoever reads only "another loss" would try to convert delta into rho."""
    disk = ModelDisk()
    made = place(disk, other)
    wanted = LedgerBinding("people", "bounded", "person", "epsilon_delta")
    with (
        pytest.raises(BudgetError, match="no zCDP") as caught,
        open_ledger(LedgerLocation(PATH, FOLDER, made.id, wanted), disk),
    ):
        pass
    assert (caught.value.code, caught.value.exit_code) == ("B007", 2)


def test_records_of_other_losses_have_no_delta():
    """Ledgers of rho and epsilon are read, and written, as before there were deltas."""
    for law in (GAUSSIAN, GEOMETRIC):
        plain = to_fields(intent(law))
        assert {"delta", "delta_limit"}.isdisjoint(plain)
        assert "delta" not in plain["laws"][0]
        assert from_fields(plain | TIME)[0] == intent(law)
    assert {"delta", "delta_limit"} < {f.name for f in fields(Intent)}


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.pop("delta"),
        lambda r: r.update(delta="1/3501"),
        lambda r: r.update(delta="0"),
        lambda r: r["laws"][0].pop("delta"),
        lambda r: r["laws"][0].update(delta="0"),
        lambda r: r["laws"][0].update(delta="1/7001"),
        lambda r: r["laws"][0].update(delta="1"),
        lambda r: r["laws"][0].update(shift=2),
        lambda r: r["laws"][0].update(law="two_sided_geometric"),
    ],
)
def test_a_record_with_another_delta_is_not_read(change):
    """A changed delta in a record must stop every spend, like a changed loss."""
    plain = to_fields(intent(PAIR)) | TIME
    assert from_fields(dict(plain))[0] == intent(PAIR)
    change(plain)
    with pytest.raises((ValueError, TypeError)):
        from_fields(plain)
