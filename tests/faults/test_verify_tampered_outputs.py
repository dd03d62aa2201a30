"""Somebody changes tables or certificate of a release and rewrites its manifest: the check that knows better fails."""

import gzip
import io
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.small_release import Small, edit_json, write_solve
from tests.helpers.tampered import attack, codes, edit_rows, failed


def test_changed_table(copy: Small) -> None:
    """A published table that disagrees with the microdata would mislead its readers."""
    result = edit_rows(copy, "tables/sex_by_age/county.parquet", lambda rows: rows[0].update(count=77))
    places = {(f.code, f.node, f.row, f.found) for f in result.check("hierarchy").findings}
    assert ("V104", "01", 1, "77") in places
    assert {"V108"} == codes(result, "tables")
    assert {"hierarchy", "tables", "certificate"} == failed(result)


def test_added_table(copy: Small) -> None:
    """A table nobody computed would be published with the others."""
    shutil.copytree(copy.folder / "tables/total", copy.folder / "tables/sex")
    assert "V108" in codes(attack(copy), "tables")


def test_missing_table(copy: Small) -> None:
    """A table left out would not be missed by anyone but its readers."""
    (copy.folder / "tables/total/block.parquet").unlink()
    result = attack(copy)
    assert {"V109"} == codes(result, "tables")
    assert {"V150"} == codes(result, "hierarchy")


def compressed(data: bytes) -> bytes:
    """Compress as a release does, with a header that says nothing."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=out, mtime=0) as file:
        file.write(data)
    return out.getvalue()


def test_changed_csv(copy: Small) -> None:
    """The one-line-a-record file would tell another story than the microdata."""
    path = copy.folder / "microdata/persons.csv.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(compressed(b"".join(lines[:-1])))
    assert {"V108"} == codes(attack(copy), "tables")


def test_changed_csv_of_equal_length(copy: Small) -> None:
    """A record moved to another block keeps the length of the file."""
    path = copy.folder / "microdata/persons.csv.gz"
    data = gzip.decompress(path.read_bytes())
    path.write_bytes(compressed(data.replace(b"011,", b"012,", 1)))
    assert codes(attack(copy), "tables") == {"V108"}


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
        (lambda c: c["privacy"].update(loss="1/2"), "privacy", "V130"),
        (lambda c: c["privacy"].update(unit="household"), "privacy", "V130"),
        (lambda c: c["privacy"].update(neighbours="add_remove"), "privacy", "V130"),
        (lambda c: c["privacy"]["usual"]["epsilon"].update({"1e-10": "15.5"}), "privacy", "V131"),
        (lambda c: c["privacy"]["usual"]["epsilon"].update({"1e-10": "17"}), "privacy", "V131"),
        (lambda c: c["privacy"]["usual"]["epsilon"].update({"1e-10": None}), "privacy", "V131"),
        (lambda c: c["privacy"].update(usual=[]), "privacy", "V131"),
        (lambda c: c["privacy"].update(epsilon={"1e-10": ["30", "31"]}), "privacy", "V132"),
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


def test_stamp_cut_from_readme(copy: Small) -> None:
    """A made-up stamp, or a missing one, in the first line people read would mislead them."""
    path = copy.folder / "README.txt"
    path.write_text("DRAFT: " + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert {"V142"} == codes(attack(copy), "stamps")
