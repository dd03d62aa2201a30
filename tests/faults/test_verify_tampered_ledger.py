"""Somebody changes ledger or journal of a release and rewrites its manifest: the check that knows better fails."""

import json
from typing import Any

import pytest

from tests.helpers.small_release import Small, canonical, ledger_events, seal
from tests.helpers.tampered import Rows, attack, codes, rewrite_ledger


def test_line_sealed_anew(copy: Small) -> None:
    """A line changed and sealed again by itself must not fit the line after it."""
    events = ledger_events(copy.context, copy.folder)
    events[1]["rho_limit"] = "500"
    path = copy.folder / "ledger.jsonl"
    last = path.read_bytes().splitlines(keepends=True)[2]
    path.write_bytes(seal(events[:2]) + last)
    assert codes(attack(copy), "ledger") == {"V021"}


def test_line_written_otherwise(copy: Small) -> None:
    """The same record with a space more has another hash for everyone who recomputes the chain."""
    path = copy.folder / "ledger.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"}\n") + b" }\n")
    assert codes(attack(copy), "ledger") == {"V021"}


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


def test_voided_intent_with_commit(copy: Small) -> None:
    """An intent taken back would erase the charge while its noise is out."""
    void = {"kind": "void", "intent": 1, "reason": "none", "witness": "nobody"}
    result = rewrite_ledger(copy, lambda events: events.append(void))
    assert "V024" in codes(result, "ledger")


def test_a_law_other_than_the_plan_s(copy: Small) -> None:
    """Laws that add up to the loss but are not those drawn would falsify the account of everything released."""

    def change(events: Rows) -> None:
        total, *others = events[1]["laws"]
        events[1]["laws"] = [
            total | {"coordinates": 1, "shift": 1},
            *others,
            total | {"coordinates": 1, "shift": 1},
        ]

    assert "V023" in codes(rewrite_ledger(copy, change), "ledger")


def test_a_part_drawn_twice_under_one_intent(copy: Small) -> None:
    """Two draws for one charge are what the ledger is there to prevent."""

    def change(events: Rows) -> None:
        events[-1:-1] = [dict(events[2]), dict(events[3])]

    assert "V024" in codes(rewrite_ledger(copy, change), "ledger")


@pytest.mark.parametrize(
    "changes", [{"journal": "cd" * 16}, {"version": 1}, {"note": "x"}, {"plan_hash": "0" * 64}]
)
def test_a_journal_of_another_measurement(copy: Small, changes: dict[str, Any]) -> None:
    """A folder that names another measurement is not the one the ledger committed to."""
    path = copy.folder / "measurements/journal.json"
    path.write_bytes(canonical(json.loads(path.read_text()) | changes) + b"\n")
    assert {"V026"} == codes(attack(copy), "ledger")
