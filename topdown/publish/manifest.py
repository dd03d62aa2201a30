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


def list_files(release: Path) -> list[str]:
    """Return the path of every file below a folder, sorted, the manifest left out."""
    paths = (path.relative_to(release).as_posix() for path in release.rglob("*") if not path.is_dir())
    return sorted(path for path in paths if path != MANIFEST)


def write_manifest(release: Path, plan_hash: str) -> list[str]:
    """Write `manifest.json` over all files that are there now; return their paths."""
    paths = list_files(release)
    files = [
        SealedFile(path=path, bytes=(release / path).stat().st_size, sha256=sha256(release / path))
        for path in paths
    ]
    write_bytes(release / MANIFEST, json_bytes(Manifest(plan_hash=plan_hash, files=files)))
    return paths
