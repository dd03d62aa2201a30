"""Compare the ledger of a release with its certificate and files: what was drawn, for whom, how often, into what."""

from __future__ import annotations

import hashlib
from fractions import Fraction

from pgsr.check import Check
from pgsr.folder import EXACT, JOURNAL, LEDGER, MEASUREMENTS, PART, part_file
from pgsr.verify_files import Files, read_document, read_file, sha256_of
from topdown.errors import BudgetError
from topdown.ledger.book import Book, read_book
from topdown.ledger.records import Charge

LAWS = {"geometric": "two_sided_geometric", "gaussian": "discrete_gaussian"}


def check_ledger(files: Files) -> Check:
    """Check the ledger's chain, what was charged, and that the noisy answers are the ones it has recorded."""
    check = Check("ledger")
    document = files.certificate
    if not document["release"]:
        check.n_checked, check.summary = 1, f"none: {document['stamp']}"
        if not document["stamp"] or document["journal"]:
            check.fail("a simulation must be stamped and charge nothing")
        return check
    data = read_file(files.folder, LEDGER)
    try:
        book, n_bytes, whole = read_book(data, files.folder / LEDGER)
    except BudgetError as error:
        check.fail(error.text)
        return check
    commit = book.commit_of(document["journal"])
    if commit is None or book.entries[-1].event is not commit or n_bytes != len(data) or not whole:
        check.fail("the ledger does not end with the commit of this release")
        return check
    mine = book.of_journal(document["journal"])
    _charges(check, files, book, list(mine.values()))
    if set(commit.intents) != set(mine) or commit.plan_hash != document["plan_hash"]:
        check.fail("the ledger's commit is that of another plan or of other charges")
    _parts(check, files, book, commit.files)
    charged = sum((intent.loss for intent in mine.values()), Fraction(0))
    check.summary = (
        f"{book.binding.loss_name} {charged} charged for this release in {len(mine)} intents; "
        f"chain of {len(book.entries)} records unbroken, {book.charged} charged so far"
    )
    return check


def _charges(check: Check, files: Files, book: Book, mine: list[Charge]) -> None:
    """Expect one charge for all levels first, and then whole levels that were lost and drawn again."""
    document = files.certificate
    stated, sizes = document["privacy"], document["sizes"]
    new = "new of size 0 or 1" if sizes["smallest"] == 0 else "new"
    laws = {
        level["name"]: (LAWS[stated["noise"]], Fraction(level["parameter"]), 1, level["sensitivity"])
        for level in document["levels"]
    }
    bound = book.binding
    expected: dict[str, tuple[object, object]] = {
        "kind of loss": (bound.loss_name, stated["loss_name"]),
        "unit of privacy": (bound.unit, stated["unit"]),
        "neighbour steps": (
            bound.neighbours,
            "+".join(new if s == "new" else s for s in stated["relations"]),
        ),
        "loss": (mine[0].loss if mine else None, Fraction(stated["loss"])),
        "range of levels": (list(mine[0].covers) if mine else [], files.level_names),
    }
    for intent in mine:
        drawn = [(x.level, (x.law, x.parameter, x.shift, x.coordinates)) for x in intent.laws]
        expected["noise"] = (drawn, [(level, laws.get(level)) for level in intent.covers])
        expected["statistics published exactly"] = (list(intent.exact), stated["conditional_on"])
        expected["plan"] = (intent.plan_hash, document["plan_hash"])
        for what, (charged, certified) in expected.items():
            check.n_checked += 1
            if charged != certified:
                check.fail(f"the ledger was charged for another {what} than the certificate states")


def _parts(check: Check, files: Files, book: Book, committed: str) -> None:
    """Expect each part to be the file recorded last, and all of them the ones the commit names."""
    journal = files.certificate["journal"]
    hashes = {EXACT: sha256_of(files.folder, f"{MEASUREMENTS}/{EXACT}")}
    for level in files.level_names:
        check.n_checked += 1
        key, sha256 = f"{level}/{PART}", sha256_of(files.folder, part_file(level))
        hashes[f"{key}.parquet"] = sha256
        begun = book.begun.get((journal, key), ())
        if not begun or book.drawn.get((begun[-1], key)) != sha256:
            check.fail(f"the answers of level {level} are not the ones the ledger has recorded")
    lines = "".join(f"{sha256}  {path}\n" for path, sha256 in sorted(hashes.items()))
    if hashlib.sha256(lines.encode()).hexdigest() != committed:
        check.fail("the committed measurements are not these")
    document = files.certificate
    exact = read_document(files.folder, f"{MEASUREMENTS}/{EXACT}")
    if exact != {"total": document["total"], "public_totals": document["public_totals"]}:
        check.fail(f"{EXACT} states other numbers than the certificate")
    due = {
        "type": "topdown.journal",
        "version": 2,
        "journal": journal,
        "plan_hash": document["plan_hash"],
    }
    line = read_file(files.folder, f"{MEASUREMENTS}/{JOURNAL}")
    if line != _one_line(due):
        check.fail(f"{JOURNAL} is that of another run")


def _one_line(fields: dict[str, object]) -> bytes:
    import json

    return (json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n").encode()
