"""What a release must not hold beside its own files, although manifest and certificate are redone."""

import msgspec
import pyarrow.parquet as pq
import pytest

from tests.helpers.small_release import Small
from tests.helpers.tampered import attack
from topdown.formats import InvariantRules
from topdown.verify import Rules, VerifyResult, load_plan

PERSONS = "microdata/persons.parquet"
TABLES = (PERSONS, "public/leaves.parquet", "tables/total/land.parquet", "measurements/land/part-000.parquet")


def found(result: VerifyResult) -> set[str]:
    """Return the codes of all findings that do not only follow from others."""
    return {f.code for check in result.checks for f in check.findings} - {"V150", "V141"}


@pytest.mark.parametrize("path", TABLES)
def test_text_in_a_table_is_found(copy: Small, path: str) -> None:
    """Free text among a table's stamps would be published unread."""
    file = copy.folder / path
    table, stamps = pq.read_table(file), pq.ParquetFile(file).metadata.metadata
    for more in ({b"note": b"anything"}, {b"ARROW:note": b""}, {}):
        with pq.ParquetWriter(
            file, table.schema.remove_metadata(), compression="zstd", store_schema=False
        ) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({**stamps, **more})
        texts = [f.text for check in attack(copy).checks for f in check.findings]
        assert any("carries a stamp" in text for text in texts) == bool(more)


@pytest.mark.parametrize("path", TABLES)
@pytest.mark.parametrize("place", ["before the footer", "between pages"])
def test_bytes_no_reader_reads_are_found(copy: Small, path: str, place: str) -> None:
    """A Parquet file has room for bytes that nothing points at."""
    file = copy.folder / path
    data = file.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if place == "before the footer":
        file.write_bytes(data[:footer] + b"anything" + data[footer:])
    else:  # the pages written once more, by a table that begins after them
        file.write_bytes(data[:footer] + data[4:footer] + data[footer:])
    assert found(attack(copy)) & {"V015", "V030", "V100", "V102", "V109"}


def test_a_kind_of_invariant_that_is_not_checked_is_no_plan(sound: Small) -> None:
    """A kind that model and plan had learned was passed over: verify held the release to nothing, and said 15 of 15."""
    ratio = ("ratio", list[str] | msgspec.UnsetType, msgspec.UNSET)
    learned = msgspec.defstruct("Learned", [ratio], bases=(InvariantRules,), frozen=True, kw_only=True)
    stated = msgspec.structs.asdict(load_plan(sound.folder).doc.invariants)
    with pytest.raises(ValueError, match="'ratio', which is not checked"):
        Rules.of_plan(learned(**stated))
