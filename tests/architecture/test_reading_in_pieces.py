"""A module that reads Parquet files in pieces has none of them read ahead, whatever Arrow does unless told."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PIECES = {"iter_batches", "read_row_group"}


def read_ahead(source: str) -> list[int]:
    """Return the lines of a module that reads in pieces where a file is opened to be read ahead."""
    nodes = list(ast.walk(ast.parse(source)))
    if not any(isinstance(node, ast.Attribute) and node.attr in PIECES for node in nodes):
        return []
    opened = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func).endswith("ParquetFile")]
    return [n.lineno for n in opened if "pre_buffer=False" not in map(ast.unparse, n.keywords)]


def test_what_is_read_in_pieces_is_not_read_ahead() -> None:
    """Since version 26 Arrow holds all row groups of a file together: the memory of records grew with the people."""
    files = [path for room in ("topdown", "pgsr") for path in (ROOT / room).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): read_ahead(path.read_text()) for path in files}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_file_that_is_read_ahead_is_found() -> None:
    """A look that finds nothing proves nothing."""
    opened = "with pq.ParquetFile(path{}) as file:\n    yield from file.iter_batches(9)\n"
    assert read_ahead(opened.format("")) == [1]
    assert read_ahead(opened.format(", pre_buffer=False")) == []
