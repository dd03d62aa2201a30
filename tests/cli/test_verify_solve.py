"""`topdown verify --solve` on the screen and as a document; what plain `verify` says it did not check."""

import pytest

from tests.helpers.forged import forge, microdata, move_one
from topdown.errors import CertificateError

NOT_CHECKED = "not checked: that the microdata follow from the measurements (--solve)"


@pytest.fixture(scope="module")
def forged(release, tmp_path_factory):
    """Return a release with one moved record that plain `verify` accepts."""
    import numpy as np

    folder, rng = tmp_path_factory.mktemp("forged"), np.random.default_rng(5)
    for attempt in range(200):
        try:
            return forge(
                release, folder / str(attempt), move_one(microdata(release), rng, between_leaves=False)
            )
        except CertificateError:
            continue
    raise AssertionError("no move keeps every rule")


def test_what_is_not_checked_is_said(topdown, release, forged, check):
    """Whoever reads "16 of 16 checks passed" would take forged records for solved ones."""
    for folder in (release, forged):
        said = topdown("verify", folder)
        assert (said.code, NOT_CHECKED in said.out) == (0, True)
        document = topdown("verify", folder, "--json").document
        check(document)
        assert document["not_checked"] == [NOT_CHECKED.removeprefix("not checked: ")]


def test_solved_again(topdown, release, check):
    """The one question left must be answered by one option, whatever the number of workers."""
    for workers in (1, 2):
        said = topdown("verify", release, "--solve", "--workers", workers).ok()
        assert "solved again      12 of 12 block areas equal" in said.out.replace("\u00a0", " ")
        assert "not checked" not in said.out
        assert "17 of 17 checks passed" in said.out
    document = topdown("verify", release, "--solve", "--json").document
    check(document)
    assert (document["ok"], document["not_checked"]) == (True, [])


def test_a_forged_release_fails(topdown, forged, check):
    """Exit code, place and numbers: an auditor must be able to quote them."""
    said = topdown("verify", forged, "--solve")
    assert said.code == 1
    for text in ("V172", "is not optimal", "2 counts differ, by 2 records in all"):
        assert text in " ".join(said.out.split())
    document = topdown("verify", forged, "--solve", "--json").document
    check(document)
    assert [c["name"] for c in document["checks"] if not c["ok"]] == ["solved again"]


@pytest.mark.parametrize("width", [46, 80])
def test_findings_fit(topdown, forged, width):
    """Long sentences about splits must wrap on any screen."""
    said = topdown("verify", forged, "--solve", "--ascii", width=width)
    lines = [line for line in said.out.splitlines() if str(forged) not in line]
    assert max(map(len, lines)) <= width
    assert said.out.isascii()
