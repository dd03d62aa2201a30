"""Finished parts of a solve as files, from which a stopped run goes on; the release that comes of it is the same.

`work/above.parquet` holds the tables of the cut, `work/section-000.parquet` and so on the leaves of each section. A
file that was not made from the same plan, public facts and measurements by the same engine, of other nodes, or that
is damaged, is as good as none: its part is solved again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from topdown.model.leaf_table import PackedRows
from topdown.solve.sections import NodeSpan, SolvedPart
from topdown.solve.tally import LevelTally, Tally

_COLUMNS = ("node", "cell", "count")
ABOVE = "above"


@dataclass(frozen=True)
class Checkpoints:
    """The finished parts of one solve.

    Args:
        folder: where they lie; made with the first.
        made_from: what decides the result to the last byte (plan, inputs, engine), as text by name.
    """

    folder: Path
    made_from: dict[str, str]

    def above(self) -> tuple[int, SolvedPart] | None:
        """Return the cut that an earlier run chose and the tables of its nodes; None if there are none."""
        found = self._read(ABOVE)
        return None if found is None else (found[0].depth, found[1])

    def write_above(self, span: NodeSpan, part: SolvedPart) -> None:
        """Keep the tables of all nodes of the cut."""
        self._write(ABOVE, span, part)

    def section(self, number: int, span: NodeSpan) -> SolvedPart | None:
        """Return what an earlier run found for a section; None if there is nothing."""
        found = self._read(f"section-{number:03d}")
        return found[1] if found is not None and found[0] == span else None

    def write_section(self, number: int, span: NodeSpan, part: SolvedPart) -> None:
        """Keep a finished section."""
        self._write(f"section-{number:03d}", span, part)

    def _write(self, name: str, span: NodeSpan, part: SolvedPart) -> None:
        stamps = {
            "type": "topdown.work",
            "name": name,
            "span": json.dumps([span.depth, span.first, span.last]),
            "tally": json.dumps(asdict(part.tally)),
        } | self.made_from
        table = pa.table({c: pa.array(getattr(part.rows, c)) for c in _COLUMNS})
        stamps["sha256"] = _digest(stamps, table)
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"{name}.parquet.tmp"
        pq.write_table(table.replace_schema_metadata(stamps), path, compression="zstd")
        path.replace(path.with_suffix(""))

    def _read(self, name: str) -> tuple[NodeSpan, SolvedPart] | None:
        try:
            table = pq.read_table(self.folder / f"{name}.parquet")
            stamps = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
            stated, due = stamps.pop("sha256"), self.made_from | {"type": "topdown.work", "name": name}
            if stated != _digest(stamps, table) or any(stamps[key] != due[key] for key in due):
                return None
            rows = PackedRows(*(table.column(c).to_numpy() for c in _COLUMNS))
            return NodeSpan(*json.loads(stamps["span"])), SolvedPart(
                rows, _tally(json.loads(stamps["tally"]))
            )
        except (OSError, pa.ArrowException, ValueError, KeyError, TypeError):
            return None


def _digest(stamps: dict[str, str], table: pa.Table) -> str:
    """Return the SHA-256 of everything a file says."""
    digest = hashlib.sha256(json.dumps(stamps, sort_keys=True).encode())
    for column in _COLUMNS:
        digest.update(table.column(column).to_numpy().astype("<i8").tobytes())
    return digest.hexdigest()


def _tally(document: dict[str, Any]) -> Tally:
    levels = {name: LevelTally(**level) for name, level in document["levels"].items()}
    return Tally(levels, document["failsafe"], document["repairs"], document["broken"])
