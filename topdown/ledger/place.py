"""Where a ledger lies, and which one it must be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from topdown.ledger.records import Binding
from topdown.ledger.witness import witness_path


@dataclass(frozen=True)
class Place:
    """Where a ledger lies and which one it must be.

    Args:
        path: the ledger.
        witness_folder: folder of its witness, beside the confidential records unless somebody says otherwise.
        id: of the ledger, as the run file names it; empty if it names none yet.
        binding: what the losses of the run are about.
    """

    path: Path
    witness_folder: Path
    id: str
    binding: Binding

    @property
    def witness(self) -> Path:
        """File of the witness."""
        return witness_path(self.witness_folder, self.id)
