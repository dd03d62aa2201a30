"""Every operation on files fails once, one after the other, until a run sees none: nothing is lost or charged twice."""

import errno
import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.crash_model import PARTS, TokenWork
from tests.helpers.folders import files
from tests.helpers.sections import cut_small
from tests.helpers.small_release import build, certified
from topdown.errors import TopdownError
from topdown.privacy.ledger import (
    LedgerBinding,
    LedgerLocation,
    MeasuredPart,
    create_ledger,
    durable,
    open_ledger,
    read_ledger,
    run_charged,
)
from topdown.publish import publish
from topdown.publish import release_files as atomic

BINDING = LedgerBinding("people", "bounded", "person")
WHYS = ("EIO", "ENOSPC", "short write")
FAILING = ("write", "fsync", "open", "ftruncate", "rename")


class FailingOs:
    """The module os, with one operation that fails: the n-th of those that change or open files."""

    def __init__(self, n: int, why: str) -> None:
        self.left, self.why, self.failed = n, why, False

    def __getattr__(self, name: str) -> Any:
        """Return the real thing, or one that counts down."""
        real = getattr(os, name)
        return self.counted(name, real) if name in FAILING else real

    def counted(self, name: str, real: Any) -> Any:
        """Wrap an operation."""

        def operation(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left != 0 and name == "fsync":
                return None  # waiting for the disk shows nothing here
            if self.left != 0:
                return real(*arguments, **options)
            self.failed = True
            if self.why == "short write" and name == "write":
                return real(arguments[0], bytes(arguments[1])[: max(1, len(arguments[1]) // 2)])
            if name == "write":  # half of it reached the disk before it was full
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            number = errno.ENOSPC if self.why == "ENOSPC" else errno.EIO
            raise OSError(number, os.strerror(number))

        return operation


@contextmanager
def failing(n: int, why: str) -> Iterator[FailingOs]:
    """Let the n-th operation of ledger, journal and publish fail."""
    fake = FailingOs(n, why)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, "os", fake)
        patch.setattr(atomic, "os", fake)
        rename = fake.counted("rename", os.rename)
        patch.setattr(Path, "replace", lambda self, target: rename(self, target) or Path(target))
        yield fake


class Tokens(TokenWork):
    """Parts that are countable: each draw is another."""

    def __init__(self, location: LedgerLocation, folder: Path) -> None:
        self.location, self.folder = location, folder
        self.drawn: list[str] = []

    def draw(self, parts: Iterator[MeasuredPart], drawn: object) -> Generator[bytes]:
        """Draw tokens."""
        yield from map(self.token, parts)

    def token(self, part: MeasuredPart) -> bytes:
        """Draw one."""
        self.drawn.append(part.key)
        return f"{part.key} {len(self.drawn)}".encode()


@pytest.mark.parametrize("why", [WHYS[0], *(pytest.param(why, marks=pytest.mark.slow) for why in WHYS[1:])])
def test_a_measurement_ends_whatever_fails(why, tmp_path):
    """An operation that fails after the charge must cost at most the parts it tore, and leave no dead end."""
    for n in itertools.count(1):
        folder = tmp_path / str(n)
        folder.mkdir()
        place = create_ledger(LedgerLocation(folder / "l.jsonl", folder, "", BINDING))
        out = folder / "out"
        work = Tokens(place, out)
        with failing(n, why) as fake, suppress(OSError, TopdownError):
            run_charged(work)
        with failing(0, why):  # nothing fails
            run_charged(work)
        book = read_ledger(place.path)
        intents = list(book.intents.values())
        assert len(book.committed) == len(intents) <= 2, n
        for part in PARTS:
            assert work.drawn.count(part.key) <= sum(part.level in i.covers for i in intents), n
            assert (out / part.level / f"{part.name}.parquet").exists(), n
        if not fake.failed:
            assert (1, len(PARTS)) == (len(intents), len(work.drawn))
            assert n > 40
            return


@pytest.mark.parametrize("why", WHYS)
def test_a_ledger_is_made_whole_or_not_at_all(why, tmp_path):
    """Half a first record under the ledger's name would stop the data set before anything was spent."""
    for n in itertools.count(1):
        path = tmp_path / str(n) / "l.jsonl"
        path.parent.mkdir()
        place, made = LedgerLocation(path, path.parent, "", BINDING), None
        with failing(n, why) as fake, suppress(OSError, TopdownError):
            made = create_ledger(place)
        opened = read_ledger(path).opened
        if made is None:
            made = create_ledger(place) if opened is None else replace(place, id=opened.ledger)
        with open_ledger(made) as ledger:
            assert Fraction(0) == sum(ledger.book.charged.values(), Fraction(0))
        if not fake.failed:
            return


@pytest.mark.parametrize(
    ("step", "is_cut"),
    [
        (11, False),
        pytest.param(1, False, marks=pytest.mark.slow),
        pytest.param(1, True, marks=pytest.mark.slow),
    ],
)
def test_publish_is_done_again_whatever_fails(step, is_cut, tmp_path, monkeypatch):
    """A file that is half written under its final name would be taken for a part of the release."""
    if is_cut:
        cut_small(monkeypatch)
    small = build(tmp_path)
    whole = files(small.folder)

    def work() -> None:
        publish(small.folder, small.context, small.leaves, small.ledger, privacy=certified())

    for n in itertools.count(1, step):
        with failing(n, WHYS[n % 2]) as fake, suppress(OSError, TopdownError):
            work()
        for path in small.folder.rglob("*"):
            if path.is_file() and path.suffix != ".tmp":
                assert whole[path.relative_to(small.folder).as_posix()] == path.read_bytes(), (n, path.name)
        if not fake.failed:
            return
        work()
        assert whole == files(small.folder)
