"""A measurement that was stopped goes on with the same noise, the same records and the same charge."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.helpers.failing import fails_with
from tests.helpers.folders import files
from topdown.errors import CertificateError, ConfigError, DataError
from topdown.formats import TABLE_VERSIONS
from topdown.measure import draw, load_records, measure
from topdown.measure import measurement as measure_module
from topdown.privacy.ledger import read_ledger
from topdown.progress import Event

pytestmark = pytest.mark.usefixtures("small_parts")


def begun(toy, out: Path, *, n_nodes: int = 1, **settings):
    """Prepare a run and stop it after its first part, or once it has drawn so many nodes."""
    prepared = toy.prepare(**settings)

    def stop(event: Event) -> None:
        if event.stage == "measure" and event.done >= n_nodes:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        measure(prepared, out, stop, again=True)
    return prepared


def test_a_second_call_opens_no_confidential_file_and_changes_nothing(toy):
    """The records can be deleted once they are measured; noise is drawn once."""
    prepared = toy.prepare()
    first = measure(prepared, toy.folder / "out")
    before = files(toy.folder / "out"), toy.ledger.read_bytes()
    toy.records.unlink()
    again = measure(prepared, toy.folder / "out")
    assert before == (files(toy.folder / "out"), toy.ledger.read_bytes())
    assert (first.n_drawn, 0) == (again.n_adopted, again.n_drawn)
    assert prepared.plan.loss == sum(read_ledger(toy.ledger).charged.values()) == first.loss


def test_another_plan_in_the_folder_is_refused(toy):
    """Noise of one plan adopted by another would have the wrong variance."""
    measure(toy.prepare(), toy.folder / "out")
    other = toy.prepare_almost_without_noise()
    before = files(toy.folder / "out")
    with fails_with("C070", ConfigError, match="another plan"):
        measure(other, toy.folder / "out")
    assert before == files(toy.folder / "out")


@pytest.mark.parametrize("column", [2, 4], ids=["a value", "a count"])
def test_changed_records_are_refused_on_the_way(toy, column):
    """Half a release of one file and half of another would describe nobody, the same number of people or not."""
    prepared = begun(toy, toy.folder / "out")
    toy.rows[0][column] = {2: "male" if toy.rows[0][2] == "female" else "female", 4: "99"}[column]
    toy.write()
    with fails_with("D037", DataError, match="changed since"):
        measure(prepared, toy.folder / "out")


def test_records_in_another_order_are_the_same_records(toy):
    """A data base that lists its rows anew each time must not cost a second charge."""
    prepared = begun(toy, toy.folder / "out")
    toy.rows.reverse()
    toy.write()
    assert measure(prepared, toy.folder / "out").n_attempts == 1


def test_the_digest_of_the_records_is_of_no_use_to_others_and_gone_at_the_end(toy):
    """Whoever guesses the records could confirm the guess with a digest that is not keyed, or not removed."""
    prepared, found = begun(toy, toy.folder / "out", limit="100"), set()
    begun(toy, toy.folder / "again", limit="100")
    for out in ("out", "again"):
        folder = toy.folder / out / "measurements"
        journal = json.loads((folder / "journal.json").read_text())["journal"]
        key = toy.folder / f"measurement-{journal}.key"
        assert (key.stat().st_mode & 0o777, key.stat().st_size) == (0o600, 32)
        found.add((folder / "records.hmac").read_text())
    assert len(found) == 2
    measure(prepared, toy.folder / "out")
    assert not (toy.folder / "out/measurements/records.hmac").exists()
    assert len(list(toy.folder.glob("*.key"))) == 1  # of the other run, which goes on


@pytest.mark.parametrize("lost", ["*.key", "out/measurements/records.hmac"])
def test_a_lost_key_or_digest_is_refused(toy, lost):
    """A file that was removed must not let changed records in."""
    prepared = begun(toy, toy.folder / "out")
    next(toy.folder.glob(lost)).unlink()
    with fails_with("D039", DataError, match="nobody can tell"):
        measure(prepared, toy.folder / "out")


def test_an_interrupt_waits_for_the_part_and_costs_nothing(toy):
    """Stopping a long run must not tear a part, which would be charged again."""
    prepared = toy.prepare()
    stops: list[int] = []
    kept: set[bytes] = set()
    n_raised = 0

    def interrupt_after_each_new_part(event: Event) -> None:
        if event.stage == "measure" and event.done not in stops:
            stops.append(event.done)
            os.kill(os.getpid(), signal.SIGINT)

    while len(stops) < 50:
        n_before = len(stops)
        try:
            result = measure(prepared, toy.folder / "out", interrupt_after_each_new_part)
            break
        except KeyboardInterrupt:
            assert len(stops) == n_before + 1
            n_raised += 1
            kept |= {p.read_bytes() for p in (toy.folder / "out").rglob("*.drawn")}
    assert len(stops) == n_raised == len(kept) + 1 == 6
    assert result.n_attempts == 1
    assert kept < {p.read_bytes() for p in (toy.folder / "out").rglob("part-*.parquet")}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_run_that_finished_while_the_records_were_read_is_not_repeated(toy, monkeypatch):
    """Between reading the records and locking the ledger another run may have measured the same plan here."""
    prepared = toy.prepare()

    def slow_load(path: Path, context, form, **more):
        monkeypatch.setattr(measure_module, "load_records", load_records)
        measure(prepared, toy.folder / "out")
        return load_records(path, context, form, **more)

    monkeypatch.setattr(measure_module, "load_records", slow_load)
    result = measure(prepared, toy.folder / "out")
    assert (result.n_drawn, result.n_attempts) == (0, 1)
    assert read_ledger(toy.ledger).charged == {"rho": 2}


def test_a_folder_put_back_is_charged_for_what_it_forgot(toy):
    """Restoring only the folder gave several noisy versions of one level for one charge; the ledger remembers."""
    prepared, out = toy.prepare(limit="100"), toy.folder / "out"

    def stop_after(n: int):
        seen = []

        def report(event: Event) -> None:
            seen.append(event)
            if sum(e.stage == "measure" for e in seen) == n:
                os.kill(os.getpid(), signal.SIGINT)

        return report

    versions: dict[str, set[bytes]] = {}
    for n in (2, 4, 5):
        with pytest.raises(KeyboardInterrupt):
            measure(prepared, out, stop_after(n))
        for path in out.rglob("*.drawn"):
            part = f"{path.parent.name}/{path.name.split('.')[0]}"
            versions.setdefault(part, set()).add(path.read_bytes())
        if not (toy.folder / "old").exists():
            shutil.copytree(out, toy.folder / "old")
        else:
            shutil.rmtree(out)
            shutil.copytree(toy.folder / "old", out)
    result = measure(prepared, out)
    book = read_ledger(toy.ledger)
    assert result.n_attempts == len(book.intents) >= 3
    for part, drawn in versions.items():
        level = part.split("/")[0]
        assert len(drawn) <= sum(level in i.covers for i in book.intents.values())
    assert max(map(len, versions.values())) > 1
    assert {"rho": result.loss} == book.charged


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setitem(TABLE_VERSIONS, "topdown.measurements", "1"),
        lambda patch: patch.setattr(draw, "NUMBERS_PER_ROW_GROUP", 1),
    ],
    ids=["version", "row groups"],
)
def test_parts_in_the_form_of_another_version_are_refused_before_more_is_charged(toy, monkeypatch, change):
    """A run that an older version began was charged again and drawn to its end, and then could not be solved."""
    out = toy.folder / "out"
    with monkeypatch.context() as patch:
        change(patch)
        prepared = begun(toy, out, n_nodes=4)
    before = toy.ledger.read_bytes()
    with fails_with("V020", CertificateError, match="another version"):
        measure(prepared, out)
    assert toy.ledger.read_bytes() == before


def test_what_fails_of_exact_statistics_fails_before_the_charge(toy):
    """A census that no solve can publish cost its budget, once and at every --resume."""
    prepared = toy.prepare()
    seen = []

    def refuse(values):
        seen.append({name: answers.shape for name, answers in values.items()})
        raise ConfigError("no solve publishes this")

    with pytest.raises(ConfigError, match="no solve"):
        measure(prepared, toy.folder / "out", try_exact=refuse)
    assert seen == [{"population of the land": (1, 1)}]
    assert not read_ledger(toy.ledger).intents
    assert not (toy.folder / "out").exists()
    measure(prepared, toy.folder / "out", try_exact=lambda values: None)
