"""Noise drawn in forked children: no two of them share bits, and none is drawn twice for one charge."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests.helpers.killed import die
from topdown.errors import InternalError
from topdown.measure import PartDrawer, Truth, children, draw_in_children, load_records, measure
from topdown.privacy import AesBits, BitSource
from topdown.privacy.ledger import MeasuredPart, read_ledger
from topdown.workers import workers_with

PARTS = tuple(MeasuredPart("block", f"part-{k:03d}") for k in range(9))
N_BYTES = 1 << 14
BLOCK = 16  # bytes of the cipher
file_of = PartDrawer.file_of


class CopiedBits(BitSource):
    """A twin without new keys: a fork copies its cipher, counter and all."""

    is_release = True

    def __init__(self) -> None:
        self._cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()

    def read(self, n_bytes: int) -> bytes:
        """Return the next bytes."""
        return self._cipher.update(bytes(n_bytes))


class Streaming:
    """Gives bits instead of noise, and what it was asked for."""

    def __init__(self, bits: BitSource, act: Callable[[MeasuredPart], object] = lambda part: None) -> None:
        self.bits, self._act = bits, act

    def file_of(self, part: MeasuredPart) -> bytes:
        """Return the process, and some bytes of its stream."""
        self._act(part)
        return os.getpid().to_bytes(8, "big") + self.bits.read(N_BYTES)


def streams(new_bits: Callable[[], BitSource], n: int) -> dict[bytes, bytes]:
    """Return what each child drew, by its number."""
    found: dict[bytes, bytes] = {}
    for data in draw_in_children(lambda: Streaming(new_bits()), PARTS, n):
        found[data[:8]] = found.get(data[:8], b"") + data[8:]
    return found


def n_shared(found: dict[bytes, bytes]) -> int:
    """Return how many blocks of the cipher were seen more than once."""
    blocks = [data[at : at + BLOCK] for data in found.values() for at in range(0, len(data), BLOCK)]
    return len(blocks) - len(set(blocks))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_no_two_children_share_a_bit_stream(n):
    """Equal noise on two parts cancels when they are subtracted: true counts would be published."""
    found = streams(AesBits, n)
    assert len(found) == n
    assert n_shared(found) == 0
    assert multiprocessing.active_children() == []


def test_a_source_made_before_the_fork_takes_new_keys_in_each_child():
    """The rule must not rest on where a source happens to be made."""
    source = AesBits()
    source.read(BLOCK)
    assert n_shared(streams(lambda: source, 3)) == 0


def test_a_twin_that_shares_its_key_is_seen_by_the_test(monkeypatch):
    """A test of streams that cannot fail would prove nothing."""
    monkeypatch.setattr(children, "_require_own_bits", lambda marks: None)
    copied = CopiedBits()
    assert n_shared(streams(lambda: copied, 2)) >= 4 * N_BYTES // BLOCK


def test_a_twin_that_shares_its_key_is_refused_before_anything_is_begun():
    """A system that hands out one key twice must cost nothing and publish nothing."""
    copied, taken = CopiedBits(), list[MeasuredPart]()

    def parts() -> Iterator[MeasuredPart]:
        for part in PARTS:
            taken.append(part)
            yield part

    with pytest.raises(InternalError) as error:
        list(draw_in_children(lambda: Streaming(copied), parts(), 2))
    assert error.value.code == "X058"
    assert taken == []
    assert multiprocessing.active_children() == []


def test_a_twin_in_a_measurement_leaves_no_part_and_one_charge(toy, small_parts, monkeypatch):
    """What refuses a shared key has to stand on the way of a real measurement."""
    copied = CopiedBits()
    monkeypatch.setattr("topdown.measure.measurement.AesBits", lambda: copied)
    prepared = toy.prepare()
    with pytest.raises(InternalError) as error:
        measure(prepared, toy.folder / "out", workers=2)
    assert error.value.code == "X058"
    book = read_ledger(toy.ledger)
    assert (len(book.intents), book.begun) == (1, {})


def test_children_draw_what_one_process_draws(toy, small_parts, monkeypatch):
    """Parts that were mixed up on their way back would put one area's people into another."""
    found = {}
    where = toy.folder / "drawn-by"

    def noted(self: PartDrawer, part: MeasuredPart) -> bytes:
        with where.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return file_of(self, part)

    monkeypatch.setattr(PartDrawer, "file_of", noted)
    prepared = toy.prepare_almost_without_noise()
    for n in (1, 2, 3):
        where.unlink(missing_ok=True)
        measure(prepared, toy.folder / str(n), workers=n, again=True)
        folder = toy.folder / str(n) / "measurements"
        found[n] = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.parquet")}
        drawers = set(where.read_text().split())
        assert len(drawers) == n
        assert (str(os.getpid()) in drawers) == (n == 1)
    assert len(found[1]) == 6
    assert found[1] == found[2] == found[3]


def test_a_killed_child_ends_the_run_and_its_parts_are_charged_again(toy, small_parts, monkeypatch):
    """Noise of a killed process may have been seen: drawn again for nothing, two answers would stand for one charge."""
    out, died = toy.folder / "out", toy.folder / "died"
    prepared = toy.prepare(limit="100")

    def dying(self: PartDrawer, part: MeasuredPart) -> bytes:
        data = file_of(self, part)
        if part.level == "block" and not died.exists():
            died.touch()
            die()
        return data

    monkeypatch.setattr(PartDrawer, "file_of", dying)
    with pytest.raises(InternalError) as error:
        measure(prepared, out, workers=2)
    assert error.value.code == "X049"
    assert dict(error.value.details)["lost with it"].startswith("block/part-")
    assert multiprocessing.active_children() == []
    before = read_ledger(toy.ledger)
    whole = {part for _, part in before.drawn}
    result = measure(prepared, out, workers=2)
    after = read_ledger(toy.ledger)
    again = [intent.covers for intent in after.intents.values()][1:]
    assert again == [("block",)]
    assert result.n_attempts == 2
    assert result.n_adopted == len(whole) > 0
    assert all(len(seqs) == len(set(seqs)) for seqs in after.begun.values())
    drawn_under = [part for _, part in after.drawn]
    assert len(drawn_under) == len(set(drawn_under)) == result.n_drawn + result.n_adopted


def test_an_error_of_a_child_keeps_its_code_and_hides_its_words(toy):
    """A library's words may quote a count; our own errors have to arrive as they are."""

    def known(part: MeasuredPart) -> None:
        raise InternalError("an answer does not fit", code="X020", fix="split")

    def unknown(part: MeasuredPart) -> None:
        raise ValueError("17 people")

    for act, code in ((known, "X020"), (unknown, "X022")):
        with pytest.raises(InternalError) as error:
            list(draw_in_children(lambda act=act: Streaming(AesBits(), act), PARTS, 2))
        assert error.value.code == code
        assert (
            "17" not in f"{error.value}{error.value.details}{error.value.__cause__}{error.value.__context__}"
        )
    assert multiprocessing.active_children() == []


def test_true_counts_are_given_to_no_other_worker(toy):
    """Forks of measure inherit true counts; whatever else takes them could write them somewhere."""
    prepared = toy.prepare()
    truth = Truth(prepared.context, load_records(toy.records, prepared.context))
    with pytest.raises(TypeError, match="confidential"), workers_with(truth, 2):
        pass
    with pytest.raises(TypeError, match="not copied"):
        multiprocessing.reduction.ForkingPickler.dumps(truth)


PROGRAM = """
import json, os, signal, sys, threading, time
from pathlib import Path
from topdown.errors import TopdownError
from topdown.privacy.ledger import Disk
from topdown.measure import draw
from topdown.measure.measurement import PartDrawer
from topdown.measure.measurement import measure
from topdown.plan.preparation import prepare
draw.NUMBERS_PER_ROW_GROUP = draw.NUMBERS_PER_PART = 60
folder, what = Path(sys.argv[1]), sys.argv[2]
real, n = PartDrawer.file_of, 0
def slow(self, part):
    time.sleep(60 if what == "hang" else 0.05)
    return real(self, part)
PartDrawer.file_of = slow
class Full(Disk):
    def write_new(self, path, data, **how):
        if what == "full" and path.suffix == ".drawn":
            raise OSError(28, "No space left on device", str(path))
        super().write_new(path, data, **how)
def report(event):
    mark = folder / f"stopped-{event.done}"
    if event.stage == "measure" and what == "stop" and not mark.exists():  # once a part
        mark.touch()
        os.killpg(0, signal.SIGTERM)
    if event.stage == "measure" and what == "thread":
        os.killpg(0, signal.SIGINT)
    if event.stage == "ledger":
        print("charged", flush=True)
def measured():
    print(measure(prepare(folder / "run.toml"), folder / "out", report, workers=3, disk=Full()).n_attempts)
def in_thread():
    try:
        measured()
    finally:
        over.set()
try:
    if what == "thread":  # of a program that hears its signals itself
        over, heard = threading.Event(), 0
        threading.Thread(target=in_thread).start()
        while not over.is_set():
            try:
                time.sleep(0.05)
            except KeyboardInterrupt:
                heard += 1
        print("heard" if heard else "deaf")
    else:
        measured()
except KeyboardInterrupt:
    print("stopped")
except TopdownError as error:
    print(error.code)
"""


def started(folder: Path, what: str) -> subprocess.Popen[str]:
    """Start a measurement in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), what],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def said(process: subprocess.Popen[str]) -> str:
    """Return the last line of a program that ends without a word of error."""
    try:
        out, err = process.communicate(timeout=60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert err == ""
    return out.split()[-1]


def test_a_stop_of_the_whole_process_group_costs_nothing(toy):
    """A service manager stops every process of a run at once; parts under way must not be lost, nor paid for twice."""
    toy.prepare()
    ends = []
    while not ends or ends[-1] == "stopped":
        ends.append(said(started(toy.folder, "stop")))
        assert len(ends) < 50
    assert ends[-1] == "1"
    assert len(ends) > 2
    assert len(read_ledger(toy.ledger).intents) == 1


def test_ctrl_c_in_a_program_that_measures_in_a_thread_loses_no_child(toy):
    """The program hears the signals there, not measure: a child that heard them would take charged parts with it."""
    toy.prepare()
    assert said(started(toy.folder, "thread")) == "heard"
    book = read_ledger(toy.ledger)
    assert len(book.intents) == 1
    assert set(book.intents) == book.committed


def test_a_full_disk_ends_the_program(toy):
    """Children that wait for ever for their next part would keep the program, and its ledger's lock, alive."""
    toy.prepare()
    assert said(started(toy.folder, "full")) == "D050"


def test_children_die_with_a_killed_parent(toy):
    """A child that outlives its parent would hold the records in memory, unknown to anybody."""
    toy.prepare()
    process = started(toy.folder, "hang")
    assert process.stdout is not None
    assert process.stdout.readline() == "charged\n"
    ids = _below(process.pid, 3)
    process.kill()
    process.communicate(timeout=60)
    until = time.monotonic() + 30
    while any(_lives(number) for number in ids):
        assert time.monotonic() < until
        time.sleep(0.05)


def _below(number: int, n: int) -> list[int]:
    """Wait until a process has n children; return them."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        found = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        if len(found) == n:
            return [int(one) for one in found]
        time.sleep(0.05)
    raise AssertionError("it started no children")


def _lives(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
