"""Synth: a made-up census to practise with. Nobody in it is real."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from topdown.app.calls import PathText, path_of, public_function
from topdown.errors import ConfigError
from topdown.measure.run_ledger import create_run_ledger
from topdown.practice.synth.write_census import synth as make

if TYPE_CHECKING:
    from topdown.practice.synth import SynthResult


@public_function
def synth(
    out: PathText,
    *,
    people: int = 50_000,
    schema: str = "pl94",
    seed: int = 1,
    settings: str = "",
    levels: Sequence[str] = (),
    release_id: str = "made-up",
    force: bool = False,
) -> SynthResult:
    """Write made-up records and areas to practise with, their run file and its ledger. Nobody in them is real.

    The same arguments give the same tables on every machine.

    Args:
        out: folder, made if absent.
        people: records, 1 to 2^31 - 1.
        schema: bundled name, or path of a schema file.
        seed: nonnegative; another seed, another census.
        settings: bundled name or path; chosen by the schema if empty.
        levels: level names, root first; those of the settings if empty. "county:10000000" gives the first county
            ten million residents.
        release_id: id of the release and data set in the run file.
        force: replace files that are there.

    Raises:
        ConfigError: C080 a file is there, C065 or C066 a size or level cannot be; or a file is wrong.
        BudgetError: the ledger that is there belongs to something else.
    """
    folder = path_of(out, "out")
    names = ["persons.csv.gz", "blocks.csv.gz", "run.toml"]
    if (
        schema.endswith(".toml")
        and not settings
        and not (path_of(schema, "schema").parent / "settings.toml").exists()
    ):
        names += ["settings.toml", "invariants.toml"]  # may be drafted
    here = [name for name in names if (folder / name).exists()]
    if here and not force:
        raise ConfigError(
            f"{folder / here[0]} exists", code="C080", fix="give another --out, or replace it with --force"
        )
    made = make(
        folder,
        people=people,
        schema=schema,
        seed=seed,
        settings=settings,
        levels=tuple(levels),
        release_id=release_id,
    )
    for run_file in filter(None, (made.base_run_file, made.run_file)):
        create_run_ledger(run_file)
    return made
