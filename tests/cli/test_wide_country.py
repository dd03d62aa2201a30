"""The made-up country of 425,000 people and 9,600 cells, from its tables to a verified release, within its bars."""

from pathlib import Path

import pytest

from tests.helpers.country import LEVELS, write_country
from tests.helpers.used import used

SECONDS, BYTES = 60, 2**30  # of CPU, and of memory: one GiB


@pytest.mark.slow
def test_a_country_of_9600_cells_takes_a_minute_and_a_gigabyte(tmp_path: Path) -> None:
    """Work that grows with the square of the cells makes an office with ages in single years wait for an hour."""
    write_country(tmp_path, 425_000, 900)
    tables = ("--records", "people.csv", "--leaves", "places.csv", "--no-count")
    used(tmp_path, "init", "--codes", "codes.csv", "--levels", ",".join(LEVELS), *tables, "--out", "run.toml")
    seconds, memory = used(tmp_path, "generate", "run.toml", "--out", "release", "--yes", "--workers", "1")
    assert seconds <= SECONDS
    assert memory <= BYTES
    used(tmp_path, "verify", "release")
