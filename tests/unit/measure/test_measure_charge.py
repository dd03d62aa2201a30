"""What a measurement is charged, and when it is refused before or after that."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.helpers.ledgers import n_intents, with_ledger
from topdown.errors import BudgetError, DataError, TopdownError
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
    assert (same.value.code, read_ledger(toy.ledger).charged) == ("B013", 2)
    measure(prepared, toy.folder / "b", again=True)
    with pytest.raises(BudgetError, match="the plan costs ρ 2; only 0 of 4 is left") as error:
        measure(prepared, toy.folder / "c", again=True)
    assert error.value.code == "B004"
    assert read_ledger(toy.ledger).charged == 4
    assert not (toy.folder / "c").exists()


def test_geometric_noise_is_charged_in_epsilon_and_not_added_to_rho(toy):
    """Pure-DP releases have their own unit; a ledger of rho must refuse them."""
    measure(toy.prepare(limit="100"), toy.folder / "gaussian")
    run = toy.folder / "run.toml"
    run.write_text(
        run.read_text().replace('rho = "2"', 'epsilon = "2"').replace("discrete_gaussian", "geometric")
    )
    with pytest.raises(BudgetError, match="the ledger of another loss: 'rho', not 'epsilon'"):
        measure(prepare(run), toy.folder / "mixed")
    assert n_intents(toy.ledger) == 1
    (toy.folder / "others.csv").write_bytes((toy.folder / "records.csv").read_bytes())
    text = (
        run.read_text().replace("records.", "others.").replace('data_set = "records"', 'data_set = "others"')
    )
    run.write_text(re.sub('^id = "[0-9a-f]{16}".*$', "", text, flags=re.MULTILINE))
    result = measure(prepare(with_ledger(run)), toy.folder / "geometric")
    assert (result.loss, result.loss_name) == (2, "epsilon")
    context = load_context(toy.folder / "geometric")
    _, answers = MeasurementReader(toy.folder / "geometric", context).answers(0, 0, 1)
    assert answers.shape == (1, context.plan.levels[0].answers_per_node)


@pytest.mark.parametrize(("key", "value"), [("neighbours", "add_remove"), ("data_set", "others")])
def test_a_ledger_bound_to_something_else_is_refused(toy, key, value):
    """Rho of a replacement and rho of a presence do not add up, and neither do two data sets."""
    run = toy.prepare().path
    (toy.folder / "own.toml").write_text(invariants_without_exact())
    text = re.sub(f'^{key} = "[^"]*"', f'{key} = "{value}"', run.read_text(), flags=re.MULTILINE)
    run.write_text(text.replace('invariants = "toy"', 'invariants = "own.toml"'))
    with pytest.raises(BudgetError, match="is the ledger of another") as error:
        measure(prepare(run), toy.folder / "out")
    assert (error.value.code, error.value.exit_code) == ("B007", 2)
    assert n_intents(toy.ledger) == 0


def invariants_without_exact() -> str:
    """Return the toy's invariants without exact statistics."""
    text = (Path(__file__).resolve().parents[3] / "invariants" / "toy.toml").read_text()
    return "[[".join(part for part in text.split("[[") if not part.startswith("exact"))


def test_generate_never_opens_a_book_by_itself(toy):
    """A run that made its own ledger would begin a new account each time somebody mistypes a path."""
    prepared = toy.prepare()
    toy.ledger.rename(toy.ledger.with_name("moved.jsonl"))
    with pytest.raises(BudgetError, match="there is no ledger") as error:
        measure(prepared, toy.folder / "out")
    assert error.value.code == "B011"
    assert not toy.ledger.exists()
    assert not (toy.folder / "out").exists()


def test_a_ledger_put_back_is_noticed_in_any_folder(toy):
    """A backup of the ledger, restored before the next release, would forget the release in between."""
    first = toy.prepare(limit="100")
    old = toy.ledger.read_bytes()
    measure(first, toy.folder / "out")
    toy.ledger.write_bytes(old)
    with pytest.raises(BudgetError, match="older copy") as error:
        measure(first, toy.folder / "another", again=True)
    assert error.value.code == "B008"
    assert not (toy.folder / "another").exists()


def test_a_lost_registry_needs_somebody_who_attests(toy):
    """Whoever deletes the registry could put an old ledger back; the ledger keeps who said it is whole, and why."""
    prepared = toy.prepare(limit="100")
    measure(prepared, toy.folder / "out")
    place = ledger_location(prepared)
    place.registry.unlink()
    with pytest.raises(BudgetError, match="registry") as error:
        measure(prepared, toy.folder / "another", again=True)
    assert error.value.code == "B016"
    attest(place, "A. Person", "disk lost")
    measure(prepared, toy.folder / "another", again=True)
    assert all(said in toy.ledger.read_text() for said in ("A. Person", "disk lost"))


def test_failing_randomness_leaves_a_charge_and_no_file(toy, monkeypatch):
    """Without random bits there must be no release, not one with weaker noise."""
    monkeypatch.setattr(os, "urandom", lambda n: (_ for _ in ()).throw(OSError("no entropy")))
    with pytest.raises(TopdownError) as error:
        measure(toy.prepare(), toy.folder / "out")
    assert error.value.code == "X010"
    assert read_ledger(toy.ledger).charged == 2
    assert not list((toy.folder / "out").rglob("part-*"))


def test_a_full_disk_is_noticed_before_a_part_is_begun(toy, monkeypatch):
    """A torn part costs a new charge, so room is checked while that is still free."""
    prepared = toy.prepare()
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 1000))
        with pytest.raises(DataError, match="No space left") as error:
            measure(prepared, toy.folder / "out")
    assert error.value.code == "D050"
    assert measure(prepared, toy.folder / "out").n_attempts == 1
