"""Run files of `pgsr release`: strict TOML, paths relative to the file, the command line wins."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from topdown.caps import TooMuchError, parse_toml, read_plain, too_much
from topdown.errors import ConfigError, DataError

KEYS: dict[str, type] = {
    "groups": Path,
    "hierarchy": Path,
    "mechanism": str,
    "epsilon": str,
    "rho": str,
    "sizes": int,
    "smallest": int,
    "too_large": str,
    "total": int,
    "public": Path,
    "shares": list,
    "relations": list,
    "unit": str,
    "direction": str,
    "calibration": str,
    "data_set": str,
    "ledger": Path,
    "ledger_id": str,
    "witness": Path,
    "limit": str,
    "limit_reason": str,
    "ignore": list,
    "simulate": int,
    "truth_is_public": str,
    "out": Path,
}


def settings_of(run: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run file with those of the command line put over them.

    Args:
        run: TOML file with the keys of `KEYS`, or None.
        given: settings of the command line.

    Raises:
        ConfigError: unreadable file, unknown key (with the one that was meant), or a value of the wrong type.
    """
    if run is None:
        return dict(given)
    try:
        text = read_plain(run).decode("utf-8")
        plain = parse_toml(text)
    except TooMuchError as error:
        raise too_much(run, error) from None
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {run}", code="C001", fix="check the path") from error
    except (UnicodeDecodeError, OSError) as error:
        raise ConfigError(
            f"{run} is not text that can be read", code="C002", fix="give a UTF-8 file", file=str(run)
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{run} is not TOML: {error}", code="C010", fix="correct the line", file=str(run)
        ) from error
    settings: dict[str, Any] = {}
    for key, value in plain.items():
        settings[key] = _value(run, text, key, value)
    return settings | given


def write_settings(run: Path, found: dict[str, str]) -> None:
    """Set keys of a run file to texts, in one durable step; a key that is there is replaced, others go to its end.

    Raises:
        ConfigError: C166 the file does not say so after all; it is left as it was.
    """
    from topdown.ledger.durable import Disk

    if not found:
        return
    text = run.read_text(encoding="utf-8")
    for key, value in found.items():
        line = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        there = re.search(rf"^{key}[ \t]*=.*$", text, re.MULTILINE)
        if there is None:
            text += ("\n" if text and not text.endswith("\n") else "") + line + "\n"
        else:
            text = text[: there.start()] + line + text[there.end() :]
    said = tomllib.loads(text)
    if any(said.get(key) != value for key, value in found.items()):
        raise ConfigError(
            f"{run} could not be told about its ledger",
            code="C166",
            fix="; ".join(f"write {key} = {value!r} into it" for key, value in found.items()),
        )
    try:
        Disk().replace(run, text.encode("utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{run} cannot be written: {error.strerror}", code="C166", file=str(run), fix="correct its rights"
        ) from None


def _value(run: Path, text: str, key: str, value: object) -> object:
    line = next((i for i, row in enumerate(text.splitlines(), 1) if row.split("=")[0].strip() == key), None)
    where = f"{run}, line {line}" if line else str(run)
    if key not in KEYS:
        close = difflib.get_close_matches(key, KEYS, n=1)
        hint = f'; did you mean "{close[0]}"?' if close else ""
        raise ConfigError(
            f'unknown key "{key}" in {where}{hint}',
            code="C012",
            fix="rename the key; nothing was read or spent",
        )
    wanted = KEYS[key]
    if isinstance(value, float):
        raise ConfigError(
            f"{key} is the float {value} in {where}; budgets are exact",
            code="C142",
            fix=f'write {key} = "1/2", with quotes',
        )
    if wanted is Path and isinstance(value, str):
        return run.parent / value
    if wanted is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, wanted) or isinstance(value, bool) or not _plain_list(value):
        raise ConfigError(f"{key} in {where} is {value!r}", code="C166", fix=f"give a {wanted.__name__}")
    return value


def _plain_list(value: object) -> bool:
    return not isinstance(value, list) or all(isinstance(item, str | int) for item in value)


def public_totals(path: Path, ignored: Sequence[str] = ()) -> dict[str, int]:
    """Return public numbers of groups from a table with columns region, groups.

    Raises:
        DataError: see `read_table`; numbers that are not whole, or a region listed twice (D133).
    """
    from pgsr.read import read_table

    table = read_table(path, ("region", "groups"), ignored)
    if (table["groups"] < 0).any():
        raise DataError(f"{path}: column groups is not whole numbers", code="D133", fix="give integers")
    if len(set(table["region"])) != len(table["region"]):
        raise DataError(f"{path}: a region is listed twice", code="D133", fix="keep one row a region")
    return dict(zip(table["region"], table["groups"].tolist(), strict=True))
