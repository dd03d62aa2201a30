"""What a measurement is charged, and when it is refused before or after that."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.helpers.failing import fails_with
from tests.helpers.ledgers import n_intents
from topdown.errors import BudgetError, DataError
from topdown.measure import ledger_location, measure
from topdown.plan import load_context, prepare
from topdown.privacy.ledger import attest, read_ledger
from topdown.solve import MeasurementReader

pytestmark = pytest.mark.usefixtures("small_parts")


def test_two_releases_add_up_and_a_third_is_refused(toy):
    """A limit that is not enforced is no limit; and a refusal leaves nothing that looks like a release."""
    prepared = toy.prepare(limit="4")
    measure(prepared, toy.folder / "a")
    with pytest.raises(BudgetError, match="holds a measurement of release") as same:
        measure(prepared, toy.folder / "b")
    assert (same.value.code, sum(read_ledger(toy.ledger).charged.values())) == ("B013", 2)
    measure(prepared, toy.folder / "b", again=True)
    with fails_with("B004", BudgetError, match="the plan costs ρ 2; only 0 of 4 is left"):
        measure(prepared, toy.folder / "c", again=True)
    assert sum(read_ledger(toy.ledger).charged.values()) == 4
    assert not (toy.folder / "c").exists()


def test_geometric_noise_is_charged_beside_gaussian(toy):
    """An office that has released with one law must not need a second ledger for another: it forgets the first."""
    measure(toy.prepare(limit="100"), toy.folder / "gaussian")
    run = toy.folder / "run.toml"
    text = run.read_text().replace('rho = "2"', 'epsilon = "2"').replace("discrete_gaussian", "geometric")
    run.write_text(text.replace("records-r1", "records-r2"))
    result = measure(prepare(run), toy.folder / "geometric")
    assert (result.loss, result.loss_name) == (2, "epsilon")
    assert read_ledger(toy.ledger).charged == {"rho": 2, "epsilon": 2}
    context = load_context(toy.folder / "geometric")
    _, answers = MeasurementReader(toy.folder / "geometric", context).answers(0, 0, 1)
    assert answers.shape == (1, context.plan.levels[0].answers_per_node)


def test_a_charge_about_presence_counts_twice_for_replaced_records(toy):
    """A replaced record is one removed and one added: charged once, half of what it loses would be forgotten."""
    run = toy.prepare(limit="100").path
    (toy.folder / "own.toml").write_text(invariants_without_exact())
    text = run.read_text().replace('neighbours = "bounded"', 'neighbours = "add_remove"')
    run.write_text(text.replace('invariants = "toy"', 'invariants = "own.toml"'))
    measure(prepare(run), toy.folder / "out")
    book = read_ledger(toy.ledger)
    assert (book.charged, book.composed().rho, book.composed("add_remove").rho) == ({"rho": 2}, 4, 2)


def test_a_ledger_bound_to_something_else_is_refused(toy):
    """What two data sets lose has no sum."""
    run = toy.prepare().path
    (toy.folder / "own.toml").write_text(invariants_without_exact())
    text = re.sub('^data_set = "[^"]*"', 'data_set = "others"', run.read_text(), flags=re.MULTILINE)
    run.write_text(text.replace('invariants = "toy"', 'invariants = "own.toml"'))
    with fails_with("B007", BudgetError, match="is the ledger of another") as error:
        measure(prepare(run), toy.folder / "out")
    assert error.value.exit_code == 2
    assert n_intents(toy.ledger) == 0


def invariants_without_exact() -> str:
    """Return the toy's invariants without exact statistics."""
    text = (Path(__file__).resolve().parents[3] / "invariants" / "toy.toml").read_text()
    return "[[".join(part for part in text.split("[[") if not part.startswith("exact"))


def test_generate_never_opens_a_book_by_itself(toy):
    """A run that made its own ledger would begin a new account each time somebody mistypes a path."""
    prepared = toy.prepare()
    toy.ledger.rename(toy.ledger.with_name("moved.jsonl"))
    with fails_with("B011", BudgetError, match="there is no ledger"):
        measure(prepared, toy.folder / "out")
    assert not toy.ledger.exists()
    assert not (toy.folder / "out").exists()


def test_a_lost_registry_needs_somebody_who_attests(toy):
    """Whoever deletes the registry could put an old ledger back; the ledger keeps who said it is whole, and why."""
    prepared = toy.prepare(limit="100")
    measure(prepared, toy.folder / "out")
    place = ledger_location(prepared)
    place.registry.unlink()
    with fails_with("B016", BudgetError, match="registry"):
        measure(prepared, toy.folder / "another", again=True)
    attest(place, "A. Person", "disk lost")
    measure(prepared, toy.folder / "another", again=True)
    assert all(said in toy.ledger.read_text() for said in ("A. Person", "disk lost"))


def test_failing_randomness_leaves_a_charge_and_no_file(toy, monkeypatch):
    """Without random bits there must be no release, not one with weaker noise."""
    monkeypatch.setattr(os, "urandom", lambda n: (_ for _ in ()).throw(OSError("no entropy")))
    with fails_with("X010"):
        measure(toy.prepare(), toy.folder / "out")
    assert sum(read_ledger(toy.ledger).charged.values()) == 2
    assert not list((toy.folder / "out").rglob("part-*"))


def test_a_full_disk_is_noticed_before_the_charge_and_before_each_part(toy, monkeypatch):
    """A torn part costs a new charge, so room is checked while that is still free; at first nothing is spent."""
    prepared, out = toy.prepare(), toy.folder / "out"
    for n_roomy, n_charges in ((0, 0), (2, 1)):
        free = iter([1 << 40] * n_roomy)
        with monkeypatch.context() as patch:
            patch.setattr(
                shutil, "disk_usage", lambda path, free=free: shutil._ntuple_diskusage(1, 1, next(free, 1000))
            )
            with pytest.raises(DataError, match="No space left") as error:
                measure(prepared, out)
        assert (error.value.code, len(read_ledger(toy.ledger).intents)) == ("D050", n_charges)
    assert measure(prepared, out).n_attempts == 1
