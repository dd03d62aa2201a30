"""Read a finished release: tables and records as pandas data frames or Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topdown.api.call import PathText, place
from topdown.api.release_folder import require_release
from topdown.errors import CertificateError, ConfigError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from topdown.api.estimates import EstimatedTable
    from topdown.plan.plan import Plan

_FINISHED = ("manifest.json", "plan.json", "certificate.json")


@dataclass(frozen=True)
class Release:
    """A finished release, open for reading. Nothing is checked but that it is finished: `topdown.verify` is the check.

    Args:
        path: its folder.

    Raises:
        ConfigError: C088 the folder is no finished release, C122 it holds a simulation.
    """

    path: Path

    def __init__(self, path: PathText) -> None:
        folder = place(path, "path")
        require_release(folder)
        missing = [name for name in _FINISHED if not (folder / name).is_file()]
        if missing:
            raise ConfigError(
                f"{folder} is not a finished release: it has no {missing[0]}",
                code="C088",
                fix="go on with the run that writes it: resume",
            )
        object.__setattr__(self, "path", folder)

    @cached_property
    def plan(self) -> Plan:
        """What was measured: levels, queries, laws of noise, budget.

        Raises: ConfigError C016 plan.json is damaged.
        """
        from topdown.plan.bases import read_plan_document
        from topdown.plan.plan import plan_from_document

        return plan_from_document(read_plan_document(self.path / "plan.json"))

    @cached_property
    def certificate(self) -> dict[str, Any]:
        """What is stated of the release, certificate.json; docs/format.md describes it.

        Raises: CertificateError V090 it is damaged.
        """
        from topdown.caps import read_json

        path = self.path / "certificate.json"
        try:
            return dict(read_json(path))
        except (OSError, ValueError, TypeError) as error:
            raise _damaged(path, type(error).__name__) from None

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the levels, root first."""
        return tuple(level.name for level in self.plan.levels)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the queries that have a table at every level."""
        from topdown.publish.tables import workload

        return tuple(query.name for query in workload(self.plan))

    def table(self, query: str, level: str) -> pd.DataFrame:
        """Return the table of a query at a level.

        Args:
            query: one of `tables`.
            level: one of `levels`.

        Returns:
            level, geocode, one column of labels an attribute, count (int64, 1 or more; the total of every area, 0 too).

        Raises:
            ConfigError: C181 there is no such table; the error names those there are.
            CertificateError: V090 its file is missing or damaged.
        """
        return self.arrow(query, level).to_pandas()

    def arrow(self, query: str, level: str) -> pa.Table:
        """Return the table of a query at a level as an Arrow table; arguments and errors as `table`."""
        from topdown.publish.tables import table_path

        _one_of("table", query, self.tables)
        _one_of("level", level, self.levels)
        return self._read(table_path(self.plan.query(query), level))

    def estimates(self, query: str, level: str) -> EstimatedTable:
        """Return the fractional estimates of a table and their standard deviations, made from all measurements.

        Args:
            query: one of `tables`, or attributes and recodes joined by " * ".
            level: one of `levels`.

        Returns:
            arrays of shape (areas, answers), with geocodes and labels.

        Raises:
            ConfigError: C181 there is no such level, C024 no such query, C211 the plan has no estimate of the
                whole tree.
            CertificateError: V020 measurements are damaged.

        Cost: one reading of all measurements, some seconds for 50 million; 48 bytes an area and answer.
        """
        from topdown.api.estimates import estimates_of

        _one_of("level", level, self.levels)
        return estimates_of(self.path, query, level)

    def microdata(self) -> pd.DataFrame:
        """Return the records: geocode, one column of labels an attribute, count (int64, 1 or more).

        Raises:
            CertificateError: V090 the file is missing or damaged.

        Cost: memory for one row a leaf and cell that holds records.
        """
        return self._read("microdata/persons.parquet").to_pandas()

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        from topdown.caps import read_json

        path = self.path / "manifest.json"
        try:
            return {str(file["path"]): file for file in read_json(path)["files"]}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise _damaged(path, type(error).__name__) from None

    def _files(self, name: str) -> list[Path]:
        """Return the file of a table, or those parts of it that the manifest lists, in order."""
        from topdown.model.sections import part_path

        parts: list[str] = []
        while name not in self._manifest and (part := part_path(name, len(parts))) in self._manifest:
            parts.append(part)
        return [self.path / path for path in parts or [name]]

    def __repr__(self) -> str:
        return f"Release({str(self.path)!r})"

    def _repr_html_(self) -> str:
        from topdown.errors import TopdownError
        from topdown.shown import card

        try:
            plan, note = self.plan, "Opened without a check: topdown.verify is the check."
            rows = [
                ("title", plan.release.title),
                ("levels", ", ".join(self.levels)),
                ("tables", ", ".join(self.tables)),
                (plan.loss_name, plan.loss),
            ]
            return card(f"Release {plan.release.id} in {self.path}", rows, note=note)
        except TopdownError as error:
            return card(f"Release in {self.path}", [(error.code, error)])

    def _read(self, name: str) -> pa.Table:
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = []
        for path in self._files(name):
            try:
                if not path.is_file():
                    raise FileNotFoundError(path.name)
                with pq.ParquetFile(path) as file:
                    tables.append(file.read())
            except (pa.ArrowException, OSError, ValueError) as error:
                raise _damaged(path, type(error).__name__) from None
        return pa.concat_tables(tables)


def _one_of(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ConfigError(
            f"the release has no {what} {name!r}", code="C181", fix=f"use one of: {', '.join(known)}"
        )


def _damaged(path: Path, why: str) -> CertificateError:
    return CertificateError(
        f"{path} cannot be read ({why})",
        code="V090",
        file=str(path),
        fix="run topdown verify on the release; get it again if a check fails",
    )
