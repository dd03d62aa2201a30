"""The noisy answers of an unfinished run, as the ledger has recorded them: what lower levels are chosen by."""

from __future__ import annotations

import io

import numpy as np

from pgsr.folder import ANSWER, PART, drawn_name
from pgsr.hierarchy import Ints
from pgsr.prepared import Prepared
from topdown.errors import DataError
from topdown.ledger.book import Book
from topdown.ledger.durable import Disk
from topdown.ledger.journal import Journal, MeasuredPart
from topdown.ledger.ledger import Ledger


def answers_in(data: bytes | None, n_sizes: int) -> Ints:
    """Return the answers [size][region] of the file of one level."""
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(data or b""), columns=[ANSWER], use_threads=False, pre_buffer=False)
    return np.asarray(table.column(ANSWER).to_numpy().reshape(-1, n_sizes).T)


def drawn_answers(plan: Prepared, journal: Journal, ledger: Ledger, disk: Disk, n_levels: int) -> Ints:
    """Return the noisy answers [size][node] of the first levels of a run, 0 below them.

    Args:
        plan: what is released.
        journal, ledger: of the run; the ledger has recorded the parts of these levels.
        disk: how files are read.
        n_levels: how many levels.
    """
    tree = plan.hierarchy.tree
    noisy = np.zeros((plan.sizes.n_sizes, tree.n_nodes), dtype=np.int64)
    for level, name in enumerate(plan.hierarchy.level_names[:n_levels]):
        seq, sha256 = journal.find(MeasuredPart(name, PART), ledger.book) or (0, "")
        data = disk.read(journal.folder / name / drawn_name(seq, sha256))
        noisy[:, tree.columns(level)] = answers_in(data, len(noisy))
    return noisy


def refuse_lost_above(plan: Prepared, journal: Journal, book: Book) -> None:
    """Refuse to draw a level again while answers that were chosen by it are whole (DataError D139).

    A level is begun when all above it are recorded, so that no crash leads here: a file was damaged or removed.
    """
    if plan.sideways is None or book.commit_of(journal.id) is not None:
        return
    names = plan.hierarchy.level_names
    whole = [journal.find(MeasuredPart(name, PART), book) is not None for name in names]
    if whole != sorted(whole, reverse=True):
        raise DataError(
            f"the answers of level {names[whole.index(False)]} are lost, by which those of levels below were chosen",
            code="D139",
            fix="restore the folder from a copy; or release into another folder with --again, which is charged anew",
        )
