"""Wrong inputs, each a case of data: refused with one error, in time, and without a trace.

A file `*.toml` here holds groups of cases. A group says which command runs on which valid input, what attack it stands
for, and what must come of it; a case is one edit of that input (see README.md). A case that is accepted, crashes, is
charged, changes an input, writes elsewhere or shows a value of a record is a fault.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from pgsr.cli import main as pgsr_main
from tests.cli.conftest import write_toy
from topdown.cli import main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SECONDS = 20
PRIVATE = "PRIVATE-input-errors.csv"
KINDS: dict[str, pa.DataType] = {
    "bool": pa.bool_(), "date32": pa.date32(), "float16": pa.float16(), "float32": pa.float32(),
    "float64": pa.float64(), "binary": pa.binary(), "list": pa.list_(pa.int64()), "int64": pa.int64(),
    "struct": pa.struct([("a", pa.int64())]), "null": pa.null(), "timestamp": pa.timestamp("s"),
    "duration": pa.duration("s"), "decimal": pa.decimal128(20, 0), "uint64": pa.uint64(),
}  # fmt: skip
VALUES: dict[str, Any] = {"bool": True, "binary": b"1", "list": [1], "struct": {"a": 1}, "null": None}
GROUPS = "region,size,count\nA,1,3\nA,2,2\nB,1,4\n"
HIERARCHY = "region,parent,level\nT,,top\nA,T,leaf\nB,T,leaf\n"
PGSR_RUN = """\
groups = "groups.csv"
hierarchy = "hierarchy.csv"
sizes = 5
epsilon = "1/2"
data_set = "groups"
public = "public.csv"
out = "out"
"""


def cases() -> list[Any]:
    """Return every case with its group's words, in the order of the files."""
    found = []
    for path in sorted(HERE.glob("*.toml")):
        for group in tomllib.loads(path.read_text(encoding="utf-8"))["group"]:
            edits = group.pop("edits")
            for number, edit in enumerate(_expand(edits)):
                case = group | {"edit": edit[1:], "code": group["code"]}
                if (
                    isinstance(edit[0], str) and "=" in edit[0]
                ):  # "id=CODE" where the group's code is not the case's
                    name, case["code"] = edit[0].split("=")
                else:
                    name = edit[0]
                slow = [pytest.mark.slow] if group.get("slow") else []
                found.append(
                    pytest.param(case, id=f"{path.stem}-{group['name']}-{number}-{name}", marks=slow)
                )
    return found


def _expand(edits: list[list[Any]]) -> list[list[Any]]:
    """Write out edits whose last value is a table { each = [...] }: one case a value."""
    out = []
    for edit in edits:
        last = edit[-1]
        if isinstance(last, dict):
            out += [[f"{edit[0]} {i}" if "=" not in edit[0] else edit[0], *edit[1:-1], value]
                    for i, value in enumerate(last["each"])]  # fmt: skip
        else:
            out.append(edit)
    return out


@pytest.fixture(scope="session")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the valid inputs once: a toy census with files of its own, and groups."""
    folder = tmp_path_factory.mktemp("valid")
    run = write_toy(folder / "census")
    for kind, name in (("schemas", "schema"), ("invariants", "invariants"), ("settings", "settings")):
        shutil.copyfile(ROOT / kind / "toy.toml", run.parent / f"{name}.toml")
    text = run.read_text().replace('schema = "toy"', 'schema = "schema.toml"')
    run.write_text(text.replace('invariants = "toy"', 'invariants = "invariants.toml"'))
    groups = folder / "groups"
    groups.mkdir()
    (groups / "groups.csv").write_text(GROUPS)
    (groups / "hierarchy.csv").write_text(HIERARCHY)
    (groups / "public.csv").write_text("region,groups\nT,9\n")
    (groups / "run.toml").write_text(PGSR_RUN)
    assert pgsr_main(["ledger", "new", str(groups / "run.toml"), "--quiet"]) == 0
    return folder


@pytest.mark.parametrize("case", cases())
def test_wrong_input_is_refused_without_a_trace(case, valid, tmp_path, monkeypatch, capsys):
    """What the group's `attack` says: a wrong result without a word, lost data, a charge for nothing."""
    home = tmp_path / "home"
    shutil.copytree(valid / ("groups" if case["program"] == "pgsr" else "census"), home)
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(home)
    for name, old, new in case.get("prepare", ()):
        _edit(home / name, ["replace", old, new])
    _edit(home / case["file"], case["edit"])
    before = _snapshot(tmp_path)
    capsys.readouterr()
    started = time.monotonic()
    program = pgsr_main if case["program"] == "pgsr" else main
    arguments = [str(a).replace("EDIT", str(case["edit"][-1])) for a in case["run"]]
    code = program([*arguments, "--json"])
    seconds = time.monotonic() - started
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    document = json.loads(said.out)
    assert (case["code"], case.get("exit", 2)) == (document["code"], code), document
    assert document["type"] == "topdown.error"
    assert document["fix"]
    assert document["file"] or document["key"] or any(name in document["text"] for name in _places(case))
    assert len(said.out) + len(said.err) < 6000
    for secret in case.get("secrets", ()):
        assert secret not in said.out + said.err
    after = _snapshot(tmp_path)
    private = {name for name in after if name.endswith("/" + PRIVATE)}
    assert before == {name: seen for name, seen in after.items() if name not in private}
    assert case.get("private", True) or not private
    assert not any(b'"kind":"intent"' in p.read_bytes() for p in home.rglob("*.jsonl") if p.is_file())
    assert seconds < SECONDS


def test_there_are_enough_cases():
    """A file of cases that is not read any more would go unnoticed."""
    assert len(cases()) >= 300


def test_the_valid_input_is_accepted(valid, tmp_path, monkeypatch, capsys):
    """Cases that are refused for another reason than their edit would test nothing."""
    for name in ("census", "groups"):
        shutil.copytree(valid / name, tmp_path / name)
    monkeypatch.chdir(tmp_path / "census")
    assert main(["plan", "run.toml", "--quiet"]) == 0
    assert main(["generate", "run.toml", "--out", "out", "--yes", "--quiet", "--workers", "1"]) == 0
    monkeypatch.chdir(tmp_path / "groups")
    assert pgsr_main(["release", "run.toml", "--quiet"]) == 0
    capsys.readouterr()


def _places(case: dict[str, Any]) -> tuple[str, ...]:
    return (case["file"], "column", "level", "query", "option", "--", *case.get("places", ()))


def _snapshot(folder: Path) -> dict[str, str]:
    """Return what every name below a folder is: a link, a folder, or the hash of a file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            seen = f"link {path.readlink()}"
        elif path.is_file():
            seen = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            seen = "folder"
        found[str(path.relative_to(folder))] = seen
    return found


def _edit(path: Path, edit: list[Any]) -> None:
    """Make one edit of a valid file."""
    how, *values = edit
    if how == "none":
        return
    if how == "replace":
        old, new = values
        text = path.read_text(encoding="utf-8")
        assert old in text, f"the case no longer fits {path.name}"
        path.write_text(text.replace(old, new, 1), encoding="utf-8", newline="")
    elif how == "cell":
        row, column, value = values
        lines = [line.split(",") for line in path.read_text().splitlines()]
        lines[row][lines[0].index(column)] = value
        path.write_text("".join(",".join(line) + "\n" for line in lines), encoding="utf-8", newline="")
    elif how == "header":
        column, name = values
        head, rest = path.read_text().split("\n", 1)
        names = [name if one == column else one for one in head.split(",")]
        path.write_text(",".join(names) + "\n" + rest, encoding="utf-8", newline="")
    elif how == "column":
        (name,) = values
        head, *rows = path.read_text().splitlines()
        path.write_text("\n".join([f"{head},{name}", *(f"{row},1" for row in rows)]) + "\n", newline="")
    elif how == "append":
        path.write_text(path.read_text() + values[0], encoding="utf-8", newline="")
    elif how == "write":
        path.write_text(values[0], encoding="utf-8", newline="")
    elif how == "bytes":
        path.write_bytes(bytes.fromhex(values[0]))
    elif how == "remove":
        path.unlink()
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "fifo":
        path.unlink()
        os.mkfifo(path)
    elif how == "link":
        path.unlink(missing_ok=True)
        path.symlink_to(values[0])
    elif how == "parquet":
        _parquet(path, *values)
    else:
        raise AssertionError(how)


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
