"""The charge and its statement are tried on a copy of the ledger: what verify would refuse later is refused unspent."""

import json
import os
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.helpers.failing import fails_with
from tests.helpers.ledgers import n_intents, with_ledger
from tests.helpers.runs import write_census
from topdown.app import generate_release, write_as_charged
from topdown.errors import ConfigError, DataError
from topdown.inputs import reading_process
from topdown.measure import run_ledger
from topdown.plan import PreparedRun, prepare
from topdown.privacy.accountant import WholeLoss
from topdown.privacy.laws import LAWS
from topdown.privacy.ledger import Book, read_ledger
from topdown.publish import certified_privacy
from topdown.verify import Comparison, Findings, check_privacy, load_ledger, noise_laws

BLOCKS = [("1101", 4, 0, 0), ("1102", 3, 0, 0), ("1201", 5, 0, 0), ("1202", 0, 0, 0)]
PEOPLE = [
    ("1101", "home", "female", "18_64", 5),
    ("1102", "home", "male", "0_17", 2),
    ("1201", "home", "female", "0_17", 6),
]
Mutate = Callable[[pytest.MonkeyPatch], None]


def planned(folder: Path, mechanism: str = "geometric", release: str = "first") -> PreparedRun:
    """Return the plan of a run on a small census, whose ledger is made or joined."""
    run = write_census(folder, BLOCKS, PEOPLE, id=release, rho_limit="40")
    text = run.read_text().replace('mechanism = "discrete_gaussian"', f'mechanism = "{mechanism}"')
    run.write_text(text.replace('rho = "', 'epsilon = "') if mechanism == "geometric" else text)
    return prepare(with_ledger(run))


def added_up_by_another_engine(patch: pytest.MonkeyPatch) -> None:
    """Let verify know nothing but the epsilon of a law."""
    law = noise_laws.LAWS["two_sided_geometric"]
    patch.setitem(noise_laws.LAWS, law.name, replace(law, composed_as="bound"))


def a_new_name(patch: pytest.MonkeyPatch) -> None:
    """Charge a law that no line of verify names."""
    law = LAWS["two_sided_geometric"]
    patch.setitem(LAWS, "staircase", replace(law, name="staircase"))
    drawn = run_ledger.drawn_laws_by_level

    def renamed(plan):
        return {at: tuple(replace(x, law="staircase") for x in laws) for at, laws in drawn(plan).items()}

    patch.setattr(run_ledger, "drawn_laws_by_level", renamed)


def half_the_loss(patch: pytest.MonkeyPatch) -> None:
    """Charge half of what verify computes."""
    law = LAWS["two_sided_geometric"]
    half = replace(law, loss_of_one=lambda scale, shift: law.loss_of_one(scale, shift) / 2)
    patch.setitem(LAWS, law.name, half)


def half_the_counts(patch: pytest.MonkeyPatch) -> None:
    """Say of the whole ledger what would hold if a record moved half of the counts."""
    composed = Book.composed

    def half(book: Book, *about: Any, **more: Any) -> WholeLoss:
        whole = composed(book, *about, **more)
        return replace(whole, noise=tuple(replace(x, count=x.count // 2) for x in whole.noise))

    patch.setattr(Book, "composed", half)


MUTANTS: list[tuple[Mutate, str, str]] = [
    (added_up_by_another_engine, "V132", "secrets"),
    (a_new_name, "V020", "ledger"),
    (half_the_loss, "V020", "ledger"),
    (half_the_counts, "V132", "everything_released"),
]


@pytest.mark.parametrize(("mutate", "found", "where"), MUTANTS, ids=lambda x: getattr(x, "__name__", ""))
def test_what_verify_would_refuse_is_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutate: Mutate, found: str, where: str
) -> None:
    """A law that only verify stumbles over was charged and drawn, and the release failed at its last check."""
    prepared = planned(tmp_path)
    before = prepared.ledger_path.read_bytes()
    mutate(monkeypatch)
    with fails_with("C079", ConfigError) as caught:
        generate_release(prepared, tmp_path / "release")
    assert dict(caught.value.details)["found"] == found
    assert where in str(caught.value)
    assert "charged nothing" in caught.value.fix
    assert before == prepared.ledger_path.read_bytes()
    assert not (tmp_path / "release" / "measurements").exists()
    assert not (tmp_path / "release" / ".rehearsal").exists()


def test_a_law_that_verify_does_not_know_is_refused_unspent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan is the first file that could not be checked."""
    prepared = planned(tmp_path)
    before = prepared.ledger_path.read_bytes()
    others = {name: law for name, law in noise_laws.LAWS.items() if name != "two_sided_geometric"}
    monkeypatch.setattr(noise_laws, "LAWS", others)
    with fails_with("C077", ConfigError, match="is not checked"):
        generate_release(prepared, tmp_path / "release")
    assert before == prepared.ledger_path.read_bytes()


def test_a_reader_lost_in_the_miniature_is_not_laid_to_a_file_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The made-up people are nobody's table: no advice to write it anew, and nothing is charged."""
    prepared = planned(tmp_path)
    before = prepared.ledger_path.read_bytes()
    monkeypatch.setattr(reading_process, "ignore_stops", lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(ConfigError, match="SIGKILL") as caught:
        generate_release(prepared, tmp_path / "release")
    assert (caught.value.code, dict(caught.value.details)["found"]) == ("C077", "D087")
    assert caught.value.fix.startswith("make room")
    assert caught.value.fix.endswith("charged nothing")
    assert before == prepared.ledger_path.read_bytes()


def undated(certificate: Path) -> dict[str, Any]:
    """Return the section `privacy`, but for the last record of the ledger, which a rehearsal cannot know."""
    text = re.sub(r"up to record [0-9]+ of [0-9-]{10}", "", certificate.read_text())
    privacy = json.loads(text)["privacy"]
    assert privacy["everything_released"].pop("up_to")["record"] > 0
    return privacy


def test_a_preflight_that_cannot_be_removed_stops_the_run_uncharged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few open files it stayed behind, and every check of the paid release failed over it (V003)."""
    prepared, out = planned(tmp_path), tmp_path / "release"
    before = prepared.ledger_path.read_bytes()

    def too_few_files(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise OSError(24, "Too many open files", str(path))

    monkeypatch.setattr(shutil, "rmtree", too_few_files)
    with fails_with("D050", DataError):
        generate_release(prepared, out)
    assert before == prepared.ledger_path.read_bytes()
    assert (out / ".rehearsal").exists()
    monkeypatch.undo()
    generate_release(prepared, out)
    assert not (out / ".rehearsal").exists()


def test_what_is_rehearsed_is_what_the_certificate_says(tmp_path: Path) -> None:
    """A rehearsal of other words or numbers than those that are sealed would prove nothing about them."""
    for release in ("first", "second"):
        prepared = planned(tmp_path, "discrete_gaussian", release)
        copy = tmp_path / f"{release} rehearsed"
        copy.mkdir()
        before = prepared.ledger_path.read_bytes()
        write_as_charged(prepared, certified_privacy(prepared.context.policy), copy)
        assert before == prepared.ledger_path.read_bytes()
        out = tmp_path / release
        made = generate_release(prepared, out)
        assert made.checks.ok
        rehearsed, sealed = (undated(at / "certificate.json") for at in (copy, out))
        assert rehearsed == sealed
        charged, paid = (max(load_ledger(at).intents.values(), key=lambda i: i.seq) for at in (copy, out))
        for name in ("laws", "loss", "covers", "rho_limit"):
            assert getattr(paid, name) == getattr(charged, name)
    assert n_intents(prepared.ledger_path) == 2


@pytest.mark.parametrize("tail", [b"", b"\n", b'\n{"half a li'])
def test_a_ledger_that_a_crash_left_is_copied_as_it_counts(tmp_path: Path, tail: bytes) -> None:
    """A charge appended to half a line would break the chain of the copy, and refuse a sound run."""
    prepared = planned(tmp_path)
    path = prepared.ledger_path
    path.write_bytes(path.read_bytes().rstrip(b"\n") + tail)
    write_as_charged(prepared, certified_privacy(prepared.context.policy), tmp_path)
    (charge,) = load_ledger(tmp_path).intents.values()
    assert charge.seq == 1
    assert read_ledger(path).intents == {}


def test_noise_of_another_law_is_not_added_up_as_if_it_were_of_this_one(tmp_path: Path) -> None:
    """A ledger of rho that holds geometric noise would be stated as if that noise were Gaussian."""
    prepared = planned(tmp_path, "discrete_gaussian")
    write_as_charged(prepared, certified_privacy(prepared.context.policy), tmp_path)
    stated = json.loads((tmp_path / "certificate.json").read_text())["privacy"]["everything_released"]
    ledger = load_ledger(tmp_path)
    opened, charge = ledger.lines
    laws = (structs.replace(charge.laws[0], law="two_sided_geometric"), *charge.laws[1:])
    mixed = replace(ledger, lines=(opened, structs.replace(charge, laws=laws)))
    for read, codes in ((ledger, set()), (mixed, {"V132", "V136"})):
        found = Findings()
        check_privacy.check_everything_released(Comparison(found), read, stated)
        assert {finding.code for finding in found.kept} == codes
