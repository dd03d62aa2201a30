"""One byte of a published folder flipped, and every hash redone that somebody without a key can compute."""

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.helpers.folders import files
from tests.helpers.small_release import canonical

MANIFEST, LEDGER, CERTIFICATE = "manifest.json", "ledger.jsonl", "certificate.json"
SOLVE, PARTS = "solve.json", ("measurements", "choice")
GZIP_ENDS = 10  # bytes of a header; a trailer has eight


def places(path: str, data: bytes, n: int) -> list[int]:
    """Return places to flip: so many spread over a file, and some in the parts that readers pass over."""
    draw, found = random.Random(path), set[int]()
    parts = [range(len(data))]
    if data[:4] == b"PAR1":
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        parts += [range(footer, len(data)), range(4, min(60, footer))]
    if data[:2] == b"\x1f\x8b":
        parts += [range(GZIP_ENDS), range(len(data) - 8, len(data))]
    for part in parts:
        found.update(draw.sample(part, min(n, len(part))))
    return sorted(found)


def flip(folder: Path, path: str, place: int) -> None:
    """Flip one to eight bits of a byte, always the same ones for a place."""
    data = bytearray((folder / path).read_bytes())
    data[place] ^= random.Random(f"{path} {place}").randrange(1, 256)
    (folder / path).write_bytes(data)


class Sealer:
    """What is known of a sound folder: its hashes, which are redone once a file of it was changed.

    Args:
        folder: of a release, a choice or a release of pgsr.
    """

    def __init__(self, folder: Path) -> None:
        self._old = {path: _sha256(folder / path) for path in files(folder)}
        self._parts, self._inputs = _parts_digest(folder), _inputs_digest(folder)

    def seal(self, folder: Path) -> None:
        """Redo table hashes, digests, ledger, solve.json, certificate and manifest after a change."""
        swap = {old: _sha256(folder / path) for path, old in self._old.items() if (folder / path).exists()}
        _replace(folder, ["measurements/exact.json"], swap)
        swap |= {
            old: _sha256(folder / path) for path, old in self._old.items() if path.endswith("exact.json")
        }
        swap[self._parts] = _parts_digest(folder)
        swap[self._inputs] = _inputs_digest(folder)
        _replace(folder, [SOLVE], swap)
        swap |= _sealed_again(folder / LEDGER, swap)
        for path in (LEDGER, SOLVE):
            if path in self._old:
                swap[self._old[path]] = _sha256(folder / path)
        _replace(folder, [CERTIFICATE], swap)
        _write_manifest(folder)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _lines_digest(folder: Path, paths: list[str]) -> str:
    lines = [f"{_sha256(folder / path)}  {path}\n" for path in sorted(paths)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _parts_digest(folder: Path) -> str:
    """Return what a commit says of the measured files."""
    inside = next((folder / name for name in PARTS if (folder / name).is_dir()), folder)
    found = [path for path in files(inside) if "/part-" in path or path.startswith("exact")]
    return _lines_digest(inside, found)


def _inputs_digest(folder: Path) -> str:
    """Return what solve.json says of its inputs."""
    start = ("plan.json", "public/", "measurements/", "base/")
    found = [
        p for p in files(folder) if p.startswith(start) and not p.startswith(("base/base/", "base/public/"))
    ]
    return _lines_digest(folder, [p for p in found if p != "measurements/journal.json"])


def _replace(folder: Path, paths: list[str], swap: dict[str, str]) -> None:
    for path in paths:
        if (folder / path).is_file():
            data = (folder / path).read_bytes()
            for old, new in swap.items():
                data = data.replace(old.encode(), new.encode())
            (folder / path).write_bytes(data)


def _sealed_again(ledger: Path, swap: dict[str, str]) -> dict[str, str]:
    """Chain the lines of a ledger anew; return the new hash of each line by the old one. What is no line stays."""
    found, lines, previous = {}, [], None
    for raw in ledger.read_bytes().split(b"\n"):
        try:
            fields = json.loads(raw)
            known = {
                key: swap.get(value, value) if isinstance(value, str) else value
                for key, value in fields.items()
            }
            inner = {key: value for key, value in known.items() if key != "hash"}
            inner |= {} if previous is None else {"prev": previous}
            text = canonical(inner | {"hash": hashlib.sha256(canonical(inner)).hexdigest()})
            changed = canonical(known) != raw or (previous is not None and fields["prev"] != previous)
            line = text if changed or known != fields else raw
        except (ValueError, TypeError, KeyError, AttributeError):
            line = raw
        previous = hashlib.sha256(line).hexdigest()
        found[hashlib.sha256(raw).hexdigest()] = previous
        lines.append(line)
    ledger.write_bytes(b"\n".join(lines))
    return found


def _write_manifest(folder: Path) -> None:
    """Redo sizes and hashes of the manifest's own entries, whatever its form."""
    document = json.loads((folder / MANIFEST).read_bytes())
    entries = document["files"]
    for entry in entries.values() if isinstance(entries, dict) else entries:
        path = entry.get("path") or next(p for p, e in entries.items() if e is entry)
        entry |= {"bytes": (folder / path).stat().st_size, "sha256": _sha256(folder / path)}
    text = json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
    (folder / MANIFEST).write_bytes(text.encode())


def missed(folder: Path, n: int, refuses: Callable[[Path], bool]) -> Iterator[tuple[str, int]]:
    """Flip byte after byte, seal, and yield those that are not refused; the folder is sound again after each.

    Left out are flips after which a document says something else that no file can contradict, in its one form.

    Args:
        folder: a sound folder, to be changed.
        n: places spread over each file, and in each part of it that readers pass over.
        refuses: whether a folder is refused.
    """
    sealer, whole = Sealer(folder), files(folder)
    for path, data in whole.items():
        for place in places(path, data, n):
            flip(folder, path, place)
            flipped = (folder / path).read_bytes()
            if path != MANIFEST:
                sealer.seal(folder)
            if not refuses(folder) and not _is_another_claim(path, data, flipped):
                yield path, place
            for name, before in whole.items():
                (folder / name).write_bytes(before)


ONLY_ITS_MAKER_KNOWS = {
    "solve.json": {
        "n_splits",
        "n_problems",
        "n_variables",
        "max_iterations",
        "max_kkt_residual_persons",
        "n_roundings",
        "n_roundings_optimal",
        "n_milp",
        "target_kkt_residual_persons",
        "residual_persons",
        "why",
    },
    CERTIFICATE: {"engine", "numpy", "pyarrow", "python", "scipy", "topdown"},
    "measurements/journal.json": {"layout"},
    LEDGER: {"time", "hash", "prev", "rho_limit", "epsilon_limit", "delta_limit", "limit_reason"},
}
"""Keys of documents whose values no other file tells."""


def _is_another_claim(path: str, before: bytes, after: bytes) -> bool:
    """Tell whether two documents differ in such keys alone."""
    try:
        pairs = [
            dict(_leaves("", [json.loads(line) for line in lines]))
            for lines in ([data] if path != LEDGER else data.splitlines() for data in (before, after))
        ]
    except ValueError:
        return False
    keys = set(pairs[0]) | set(pairs[1])
    other = {place.rpartition(".")[2] for place in keys if pairs[0].get(place) != pairs[1].get(place)}
    return bool(other) and other <= ONLY_ITS_MAKER_KNOWS.get(path, set())


def _leaves(place: str, document: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield from _leaves(f"{place}.{key}", value)
    elif isinstance(document, list):
        for i, value in enumerate(document):
            yield from _leaves(f"{place}[{i}]", value)
    else:
        yield place, document
