"""Somebody changes the people of a release and rewrites its manifest: the check that knows better fails."""

import pytest

from tests.helpers.small_release import Small
from tests.helpers.tampered import PERSONS, Rows, attack, codes, edit_rows


def test_sound_copy_passes(copy: Small) -> None:
    """If an untouched copy failed, every test below would pass for the wrong reason."""
    assert attack(copy).ok


def test_duplicated_row(copy: Small) -> None:
    """A row given twice would count its people twice."""
    result = edit_rows(copy, PERSONS, lambda rows: rows.insert(2, dict(rows[2])))
    assert {"V103"} == codes(result, "whole numbers")
    assert {3 + 1} == {f.row for f in result.check("whole numbers").findings}


@pytest.mark.parametrize("count", [0, -1, -(2**62)])
def test_count_below_one(copy: Small, count: int) -> None:
    """A negative or zero count would be taken for people."""
    result = edit_rows(copy, PERSONS, lambda rows: rows[0].update(count=count))
    assert "V101" in codes(result, "whole numbers")


def test_counts_that_overflow(copy: Small) -> None:
    """Two huge counts could wrap around to a plausible sum."""
    result = edit_rows(copy, PERSONS, lambda rows: [r.update(count=2**62) for r in rows[:4]] and None)
    assert "V110" in codes(result, "whole numbers")
    assert {"V150"} == codes(result, "bounds")


@pytest.mark.parametrize(("column", "value"), [("geocode", "999"), ("sex", "other"), ("age", "")])
def test_unknown_label(copy: Small, column: str, value: str) -> None:
    """A label or geocode outside the schema would be dropped or crash a reader."""
    result = edit_rows(copy, PERSONS, lambda rows: rows[0].update({column: value}))
    assert "V102" in codes(result, "whole numbers")
    assert {"V150"} == codes(result, "zeros")


def test_rows_out_of_order(copy: Small) -> None:
    """Rows in another order would break readers that rely on the documented one."""

    def swap(rows: Rows) -> None:
        rows[0], rows[1] = rows[1], rows[0]

    assert {"V103"} == codes(edit_rows(copy, PERSONS, swap), "whole numbers")


def add_person(rows: Rows, **where: str) -> None:
    """Put one person somewhere, keeping the order by geocode."""
    rows.append({"count": 1, **where})
    rows.sort(key=lambda r: r["geocode"])


def test_person_where_nobody_can_be(copy: Small) -> None:
    """A person in a block without homes would contradict public facts."""
    person = {"geocode": "021", "dwelling": "home", "sex": "female", "age": "18_64"}
    result = edit_rows(copy, PERSONS, lambda rows: add_person(rows, **person))
    finding = result.check("zeros").findings[0]
    assert (finding.code, finding.node) == ("V106", "021")


def test_person_ruled_out_by_definition(copy: Small) -> None:
    """A child in barracks would break a structural zero."""
    person = {"geocode": "012", "dwelling": "barracks", "sex": "female", "age": "0_17"}
    result = edit_rows(copy, PERSONS, lambda rows: add_person(rows, **person))
    assert "V106" in codes(result, "zeros")


def test_broken_lower_bound(copy: Small) -> None:
    """A dormitory with nobody in it would contradict the register of facilities."""

    def empty(rows: Rows) -> None:
        rows[:] = [r for r in rows if (r["geocode"], r["dwelling"]) != ("011", "dormitory")]

    result = edit_rows(copy, PERSONS, empty)
    nodes = {f.node for f in result.check("bounds").findings}
    assert {"V107"} == codes(result, "bounds")
    assert "011" in nodes


def test_lower_bound_missed_by_one(copy: Small) -> None:
    """One person too few is as wrong as none at all."""
    cells = {"geocode": "023", "dwelling": "dormitory", "sex": "female", "age": "0_17"}

    def leave_three(rows: Rows) -> None:
        rows[:] = [r for r in rows if (r["geocode"], r["dwelling"]) != ("023", "dormitory")]
        rows.append(cells | {"count": 3})
        rows.sort(key=lambda r: r["geocode"])

    findings = edit_rows(copy, PERSONS, leave_three).check("bounds").findings
    assert ("V107", "023", "at least 4", "3") in {(f.code, f.node, f.expected, f.found) for f in findings}
