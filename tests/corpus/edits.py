"""The edits of README.md: what a case does to one file of a valid input."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from tests.helpers.small_release import edit_json, edit_table

KINDS: dict[str, pa.DataType] = {
    "bool": pa.bool_(), "date32": pa.date32(), "float16": pa.float16(), "float32": pa.float32(),
    "float64": pa.float64(), "binary": pa.binary(), "list": pa.list_(pa.int64()), "int64": pa.int64(),
    "struct": pa.struct([("a", pa.int64())]), "null": pa.null(), "timestamp": pa.timestamp("s"),
    "duration": pa.duration("s"), "decimal": pa.decimal128(20, 0), "uint64": pa.uint64(),
}  # fmt: skip
VALUES: dict[str, Any] = {"bool": True, "binary": b"1", "list": [1], "struct": {"a": 1}, "null": None}


def make(path: Path, edit: list[Any]) -> None:
    """Make one edit of README.md on a valid file."""
    how, *values = edit
    if how in _TEXT:
        path.write_text(_TEXT[how](path, *values), encoding="utf-8", newline="")
    elif how in ("flip", "cut", "keep", "drop", "double", "swap", "nul", "put"):
        path.write_bytes(_damaged(path, how, values))
    else:
        _OTHER[how](path, *values)


def _replaced(path: Path, old: str, new: str) -> str:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"the case no longer fits {path.name}"
    return text.replace(old, new, 1)


def _cell(path: Path, row: int, column: str, value: str) -> str:
    lines = [line.split(",") for line in path.read_text().splitlines()]
    lines[row][lines[0].index(column)] = value
    return "".join(",".join(line) + "\n" for line in lines)


def _header(path: Path, column: str, name: str) -> str:
    head, rest = path.read_text().split("\n", 1)
    return ",".join(name if one == column else one for one in head.split(",")) + "\n" + rest


def _column(path: Path, name: str) -> str:
    head, *rows = path.read_text().splitlines()
    return "\n".join([f"{head},{name}", *(f"{row},1" for row in rows)]) + "\n"


def _empty(path: Path) -> Path:
    path.unlink(missing_ok=True)
    return path


def _damaged(path: Path, how: str, values: list[Any]) -> bytes:
    """Return the bytes of a file with damage: to its bytes, or to its lines."""
    data = path.read_bytes()
    if how == "flip":
        at = int(len(data) * values[0])
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    if how == "cut":
        return data[: -values[0]]
    if how == "nul":
        return bytes(len(data))
    if how == "put":
        return (path.parent / values[0]).read_bytes()
    lines = data.splitlines(keepends=True)
    if how == "keep":
        lines = lines[: values[0]]
    elif how == "drop":
        del lines[values[0]]
    elif how == "double":
        lines.insert(values[0], lines[values[0]])
    else:
        one, other = values
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _set(document: Any, how: str, keys: str, value: Any = None) -> None:
    """Set or remove the value at a path such as `privacy.secrets.0.epsilon`."""
    *trail, last = keys.split(".")
    for key in trail:
        document = document[int(key) if isinstance(document, list) else key]
    if how == "unset":
        del document[int(last) if isinstance(document, list) else last]
    elif isinstance(document, list):
        document[int(last)] = value
    else:
        document[last] = value


def _add(rows: list[dict[str, Any]], row: int, column: str, more: int) -> None:
    """Add to a number, or to the first of a list."""
    value = rows[row][column]
    rows[row][column] = [value[0] + more, *value[1:]] if isinstance(value, list) else value + more


def _note(path: Path, key: str, value: str) -> None:
    """Write one more note, or another one, into the footer of a Parquet file."""
    table, stamps = pq.read_table(path), pq.read_metadata(path).metadata or {}
    bare = table.replace_schema_metadata(None)
    with pq.ParquetWriter(path, bare.schema, store_schema=False) as writer:
        writer.write_table(bare)
        writer.add_key_value_metadata({k.decode(): v.decode() for k, v in stamps.items()} | {key: value})


def _parquet(path: Path, column: str, kind: str) -> None:
    """Write the table as Parquet with one column of another type, and name that file in the run file."""
    table = pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(
        path.read_text().split("\n")[0].split(","), pa.string())))  # fmt: skip
    values = [VALUES.get(kind, 1)] * table.num_rows
    if kind == "uint64":
        values = [2**64 - 1] * table.num_rows
    made = pa.array(values, KINDS[kind])
    table = table.set_column(table.column_names.index(column), column, made)
    pq.write_table(table, path.with_suffix(".parquet"))
    run = path.parent / "run.toml"
    run.write_text(run.read_text().replace(path.name, path.with_suffix(".parquet").name))


def _bomb(path: Path, row: str) -> None:
    """Pack the table's header and a row, repeated until one more than 2^31 bytes are unpacked, and name that file."""
    line = path.read_text().splitlines()[1] if row == "row" else row
    many = f"{line}\n" * (2**24 // (len(line) + 1) + 1)
    packed = path.with_suffix(".csv.gz")
    head = path.read_text().split("\n", 1)[0]
    packed.write_bytes(gzip.compress(f"{head}\n".encode()) + gzip.compress(many.encode(), 1) * 128)
    run = path.parent / "run.toml"
    run.write_text(run.read_text().replace(path.name, packed.name))


_TEXT: dict[str, Callable[..., str]] = {
    "replace": _replaced,
    "cell": _cell,
    "header": _header,
    "column": _column,
    "append": lambda path, text: path.read_text(encoding="utf-8") + text,
    "write": lambda path, text: text,
    "brackets": lambda path, head, n: head + "[" * n + "]" * n,
}
_OTHER: dict[str, Callable[..., object]] = {
    "none": lambda path, *values: None,
    "bytes": lambda path, text: path.write_bytes(bytes.fromhex(text)),
    "remove": lambda path: path.unlink(),
    "folder": lambda path: _empty(path).mkdir(),
    "mkdir": lambda path: path.mkdir(parents=True),
    "fifo": lambda path: os.mkfifo(_empty(path)),
    "link": lambda path, target: _empty(path).symlink_to(target),
    "locked": lambda path: path.chmod(0o500),
    "parquet": _parquet,
    "bomb": _bomb,
    "json": lambda path, keys, value: edit_json(path, lambda document: _set(document, "json", keys, value)),
    "unset": lambda path, keys: edit_json(path, lambda document: _set(document, "unset", keys)),
    "count": lambda path, *values: edit_table(path, lambda rows: _add(rows, *values)),
    "row": lambda path, how: edit_table(
        path, lambda rows: rows.append(rows[-1]) if how == "double" else rows.pop()
    ),
    "note": _note,
}
