"""The run file of a made-up census: the settings' run file with names, levels and answers filled in."""

from __future__ import annotations

import os
import re
from pathlib import Path

from topdown.plan.init import run_file_text
from topdown.synth.tree import Tree


def synth_run_text(
    out: Path, schema: str, schema_name: str, invariants: str, settings: str, release_id: str, tree: Tree
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
    """
    text = run_file_text(
        schema_name, settings, out.parent / "persons.csv.gz", out.parent / "blocks.csv.gz", out, tree.names
    )
    lengths = f"{list(tree.prefix_lengths)}  # characters of the geocode that name each level"
    answers = {
        "id": f'"{release_id}"',
        "title": '"A made-up census: nobody in it is real"',
        "data_set": f'"{release_id}"  # privacy loss adds up over all releases from one data set',
        "agency": '"nobody: made-up data"',
        "contact": '"nobody: made-up data"',
        "prefix_lengths": lengths,
        "path": f'"ledger/{release_id}.jsonl"',
    }
    named = {"schema": schema, "invariants": invariants}
    answers |= {key: f'"{_relative(name, out)}"' for key, name in named.items() if name.endswith(".toml")}
    if invariants and "invariants" not in answers:
        answers["invariants"] = f'"{invariants}"'
    for key, value in answers.items():
        found = re.search(rf"^{key} = .*$", text, flags=re.MULTILINE)
        if found:
            text = f"{text[: found.start()]}{key} = {value}{text[found.end() :]}"
    return text


def _relative(name: str, out: Path) -> str:
    return os.path.relpath(Path(name).resolve(), out.resolve().parent)
