"""Bit sources: no two holders of one stream, no seed in a release, no output without entropy."""

import copy
import inspect
import os
import pickle
import threading

import pytest

from tests.helpers.processes import run_python
from topdown.errors import InternalError
from topdown.privacy import AesBits, SimulationBits, bits

ALL_SOURCES = {"aes": AesBits, "simulation": lambda: SimulationBits(7)}


def blocks(drawn: bytes) -> set[bytes]:
    return {drawn[i : i + 16] for i in range(0, len(drawn), 16)}


@pytest.fixture
def urandom_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the requests made to the operating system."""
    calls: list[int] = []
    system = os.urandom

    def counting(n_bytes: int) -> bytes:
        calls.append(n_bytes)
        return system(n_bytes)

    monkeypatch.setattr(os, "urandom", counting)
    return calls


@pytest.mark.parametrize("name", ALL_SOURCES)
def test_read_gives_the_length_asked_for(name: str) -> None:
    """A short or long read would shift every later draw or leave noise unset."""
    source = ALL_SOURCES[name]()
    for n_bytes in (0, 1, 2, 15, 16, 17, 1000, 300_001):
        assert n_bytes == len(source.read(n_bytes))


def test_two_sources_share_no_block() -> None:
    """A shared 16-byte block would mean two measurements with the same noise."""
    first, second = AesBits().read(1 << 19), AesBits().read(1 << 19)
    assert 1 << 15 == len(blocks(first)) == len(blocks(second))
    assert set() == blocks(first) & blocks(second)


def test_consecutive_reads_continue_the_stream() -> None:
    """A source that restarted at every read would repeat its noise."""
    whole = SimulationBits(3).read(100)
    source = SimulationBits(3)
    assert whole == b"".join(source.read(n) for n in (1, 2, 13, 0, 84))
    aes = AesBits()
    assert len({aes.read(16) for _ in range(20_000)}) == 20_000


@pytest.mark.parametrize("name", ALL_SOURCES)
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda f: f.__name__)
def test_duplication_is_refused(name: str, duplicate: object) -> None:
    """A copied or pickled source would draw the same noise in two places."""
    source = ALL_SOURCES[name]()
    source.read(1)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        duplicate(source)  # type: ignore[operator]


def test_a_release_source_takes_no_seed() -> None:
    """A seed option left on in a release reveals the true answers exactly."""
    assert list(inspect.signature(AesBits).parameters) == []
    assert AesBits().is_release
    assert not SimulationBits(1).is_release


@pytest.mark.parametrize("error", [OSError("no entropy"), NotImplementedError("no device")], ids=repr)
def test_failing_system_generator_stops_every_read(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any fallback to weaker bits would be released as if it were private."""

    def failing(n_bytes: int) -> bytes:
        raise error

    source = AesBits()
    monkeypatch.setattr(os, "urandom", failing)
    for _ in range(2):
        with pytest.raises(InternalError, match="no random bytes"):
            source.read(16)


def test_short_answer_of_the_system_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short key would weaken the cipher silently."""
    monkeypatch.setattr(os, "urandom", lambda n_bytes: bytes(n_bytes - 1))
    with pytest.raises(InternalError, match="47 random bytes instead of 48"):
        AesBits().read(1)


def test_failed_rekeying_does_not_fall_back_to_the_old_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child process whose re-keying failed must not continue its parent's stream."""
    source = AesBits()
    source.read(16)

    def failing(n_bytes: int) -> bytes:
        raise OSError

    monkeypatch.setattr(os, "urandom", failing)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(InternalError):
        source.read(16)
    monkeypatch.undo()
    monkeypatch.setattr(os, "urandom", failing)
    with pytest.raises(InternalError):
        source.read(16)


def test_rekeys_after_the_byte_limit(monkeypatch: pytest.MonkeyPatch, urandom_calls: list[int]) -> None:
    """Without re-keying one key would encrypt past the bound its security argument allows."""
    monkeypatch.setattr(bits, "REKEY_BYTES", 100)
    source = AesBits()
    assert len(source.read(250)) == 250
    assert urandom_calls == [48, 48, 48]
    source.read(50)
    assert len(urandom_calls) == 3
    source.read(1)
    assert len(urandom_calls) == 4


@pytest.mark.parametrize(
    ("of", "name", "value"), [(os, "getpid", lambda: -1), (bits, "_forks", bits._forks + 1)]
)
def test_rekeys_in_another_process(
    monkeypatch: pytest.MonkeyPatch, urandom_calls: list[int], of: object, name: str, value: object
) -> None:
    """A fork outside Python shows in the process id alone; a grandchild may get one seen before: forks are counted."""
    source = AesBits()
    source.read(16)
    monkeypatch.setattr(of, name, value)
    source.read(16)
    assert urandom_calls == [48, 48]


FORK_SCRIPT = """
import os
from topdown.privacy import AesBits
CONDITION
source = AesBits()
source.read(8)
children = []
for _ in range(2):
    near, far = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(far, source.read(4096))
        os._exit(0)
    os.waitpid(pid, 0)
    children.append(os.read(near, 4096))
streams = [source.read(4096), *children]
assert [4096] * 3 == [len(s) for s in streams]
# offset 8 is where all three would continue the shared stream
whole = [{s[i:i + 16] for i in range(0, 4096, 16)} for s in streams]
assert 3 * 256 == len(set.union(*whole)), 'shared block'
print('distinct')
"""


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "os.getpid = lambda: 1",
        "from topdown.privacy import bits; bits._count_fork.__code__ = (lambda: 0).__code__",
    ],
    ids=["both guards", "hook alone", "process id alone"],
)
def test_forked_children_draw_other_bits(condition: str) -> None:
    """Worker processes that inherit the key would give two areas the same noise."""
    script = FORK_SCRIPT.replace("CONDITION", condition)
    assert run_python("-c", script).stdout == "distinct\n"


def test_threads_have_keys_of_their_own() -> None:
    """Two threads sharing a counter could be handed the same block."""
    source = AesBits()
    drawn: list[bytes] = []
    threads = [threading.Thread(target=lambda: drawn.append(source.read(1 << 18))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set.union(*map(blocks, drawn))) == 4 * (1 << 14)


@pytest.mark.parametrize("seed", [1.0, True, "1", None])
def test_simulation_seed_is_an_integer(seed: object) -> None:
    """A float or string seed would make a simulation irreproducible between versions."""
    with pytest.raises(TypeError, match="integer"):
        SimulationBits(seed)  # type: ignore[arg-type]


def test_simulation_is_reproducible() -> None:
    """Published simulations must replay on any machine: the bytes of seed 2020 are fixed here."""
    assert SimulationBits(2020).read(8).hex() == "df681cad6db61909"
    assert SimulationBits(2020).read(64) != SimulationBits(2021).read(64)


def test_negative_length_is_refused() -> None:
    """A negative length must not loop or return nothing silently."""
    with pytest.raises(ValueError, match="0 bytes or more"):
        AesBits().read(-1)
