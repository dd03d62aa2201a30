"""Sources of uniform random bits: AES-256 in counter mode, keyed by the operating system, and seeded for simulations.

A release source has no seed argument, cannot be copied or pickled, and gives every process and every thread
its own key. The only seeded source, `SimulationBits`, says `is_release = False`.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from abc import ABC, abstractmethod
from typing import ClassVar, NoReturn, final

from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from topdown.errors import InternalError

REKEY_BYTES = 1 << 32  # 2^28 blocks a key: the distinguishing advantage of a cipher over true bits is < 2^-72
_KEY_BYTES, _COUNTER_BYTES = 32, 16
_ZEROS = memoryview(bytes(1 << 17))
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def _process() -> tuple[int, int]:
    """Identify this process: the count catches a reused pid, the pid a fork that bypassed Python's hook."""
    return _forks, os.getpid()


def _from_system(n_bytes: int) -> bytes:
    """Return bytes of the operating system's generator, or raise: there is no fallback."""
    try:
        drawn = os.urandom(n_bytes)
    except (OSError, NotImplementedError) as error:
        raise InternalError(
            "The operating system gave no random bytes, so no noise was drawn.",
            code="X010",
            fix="Run on a machine whose os.urandom works; nothing may be released from this attempt.",
        ) from error
    if len(drawn) != n_bytes:
        raise InternalError(
            f"The operating system gave {len(drawn)} random bytes instead of {n_bytes}.",
            code="X010",
            fix="Run on a machine whose os.urandom works; nothing may be released from this attempt.",
        )
    return drawn


def _counter_mode(key: bytes, counter: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()


class BitSource(ABC):
    """Give uniform bytes, each handed out once.

    Guarantees that no source can be duplicated by copy or pickle. `is_release` is False when a seed decides
    the bytes; whoever writes an artefact must then stamp it NOT-A-RELEASE.
    """

    is_release: ClassVar[bool]

    @abstractmethod
    def read(self, n_bytes: int) -> bytes:
        """Return the next `n_bytes` (>= 0) bytes.

        Raises:
            InternalError: the operating system's generator failed.
        """

    @final
    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse pickle, copy and deepcopy."""
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled: two holders would draw the same noise. "
            "Fix: create a new source where the noise is drawn."
        )


class _Stream(threading.local):
    """One thread's cipher, the process that keyed it, and the bytes left before the next key."""

    cipher: CipherContext | None = None
    process: tuple[int, int] | None = None
    n_bytes_left: int = 0


@final
class AesBits(BitSource):
    """Draw bits from AES-256-CTR, keyed by os.urandom.

    A new key and a new 128-bit start counter are drawn at the first read of each process and thread, in
    either side of a fork that reads, and every 2^32 bytes. Cost: about 0.15 ns a byte in large reads.
    Not defended: a virtual-machine snapshot resumed twice between two keys.

    Source: NIST SP 800-38A, section 6.5 (counter mode).
    """

    is_release = True

    def __init__(self) -> None:
        self._stream = _Stream()

    def read(self, n_bytes: int) -> bytes:
        """Return the next `n_bytes` bytes of this thread's key stream."""
        if n_bytes < 0:
            raise ValueError(f"A source gives 0 bytes or more, not {n_bytes}.")
        pieces: list[bytes] = []
        while n_bytes:
            piece = self._read_piece(n_bytes)
            pieces.append(piece)
            n_bytes -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read_piece(self, n_bytes: int) -> bytes:
        stream = self._stream
        if not stream.n_bytes_left or stream.process != _process():
            _rekey(stream)
        if stream.cipher is None:  # unreachable after _rekey, which sets it or raises
            raise InternalError("The cipher has no key.", code="X010")
        size = min(n_bytes, stream.n_bytes_left, len(_ZEROS))
        stream.n_bytes_left -= size
        return stream.cipher.update(_ZEROS[:size])


def _rekey(stream: _Stream) -> None:
    """Replace the key; a failure leaves the stream without any key."""
    stream.cipher, stream.n_bytes_left = None, 0
    process = _process()
    drawn = _from_system(_KEY_BYTES + _COUNTER_BYTES)
    stream.cipher = _counter_mode(drawn[:_KEY_BYTES], drawn[_KEY_BYTES:])
    stream.process, stream.n_bytes_left = process, REKEY_BYTES


@final
class SimulationBits(BitSource):
    """Give reproducible bits for simulations and tests; never for a release.

    Equal seeds and streams give equal bytes on every machine and in every process, forked ones included; other
    ones have another AES key.

    Args:
        seed: any integer.
        stream: numbers and names that tell the streams of one seed apart; () is the seed's own.

    Raises:
        TypeError: the seed is not an integer.
    """

    is_release = False

    def __init__(self, seed: int, stream: tuple[int | str, ...] = ()) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise TypeError(f"A simulation seed is an integer, not {type(seed).__name__}.")
        name = f"{seed}" + (f" {json.dumps(stream)}" if stream else "")  # one text a (seed, stream)
        key = hashlib.sha256(b"topdown simulation, not a release: " + name.encode()).digest()
        self._cipher = _counter_mode(key, bytes(_COUNTER_BYTES))

    def read(self, n_bytes: int) -> bytes:
        """Return the next `n_bytes` bytes of the seed's stream."""
        return self._cipher.update(bytes(n_bytes))
