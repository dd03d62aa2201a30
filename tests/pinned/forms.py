"""Published files as lines of text that are equal whenever a reader sees the same, and where two first differ.

Left out, and why:
- the version of the library in a Parquet file's footer, and how it packs pages: another version of Arrow may
  pack them otherwise; schema, stamps, row groups and every value stay;
- `files` and `inputs_sha256`, hashes of lists of hashes of such files, and `hash`, `prev` and `head`, which seal
  lines of a ledger that hold them: `verify` computes them all;
- hashes of files of the same folder, written as the name of the file: a wrong one stays as it is;
- registries of ledgers, which are not published and hold inodes.
"""

import gzip
import hashlib
import json
import re
from pathlib import Path

import pyarrow.parquet as pq

HASH = re.compile(r"\b[0-9a-f]{64}\b")
LEFT_OUT = re.compile(r'("(?:hash|prev|head|files|inputs_sha256)": ?)"[0-9a-f]{64}"')
PIECES = 16


def texts_of(folder: Path) -> dict[str, list[str]]:
    """Return the lines of every file below a folder, by path."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".registry"]
    hashes = {}
    for path in paths:
        hashes[hashlib.sha256(path.read_bytes()).hexdigest()] = path.relative_to(folder).as_posix()
    return {path.relative_to(folder).as_posix(): _lines(path, hashes) for path in paths}


def _lines(path: Path, hashes: dict[str, str]) -> list[str]:
    if path.suffix == ".parquet":
        return _parquet(path, hashes)
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    text = data.decode("utf-8")
    return [_plain(line, hashes) for line in text.splitlines()]


def _plain(text: str, hashes: dict[str, str]) -> str:
    text = LEFT_OUT.sub(lambda found: f"{found[1]}...", text)
    return HASH.sub(lambda found: hashes.get(found[0], found[0]), text)


def _parquet(path: Path, hashes: dict[str, str]) -> list[str]:
    file = pq.ParquetFile(path)
    stamps = file.metadata.metadata or {}
    lines = [f"{key.decode()} = {_plain(stamps[key].decode(), hashes)}" for key in sorted(stamps)]
    for i, column in enumerate(file.schema_arrow):
        chunk = file.metadata.row_group(0).column(i).compression if file.metadata.num_row_groups else ""
        lines.append(
            f"column {column.name}: {column.type}, {'null' if column.nullable else 'never null'}, {chunk}"
        )
    lines += [f"group of {file.metadata.row_group(i).num_rows}" for i in range(file.metadata.num_row_groups)]
    return lines + [_plain(json.dumps(row, default=str), hashes) for row in file.read().to_pylist()]


def digest_of(lines: list[str]) -> str:
    """Return SHA-256 of a file's lines, and then short digests of up to 16 pieces, to find the first difference."""
    whole = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return " ".join([whole[:32], str(len(lines)), "".join(_short(piece) for piece in _pieces(lines))])


def difference(lines: list[str], stored: str) -> str:
    """Say where a file first differs from a stored digest."""
    _, n_lines, short = stored.split(" ")
    if int(n_lines) != len(lines):
        return f"{len(lines)} lines, {n_lines} before"
    at = 1
    for i, piece in enumerate(_pieces(lines)):
        if _short(piece) != short[4 * i : 4 * i + 4]:
            shown = "\n      ".join(line[:300] for line in piece[:4])
            return f"first difference in lines {at} to {at + len(piece) - 1} of {n_lines}, now\n      {shown}"
        at += len(piece)
    return "differs"


def _pieces(lines: list[str]) -> list[list[str]]:
    size = -(-len(lines) // PIECES) or 1
    return [lines[i : i + size] for i in range(0, len(lines), size)]


def _short(piece: list[str]) -> str:
    return hashlib.sha256("\n".join(piece).encode()).hexdigest()[:4]


def compared(folder: Path, stored: dict[str, str]) -> list[str]:
    """Return what differs in a folder from stored digests; nothing if it is the same."""
    texts, out = texts_of(folder), []
    order = sorted({*texts, *stored}, key=lambda path: ("/measurements/" not in path, path))
    for path in order:
        if path not in texts:
            out.append(f"{path}: not written any more")
        elif path not in stored:
            out.append(f"{path}: new")
        elif digest_of(texts[path]) != stored[path]:
            out.append(f"{path}: {difference(texts[path], stored[path])}")
    if any("/measurements/" in line and ".parquet: " in line for line in out):
        out.insert(0, "measurements differ, so the rest must: other noise, or drawn in another order")
    return out


def stored_form(folder: Path) -> dict[str, str]:
    """Return the digest of every file below a folder, by path."""
    return {path: digest_of(lines) for path, lines in texts_of(folder).items()}
