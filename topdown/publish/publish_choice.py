"""Publish a choice: result, copy of the ledger, certificate and manifest, in a folder that holds its question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from topdown import __version__
from topdown.errors import InternalError
from topdown.formats import json_bytes
from topdown.formats.choice_documents import SelectionCertificate
from topdown.formats.strict_toml import exact_text
from topdown.privacy.accountant import PureLoss
from topdown.privacy.ledger import Book, Choice, read_ledger
from topdown.privacy.relation import stated_changes
from topdown.privacy.statement import accuracy_percent
from topdown.publish.ledger_statement import spent_statement
from topdown.publish.release_files import MANIFEST, TEMPORARY, write_bytes, write_manifest

ANSWER, RESULT = "choice/answer/part-000.json", "result.json"
LEDGER, CERTIFICATE = "ledger.jsonl", "certificate.json"
NOT_PROTECTED = (
    "facts about groups: an area or answer that is chosen has many records, and that is said on purpose",
    "how good the choice is: neither the sample, its size, nor what the choice covers is published",
)


def publish_choice(out: Path, question: dict[str, Any], ledger: Path, journal: str) -> None:
    """Write all that belongs to a choice that the ledger has committed.

    Args:
        out: folder with the question and the drawn answer.
        question: selection.json.
        ledger: of the data set.
        journal: of the choice.
    """
    for name in (
        MANIFEST,
        LEDGER,
        RESULT,
        CERTIFICATE,
    ):  # the manifest first: no half of a choice looks whole
        for path in (out / name, out / (name + TEMPORARY)):
            path.unlink(missing_ok=True)
    write_bytes(out / LEDGER, ledger.read_bytes())
    write_bytes(out / RESULT, (out / ANSWER).read_bytes())
    certificate = choice_certificate(question, read_ledger(out / LEDGER), journal)
    write_bytes(out / CERTIFICATE, json_bytes(certificate))
    write_manifest(out, question["plan_hash"])


def choice_certificate(question: dict[str, Any], book: Book, journal: str) -> SelectionCertificate:
    """Return what may be said of a choice by its question and the ledger.

    Args:
        question: selection.json.
        book: the ledger that paid for it.
        journal: of the choice.
    """
    charged = [intent for intent in book.of_journal(journal).values() if isinstance(intent, Choice)]
    if not charged:
        raise InternalError("the ledger was not charged for this choice", code="X022", fix="run it again")
    first, n = charged[0], len(charged)
    guess = PureLoss(n * first.epsilon, 0).best_guess()
    times = accuracy_percent(guess)
    return SelectionCertificate(
        engine=__version__,
        plan_hash=question["plan_hash"],
        data_set=question["data_set"],
        unit=question["unit"],
        neighbours=question["neighbours"],
        epsilon=exact_text(first.epsilon),
        exp_epsilon=exact_text(first.exp_epsilon),
        rate=exact_text(first.rate),
        base=exact_text(first.base),
        best_guess=guess.texts(),
        right_in_100=times,
        sentence=stated_changes(question["neighbours"], question["unit"])[0].sentence(
            "Someone who reads only this choice", question["unit"], "the public facts", times
        ),
        not_protected=list(NOT_PROTECTED),
        n_attempts=n,
        everything_released=spent_statement(book),
    )
