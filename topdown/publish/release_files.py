"""Write files of a release durably, and seal them: under a temporary name first, manifest.json last.

Equal content gives equal bytes; a folder with a manifest is whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import pyarrow as pa

from topdown.file_names import file_sha256
from topdown.formats import json_bytes
from topdown.formats.release_documents import Manifest, SealedFile
from topdown.inputs import parquet_bytes
from topdown.plan import Plan

TEMPORARY = ".tmp"


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that readers see all of it or none of it."""
    with written_durably(path) as file:
        file.write(data)


@contextmanager
def written_durably(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be written bit by bit; it has its name once the context ends, and never if that is by an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + TEMPORARY)
    part.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, 0o644), "wb") as file:
        yield file
    # After a power cut the file is there whole, or not at all.
    _sync(part, os.O_RDONLY)
    part.replace(path)
    _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def table_of_plan(kind: str, table: pa.Table, plan: Plan, more: Mapping[str, str] | None = None) -> bytes:
    """Return a table as a file, stamped with its plan and `more`."""
    return parquet_bytes(kind, table, {"plan_hash": plan.plan_hash, **(more or {})})


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


MANIFEST = "manifest.json"


class Hashes:
    """SHA-256 of the files of a release: of the bytes where we write them, read once where we do not.

    Args:
        release: its folder.
        written: of the files that this process wrote before, by path.

    `written` has those of all files that this process wrote.
    """

    def __init__(self, release: Path, written: Mapping[str, str] = MappingProxyType({})) -> None:
        self._release, self._known, self.written = release, dict(written), dict(written)

    def of(self, path: str) -> str:
        """Return the hash of a file, in hex."""
        if path not in self._known:
            self._known[path] = file_sha256(self._release / path)
        return self._known[path]

    def write(self, path: str, data: bytes) -> None:
        """Write a file."""
        write_bytes(self._release / path, data)
        self._known[path] = self.written[path] = hashlib.sha256(data).hexdigest()


def list_files(release: Path) -> list[str]:
    """Return the path of every file below a folder, sorted, the manifest left out."""
    paths = (path.relative_to(release).as_posix() for path in release.rglob("*") if not path.is_dir())
    return sorted(path for path in paths if path != MANIFEST)


def write_manifest(release: Path, plan_hash: str, hashes: Hashes | None = None) -> list[str]:
    """Write `manifest.json` over all files that are there now; return their paths.

    Args:
        release: folder of the release. plan_hash: of its plan. hashes: those that are known.
    """
    paths, hashes = list_files(release), hashes or Hashes(release)
    files = [
        SealedFile(path=path, bytes=(release / path).stat().st_size, sha256=hashes.of(path)) for path in paths
    ]
    write_bytes(release / MANIFEST, json_bytes(Manifest(plan_hash=plan_hash, files=files)))
    return paths
