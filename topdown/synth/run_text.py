"""The run file of a made-up census: the settings' run file with names, levels and answers filled in."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from topdown.plan.files import load_settings
from topdown.plan.init import Answers, run_file_text, usual_limit
from topdown.resources import find
from topdown.synth.tree import MadeUpTree


@dataclass(frozen=True)
class Chosen:
    """What a run is made of, as the user named it.

    Args:
        schema: bundled name or path.
        schema_name: name inside the schema file.
        settings: bundled name or path.
        invariants: bundled name or path; the settings' own if empty.
        base_settings: of the release that this one extends; both are of one data set and share its ledger.
    """

    schema: str
    schema_name: str
    settings: str
    invariants: str = ""
    base_settings: str = ""


def synth_run_text(
    out: Path,
    chosen: Chosen,
    release_id: str,
    tree: MadeUpTree,
    *,
    title: str = "",
    ignore: tuple[str, ...] = (),
) -> str:
    """Return the text of run.toml.

    Args:
        out: where the run file will be; the tables lie beside it.
        chosen: schema, settings and rules.
        release_id: id of the release and of its data set.
        tree: levels and lengths of geocodes.
        title: added to the title.
        ignore: columns of the tables that this run does not read.
    """
    already = Fraction(0)
    if chosen.base_settings:
        already = usual_limit(load_settings(find("settings", chosen.base_settings, Path.cwd())), tree.names)
    nobody = "nobody: made-up data"
    answers = Answers(
        release_id=f"{release_id}-{chosen.schema_name}" if chosen.base_settings else release_id,
        title="A made-up census: nobody in it is real" + title,
        ignore=ignore,
        already=already,
        data_set=release_id,
        agency=nobody,
        contact=nobody,
        prefix_lengths=tree.prefix_lengths,
        schema=_relative(chosen.schema, out) if chosen.schema.endswith(".toml") else "",
        invariants=_relative(chosen.invariants, out)
        if chosen.invariants.endswith(".toml")
        else chosen.invariants,
    )
    people, blocks = out.parent / "persons.csv.gz", out.parent / "blocks.csv.gz"
    return run_file_text(chosen.schema_name, chosen.settings, people, blocks, out, tree.names, answers)


def _relative(name: str, out: Path) -> str:
    return os.path.relpath(Path(name).resolve(), out.resolve().parent)
