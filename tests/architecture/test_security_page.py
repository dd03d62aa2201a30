"""SECURITY.md says what claims.toml records, and every record has an attack: a claim whose test is gone is no claim."""

from dataclasses import replace

import pytest

from tests.claims.claim_records import PAGE, known_tests, page_with, problems, read_claims


def test_the_page_says_what_the_records_say() -> None:
    """A row changed on the page alone would claim what nothing attacks (`python -m tests.claims --page`)."""
    assert page_with(read_claims()) == PAGE.read_text()


def test_every_claim_has_an_attack_that_is_there() -> None:
    """A renamed test would leave a claim that nobody can check."""
    claims = read_claims()
    assert len(claims) > 30
    assert problems(claims, known_tests()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tests": (), "searched": ()}, "nothing attacks"),
        ({"tests": ("test_that_was_renamed",)}, "no such test: test_that_was_renamed"),
        ({"searched": ("a property nobody asks",)}, "not searched: a property nobody asks"),
        ({"holds": " "}, "no property"),
    ],
)
def test_a_claim_without_an_attack_is_found(change: dict[str, object], said: str) -> None:
    """A check that takes any record would let a claim stand alone."""
    first, *others = read_claims()
    found = problems([replace(first, **change), *others], known_tests())
    assert len(found) == 1
    assert found[0].startswith(said)
