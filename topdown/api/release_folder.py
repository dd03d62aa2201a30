"""Tell a release folder from anything else."""

from __future__ import annotations

from pathlib import Path

from topdown.errors import ConfigError
from topdown.made_up import refuse_simulation

FIRST_PART = "microdata/persons/part-000.parquet"


def require_release(folder: Path) -> None:
    """Refuse a path that is no release folder at all (C088); what is wrong inside is for verify to say."""
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}", code="C088", fix="give the folder of a release")
    refuse_simulation(folder)
    if not any(
        (folder / name).is_file()
        for name in ("manifest.json", "certificate.json", "microdata/persons.parquet", FIRST_PART)
    ):
        raise ConfigError(
            f"{folder} is not a release: it has neither manifest.json nor certificate.json",
            code="C088",
            fix="give the folder that topdown generate wrote",
        )
