"""Write manifest.json: the size and SHA-256 of every other file of the release."""

from __future__ import annotations

import hashlib
from pathlib import Path

from topdown.canonical import json_bytes
from topdown.documents.manifest import Manifest, SealedFile
from topdown.publish.atomic import write_bytes

MANIFEST = "manifest.json"


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Hashes:
    """SHA-256 of the files of a release: of the bytes where we write them, read once where we do not.

    Args:
        release: its folder.
    """

    def __init__(self, release: Path) -> None:
        self._release, self._known = release, dict[str, str]()

    def of(self, path: str) -> str:
        """Return the hash of a file, in hex."""
        if path not in self._known:
            self._known[path] = sha256(self._release / path)
        return self._known[path]

    def write(self, path: str, data: bytes) -> None:
        """Write a file."""
        write_bytes(self._release / path, data)
        self._known[path] = hashlib.sha256(data).hexdigest()


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
