"""What a simulation leaves on the disk: errors, and microdata that cannot be taken for a release's."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from topdown import __version__
from topdown.canonical import json_bytes
from topdown.documents.simulation import SimulationErrors, Truth
from topdown.errors import ConfigError
from topdown.made_up import SIMULATION, STAMP, WARNING
from topdown.publish.atomic import write_bytes, write_parquet
from topdown.publish.microdata import microdata_table
from topdown.simulate.simulate import DEFAULT_SEED, Replicate, Simulation
from topdown.simulate.summary import ErrorSums

_TEXT = f"""{STAMP}
This folder holds a simulation: the noise was drawn from a known seed, on made-up or public records, and nothing was
charged for it. It protects nobody and says nothing about any other records. {SIMULATION} says what it was made from.
"""


def check_new(out: Path) -> None:
    """Refuse a folder that is not new or empty (ConfigError C085)."""
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise ConfigError(
            f"{out} exists and is not an empty folder", code="C085", fix="give --out a new folder"
        )


def begin(out: Path) -> None:
    """Make the folder; its warning is the first file in it."""
    check_new(out)
    write_bytes(out / WARNING, _TEXT.encode("utf-8"))


def keep(out: Path, simulation: Simulation, replicate: Replicate) -> None:
    """Write `replicate-000/microdata.parquet`: columns as in microdata, another type, and the stamp."""
    context, origin = simulation.context, simulation.origin
    stamps = {"stamp": STAMP, "seed": str(simulation.seed), "replicate": str(replicate.number)}
    stamps |= {"truth": origin.kind, "truth_sha256": origin.sha256, "truth_is_public": origin.reason}
    path = out / f"replicate-{replicate.number:03d}" / "microdata.parquet"
    table = microdata_table(context, replicate.leaves)
    write_parquet(path, table, "topdown.simulated", context.plan, stamps)


def document(simulation: Simulation, errors: ErrorSums, replicates: int, n_failsafe: int) -> SimulationErrors:
    """Return the `topdown.simulation` document: what was simulated on what, and the errors."""
    plan = simulation.context.plan
    return SimulationErrors(
        engine=__version__,
        plan_hash=plan.plan_hash,
        unit=plan.schema.unit,
        truth=Truth(**asdict(simulation.origin), n_records=simulation.truth[0].n_records),
        seed=simulation.seed,
        seed_is_default=simulation.seed == DEFAULT_SEED,
        replicates=replicates,
        n_failsafe=n_failsafe,
        levels=errors.levels(),
    )


def finish(out: Path, made: SimulationErrors) -> None:
    """Write simulation.json."""
    write_bytes(out / SIMULATION, json_bytes(made))
