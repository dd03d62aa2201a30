"""Drawing noise and adding true counts to it, in this process and in forked children that share no bits."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests.helpers.audited import without_noise
from tests.helpers.failing import fails_with
from tests.helpers.killed import die
from tests.helpers.tiny_extension import World, draw_world
from topdown.errors import InternalError
from topdown.measure import (
    PartDrawer,
    Truth,
    add_counts,
    add_in_64_bits,
    children,
    draw_in_children,
    level_drawer,
    load_records,
    measure,
)
from topdown.model import Histogram
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

    with fails_with("X058", InternalError):
        list(draw_in_children(lambda: Streaming(copied), parts(), 2))
    assert taken == []
    assert multiprocessing.active_children() == []


def test_a_twin_in_a_measurement_leaves_no_part_and_one_charge(toy, small_parts, monkeypatch):
    """What refuses a shared key has to stand on the way of a real measurement."""
    copied = CopiedBits()
    monkeypatch.setattr("topdown.measure.measurement.AesBits", lambda: copied)
    prepared = toy.prepare()
    with fails_with("X058", InternalError):
        measure(prepared, toy.folder / "out", workers=2)
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
    with fails_with("X049", InternalError) as error:
        measure(prepared, out, workers=2)
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
        with fails_with(code, InternalError) as error:
            list(draw_in_children(lambda act=act: Streaming(AesBits(), act), PARTS, 2))
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
        out, err = process.communicate(timeout=240)
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
    process.communicate(timeout=240)
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


MOST = 2**31 - 1


@pytest.mark.parametrize("most", [9, MOST // 60, MOST])
def test_both_ways_add_the_same(most):
    """An answer that loses one of its people in the fast way is wrong in every release."""
    random = np.random.default_rng(most)
    for _ in range(50):
        block = random.integers(-most, most // 3, (4, 3)).astype(np.int32)
        row, answer = random.integers(0, 4, 30), random.integers(0, 3, 30).astype(np.int32)
        count = random.integers(0, most // 60 + 1, 30)
        exact = block.astype(object)
        for at in zip(row, answer, count, strict=True):
            exact[at[0], at[1]] += int(at[2])
        slow = block.copy()
        add_in_64_bits(slow.reshape(-1), row * 3 + answer, count)
        add_counts(block, row, answer, count)
        assert (exact.tolist(), exact.tolist()) == (block.tolist(), slow.tolist())


@pytest.mark.parametrize(("noise", "counts"), [(MOST, [1]), (MOST - 2, [1, 1, 1]), (0, [2**31])])
def test_a_sum_that_leaves_32_bits_is_refused(noise, counts):
    """A sum that wraps would be published as a number of another sign."""
    block = np.full((1, 2), noise, dtype=np.int32)
    place = np.ones(len(counts), dtype=np.int64)
    with fails_with("X020", InternalError):
        add_counts(block, 0 * place, place.astype(np.int32), np.array(counts))
    assert block.tolist() == [[noise, noise]]


def test_a_sum_that_just_fits_is_kept():
    """The bound is for all counts together; one answer may need less than they add up to."""
    block = np.array([[MOST - 2, 0]], dtype=np.int32)
    add_counts(block, np.zeros(2, dtype=np.int64), np.array([0, 1], dtype=np.int32), np.array([2, 7]))
    assert block.tolist() == [[MOST, 7]]


def test_nothing_to_add_changes_nothing():
    """Nodes without records have noise all the same."""
    block, none = np.array([[3, -4]], dtype=np.int32), np.zeros(0, dtype=np.int64)
    add_counts(block, none, none.astype(np.int32), none)
    assert block.tolist() == [[3, -4]]


def slowly(world: World, depth: int, histogram: Histogram, nodes: list[int]) -> tuple[list[int], list[int]]:
    """Return answers and sizes node by node, query by query, answer by answer."""
    answers, sizes, context = [], [], world.context()
    people = list(
        zip(histogram.node.tolist(), histogram.cell.tolist(), histogram.count.tolist(), strict=True)
    )
    for node in nodes:
        cells = world.open_cells(depth, node)
        for query in context.queries(context.plan.levels[depth].name):
            listed = sorted({int(query.labels[cell]) for cell in cells})
            sizes.append(len(listed))
            answers += [
                sum(n for i, cell, n in people if i == node and query.labels[cell] == answer)
                for answer in listed
            ]
    return answers, sizes


@pytest.mark.parametrize("seed", range(12))
def test_all_nodes_at_once_are_as_one_by_one(seed):
    """A record counted at another answer, or one where the base release has nobody, would move a published number."""
    world, random = draw_world(seed, n_leaves=4), np.random.default_rng(seed)
    context = world.context()
    for depth, level in enumerate(context.plan.levels):
        n_nodes, n_cells = len(context.geography.levels[depth]), context.plan.schema.n_cells
        node, cell = np.nonzero(random.random((n_nodes, n_cells)) < 0.6)  # also where nothing is open
        histogram = Histogram.build(n_nodes, n_cells, node, cell, random.integers(1, 9, len(node)))
        nodes = np.flatnonzero(context.inhabited[depth])
        for some in (nodes, nodes[1:], nodes[::2]):
            if not len(some):
                continue
            with without_noise():
                drawn = level_drawer(context, depth, histogram, AesBits()).draw(some)
            answers, sizes = slowly(world, depth, histogram, some.tolist())
            assert (answers, sizes) == (drawn.answers.tolist(), drawn.sizes.tolist()), level.name
