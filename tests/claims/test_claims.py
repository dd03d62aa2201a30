"""What SECURITY.md claims of ledgers and folders holds after every sequence of moves, named ones and searched ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from tests.claims.moves import BY_NAME, STARTS
from tests.claims.search import Begun, replay, search
from tests.claims.world import UNNOTICED
from topdown import AuditLedger
from topdown.app import audits
from topdown.privacy.ledger import (
    Book,
    Disk,
    FormerLedger,
    LedgerLocation,
    Registry,
    ledger_file,
    read_registry,
)

OFFICE, RELEASED, GROUPS = "an office", "an office with a release", "groups with a release"
FORMER = "an office with a former ledger"
PUT_BACK = ("restore the ledger (early)", "restore the registry (early)")
CASES = {
    "a second ledger in another folder": (RELEASED, "begin elsewhere"),
    "an older ledger after the records were moved": (
        *(RELEASED, "move the records", "restore the ledger (early)"),
        "generate second",
    ),
    "an older ledger with its registry": (RELEASED, "restore the ledger (early)", "generate second"),
    "an older ledger is audited": (RELEASED, "restore the ledger (early)", "audit with the registry"),
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
    "an older ledger once more, after both were put back unnoticed": (
        *(RELEASED, *PUT_BACK, "generate second", "restore the ledger (early)"),
        "generate first --again",
    ),
    "the ledger alone, then a release; the registry was put back alone before": (
        *(RELEASED, "restore the registry (early)", "audit with the registry"),
        "generate second",
    ),
    "an older ledger beside one made after the registry was removed": (
        *(
            RELEASED,
            "back up (late)",
            "remove the registry",
            "begin elsewhere",
            "restore the registry (late)",
        ),
        *("restore the ledger (early)", "generate second"),
    ),
    "an older ledger with its registry, of an extension": (
        *("an office with an extension", "restore the ledger (early)", "audit with the registry"),
        "generate second",
    ),
    "an older ledger with its registry, of geometric noise": (
        *("geometric noise", "restore the ledger (early)"),
        "generate second",
    ),
    "an older ledger with its registry, of optimal noise": (
        *("optimal noise", "restore the ledger (early)"),
        "generate second",
    ),
    "an old registry beside moved records, from where no ledger is seen": (
        *(RELEASED, "move the records", "restore the registry (early)"),
        "begin elsewhere",
    ),
    "an old registry in a moved folder, from where no ledger is seen": (
        *(RELEASED, "move the folder of records", "restore the registry (early)"),
        "begin elsewhere",
    ),
    "a larger limit in the run file": (RELEASED, "raise the limit in every run file", "generate second"),
    "a larger limit in the run file of groups": (
        *(GROUPS, "raise the limit in every run file"),
        "release groups again",
    ),
    "a ledger for copied records": (
        RELEASED,
        "copy the records",
        "make a ledger for the copy",
        "audit with the registry",
    ),
    "a ledger for a copied folder of records": (
        *(RELEASED, "copy the folder of records"),
        "make a ledger for the copy",
    ),
    "a limit that a person changed": (
        *(RELEASED, "raise the limit in every run file", "change the limit", "generate second"),
        "audit with the registry",
    ),
    "a changed limit, and the ledger before it put back": (
        *(RELEASED, "raise the limit in every run file", "change the limit"),
        *("restore the ledger (early)", "generate second"),
    ),
    "a former ledger is taken over": (
        *(FORMER, "generate first", "take over the former ledger", "audit with the registry"),
        "generate second",
    ),
    "a former ledger is taken over between two releases under a changed limit": (
        *(FORMER, "raise the limit in every run file", "change the limit", "take over the former ledger"),
        *("generate first", "generate second"),
    ),
    "an older copy of a former ledger": (
        *(FORMER, "restore the former ledger", "take over the former ledger"),
        "generate first",
    ),
    "an older copy of a former ledger that was taken over": (
        *(FORMER, "take over the former ledger", "restore the former ledger", "take over the former ledger"),
        "generate first",
    ),
    "ledger and registry put back together": (
        *(RELEASED, "restore ledger and registry (early)", "generate second", "resolve first"),
        "audit with the registry",
    ),
    "an older ledger than a copied registry knows": (
        *(RELEASED, "copy the folder of records", "restore the ledger (early)"),
        "release by the copied registry",
    ),
    "a ledger put back to fit a copied registry": (
        *(OFFICE, "copy the folder of records", "generate first", "restore the ledger (early)"),
        *("release by the copied registry", "audit the ledger", "audit with the registry", "generate second"),
    ),
    "a ledger put back to fit the registry, after the copied one was used": (
        *(OFFICE, "copy the folder of records", "release by the copied registry"),
        *("restore the ledger (early)", "generate first", "audit with the registry"),
    ),
    "a certificate that promises more": (RELEASED, "change certificate.json of first"),
}
NO_MARK, NO_REGISTRY, NO_LOOK, NO_LIMIT, NO_NAME, NO_WITNESS, FORGETS_FORMER, EVERYTHING = (
    "a registry that does not compare its mark",
    "a ledger that is accepted without its registry",
    "ledgers made without a look at other registries",
    "a limit that is the run file's word",
    "a history without changes of limits",
    "an older copy of a former ledger is taken over",
    "charges of a former ledger that count for nothing",
    "a statement that does not say in which ledger everything is",
)
MUTANTS = (
    *((NO_MARK, case) for case in CASES if case.startswith("an older ledger") and "moved" not in case),
    (NO_REGISTRY, "an older ledger after the records were moved"),
    (NO_LOOK, "a second ledger in another folder"),
    # of people, the preflight's verification refuses a charge under another limit than the ledger's all the same
    (NO_LIMIT, "a larger limit in the run file of groups"),
    (NO_LOOK, "a ledger for a copied folder of records"),
    (EVERYTHING, "a ledger for copied records"),
    (EVERYTHING, "ledger and registry put back together"),
    (EVERYTHING, "a ledger put back to fit the registry, after the copied one was used"),
    (NO_NAME, "a limit that a person changed"),
    (NO_WITNESS, "an older copy of a former ledger"),
    (FORGETS_FORMER, "a former ledger is taken over"),
)
"""What is missing, and a case that is then a counterexample, also after something that nobody can notice."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    """Return the worlds where cases start."""
    return Begun(tmp_path_factory.mktemp("begun"))


@pytest.mark.parametrize("case", CASES)
def test_no_claim_is_false_after(case: str, begun: Begun) -> None:
    """Each of these made a statement false, or let more be drawn than the limit, before there were registries."""
    start, *moves = CASES[case]
    assert replay(begun.at(start), *moves) == []


@pytest.mark.parametrize(
    ("mutant", "case"),
    [
        pytest.param(mutant, case, marks=[pytest.mark.slow] if ", of " in case else [])
        for mutant, case in MUTANTS
    ],
)
def test_the_search_sees_what_a_registry_prevents(
    mutant: str, case: str, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that finds nothing where a check is missing shows nothing where it is there."""
    start, *moves = CASES[case]
    world = begun.at(start)
    if mutant == NO_MARK:
        monkeypatch.setattr(Registry, "check", lambda registry, book, path: None)
    elif mutant == NO_LIMIT:
        monkeypatch.setattr(Book, "limits", None)
        monkeypatch.setattr("topdown.privacy.ledger.book.other_limits", lambda path, book, asked: None)
    elif mutant == NO_NAME:
        _change_audit(monkeypatch, lambda stated: structs.replace(stated, limits=[]))
    elif mutant == NO_WITNESS:
        monkeypatch.setattr(FormerLedger, "refuse_older", lambda former, *seen: None)
    elif mutant == FORGETS_FORMER:
        monkeypatch.setattr(Book, "charges", property(lambda book: list(book.intents.items())))
    elif mutant == EVERYTHING:
        _change_audit(monkeypatch, _of_everything)
    elif mutant == NO_LOOK:
        monkeypatch.setattr(ledger_file, "other_registries", lambda place, disk: [])
    else:
        monkeypatch.setattr(ledger_file, "_checked_registry", _registry_or_none)
    assert replay(world, *moves) != []


def _change_audit(patch: pytest.MonkeyPatch, change: Callable[[AuditLedger], AuditLedger]) -> None:
    """Change what `audit --ledger` states: what a release states is compared by verify with code of its own."""
    true = audits.ledger_document
    patch.setattr(audits, "ledger_document", lambda *a, **k: change(true(*a, **k)))


def _of_everything(stated: AuditLedger) -> AuditLedger:
    """Speak of everything, and not of one ledger."""
    rows = [
        row | {"sentence": row["sentence"].replace(f" in ledger {stated.ledger}", "")}
        for row in stated.secrets
    ]
    return structs.replace(stated, secrets=rows)


def _registry_or_none(place: LedgerLocation, book: Book, disk: Disk) -> Registry:
    """Take a ledger's word for how far it has come where there is no registry."""
    return read_registry(place.registry, disk) or ledger_file.new_registry(place, place.id, book)


def test_what_nobody_can_notice_is_said() -> None:
    """An exception of the search that SECURITY.md does not name would be a claim that is not kept."""
    page = re.sub(r"\s+", " ", (Path(__file__).parents[2] / "SECURITY.md").read_text())
    assert all(one in page for one in UNNOTICED)


def test_only_what_nobody_can_notice_is_forgiven(begun: Begun) -> None:
    """A search that forgives more than SECURITY.md names would miss counterexamples after a harmless restore."""
    world = begun.at(RELEASED)
    for name, forgiven in (
        ("restore the registry (early)", 0),
        ("audit with the registry", 0),
        ("restore the ledger (early)", 2),
        ("generate second", 2),
        ("restore the ledger (early)", 2),
    ):
        assert replay(world, name) == []
        assert (sum(world.seen.forgiven.values()), name) == (forgiven, name)
    assert (world.seen.drawn, world.seen.owed()) == (4, 2)


@pytest.mark.parametrize("is_restored", [False, True])
def test_two_releases_show_that_their_ledger_was_put_back(begun: Begun, *, is_restored: bool) -> None:
    """SECURITY.md tells whoever has two releases to compare their ledgers, since nothing else shows such a restore."""
    world = begun.at(RELEASED)
    between = ("restore ledger and registry (early)",) if is_restored else ()
    moves = ("raise the limit in every run file", *between, "change the limit", "generate second")
    assert replay(world, *moves) == []
    first, second = ((world.releases / one / "ledger.jsonl").read_bytes() for one in ("first", "second"))
    assert second.startswith(first) != is_restored
    assert not first.startswith(second)
    assert [world.seen.drawn, world.seen.owed()] == [4, 2 if is_restored else 4]


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
