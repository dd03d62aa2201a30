"""Write a strict TOML document: what `read_toml` reads back as the same."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from msgspec import Struct

from topdown.plan.document import enc_hook

WIDTH = 110
_EMPTY: tuple[Any, ...] = (None, "", (), {})
_BARE = re.compile(r"^[A-Za-z0-9_-]+$")


def toml_text(document: Struct) -> str:
    """Return a struct as TOML; keys that are empty are left out.

    Args:
        document: tables, lists of tables, lists, text, whole and exact numbers, in the order of the struct.
    """
    return "\n".join(_table(_said(document), ())) + "\n"


def _said(value: Any) -> Any:
    """Return plain values without keys that are empty and may be missing."""
    if isinstance(value, Struct):
        found = {}
        for at in msgspec.structs.fields(value):
            inner = getattr(value, at.name)
            usual = at.default if at.default_factory is msgspec.NODEFAULT else at.default_factory()
            if inner not in _EMPTY or inner != usual:
                found[at.encode_name] = _said(inner)
        return found
    if isinstance(value, dict):
        return {key: _said(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_said(inner) for inner in value]
    return msgspec.to_builtins(value, enc_hook=enc_hook)


def _table(table: dict[str, Any], place: tuple[str, ...]) -> list[str]:
    """Return lines: what is plain first, then tables, then at the top lists of tables."""
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    lists = {key: value for key, value in table.items() if not place and _is_tables(value)}
    lines = [
        f"{_key(key)} = {_inline(value)}"
        for key, value in table.items()
        if key not in inner and key not in lists
    ]
    for key, value in inner.items():
        lines += ["", f"[{'.'.join(map(_key, (*place, key)))}]", *_table(value, (*place, key))]
    for key, value in lists.items():
        for one in value:
            lines += ["", f"[[{_key(key)}]]", *_table(one, (key,))]
    return lines


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _inline(value: Any, depth: int = 1) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return _list([_inline(one, depth + 1) for one in value], depth, alone=_is_tables(value))
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_inline(one, depth)}" for key, one in value.items()) + " }"
    return str(int(value))


def _list(parts: list[str], depth: int, *, alone: bool) -> str:
    """Return an array in one line if it is short, else as many parts a line as fit, or one."""
    line = f"[{', '.join(parts)}]"
    if len(line) <= WIDTH - 20 and not alone:
        return line
    lines = [""]
    for part in parts:
        if lines[-1] and (alone or len(lines[-1]) + len(part) > WIDTH - 4 * depth):
            lines.append("")
        lines[-1] += f" {part}," if lines[-1] else f"{part},"
    return "[\n" + "".join(f"{'  ' * depth}{at}\n" for at in lines) + "  " * (depth - 1) + "]"


def _key(key: str) -> str:
    return key if _BARE.match(key) else _quoted(key)


def _quoted(text: str) -> str:
    """Return a basic string; JSON writes the same escapes, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
