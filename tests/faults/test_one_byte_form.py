"""Every file has one form for its content: what is hidden in another one is found, though all hashes are redone."""

import gzip
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.helpers.sealed_flips import Sealer
from tests.helpers.small_release import Small
from topdown.formats import TABLE_OPTIONS
from topdown.verify import verify, verify_content

PERSONS, TABLE, PART = (
    "microdata/persons.parquet",
    "tables/total/land.parquet",
    "measurements/land/part-000.parquet",
)
TABLES = (PERSONS, TABLE, PART, "public/geography.parquet", "public/leaves.parquet")
DOCUMENTS = ("plan.json", "solve.json", "certificate.json", "measurements/exact.json")
CSV = "microdata/persons.csv.gz"
HARDER = {"level": 9, "geocode": 9, "count": 9}
"""Levels of compression by column: answers of measurements are not compressed at all."""


def found_after(folder: Path, path: str, data: bytes) -> set[str]:
    """Write other bytes into a file, redo every hash, and return the codes of all findings."""
    sealer = Sealer(folder)
    assert (folder / path).read_bytes() != data
    (folder / path).write_bytes(data)
    if path != "manifest.json":
        sealer.seal(folder)
    return {finding.code for check in verify(folder).checks for finding in check.findings}


def written(path: Path, table: pa.Table | None = None, rows: int | None = None, **options: object) -> bytes:
    """Return a Parquet file with the same rows, written in another way."""
    stamps, sink = pq.read_metadata(path).metadata, pa.BufferOutputStream()
    kind = stamps[b"type"].decode()
    table = plain(path) if table is None else table
    with pq.ParquetWriter(sink, table.schema, **(TABLE_OPTIONS[kind] | options)) as writer:
        writer.write_table(table, row_group_size=rows)
        writer.add_key_value_metadata(dict(sorted(stamps.items())))
    return sink.getvalue().to_pybytes()


def plain(path: Path) -> pa.Table:
    """Return the rows of a Parquet file without what else Arrow says of them."""
    return pq.read_table(path).replace_schema_metadata(None)


def with_values(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return a table with other values in a column, declared as it was."""
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place).with_type(values.type), values)


def test_the_form_is_that_of_the_writer(copy: Small) -> None:
    """If this test's own writer gave other bytes for an untouched table, the tests below would show nothing."""
    for path in TABLES:
        assert written(copy.folder / path) == (copy.folder / path).read_bytes(), path


def by_another_version(data: bytes) -> bytes:
    """Return a Parquet file that says that another version of Arrow wrote it."""
    mine, other = f"arrow version {pa.cpp_version}".encode(), f"arrow version {pa.cpp_version}".encode()
    other = other[:-1] + (b"8" if other[-1:] != b"8" else b"9")
    assert data.count(mine) == 1
    return data.replace(mine, other)


@pytest.mark.parametrize("path", TABLES)
def test_a_table_of_another_version_is_taken_if_it_says_the_same(copy: Small, path: str) -> None:
    """Who updates Arrow between measuring and publishing, or extends an older release, must not lose it."""
    data = by_another_version((copy.folder / path).read_bytes())
    assert "V200" not in found_after(copy.folder, path, data)


@pytest.mark.parametrize("path", TABLES)
@pytest.mark.parametrize("place", ["page", "checksum", "before the footer", "footer"])
def test_a_table_of_another_version_has_no_room_either(copy: Small, path: str, place: str) -> None:
    """Whoever names another version is not compared byte for byte; frames, checksums and gaps are looked at."""
    data = by_another_version((copy.folder / path).read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    at = data.index(b"\x28\xb5\x2f\xfd")
    skipped = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"Ann"
    other = {
        "page": data[:at] + skipped + data[at:],
        "checksum": data[: at - 3] + bytes([data[at - 3] ^ 1]) + data[at - 2 :],
        "before the footer": data[:footer] + b"Ann" + data[footer:],
        "footer": data[:-9]
        + b"\x18\x03Ann\0"
        + (len(data) - 8 - footer + 5).to_bytes(4, "little")
        + data[-4:],
    }[place]
    assert found_after(copy.folder, path, other) & {"V200", "V100", "V015", "V030", "V031", "V109"}


@pytest.mark.parametrize("version", ["this", "another"])
@pytest.mark.parametrize("path", TABLES[:4])
def test_clear_text_in_an_unused_dictionary_entry_is_found(copy: Small, path: str, version: str) -> None:
    """Readers show rows; a dictionary entry that no row names is published all the same."""
    table = plain(copy.folder / path)
    name = "level" if "level" in table.column_names else "geocode"
    text = table.column(name).combine_chunks().dictionary_encode()
    more = pa.concat_arrays([text.dictionary, pa.array(["Ann Smith, born 1980, was counted here"])])
    hidden = with_values(table, name, pa.DictionaryArray.from_arrays(text.indices, more))
    data = written(copy.folder / path, hidden)
    assert b"Ann Smith" in data or path != PERSONS
    data = data if version == "this" else by_another_version(data)
    assert found_after(copy.folder, path, data) & {"V200", "V100", "V015", "V030", "V109"}


@pytest.mark.parametrize("version", ["this", "another"])
@pytest.mark.parametrize("path", [PERSONS, TABLE])
def test_false_statistics_of_a_row_group_are_found(copy: Small, path: str, version: str) -> None:
    """A reader that filters skips a row group whose statistics say it has no such row: it would see other rows."""
    data = (copy.folder / path).read_bytes()
    most = (
        pq.read_metadata(copy.folder / path)
        .row_group(0)
        .column(pq.read_schema(copy.folder / path).get_field_index("count"))
    )
    true = struct.pack("<q", most.statistics.max)
    at = data.rindex(true)
    false = data[:at] + struct.pack("<q", most.statistics.max + 1) + data[at + 8 :]
    table = pq.read_table(pa.BufferReader(false))
    assert table.equals(pq.read_table(copy.folder / path))
    false = false if version == "this" else by_another_version(false)
    assert "V200" in found_after(copy.folder, path, false)


@pytest.mark.parametrize("path", TABLES)
@pytest.mark.parametrize(
    "other",
    [
        {"compression_level": HARDER},
        {"rows": 1},
        {"write_page_checksum": False},
        {"compression": "none"},
        {"version": "1.0"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_equal_rows_written_in_another_way_are_found(
    copy: Small, path: str, other: dict[str, object]
) -> None:
    """Whoever may choose how rows are written can say something with each choice."""
    data = written(copy.folder / path, **other)
    if data == (copy.folder / path).read_bytes():
        pytest.skip("a table of few rows has the same bytes")
    assert pq.read_table(pa.BufferReader(data)).equals(pq.read_table(copy.folder / path))
    assert found_after(copy.folder, path, data) & {"V200", "V100", "V015", "V030", "V031", "V109"}


@pytest.mark.parametrize("path", [PERSONS, TABLE, PART])
def test_only_files_that_have_the_hash_of_what_was_written_are_not_written_again(
    copy: Small, path: str
) -> None:
    """Publishing must not take a file that changed since this process wrote it for its own, nor skip its values."""
    file = copy.folder / path
    mine = {path: hashlib.sha256(file.read_bytes()).hexdigest()}
    file.write_bytes(written(file, compression_level=HARDER, write_page_checksum=False))
    changed = {path: hashlib.sha256(file.read_bytes()).hexdigest()}

    def codes(known: dict[str, str]) -> set[str]:
        checks = verify_content(copy.folder, written=known).result.checks
        return {f.code for check in checks for f in check.findings}

    assert "V200" in codes({})
    assert "V200" in codes(mine)
    assert "V200" not in codes(changed)
    rows = plain(file)
    name = "variance_numerator" if path == PART else "count"
    more = pc.add(rows[name], 1)
    file.write_bytes(written(file, with_values(rows, name, more)))
    found = codes({path: hashlib.sha256(file.read_bytes()).hexdigest()})
    assert found & ({"V033"} if path == PART else {"V108"}), found
    if path == PART:
        fewer = pa.array(
            [answers[:-1] for answers in rows["answers"].to_pylist()], rows.schema.field("answers").type
        )
        file.write_bytes(written(file, with_values(rows, "answers", fewer)))
        assert "V032" in codes({path: hashlib.sha256(file.read_bytes()).hexdigest()})


GZIP = {
    "comment": lambda data: data[:3] + b"\x10" + data[4:10] + b"Ann was counted\0" + data[10:],
    "name": lambda data: data[:3] + b"\x08" + data[4:10] + b"Ann\0" + data[10:],
    "extra": lambda data: data[:3] + b"\x04" + data[4:10] + b"\x03\0Ann" + data[10:],
    "time": lambda data: data[:4] + b"\x01" + data[5:],
    "system": lambda data: data[:9] + b"\x03" + data[10:],
    "second member": lambda data: data + gzip.compress(b"", mtime=0),
    "zeros after it": lambda data: data + bytes(8),
    "checksum": lambda data: data[:-8] + bytes(4) + data[-4:],
}


@pytest.mark.parametrize("how", GZIP)
def test_what_a_gzip_file_says_beside_its_rows_is_found(copy: Small, how: str) -> None:
    """A comment in the header is printed by no reader of CSV, and published all the same."""
    data = GZIP[how]((copy.folder / CSV).read_bytes())
    assert found_after(copy.folder, CSV, data) & {"V202", "V108"}


def _reordered(document: dict[str, object]) -> bytes:
    return _text(dict(reversed(document.items())), sort_keys=False)


def _text(
    document: object, *, sort_keys: bool = True, indent: int | None = 2, ascii_only: bool = False
) -> bytes:
    text = json.dumps(document, sort_keys=sort_keys, indent=indent, ensure_ascii=ascii_only)
    return (text + "\n").encode()


SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "order of keys": lambda data: _reordered(json.loads(data)),
    "no spaces": lambda data: _text(json.loads(data), indent=None),
    "line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "no last line end": lambda data: data[:-1],
    "escaped letter": lambda data: data.replace(b'"topdown', b'"\\u0074opdown', 1),
    "a key twice": lambda data: data.replace(b"{", b'{\n  "type": "x",', 1),
    "an unknown key": lambda data: _text(json.loads(data) | {"remark": "Ann was counted"}),
    "a number": lambda data: data.replace(b'"version": 1', b'"version": 1.0').replace(
        b'"version": 2', b'"version": 2.0'
    ),
}


@pytest.mark.parametrize("path", [*DOCUMENTS, "manifest.json"])
@pytest.mark.parametrize("how", SPELLINGS)
def test_another_spelling_of_a_document_is_found(copy: Small, path: str, how: str) -> None:
    """White space, order, escapes and keys that nobody reads are room for a message under every hash."""
    assert found_after(copy.folder, path, SPELLINGS[how]((copy.folder / path).read_bytes()))


@pytest.mark.parametrize("number", ["1.0e0", "1.00", "10e-1", "1"])
def test_another_spelling_of_a_number_is_found(copy: Small, number: str) -> None:
    """The number 1.0 can be written in many ways, each of which could mean something."""
    data = (copy.folder / "solve.json").read_bytes()
    true = b'"target_kkt_residual_persons": 1e-06'
    assert true in data
    other = data.replace(true, b'"target_kkt_residual_persons": 1.0')
    assert found_after(copy.folder, "solve.json", other) <= {"V203"}  # the report quotes it
    assert "V201" in found_after(copy.folder, "solve.json", other.replace(b"1.0", number.encode(), 1))


@pytest.mark.parametrize("path", ["selection.json", "result.json", "certificate.json", "manifest.json"])
@pytest.mark.parametrize("how", SPELLINGS)
def test_another_spelling_of_a_choice_is_found(choice: Path, path: str, how: str) -> None:
    """A choice is held to the same bytes as a release."""
    assert found_after(choice, path, SPELLINGS[how]((choice / path).read_bytes()))


def test_a_choice_with_a_false_plan_hash_is_found(choice: Path) -> None:
    """The manifest says which question it seals; another hash passed."""
    data = (choice / "manifest.json").read_bytes()
    true = json.loads(data)["plan_hash"].encode()
    assert found_after(choice, "manifest.json", data.replace(true, b"0" * 64)) == {"V005"}


@pytest.mark.parametrize("path", ["Ann", "choice/Ann", "public/Ann/Smith"])
def test_empty_folders_in_a_choice_are_found(choice: Path, path: str) -> None:
    """The name of a folder is a message too."""
    (choice / path).mkdir(parents=True)
    assert {"V003"} == {f.code for f in verify(choice).check("manifest").findings}


COVERAGE = {
    "quotes": lambda data: data.replace(b"North", b'"North"', 1),
    "line ends": lambda data: data.replace(b"\n", b"\r\n"),
    "order": lambda data: b"".join(
        [data.splitlines(keepends=True)[0], *reversed(data.splitlines(keepends=True)[1:])]
    ),
    "a row twice": lambda data: data + data.splitlines(keepends=True)[-1],
}


@pytest.mark.parametrize("how", COVERAGE)
def test_coverage_has_one_spelling(choice: Path, how: str) -> None:
    """A table with the same pairs in other bytes could carry a message, though its hash is in the question."""
    data = (choice / "public/coverage.csv").read_bytes()
    assert "V201" in found_after(choice, "public/coverage.csv", COVERAGE[how](data))
