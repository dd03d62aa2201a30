"""Caps: what is as large as allowed is read, one more is refused, and no file is waited for."""

import gzip
import json
import os
import re
import resource
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import Struct

from tests.helpers.policies import exact
from tests.helpers.processes import run_python
from tests.helpers.small_release import make_context
from tests.helpers.solved import toy_run
from topdown.app import (
    BYTES_A_PAIR,
    START_BYTES,
    allowed_bytes,
    check_memory,
    memory_warning,
    needed_bytes,
    tree_fits,
)
from topdown.errors import TopdownError
from topdown.formats import caps, read_toml
from topdown.inputs import TableProblem, read_header
from topdown.model import Attribute, Invariants, Schema
from topdown.plan import Estimates, Pass, load_invariants, load_run_file, load_schema
from topdown.privacy.ledger import Disk
from topdown.solve.tree import most_dense_rows
from topdown.verify import UnreadableError, read_bytes

ROOT = Path(__file__).resolve().parents[3]


class Named(Struct, forbid_unknown_fields=True):
    """A document with one free value."""

    type: str
    version: int
    value: Any


def toml(folder: Path, value: str) -> Path:
    """Write a document with one value."""
    path = folder / "named.toml"
    path.write_text(f'type = "named"\nversion = 1\nvalue = {value}\n')
    return path


def code(work, *arguments) -> str:
    """Return the code of the error that a call ends with, "" if it ends well."""
    try:
        work(*arguments)
    except TopdownError as error:
        return error.code
    return ""


@pytest.mark.parametrize(
    ("value", "past"),
    [
        ('"' + "x" * caps.TEXT + '"', '"' + "x" * (caps.TEXT + 1) + '"'),
        ("{ " + "x" * caps.TEXT + " = 1 }", "{ " + "x" * (caps.TEXT + 1) + " = 1 }"),
        ("[" * (caps.NESTING - 1) + "]" * (caps.NESTING - 1), "[" * caps.NESTING + "1" + "]" * caps.NESTING),
        ("1", "[" * 5000 + "]" * 5000),
        ("1", "{a" + ".a" * 50_000 + " = 1}"),
        ("1", "9" * 5000),
    ],
)
def test_a_document_has_an_end(value, past, tmp_path):
    """Brackets without end exhaust the stack, texts without end fill screens and file names."""
    assert code(read_toml, toml(tmp_path, value), Named, "named") == ""
    assert code(read_toml, toml(tmp_path, past), Named, "named") == "C140"


def test_a_file_has_an_end(tmp_path):
    """A run file of any size would be held in memory twice before anybody looks at it."""
    path = tmp_path / "x"
    path.write_bytes(b"x" * 100)
    assert len(caps.read_plain(path, 100)) == 100
    with pytest.raises(caps.TooMuchError, match="more than 99 bytes"):
        caps.read_plain(path, 99)


def test_json_has_an_end():
    """A plan of brackets would end a run with the interpreter's own error."""
    assert caps.parse_json("[" * caps.NESTING + "]" * caps.NESTING)
    for deep in (caps.NESTING + 1, 100_000):
        with pytest.raises(caps.TooMuchError):
            caps.parse_json("[" * deep + "1" + "]" * deep)


@pytest.mark.parametrize("what", ["fifo", "folder", "/dev/zero", "/dev/full"])
def test_only_plain_files_are_read(what, tmp_path):
    """A pipe nobody writes to hangs a run; a device feeds it for ever."""
    path = tmp_path / "odd" if not what.startswith("/") else Path(what)
    if what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    for read in (caps.read_plain, Disk().read, Disk().lock):
        with pytest.raises(OSError, match=r"plain|directory|Permission|Operation"):
            read(path)
    assert code(read_toml, path, Named, "named") == "C002"


def test_a_packed_table_has_an_end(tmp_path, monkeypatch):
    """19 MB of gzip hold 19 GB of blank lines: they must end a run at once, whatever they hold."""
    path = tmp_path / "t.csv.gz"
    text = b"geocode,count\n" + b"1,1\n" * 1000
    path.write_bytes(gzip.compress(text))
    monkeypatch.setenv(caps.TABLE_VARIABLE, str(len(text)))
    assert read_header(path) == ["geocode", "count"]
    monkeypatch.setenv(caps.TABLE_VARIABLE, str(len(text) - 1))
    with pytest.raises(TableProblem, match="too large"):
        read_header(path)


def test_a_parquet_table_has_an_end(tmp_path, monkeypatch):
    """A value repeated a billion times takes a few bytes in Parquet."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1] * 100, "b": ["x"] * 100}), path)
    monkeypatch.setenv(caps.TABLE_VARIABLE, "1600")
    assert read_header(path) == ["a", "b"]
    monkeypatch.setenv(caps.TABLE_VARIABLE, "1599")
    with pytest.raises(TableProblem, match="too large"):
        read_header(path)


@pytest.mark.parametrize("value", ["1e9", "-1", "0", "1 GB", "٣", "9" * 19])
def test_the_variable_is_a_number(value, monkeypatch):
    """A cap that cannot be read must not count as none."""
    monkeypatch.setenv(caps.TABLE_VARIABLE, value)
    assert code(caps.table_bytes) == "C143"


def schema_of(*lengths: int) -> Schema:
    """Return a schema with attributes of so many values."""
    attributes = tuple(Attribute(f"a{i}", tuple(f"v{j}" for j in range(n))) for i, n in enumerate(lengths))
    return Schema("many", "Many", "person", attributes)


def test_a_schema_has_an_end():
    """Cells beyond the cap must be counted from labels alone: arrays of them would fill the memory first."""
    many = caps.CELLS // 1024
    assert schema_of(1024, many).n_cells == caps.CELLS
    assert code(schema_of, 1024, many + 1) == "C023"
    assert code(schema_of, *[200] * 30) == "C023"


def test_a_plan_fits_the_memory(tmp_path):
    """200,000 cells ended a run in the solver after the budget was spent: cells squared is counted before."""
    plan = make_context(tmp_path).plan
    needed = needed_bytes(plan)
    assert needed >= START_BYTES + BYTES_A_PAIR * plan.schema.n_cells**2
    assert code(check_memory, plan, needed - needed // 2) == ""
    assert code(check_memory, plan, needed // 2 - 1) == "C141"
    assert memory_warning(plan, needed) == []
    (warning,) = memory_warning(plan, needed - 1)
    assert warning.code == "C141"
    many = replace(plan, schema=schema_of(500, 400))
    assert needed_bytes(many) > 2e12
    assert code(check_memory, many, int(1e12)) == "C141"


def test_a_plain_wide_plan_needs_no_squares(tmp_path):
    """A country of 9,600 cells was said to need six gigabytes where one is used; a small machine would be refused."""
    plan = make_context(tmp_path).plan
    plain = replace(plan, schema=schema_of(120, 80), invariants=Invariants("none", "none", "many"))
    queries = ("total", "a0", "a1", "detailed")
    passes = (Pass(table="total", queries=("total",)), Pass(table="detailed", queries=queries))
    plain = replace(plain, levels=tuple(replace(level, passes=passes) for level in plan.levels))
    assert most_dense_rows(plain) == 4 * (1 + 120 + 80 + 1)
    assert needed_bytes(plain) < 2 * START_BYTES  # 808 rows, squared, are 34 MB
    unmeasured = tuple(replace(level, measurements=()) for level in plain.levels)
    fitted = replace(plain, levels=unmeasured, estimates=Estimates("tree", None))
    assert most_dense_rows(fitted) == 1414  # matrices are written out up to 2,000,000 entries
    crossed = (Pass(table="total", queries=("total", "a0")), Pass(table="detailed", queries=queries))
    for other in (
        replace(plain, levels=tuple(replace(level, passes=crossed) for level in plan.levels)),
        replace(plain, levels=tuple(replace(level, passes=passes[1:] * 2) for level in plan.levels)),
        replace(plain, invariants=replace(plain.invariants, at_least=plan.invariants.at_least)),
    ):
        assert most_dense_rows(other) == 120 * 80


def test_drafts_are_fitted_to_the_tree_where_memory_allows():
    """A draft that needs many times the memory of the plain way ends a run on a machine that had room for it."""
    small = schema_of(12, 8)
    numbers = 1 + 12 + 8 + 12 * 8
    # Areas of which 2.4 bytes a number take, with what a run needs at all, twice as much as 0.6.
    most = int(START_BYTES / 1.2 / numbers)
    assert (tree_fits(small, 0), tree_fits(small, most), tree_fits(small, most + 1)) == (True, True, False)
    assert tree_fits(schema_of(120, 80), 10 * most)  # wide schemas take the same memory both ways


def test_the_limit_of_a_process_counts():
    """A memory limit of the shell ends a run as surely as the machine's own."""
    script = "from topdown.app.resource_needs import allowed_bytes; print(allowed_bytes())"
    limit = 3_000_000_000
    assert allowed_bytes() > 0
    limited = partial(resource.setrlimit, resource.RLIMIT_AS, (limit, limit))
    assert int(run_python("-c", script, preexec_fn=limited, cwd=ROOT).stdout) <= limit


@pytest.mark.parametrize("limit", [100_000_000, 400_000_000])
def test_too_little_memory_for_the_libraries_is_named_at_once(limit):
    """OpenBLAS ended the process without a word of ours under 100 MB, and asked for memory without an end under 400."""
    limited = partial(resource.setrlimit, resource.RLIMIT_AS, (limit, limit))
    refused, explained = (
        run_python("-m", "topdown.cli", *words, ok=False, preexec_fn=limited, cwd=ROOT, timeout=240)
        for words in (("plan", "run.toml", "--json"), ("explain", "X131"))
    )
    assert (refused.returncode, json.loads(refused.stdout)["code"]) == (4, "X131")
    assert "OpenBLAS" not in refused.stderr
    assert (explained.returncode, "ulimit -v" in explained.stdout) == (0, True)


def test_a_small_file_takes_little_memory_under_a_large_cap(tmp_path):
    """Room for all that a cap allows, taken at once, ended runs under a limit of the shell with a traceback."""
    content = b"0123456789" * 150_000
    (tmp_path / "plan.json").write_bytes(content)
    for read in (
        lambda most: caps.read_plain(tmp_path / "plan.json", most),
        lambda most: read_bytes(tmp_path, "plan.json", "V001", most),
    ):
        tracemalloc.start()
        assert read(caps.PLAN_BYTES) == content
        assert tracemalloc.get_traced_memory()[1] < 4 * len(content)
        tracemalloc.stop()
        assert read(len(content)) == content
        with pytest.raises((caps.TooMuchError, UnreadableError), match="more than 1,499,999 bytes"):
            read(len(content) - 1)


def test_the_page_lists_every_cap():
    """A cap that is written nowhere is found by the person whose run it stops."""
    page = (ROOT / "docs" / "format.md").read_text()
    named = set(
        re.findall(r"^([A-Z]\w+) = ", (ROOT / "topdown" / "formats" / "caps.py").read_text(), re.MULTILINE)
    )
    listed = set(re.findall(r"`caps\.([A-Z_]+)`", page))
    assert named - {"TABLE_VARIABLE", "RAISE_TABLE"} == listed
    assert caps.TABLE_VARIABLE in page
    for name in listed:
        assert re.search(rf"\| {getattr(caps, name):,} \|.*`caps\.{name}`", page), name


@pytest.mark.parametrize(
    ("n", "kind"), [(caps.ATTRIBUTES, "schema"), (caps.LEVELS, "run"), (caps.EXACT_STATISTICS, "invariants")]
)
def test_many_parts_of_a_plan_are_refused_at_once(tmp_path, n, kind):
    """Twenty thousand attributes took a minute, three hundred levels as long, a thousand exact statistics 200 s."""
    path = tmp_path / "many.toml"

    def written(n: int) -> Path:
        if kind == "schema":
            attributes = "".join(f'[[attribute]]\nname = "a{i}"\nlabels = ["x"]\n' for i in range(n))
            path.write_text(
                f'type = "topdown.schema"\nversion = 1\nname = "s"\ntitle = "S"\nunit = "person"\n'
                f'source = "made up"\n{attributes}'
            )
        elif kind == "run":
            text = toy_run().replace('["land", "county", "block"]', str([f"l{i}" for i in range(n)]))
            path.write_text(re.sub("prefix_lengths = .*", f"prefix_lengths = {list(range(n))}", text))
        else:
            head = (ROOT / "invariants" / "toy.toml").read_text()
            head = head[: head.index("[[exact]]")]
            path.write_text(head + "".join(exact(f"e{i}", "land", "total") for i in range(n)))
        return path

    load = {
        "schema": load_schema,
        "run": load_run_file,
        "invariants": lambda path: load_invariants(path, load_schema(ROOT / "schemas" / "toy.toml")),
    }[kind]
    past = {"schema": "C281", "run": "C282", "invariants": "C283"}[kind]
    assert code(load, written(n)) != past
    assert code(load, written(n + 1)) == past
