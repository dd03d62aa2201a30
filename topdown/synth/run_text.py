"""The run file of a made-up census: the settings' run file with names, levels and answers filled in."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

from topdown.plan.files import load_settings
from topdown.plan.init import Answers, run_file_text, usual_limit
from topdown.resources import find
from topdown.synth.tree import Tree


def synth_run_text(
    out: Path,
    schema: str,
    schema_name: str,
    invariants: str,
    settings: str,
    release_id: str,
    tree: Tree,
    base_settings: str = "",
    title: str = "",
    ignore: tuple[str, ...] = (),
) -> str:
    """Return the text of run.toml.

    Args:
        out: where the run file will be; the tables lie beside it.
        schema: bundled name or path, as the user gave it.
        schema_name: name inside the schema file.
        invariants: bundled name or path, as the user gave it; the settings' own if empty.
        settings: bundled settings name or path.
        release_id: id of the release and of its data set.
        tree: levels and lengths of geocodes.
        base_settings: of the release that this one extends; both are of one data set and share its ledger.
        title: added to the title.
        ignore: columns of the tables that this run does not read.
    """
    already = Fraction(0)
    if base_settings:
        already = usual_limit(load_settings(find("settings", base_settings, Path.cwd())), tree.names)
    nobody = "nobody: made-up data"
    answers = Answers(
        release_id=f"{release_id}-{schema_name}" if base_settings else release_id,
        title="A made-up census: nobody in it is real" + title,
        ignore=ignore,
        already=already,
        data_set=release_id,
        agency=nobody,
        contact=nobody,
        prefix_lengths=tree.prefix_lengths,
        schema=_relative(schema, out) if schema.endswith(".toml") else "",
        invariants=_relative(invariants, out) if invariants.endswith(".toml") else invariants,
    )
    people, blocks = out.parent / "persons.csv.gz", out.parent / "blocks.csv.gz"
    return run_file_text(schema_name, settings, people, blocks, out, tree.names, answers)


def _relative(name: str, out: Path) -> str:
    return os.path.relpath(Path(name).resolve(), out.resolve().parent)
