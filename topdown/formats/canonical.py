"""JSON documents as bytes, in one way only."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct


def json_bytes(document: Struct | dict[str, Any]) -> bytes:
    """Return the only bytes a document of a release may have: sorted keys, two spaces, a last newline."""
    text = json.dumps(
        msgspec.to_builtins(document), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False
    )
    return (text + "\n").encode()
