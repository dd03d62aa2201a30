"""Somebody changes noisy answers, plan or public facts and rewrites the manifest: the check that knows better fails."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.small_release import Small, edit_json, half
from tests.helpers.tampered import Rows, attack, codes, edit_rows


def test_swapped_measurement_parts(copy: Small) -> None:
    """Two parts that changed places would give one county's noise to another."""
    a, b = (copy.folder / f"measurements/county/part-00{i}.parquet" for i in (0, 1))
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    result = attack(copy)
    assert {"V031"} == codes(result, "measurements")
    assert {"V025", "V026"} == codes(result, "ledger")


def test_missing_measurement_part(copy: Small) -> None:
    """A part left out would leave areas without noise unnoticed."""
    (copy.folder / "measurements/block/part-003.parquet").unlink()
    assert {"V031"} == codes(attack(copy), "measurements")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda rows: rows[0]["answers"].append(1), "V032"),
        (lambda rows: rows[0].update(variance_numerator=rows[0]["variance_numerator"] + 1), "V033"),
        (lambda rows: rows[0].update(query="sex"), "V031"),
        (lambda rows: rows[0].update(level="block"), "V031"),
        (lambda rows: rows.pop(), "V031"),
        (lambda rows: rows[0].update(answers=None), "V035"),
    ],
)
def test_changed_measurement(copy: Small, change: Callable[[Rows], None], code: str) -> None:
    """A measurement of another shape or variance would be weighed wrongly by whoever reuses it."""
    assert code in codes(edit_rows(copy, "measurements/county/part-000.parquet", change), "measurements")


def test_measurements_of_another_plan(copy: Small) -> None:
    """Parts of another run would be taken for this run's."""
    path = copy.folder / "measurements/land/part-000.parquet"
    path.write_bytes(path.read_bytes().replace(copy.context.plan.plan_hash.encode(), b"0" * 64))
    result = attack(copy)
    assert "V030" in codes(result, "measurements")


def test_changed_share(copy: Small) -> None:
    """A share lowered in the plan would understate the privacy loss."""

    def change(plan: Any) -> None:
        plan["levels"][0]["share"] = half(plan["levels"][0]["share"])

    edit_json(copy.folder / "plan.json", change)
    result = attack(copy)
    assert {"V011", "V012", "V013"} <= codes(result, "plan")


@pytest.mark.parametrize(("key", "code"), [("loss", "V013"), ("parameter", "V014")])
def test_changed_loss_or_parameter(copy: Small, key: str, code: str) -> None:
    """A loss or variance that does not follow from the shares would be believed."""

    def change(plan: Any) -> None:
        m = plan["levels"][1]["measurements"][0]
        m[key] = half(m[key])

    edit_json(copy.folder / "plan.json", change)
    assert code in codes(attack(copy), "plan")


def test_other_public_facts(copy: Small) -> None:
    """Public facts changed afterwards would excuse people where nobody can be."""
    result = edit_rows(copy, "public/leaves.parquet", lambda rows: rows[2].update(homes=1))
    assert {"V015", "V016"} == codes(result, "plan")


def test_other_geography(copy: Small) -> None:
    """A block moved to another county would change every county total."""
    result = edit_rows(copy, "public/geography.parquet", lambda rows: rows[-1].update(parent="01"))
    assert "V015" in codes(result, "plan")
    assert {"V150"} == codes(result, "tables")
