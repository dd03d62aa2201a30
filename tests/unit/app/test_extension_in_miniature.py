"""The rehearsal of an extension: people who fit its base table, and refusals that would have come after the charge."""

import json
import re
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.attacked import shipped
from tests.helpers.commands import topdown
from tests.helpers.extension import make_land
from tests.helpers.ledgers import n_intents
from tests.helpers.solved import solve_release
from tests.helpers.tiny_extension import SCHEMA, draw_world
from topdown.app import made_up_extension, make_miniature
from topdown.errors import InfeasibleError
from topdown.plan import PreparedRun, load_context, prepare
from topdown.progress import Report, silent
from topdown.publish import publish
from topdown.solve.extend import find_patterns
from topdown.verify import verify_content

ADDED = """
[[attribute]]
name = "{name}"
labels = {labels}
"""
LEVEL = """
[[level]]
name = "{name}"
share = "{share}"
passes = [{{ table = "detailed" }}]
rounding = [{{ table = "detailed", weight = 1 }}]
[level.queries]
"street * trade" = "1/2"
"detailed" = "1/2"
"""


@given(st.integers(0, 10**6), st.sampled_from((0.2, 0.8)))
def test_made_up_people_fit_base_table_and_public_facts(seed: int, scarce: float) -> None:
    """People who do not would fail the rehearsal of an extension that could have been released."""
    world = draw_world(seed, scarce=scarce)
    context = world.context()
    try:
        find_patterns(context)
    except InfeasibleError:
        return
    if not world.base.any():
        return
    found = made_up_extension(context).dense(0, len(world.base))
    again = np.zeros_like(world.base)
    np.add.at(again.T, context.support.of_cell, found.T)
    assert world.base.tolist() == again.tolist()
    for leaf, table in enumerate(found.tolist()):
        assert not any(n for n, allowed in zip(table, world.allowed(leaf), strict=True) if not allowed)
        assert world.meets_bounds(leaf, tuple(table))
    assert SCHEMA.n_cells == found.shape[1]


def test_an_extension_is_made_in_miniature(tmp_path: Path) -> None:
    """Whatever a finished extension is checked for must hold of its miniature, or every rehearsal would fail."""
    land = make_land(tmp_path, 3, by_job=True)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    prepared = prepare(land.run, land.base)
    make_miniature(prepared, tmp_path / "small", finish)
    release = tmp_path / "small" / "release"
    checked = verify_content(release).result
    assert checked.ok, [check.findings for check in checked.checks]
    assert checked.check("base").n_checked > 0
    small, large = load_context(release), prepared.context
    leaves = [large.geography.leaves.codes.index(code) for code in small.geography.leaves.codes]
    assert 2 <= len(leaves) <= 3
    for here, there in enumerate(leaves):
        for mine, published in zip(small.support.base(-1, here), large.support.base(-1, there), strict=True):
            assert published.tolist() == mine.tolist()
    assert before == (tmp_path / "ledger.jsonl").read_bytes()


def finish(prepared: PreparedRun, release: Path, _: Report = silent) -> None:
    """Solve and publish a measured folder."""
    leaves, _ = solve_release(release)
    publish(release, load_context(release), leaves, prepared.ledger_path)


def test_what_the_solver_would_refuse_is_refused_unspent(tmp_path: Path) -> None:
    """Too many answers that cross base cells were found after the noise was paid."""
    land = make_land(tmp_path, 3)
    names = {n: json.dumps([f"{n}{i}" for i in range(64)]) for n in ("street", "trade")}
    added = "".join(ADDED.format(name=name, labels=labels) for name, labels in names.items())
    (tmp_path / "streets.toml").write_text(shipped("schemas", "toy").replace('"toy"', '"streets"') + added)
    none = 'type = "topdown.invariants"\nversion = 1\nname = "no"\ntitle = "no"\nschema = "streets"\n'
    (tmp_path / "no.toml").write_text(none)
    head, *rows = (tmp_path / "plain.csv").read_text().splitlines()
    rows = [head + ",street,trade", *(row + ",street1,trade2" for row in rows)]
    (tmp_path / "streets.csv").write_text("\n".join(rows) + "\n")
    text = land.run.read_text().replace("schema.toml", "streets.toml").replace("invariants.toml", "no.toml")
    columns = (tmp_path / "leaves.csv").read_text().splitlines()[0].split(",")[1:]
    text = re.sub("ignore = .*", f"ignore = {columns}", text.replace("full.csv", "streets.csv"))
    text = text[: text.index("[base.map]")] + "[base]\n"
    shares = {"land": "1/4", "county": "1/4", "block": "1/2"}
    land.run.write_text(text + "".join(LEVEL.format(name=n, share=s) for n, s in shares.items()))
    before = n_intents(tmp_path / "ledger.jsonl")
    said = topdown("extend", land.run, "--base", land.base, "--out", tmp_path / "more", "--yes", "--json")
    assert (said.code, said.document["code"]) == (2, "C096"), said.out
    assert topdown("plan", land.run, "--base", land.base).code == 2
    assert before == n_intents(tmp_path / "ledger.jsonl")
