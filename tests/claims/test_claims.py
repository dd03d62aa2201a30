"""What SECURITY.md claims of ledgers and folders holds after every sequence of moves, named ones and searched ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.claims.moves import BY_NAME, MADE_AFTER_REMOVAL, RESTORED_TOGETHER, STARTS
from tests.claims.search import replay, search
from topdown.privacy.ledger import Book, Disk, LedgerLocation, Registry, ledger_file, read_registry

OFFICE, RELEASED, GROUPS = "an office", "an office with a release", "groups with a release"
CASES = {
    "a second ledger in another folder": (RELEASED, "begin elsewhere"),
    "an older ledger after the records were moved": (
        *(RELEASED, "move the records", "restore the ledger (early)"),
        "generate second",
    ),
    "an older ledger with its registry": (RELEASED, "restore the ledger (early)", "generate second"),
    "an older ledger is audited": (RELEASED, "restore the ledger (early)", "audit the ledger"),
    "a cut ledger without a registry is attested": (
        *(RELEASED, "cut the ledger", "remove the registry", "attest"),
        "generate second",
    ),
    "a choice, then a release is resolved from its own copy": (
        OFFICE,
        "generate first",
        "choose",
        "resolve first",
    ),
    "two releases at once": (OFFICE, "release twice at once", "generate first --again"),
    "killed, then released again": (
        OFFICE,
        "generate first, killed at step 14",
        "generate second",
        "resume first",
    ),
    "a second ledger of groups": (GROUPS, "begin groups elsewhere"),
    "groups released again from a cut ledger": (GROUPS, "cut the ledger", "release groups again"),
    "a certificate that promises more": (RELEASED, "change certificate.json of first"),
}
MUTANTS = {
    "a registry that does not compare its mark": "an older ledger with its registry",
    "a ledger that is accepted without its registry": "an older ledger after the records were moved",
    "ledgers made without a look at other registries": "a second ledger in another folder",
}


@pytest.mark.parametrize("case", CASES)
def test_no_claim_is_false_after(case: str, tmp_path: Path) -> None:
    """Each of these made a statement false, or let more be drawn than the limit, before there were registries."""
    start, *moves = CASES[case]
    assert replay(tmp_path, start, *moves) == []


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_search_sees_what_a_registry_prevents(
    mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that finds nothing where a check is missing shows nothing where it is there."""
    if mutant == "a registry that does not compare its mark":
        monkeypatch.setattr(Registry, "check", lambda registry, book, path: None)
    elif mutant == "ledgers made without a look at other registries":
        monkeypatch.setattr(ledger_file, "other_registries", lambda place, disk: [])
    else:
        monkeypatch.setattr(ledger_file, "_checked_registry", _registry_or_none)
    start, *moves = CASES[MUTANTS[mutant]]
    assert replay(tmp_path, start, *moves) != []


def _registry_or_none(place: LedgerLocation, book: Book, disk: Disk) -> Registry:
    """Take a ledger's word for how far it has come where there is no registry."""
    return read_registry(place.registry, disk) or ledger_file.new_registry(place, place.id, book)


def test_what_nobody_can_notice_is_said() -> None:
    """An exception of the search that SECURITY.md does not name would be a claim that is not kept."""
    page = re.sub(r"\s+", " ", (Path(__file__).parents[2] / "SECURITY.md").read_text())
    for exception in (RESTORED_TOGETHER, MADE_AFTER_REMOVAL):
        assert re.sub(r"ledger and registry", "ledger and registry are", exception) in page or (
            exception.replace("registry removed", "registry is removed") in page
        )


def test_every_move_of_a_case_is_there() -> None:
    """A renamed move would end a case before it begins."""
    for start, *moves in CASES.values():
        assert start in STARTS
        assert set(moves) <= set(BY_NAME)


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_a_search_of_some_minutes_finds_nothing(tmp_path: Path) -> None:
    """Sequences nobody thought of, shortest first; `python -m tests.claims --minutes 60` goes on for longer."""
    assert [str(found) for found in search(tmp_path, depth=4, seconds=180)] == []
