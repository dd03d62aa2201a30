"""Somebody changes a release and rewrites its manifest: the check that knows better fails."""

import gzip
import io
import json
import shutil
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.small_release import (
    Small,
    canonical,
    edit_json,
    half,
    ledger_events,
    rewrite_table,
    seal,
    write_solve,
)
from tests.helpers.tampered import PERSONS, Rows, attack, codes, edit_rows, failed, rewrite_ledger


def test_sound_copy_passes(copy: Small) -> None:
    """If an untouched copy failed, every test below would pass for the wrong reason."""
    assert attack(copy).ok


def put(rows: Rows, **where: str) -> None:
    """Put one person somewhere, keeping the order by geocode."""
    rows.append({"count": 1, **where})
    rows.sort(key=lambda r: r["geocode"])


def leave_out(rows: Rows, **where: str | int) -> None:
    """Leave out rows with these values."""
    rows[:] = [row for row in rows if any(row[name] != value for name, value in where.items())]


COUNTY, BLOCKS = "measurements/county/part-000.parquet", "tables/total/block.parquet"
CHILD = {"geocode": "012", "dwelling": "barracks", "sex": "female", "age": "0_17"}
NO_HOME = {"geocode": "021", "dwelling": "home", "sex": "female", "age": "18_64"}
ROWS: dict[str, tuple[str, Callable[[Rows], object], str, str]] = {
    "a row given twice": (PERSONS, lambda rows: rows.insert(2, dict(rows[2])), "whole numbers", "V103 4"),
    "a row that counts nobody": (PERSONS, lambda rows: rows[0].update(count=0), "whole numbers", "V101"),
    "a row of minus one": (PERSONS, lambda rows: rows[0].update(count=-1), "whole numbers", "V101"),
    "a count far below zero": (
        PERSONS, lambda rows: rows[0].update(count=-(2**62)), "whole numbers", "V101,V110"
    ),
    "an unknown area": (PERSONS, lambda rows: rows[0].update(geocode="999"), "whole numbers", "V102"),
    "an unknown label": (PERSONS, lambda rows: rows[0].update(sex="other"), "whole numbers", "V102"),
    "no label": (PERSONS, lambda rows: rows[0].update(age=""), "whole numbers", "V102"),
    "an unknown label hides a zero": (PERSONS, lambda rows: rows[0].update(sex="other"), "zeros", "V150"),
    "rows in another order": (PERSONS, lambda rows: rows.insert(0, rows.pop(1)), "whole numbers", "V103"),
    "a person where there are no homes": (PERSONS, lambda rows: put(rows, **NO_HOME), "zeros", "V106 021"),
    "a child in barracks": (PERSONS, lambda rows: put(rows, **CHILD), "zeros", "V106"),
    "a dormitory with nobody in it": (
        PERSONS, lambda rows: leave_out(rows, geocode="011", dwelling="dormitory"), "bounds", "V107 011"
    ),
    "an empty area without a total": (BLOCKS, lambda rows: leave_out(rows, count=0), "tables", "V109"),
    "an answer more": (COUNTY, lambda rows: rows[0]["answers"].append(1), "measurements", "V032"),
    "another variance": (
        COUNTY,
        lambda rows: rows[0].update(variance_numerator=rows[0]["variance_numerator"] + 1),
        "measurements",
        "V033",
    ),
    "answers to another query": (COUNTY, lambda rows: rows[0].update(query="sex"), "measurements", "V031"),
    "answers of another level": (COUNTY, lambda rows: rows[0].update(level="block"), "measurements", "V031"),
    "a row of answers less": (COUNTY, lambda rows: rows.pop(), "measurements", "V031,V032,V033"),
    "homes where there are none": (
        "public/leaves.parquet", lambda rows: rows[2].update(homes=1), "plan", "V015,V016"
    ),
    "a block in another county": (
        "public/geography.parquet", lambda rows: rows[-1].update(parent="01"), "plan", "V015"
    ),
    "tables of a block in another county": (
        "public/geography.parquet", lambda rows: rows[-1].update(parent="01"), "tables", "V150"
    ),
}  # fmt: skip
"""What somebody does to the rows of a table, and which check finds it, with the row or area that it names."""


@pytest.mark.parametrize("what", ROWS)
def test_changed_rows_are_found(copy: Small, what: str) -> None:
    """Whoever reads the table would count people who are not there, or noise as that of another place or law."""
    path, change, check, expected = ROWS[what]
    codes_due, *place = expected.split()
    findings = edit_rows(copy, path, change).check(check).findings
    assert {f.code for f in findings} == set(codes_due.split(","))
    assert set(place) <= {str(f.row) for f in findings} | {f.node for f in findings}


def packed(data: bytes) -> bytes:
    """Compress as a release does, with a header that says nothing."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=out, mtime=0) as file:
        file.write(data)
    return out.getvalue()


CSV, BOOK, PART = "microdata/persons.csv.gz", "ledger.jsonl", "measurements/land/part-000.parquet"
BYTES: dict[str, tuple[str, Callable[[bytes], bytes], str, str]] = {
    "a record less": (CSV, lambda data: packed(gzip.decompress(data).rsplit(b"\n", 2)[0] + b"\n"), "tables", "V108"),
    "a record elsewhere": (
        CSV, lambda data: packed(gzip.decompress(data).replace(b"011,", b"012,", 1)), "tables", "V108"
    ),
    "a made-up stamp": ("README.txt", lambda data: b"DRAFT: " + data, "stamps", "V142"),
    "a sentence more": ("README.txt", lambda data: data + b"\nCall 555-0100 for the counts.\n", "stamps", "V142"),
    "a space more": ("README.txt", lambda data: data + b" ", "stamps", "V142"),
    "a line end more": ("README.txt", lambda data: data + b"\n", "stamps", "V142"),
    "a line written otherwise": (BOOK, lambda data: data.rstrip(b"}\n") + b" }\n", "ledger", "V021"),
}  # fmt: skip
"""The same of other files: bytes."""


@pytest.mark.parametrize("what", BYTES)
def test_changed_bytes_are_found(copy: Small, what: str) -> None:
    """Each file tells the same story as the others, in the one way there is to write it."""
    path, change, check, code = BYTES[what]
    file = copy.folder / path
    file.write_bytes(change(file.read_bytes()))
    assert codes(attack(copy), check) == {code}


def test_line_sealed_anew(copy: Small) -> None:
    """A line changed and sealed again by itself must not fit the line after it."""
    events = ledger_events(copy.context, copy.folder)
    events[1]["rho_limit"] = "500"
    path = copy.folder / BOOK
    last = path.read_bytes().splitlines(keepends=True)[2]
    path.write_bytes(seal(events[:2]) + last)
    assert codes(attack(copy), "ledger") == {"V021"}


def test_measurements_of_another_plan(copy: Small) -> None:
    """Parts of another run would be taken for this run's."""
    path = copy.folder / PART
    path.write_bytes(path.read_bytes().replace(copy.context.plan.plan_hash.encode(), b"0" * 64))
    assert "V030" in codes(attack(copy), "measurements")


def test_a_table_or_part_too_many_or_too_few(copy: Small) -> None:
    """A table nobody computed would be published with the others; a part left out leaves areas without noise."""
    shutil.copytree(copy.folder / "tables/total", copy.folder / "tables/sex")
    (copy.folder / "measurements/block/part-003.parquet").unlink()
    result = attack(copy)
    assert "V108" in codes(result, "tables")
    assert {"V031"} == codes(result, "measurements")


def test_counts_that_overflow(copy: Small) -> None:
    """Two huge counts could wrap around to a plausible sum."""
    result = edit_rows(copy, PERSONS, lambda rows: [r.update(count=2**62) for r in rows[:4]] and None)
    assert "V110" in codes(result, "whole numbers")
    assert {"V150"} == codes(result, "bounds")


def test_lower_bound_missed_by_one(copy: Small) -> None:
    """One person too few is as wrong as none at all."""
    cells = {"geocode": "023", "dwelling": "dormitory", "sex": "female", "age": "0_17"}

    def leave_three(rows: Rows) -> None:
        rows[:] = [r for r in rows if (r["geocode"], r["dwelling"]) != ("023", "dormitory")]
        rows.append(cells | {"count": 3})
        rows.sort(key=lambda r: r["geocode"])

    findings = edit_rows(copy, PERSONS, leave_three).check("bounds").findings
    assert ("V107", "023", "at least 4", "3") in {(f.code, f.node, f.expected, f.found) for f in findings}


def test_changed_table(copy: Small) -> None:
    """A published table that disagrees with the microdata would mislead its readers."""
    result = edit_rows(copy, "tables/sex_by_age/county.parquet", lambda rows: rows[0].update(count=77))
    places = {(f.code, f.node, f.row, f.found) for f in result.check("hierarchy").findings}
    assert ("V104", "01", 1, "77") in places
    assert {"V108"} == codes(result, "tables")
    assert {"hierarchy", "tables", "certificate"} == failed(result)


def test_missing_table(copy: Small) -> None:
    """A table left out would not be missed by anyone but its readers."""
    (copy.folder / "tables/total/block.parquet").unlink()
    result = attack(copy)
    assert {"V109"} == codes(result, "tables")
    assert {"V150"} == codes(result, "hierarchy")


def test_exact_statistic_not_reproduced(copy: Small) -> None:
    """A promised total that the microdata do not add up to would go unseen."""

    def change(document: Any) -> None:
        document["values"][0]["answers"][0][0] += 1

    edit_json(copy.folder / "measurements/exact.json", change)
    assert {"V105"} == codes(attack(copy), "exact statistics")


def test_unconverged_solver(copy: Small) -> None:
    """A release solved badly would be sold as optimal."""
    write_solve(copy.folder, copy.context, n_unconverged=1, max_kkt_residual_persons=0.2)
    assert {"V121"} == codes(attack(copy), "solver")


def test_less_than_rounding_changes_is_a_warning(copy: Small) -> None:
    """A release that stopped a hundredth of a person from the optimum must stay usable, and must say so."""
    write_solve(copy.folder, copy.context, n_unconverged=1, max_kkt_residual_persons=0.01)
    check = attack(copy).check("solver")
    assert check.ok
    assert "in 1 of 1 problems" in check.warnings[0]


def test_large_residual_is_a_warning(copy: Small) -> None:
    """A residual above the target costs accuracy only, but has to be said."""
    write_solve(copy.folder, copy.context, max_kkt_residual_persons=0.25, n_roundings_optimal=0)
    result = attack(copy)
    assert result.check("solver").ok
    assert 2 * len(copy.context.plan.levels) == result.n_warnings


@pytest.mark.parametrize(
    ("change", "check", "code"),
    [
        (lambda c: c["privacy"].update(unit="household"), "privacy", "V130"),
        (lambda c: c["privacy"]["usual"]["epsilon"].update({"1e-10": "15.5"}), "privacy", "V131"),
        (lambda c: c["privacy"].update(usual=[]), "privacy", "V131"),
        (lambda c: c["privacy"].update(epsilon={"1e-10": ["9", "8"]}), "privacy", "V132"),
        (lambda c: c.update(privacy=3), "privacy", "V130"),
        (lambda c: c["open_answers"].append("release.title"), "certificate", "V141"),
        (lambda c: c["checks"].pop(), "certificate", "V141"),
        (lambda c: c["checks"][3].update(ok=False), "certificate", "V141"),
        (lambda c: c["checks"][3].update(ok=1), "certificate", "V141"),
        (lambda c: c["files"].update({"plan.json": "0" * 64}), "certificate", "V141"),
        (lambda c: c.update(praise="excellent"), "certificate", "V141"),
        (lambda c: c["software"].update(numpy="/home/someone"), "certificate", "V141"),
        (lambda c: c.pop("files"), "certificate", "V141"),
        (lambda c: c.update(stamps=["DRAFT"]), "stamps", "V142"),
        (lambda c: c.update(version=2), "certificate", "V140"),
    ],
)
def test_false_certificate(copy: Small, change: Callable[[Any], None], check: str, code: str) -> None:
    """A certificate that says more, or other things, than the files would be quoted as truth."""
    edit_json(copy.folder / "certificate.json", change)
    assert code in codes(attack(copy), check)


def test_swapped_measurement_parts(copy: Small) -> None:
    """Two parts that changed places would give one county's noise to another."""
    a, b = (copy.folder / f"measurements/county/part-00{i}.parquet" for i in (0, 1))
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    result = attack(copy)
    assert {"V031"} == codes(result, "measurements")
    assert {"V025", "V026"} == codes(result, "ledger")


def test_measurements_that_could_have_empty_values(copy: Small) -> None:
    """Where nothing may be missing, a row without answers would be read as one with none, or as zeros."""

    def empty(rows: Rows) -> None:
        rows[0]["answers"] = None

    path = copy.folder / "measurements/county/part-000.parquet"
    table = pq.read_table(path)
    rewrite_table(path, table.cast(pa.schema([field.with_nullable(True) for field in table.schema])))
    assert codes(attack(copy), "measurements") == {"V030"}
    assert codes(edit_rows(copy, "measurements/county/part-000.parquet", empty), "measurements") == {"V030"}


def test_measurements_of_a_version_before_are_said_to_be_that(copy: Small) -> None:
    """Whoever reads an older release with this version must not be told that its publisher's copy is damaged."""
    path = copy.folder / "measurements/land/part-000.parquet"
    path.write_bytes(path.read_bytes().replace(b"version\x18\x012", b"version\x18\x011"))
    result = attack(copy)
    (found,) = next(check for check in result.checks if check.name == "measurements").findings
    assert (found.code, found.fix) == ("V030", "verify with the version of topdown that made it")
    assert "has version 1 of its form, and this topdown reads 2" in found.text


@pytest.mark.parametrize(
    ("key", "found"), [("share", {"V011", "V012", "V013"}), ("loss", {"V013"}), ("parameter", {"V014"})]
)
def test_a_halved_number_of_the_plan_is_found(copy: Small, key: str, found: set[str]) -> None:
    """A share, loss or variance that does not follow from the others would be believed, and the loss understated."""

    def change(plan: Any) -> None:
        of = plan["levels"][0] if key == "share" else plan["levels"][1]["measurements"][0]
        of[key] = half(of[key])

    edit_json(copy.folder / "plan.json", change)
    assert found <= codes(attack(copy), "plan")


def test_noise_that_came_out_the_same_before(copy: Small) -> None:
    """An earlier measurement with the same files is another one: taken for this one, an honest release would fail."""

    def twice(events: list[dict[str, Any]]) -> None:
        own, n = events[1:], len(events) - 1
        events[1:] = [event | ({"journal": "cd" * 16} if "journal" in event else {}) for event in own]
        for event in own:
            moved = {"intent": event["intent"] + n} if "intent" in event else {}
            moved |= {"intents": [i + n for i in event["intents"]]} if "intents" in event else {}
            events.append(event | moved)

    assert not codes(rewrite_ledger(copy, twice), "ledger")


def law_moved(events: Rows) -> None:
    """Charge laws that add up to the loss but are not those drawn."""
    total, *others = events[1]["laws"]
    one = total | {"coordinates": 1, "shift": 1}
    events[1]["laws"] = [one, *others, one]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (law_moved, "V023"),
        (lambda events: events.insert(-1, dict(events[2])) or events.insert(-1, dict(events[3])), "V024"),
        (
            lambda events: events.append(
                {"kind": "void", "intent": 1, "reason": "none", "witness": "nobody"}
            ),
            "V024",
        ),
    ],
    ids=[
        "other laws than those drawn",
        "a part drawn twice under one intent",
        "an intent taken back after its commit",
    ],
)
def test_a_ledger_of_other_events_is_found(copy: Small, change: Callable[[Rows], None], code: str) -> None:
    """Other laws falsify the account of everything, and two draws for one charge are what the ledger prevents."""
    assert code in codes(rewrite_ledger(copy, change), "ledger")


@pytest.mark.parametrize(
    ("row", "changes", "code"),
    [
        (1, {"loss": "1/100"}, "V020"),
        (1, {"laws": []}, "V020"),
        (1, {"covers": ["land"]}, "V023"),
        (1, {"plan_hash": "0" * 64}, "V022"),
        (2, {"intent": 0}, "V024"),
        (2, {"part": "street/part-000"}, "V026"),
        (3, {"sha256": "0" * 64}, "V026"),
        (-1, {"intents": [0]}, "V024"),
        (-1, {"files": "0" * 64}, "V025"),
        (0, {"data_set": "other"}, "V024"),
        (0, {"neighbours": "add_remove"}, "V024"),
        (0, {"unit": "household"}, "V024"),
        (0, {"version": 2}, "V020"),
        (1, {"neighbours": "add_remove"}, "V023"),
        (1, {"neighbours": "move"}, "V024"),
        (1, {"loss": 2.5}, "V020"),
    ],
)
def test_ledger_that_does_not_cover(copy: Small, row: int, changes: dict[str, Any], code: str) -> None:
    """A ledger that charges less, for others, or seals other files would hide a loss."""
    assert code in codes(rewrite_ledger(copy, lambda events: events[row].update(changes)), "ledger")


@pytest.mark.parametrize(
    "changes", [{"journal": "cd" * 16}, {"version": 1}, {"note": "x"}, {"plan_hash": "0" * 64}]
)
def test_a_journal_of_another_measurement(copy: Small, changes: dict[str, Any]) -> None:
    """A folder that names another measurement is not the one the ledger committed to."""
    path = copy.folder / "measurements/journal.json"
    path.write_bytes(canonical(json.loads(path.read_text()) | changes) + b"\n")
    assert {"V026"} == codes(attack(copy), "ledger")
