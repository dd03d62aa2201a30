"""The seam to topdown: noise and ledger are used here and nowhere else in pgsr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pgsr.budget import Calibration
from pgsr.charge import charged
from pgsr.hierarchy import Tree

if TYPE_CHECKING:
    from topdown.ledger.ledger import Ledger

Ints = NDArray[np.int64]
WIDEST_TABLE = 10_000
"""Past this scale the exact sampler needs 16 microseconds a draw; simulations then use NumPy's generator."""


class NoiseSource:
    """Draws the noise of every level, exactly.

    Args:
        seed: None for a release (bits of the operating system's generator); a number makes a reproducible
            simulation, which is not a release.
    """

    def __init__(self, seed: int | None = None) -> None:
        from topdown.noise import AesBits, SimulationBits

        self._bits = AesBits() if seed is None else SimulationBits(seed)
        self._rough = None if seed is None else np.random.default_rng(seed)

    @property
    def is_release(self) -> bool:
        """Whether the noise may protect a release."""
        return bool(self._bits.is_release)

    def add(self, answers: Ints, calibration: Calibration, tree: Tree) -> Ints:
        """Return answers [size][node] with independent noise of each level's law.

        Args:
            answers: exact answers.
            calibration: noise per level.
            tree: the regions.
        """
        from topdown.noise import DiscreteGaussian, Sampler, TwoSidedGeometric

        law = DiscreteGaussian if calibration.noise == "gaussian" else TwoSidedGeometric
        noisy = answers.copy()
        for level, parameter in enumerate(calibration.parameters):
            here = tree.columns(level)
            shape = (len(answers), here.stop - here.start)
            if self._rough is not None and law is TwoSidedGeometric and parameter > WIDEST_TABLE:
                success = -np.expm1(-1.0 / float(parameter))
                noisy[:, here] += self._rough.geometric(success, shape) - self._rough.geometric(
                    success, shape
                )
            else:
                drawn = Sampler(law(parameter), self._bits).draw(shape[0] * shape[1])
                noisy[:, here] += drawn.reshape(shape)
        return noisy


class Spend:
    """An open intent of a ledger: noise may be drawn, and is committed once its files exist."""

    def __init__(self, ledger: Ledger, intent: int, plan_hash: str, journal: str) -> None:
        self._ledger, self._intent, self._plan_hash, self._journal = ledger, intent, plan_hash, journal

    def commit(self, files_digest: str) -> bytes:
        """Record durably which files the noise became; return the ledger's bytes."""
        from topdown.ledger.book import Commit

        self._ledger.commit(Commit((self._intent,), self._plan_hash, self._journal, files_digest))
        return self._ledger.path.read_bytes()


@contextmanager
def spend(
    path: Path,
    data_set: str,
    *,
    release: str,
    plan_hash: str,
    calibration: Calibration,
    levels: tuple[str, ...],
    journal: str,
    limit: Fraction,
    limit_reason: str,
) -> Iterator[Spend]:
    """Lock the ledger of a data set and write a durable intent; raises BudgetError before anything is drawn."""
    from topdown.ledger.book import Intent
    from topdown.ledger.ledger import open_ledger

    name = "epsilon" if calibration.noise == "geometric" else "rho"
    with open_ledger(path, data_set) as ledger:
        intent = Intent(release, plan_hash, calibration.loss, name, 1, levels, journal)
        entry = ledger.intent(intent, limit, limit_reason)
        with charged(name, calibration.loss):
            yield Spend(ledger, entry.seq, plan_hash, journal)


def check_ledger(path: Path, plan_hash: str, journal: str) -> tuple[bool, str, Fraction, str]:
    """Check a ledger's chain and find the commit of one release.

    Args:
        path: the ledger.
        plan_hash: what the release said it would do.
        journal: id under which its noise was drawn.

    Returns:
        (ok, what was found, loss charged for the release, digest of the committed files).
    """
    from topdown.errors import BudgetError
    from topdown.ledger.ledger import read_ledger

    try:
        book = read_ledger(path)
    except BudgetError as error:
        return False, error.text, Fraction(0), ""
    intents = [intent for intent in book.of_journal(journal).values() if intent.plan_hash == plan_hash]
    loss = sum((intent.loss for intent in intents), Fraction(0))
    commit = book.commit_of(journal)
    if commit is None or not intents:
        return False, "the ledger has no commit of this release", loss, ""
    return (
        True,
        f"{len(book.intents)} intents, chain unbroken, {book.charged} charged so far",
        loss,
        commit.files,
    )
