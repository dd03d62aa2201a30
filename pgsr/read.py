"""Tables from files: CSV or Parquet, names kept as text; which of them may be simulated on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pgsr.hierarchy import Hierarchy, hierarchy_of
from topdown.errors import ConfigError, DataError
from topdown.made_up import Origin, check_reason, origin_of


def read_table(path: Path) -> dict[str, list[Any]]:
    """Read a CSV or Parquet file as columns; regions and units stay text.

    Raises:
        DataError: unreadable file.
    """
    import pyarrow as pa
    from pyarrow import csv as pa_csv
    from pyarrow import parquet as pa_parquet

    try:
        if path.suffix == ".parquet":
            table = pa_parquet.read_table(path)
        else:
            text = {name: pa.string() for name in ("user", "unit", "region", "parent", "level")}
            table = pa_csv.read_csv(
                path, convert_options=pa_csv.ConvertOptions(column_types=text, strings_can_be_null=False)
            )
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}", code="D130", fix="check the path") from error
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path} cannot be read as a table", code="D130", fix="give CSV or Parquet"
        ) from error
    return {name: column.to_pylist() for name, column in zip(table.column_names, table.columns, strict=True)}


def read_hierarchy(path: Path) -> Hierarchy:
    """Read a hierarchy table with columns region, parent, level.

    Raises:
        DataError: missing columns or a malformed tree.
    """
    table = read_table(path)
    missing = [name for name in ("region", "parent", "level") if name not in table]
    if missing:
        raise DataError(
            f"{path} has no column {missing[0]!r}", code="D132", fix="give columns region, parent, level"
        )
    rows = zip(table["region"], table["parent"], table["level"], strict=True)
    return hierarchy_of([(str(r), "" if p is None else str(p), str(level)) for r, p, level in rows])


def origin_of_groups(groups: Path | str | Mapping[str, Sequence[Any]], reason: str) -> Origin:
    """Say why groups may be simulated on; columns in memory carry no mark, so they need a reason.

    Raises:
        ConfigError: C121 the groups are not known to be made up or public.
    """
    if not isinstance(groups, Mapping):
        return origin_of(Path(groups), reason)
    reason = check_reason(reason)
    if not reason:
        raise ConfigError(
            "groups in memory carry no mark of made-up data; noise that is not charged is drawn on made-up or "
            "public groups only",
            code="C121",
            fix="say why they are public or made up (truth_is_public), or give a file written by pgsr synth",
        )
    text = json.dumps([[name, list(map(str, values))] for name, values in groups.items()])
    return Origin("public", "columns in memory", hashlib.sha256(text.encode()).hexdigest(), reason)
