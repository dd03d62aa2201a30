"""What a measurement writes, what it refuses, and what it never shows."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import signal
import traceback
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers.ledgers import n_intents, with_ledger
from topdown.errors import BudgetError, CertificateError, ConfigError, DataError, TopdownError
from topdown.ledger.ledger import read_ledger, vouch
from topdown.measure import draw as draw_module
from topdown.measure import measure as measure_module
from topdown.measure.confidential import load_records
from topdown.measure.measure import measure
from topdown.measure.run_ledger import place_of
from topdown.plan.prepare import load_context, prepare
from topdown.progress import Event
from topdown.solve.measurements import MeasurementReader

CANARY = 48_271_093


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Cut the toy's levels into several parts of several row groups."""
    monkeypatch.setattr(draw_module, "NUMBERS_PER_ROW_GROUP", 60)
    monkeypatch.setattr(draw_module, "NUMBERS_PER_PART", 60)


def almost_without_noise(toy):
    """Prepare a plan so costly that its noise is zero but for a chance below 10^-100."""
    toy.prepare(limit="1000000")
    text = (toy.folder / "run.toml").read_text().replace('rho = "2"', 'rho = "100000"')
    (toy.folder / "run.toml").write_text(text)
    return prepare(toy.folder / "run.toml")


def files(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_every_number_stands_where_the_plan_says(toy):
    """A shifted query or node would give each area another area's people."""
    prepared = almost_without_noise(toy)
    result = measure(prepared, toy.folder / "out")
    context = load_context(toy.folder / "out")
    histogram = load_records(toy.records, context).open_histogram()
    reader = MeasurementReader(toy.folder / "out", context)
    tree = context.geography.levels
    for depth in (2, 1, 0):
        truth = np.concatenate([histogram.answers(q) for q in context.queries(tree[depth].name)], axis=1)
        nodes, answers = reader.answers(depth, 0, len(tree[depth]))
        assert np.flatnonzero(context.rules.inhabited[depth]).tolist() == nodes.tolist()
        assert truth[nodes].tolist() == answers.tolist()
        histogram = histogram.aggregate(tree[depth].parent, len(tree[depth - 1])) if depth else histogram
    assert result.n_drawn == len(list((toy.folder / "out/measurements").rglob("part-*.parquet"))) > 4
    assert {"population of the land": [[sum(int(r[4]) for r in toy.rows)]]} == {
        k: v.tolist() for k, v in reader.exact().items()
    }


def test_the_noise_has_the_planned_variance(toy):
    """Noise at the wrong scale would break the promise or the statistics."""
    prepared = toy.prepare(limit="100")
    plan = prepared.context.plan
    histogram = load_records(toy.records, prepared.context).open_histogram()
    truth = np.concatenate([histogram.answers(q) for q in prepared.context.queries("block")], axis=1)
    sums = []
    for i in range(15):
        measure(prepared, toy.folder / f"out{i}", again=True)
        nodes, answers = MeasurementReader(toy.folder / f"out{i}", prepared.context).answers(2, 0, 8)
        sums.append((answers - truth[nodes]).astype(np.int64))
    noise = np.stack(sums)
    first = 0
    for m in plan.levels[2].measurements:
        block = noise[:, :, first : first + m.n_answers].reshape(-1).astype(float)
        ratio = (block**2).mean() / float(m.variance)
        assert abs(ratio - 1) < 6 * (2 / len(block)) ** 0.5
        first += m.n_answers


def test_files_are_as_documented(toy):
    """Readers in other languages rely on columns, types, metadata and order."""
    prepared = toy.prepare()
    measure(prepared, toy.folder / "out")
    path = toy.folder / "out/measurements/block/part-000.parquet"
    table, plan = pq.read_table(path), prepared.context.plan
    assert [(f.name, str(f.type)) for f in table.schema] == [
        ("level", "string"),
        ("node", "string"),
        ("query", "string"),
        ("answers", "list<element: int32>"),
        ("variance_numerator", "int64"),
        ("variance_denominator", "int64"),
    ]
    stated = {k.decode(): v.decode() for k, v in pq.read_metadata(path).metadata.items()}
    assert stated["type"] == "topdown.measurements"
    assert stated["plan_hash"] == plan.plan_hash
    assert "stamp" not in stated
    row = table.slice(1, 1).to_pylist()[0]
    m = plan.levels[2].measurements[1]
    assert (row["level"], row["node"], row["query"], len(row["answers"])) == (
        "block",
        "1101",
        m.query,
        m.n_answers,
    )
    assert Fraction(row["variance_numerator"], row["variance_denominator"]) == m.variance
    document = json.loads((toy.folder / "out/plan.json").read_text())
    assert list(document)[:2] == ["type", "version"]
    assert document["plan_hash"] == plan.plan_hash
    nodes = {n for p in path.parent.iterdir() for n in pq.read_table(p).column("node").to_pylist()}
    assert "1204" not in nodes


def test_a_second_call_opens_no_confidential_file_and_changes_nothing(toy):
    """The records can be deleted once they are measured; noise is drawn once."""
    prepared = toy.prepare()
    first = measure(prepared, toy.folder / "out")
    before = files(toy.folder / "out")
    toy.records.unlink()
    again = measure(prepared, toy.folder / "out")
    assert before == files(toy.folder / "out")
    assert (first.n_drawn, 0) == (again.n_adopted, again.n_drawn)
    assert first.ledger_head == again.ledger_head == read_ledger(toy.ledger).head
    assert prepared.context.plan.loss == read_ledger(toy.ledger).charged == first.loss


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
    text = run.read_text().replace("records.jsonl", "pure.jsonl")
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


def test_a_lost_witness_needs_somebody_who_vouches(toy):
    """Whoever deletes the witness could put an old ledger back; the ledger keeps who said it is whole, and why."""
    prepared = toy.prepare(limit="100")
    measure(prepared, toy.folder / "out")
    place = place_of(prepared)
    place.witness.unlink()
    with pytest.raises(BudgetError, match="witness") as error:
        measure(prepared, toy.folder / "another", again=True)
    assert error.value.code == "B012"
    vouch(place, "records moved")
    measure(prepared, toy.folder / "another", again=True)
    assert "records moved" in toy.ledger.read_text()


def test_another_plan_in_the_folder_is_refused(toy):
    """Noise of one plan adopted by another would have the wrong variance."""
    measure(toy.prepare(), toy.folder / "out")
    other = almost_without_noise(toy)
    before = files(toy.folder / "out")
    with pytest.raises(ConfigError, match="another plan") as error:
        measure(other, toy.folder / "out")
    assert error.value.code == "C070"
    assert before == files(toy.folder / "out")


def test_neighbours_look_alike(toy):
    """A file name, a shape or an event that depends on one record would tell about that record."""

    def run(name: str):
        events: list[object] = []
        measure(toy.prepare(limit="100"), toy.folder / name, events.append, again=True)
        shapes = {
            str(p.relative_to(toy.folder / name)): (
                pq.read_metadata(p).num_rows,
                pq.read_metadata(p).num_row_groups,
            )
            for p in sorted((toy.folder / name).rglob("*.parquet"))
        }
        return sorted(files(toy.folder / name)), shapes, events, toy.prepare().context.plan.plan_hash

    first = run("a")
    toy.rows[0][2], toy.rows[0][4] = "male", toy.rows[0][4]
    toy.write()
    assert first == run("b")


def test_planted_counts_appear_nowhere_but_in_noisy_answers(toy, capfd, caplog):
    """A count in a log, an error, a ledger or a temporary file would be a disclosure."""
    toy.rows[0][4] = str(CANARY)
    toy.write()
    prepared = toy.prepare(limit="1000")
    shown = []

    def failing(stop: int):
        def report(event: object) -> None:
            shown.append(str(event))
            if len(shown) % 5 == stop:
                raise ValueError("injected")

        return report

    for stop in range(6):
        for _ in range(3):
            try:
                measure(prepared, toy.folder / f"out{stop}", failing(stop), again=True)
            except ValueError as error:
                shown.append("".join(traceback.format_exception(error)))
    captured = capfd.readouterr()
    text = " ".join(shown) + caplog.text + captured.out + captured.err
    needles = [str(CANARY).encode(), CANARY.to_bytes(4, "little"), CANARY.to_bytes(4, "big")]
    needles.append(str(CANARY).encode("utf-16-le"))
    everything = {n: d for n, d in files(toy.folder).items() if not n.startswith("records.csv")}
    everything |= {"text": text.encode()}
    for name, data in everything.items():
        if name.endswith((".parquet", ".drawn")) and "public" not in name:
            table = pq.read_table(toy.folder / name).drop_columns(["answers"])
            data = table.to_pandas().to_csv().encode()
        assert [n for n in needles if n in data] == [], name


def begun(toy, out: Path, **settings):
    """Prepare a run and stop it after its first part."""
    prepared = toy.prepare(**settings)
    with pytest.raises(KeyboardInterrupt):
        measure(
            prepared, out, lambda e: e.stage == "measure" and os.kill(os.getpid(), signal.SIGINT), again=True
        )
    return prepared


@pytest.mark.parametrize("column", [2, 4], ids=["a value", "a count"])
def test_changed_records_are_refused_on_the_way(toy, column):
    """Half a release of one file and half of another would describe nobody, the same number of people or not."""
    prepared = begun(toy, toy.folder / "out")
    toy.rows[0][column] = {2: "male" if toy.rows[0][2] == "female" else "female", 4: "99"}[column]
    toy.write()
    with pytest.raises(DataError, match="changed since") as error:
        measure(prepared, toy.folder / "out")
    assert error.value.code == "D037"


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
    with pytest.raises(DataError, match="nobody can tell") as error:
        measure(prepared, toy.folder / "out")
    assert error.value.code == "D039"


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

    def slow_load(path: Path, context, form):
        monkeypatch.setattr(measure_module, "load_records", load_records)
        measure(prepared, toy.folder / "out")
        return load_records(path, context, form)

    monkeypatch.setattr(measure_module, "load_records", slow_load)
    result = measure(prepared, toy.folder / "out")
    assert (result.n_drawn, result.n_attempts) == (0, 1)
    assert read_ledger(toy.ledger).charged == 2


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


@pytest.mark.parametrize("damage", ["flip", "swap", "remove", "other plan", "extra"])
def test_the_reader_notices_damage(toy, damage):
    """The solver must not turn a damaged or mixed-up file into people."""
    prepared = toy.prepare(limit="100")
    measure(prepared, toy.folder / "out")
    block = toy.folder / "out/measurements/block"
    one, two = block / "part-000.parquet", block / "part-001.parquet"
    if damage == "flip":
        data = bytearray(one.read_bytes())
        answers = pq.read_metadata(one).row_group(0).column(3)
        data[answers.data_page_offset + answers.total_compressed_size - 3] ^= 1
        one.write_bytes(data)
    elif damage == "swap":
        first, second = one.read_bytes(), two.read_bytes()
        one.write_bytes(second)
        two.write_bytes(first)
    elif damage == "remove":
        two.unlink()
    elif damage == "extra":
        (block / "part-004.parquet").write_bytes(one.read_bytes())
    else:
        other = almost_without_noise(toy)
        measure(other, toy.folder / "other", again=True)
        one.write_bytes((toy.folder / "other/measurements/block/part-000.parquet").read_bytes())
    with pytest.raises(CertificateError) as error:
        MeasurementReader(toy.folder / "out", prepared.context).answers(2, 0, 8)
    assert error.value.code == "V020"


def test_the_reader_reads_any_run_of_nodes(toy):
    """Workers ask for subtrees; cuts across parts and row groups must not matter."""
    prepared = toy.prepare()
    measure(prepared, toy.folder / "out")
    reader = MeasurementReader(toy.folder / "out", prepared.context, n_groups=1)
    nodes, whole = reader.answers(2, 0, 8)
    for first in range(9):
        for last in range(first, 9):
            some, answers = reader.answers(2, first, last)
            inside = (nodes >= first) & (nodes < last)
            assert nodes[inside].tolist() == some.tolist()
            assert whole[inside].tolist() == answers.tolist()
    other = pickle.loads(pickle.dumps(reader))  # noqa: S301 - made two lines up
    assert whole.tolist() == other.answers(2, 0, 8)[1].tolist()


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
    assert result.loss == book.charged
