"""Planted values of records must turn up in nothing that is written or said, in whatever form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.helpers import attacked
from tests.helpers.attacked import TOY_BLOCKS, body_of, shipped
from tests.helpers.commands import topdown

COUNTS = (654_321, 543_219)  # of two cells; nothing public adds up to them
TEXT = "canary-4f1d9c"
FACTS = {"homes": (9,), "dormitories": (1, 0), "barracks": (1, 0)}


def write_land(folder: Path) -> Path:
    """Write the toy land with planted counts, a planted note in a column nobody reads, and much noise."""
    attacked.write_leaves(folder / "leaves.csv", TOY_BLOCKS, FACTS)
    rows = [
        f"{code},home,{sex},18_64,{40 + i},x"
        for i, code in enumerate(TOY_BLOCKS)
        for sex in ("female", "male")
    ]
    rows += ["111,dormitory,female,18_64,9,x", "111,barracks,male,18_64,9,x"]
    rows += [f"112,home,female,0_17,{COUNTS[0]},{TEXT}", f"121,home,male,65_plus,{COUNTS[1]},{TEXT}"]
    (folder / "plain.csv").write_text("geocode,dwelling,sex,age,count,note\n" + "\n".join(rows) + "\n")
    body = body_of("toy", "1/100000000")
    run = attacked.write_run(folder, "plain", invariants=shipped("invariants", "toy"), body=body)
    text = run.read_text()
    columns = text.split("ignore = [")[1].split("]")[0]
    run.write_text(text.replace(f"ignore = [{columns}]", f'ignore = [{columns}{", " * bool(columns)}"note"]'))
    return run


def forms() -> Iterator[tuple[str, bytes]]:
    """Yield every form that a planted value is looked for in."""
    yield "text", TEXT.encode()
    for count in COUNTS:
        yield "decimal", str(count).encode()
        yield "decimal with commas", f"{count:,}".encode()
        for order in ("little", "big"):
            yield f"{order} endian", count.to_bytes(4, order)


def found(where: str, data: bytes) -> list[str]:
    """Return the planted values in some bytes."""
    return [f"{kind} in {where}" for kind, form in forms() if form in data]


def leaks(folder: Path, records: Path) -> list[str]:
    """Look through every file of a folder but the records and the list of their errors, tables unpacked too."""
    out = []
    private = (records, folder / "PRIVATE-input-errors.csv")  # for the eyes of who keeps the records
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p not in private):
        out += found(str(path), path.read_bytes())
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            rows = json.dumps(table.to_pydict(), default=str).encode()
            raw = b"".join(
                bytes(b) for c in table.columns for k in c.chunks for b in k.buffers() if b is not None
            )
            out += found(f"{path}, unpacked", rows) + found(f"{path}, in memory", raw)
    return out


def test_planted_values_are_nowhere(tmp_path: Path) -> None:
    """A count or a note of somebody in a file, a log or a message would be published with it."""
    run = write_land(tmp_path)
    said = [topdown("ledger", "new", run), topdown("plan", run)]
    log = tmp_path / "log.jsonl"
    options = ("--out", tmp_path / "out", "--yes", "--log-json", log, "--workers", 1)
    said.append(topdown("generate", run, *options))
    said += [
        topdown(name, tmp_path / "out", *more) for name in ("verify", "audit") for more in ((), ("--json",))
    ]
    said.append(topdown("audit", "--ledger", tmp_path / "plain.ledger.jsonl", "--json"))
    assert said[2].code == 0, said[2].err
    assert found("messages", "".join(s.out + s.err for s in said).encode()) == []
    assert leaks(tmp_path, tmp_path / "plain.csv") == []


def test_planted_values_in_wrong_records_are_nowhere(tmp_path: Path) -> None:
    """An error message is where values of records get out most easily."""
    run = write_land(tmp_path)
    topdown("ledger", "new", run)
    records = tmp_path / "plain.csv"
    whole = records.read_text()
    for wrong in (
        whole.replace("112,home,female,0_17", f"112,{TEXT},female,0_17"),
        whole.replace("112,home", f"{TEXT},home"),
        whole.replace(f"{COUNTS[0]},", f"-{COUNTS[0]},"),
        whole.replace(f"{COUNTS[0]},", f"{COUNTS[0]}.5,"),
        whole.replace("112,home,female,0_17", "112,barracks,female,0_17"),
        whole + f"112,home,male,{COUNTS[1]}\n",
    ):
        records.write_text(wrong)
        said = topdown("generate", run, "--out", tmp_path / "out", "--yes", "--json")
        assert said.code == 2, said.err
        assert found("message", (said.out + said.err).encode()) == []
        assert leaks(tmp_path, records) == []


def test_a_leak_is_found(tmp_path: Path) -> None:
    """A search that finds nothing anywhere would show nothing."""
    (tmp_path / "a.txt").write_text(f"n={COUNTS[1]:,}")
    (tmp_path / "b.bin").write_bytes(b"\0" + COUNTS[0].to_bytes(4, "big"))
    pq.write_table(pa.table({"n": [*range(50), COUNTS[0]]}), tmp_path / "c.parquet", compression="zstd")
    places = {line.split(str(tmp_path))[1] for line in leaks(tmp_path, tmp_path / "x")}
    assert places >= {"/a.txt", "/b.bin", "/c.parquet, unpacked", "/c.parquet, in memory"}
