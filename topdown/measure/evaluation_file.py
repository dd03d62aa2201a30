"""Keep an evaluation: readable by its owner only, and out of the release it is about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from topdown.errors import ConfigError
from topdown.outputs import refuse_needed, write_new


def write_evaluation(
    document: dict[str, Any], out: Path, release: Path, *, truth: Path | None = None, force: bool = False
) -> None:
    """Write the document as JSON, readable by its owner only.

    Raises:
        ConfigError: `out` lies inside the release folder, where it could be published (C067); it is the truth
            (C132), or exists and `force` is not given (C080).
    """
    if out.resolve().is_relative_to(release.resolve()):
        raise ConfigError(
            f"{out} lies inside the release; an evaluation is confidential and must not be published with it",
            code="C067",
            file=str(out),
            fix="write it to another folder",
        )
    refuse_needed(out, "--out", () if truth is None else (truth,))
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    write_new(out, text.encode("utf-8"), force=force, mode=0o600)
