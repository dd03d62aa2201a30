"""Keep an evaluation: readable by its owner only, and out of the release it is about."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from topdown.errors import ConfigError


def write_evaluation(document: dict[str, Any], out: Path, release: Path) -> None:
    """Write the document as JSON, readable by its owner only.

    Raises:
        ConfigError: `out` lies inside the release folder, where it could be published (C067).
    """
    if out.resolve().is_relative_to(release.resolve()):
        raise ConfigError(
            f"{out} lies inside the release; an evaluation is confidential and must not be published with it",
            code="C067",
            file=str(out),
            fix="write it to another folder",
        )
    part = out.with_name(out.name + ".tmp")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1, ensure_ascii=False)
        file.write("\n")
    part.replace(out)
