"""`pgsr audit`: derived sensitivities, their enumeration, and what the published chain really leaks."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import click

from topdown.commands.base import command
from topdown.errors import EXIT_CHECK_FAILED, EXIT_OK
from topdown.screen.console import Screen


@command(
    "audit",
    examples=(
        ("pgsr audit", "The table for the census tree, and the running proof."),
        ("pgsr audit --hierarchy h.csv --sizes 20", "The table for your own regions."),
    ),
    exits=(0, 1, 2),
)
@click.option(
    "--shape", default="census", help="census, taxi or tiny, when no hierarchy is given.", show_default=True
)
@click.option("--hierarchy", type=click.Path(path_type=Path), help="Table of region, parent, level.")
@click.option("--sizes", type=click.IntRange(min=1), help="Number of sizes N.")
def audit(screen: Screen, *, shape: str, hierarchy: Path | None, sizes: int | None) -> int:
    """Print what one person can change in every measured vector, and prove the published chain's flaw."""
    from pgsr.audit import chain_leaks, confirm_by_enumeration, sensitivity_table
    from pgsr.documents.audit import Audit, ChainOutput, Enumeration, VectorSensitivity
    from topdown import __version__
    from topdown.screen import figures
    from topdown.screen.layout import Column
    from topdown.screen.look import FAIL, OK

    tree, n_sizes, where = _regions(shape, hierarchy, sizes)
    rows = sensitivity_table(tree, n_sizes)
    confirmed = confirm_by_enumeration()
    leaks = chain_leaks()
    ok = all(found.agreed for found in confirmed)
    levels = "/".join(f"{len(level):,}" for level in tree.parents)
    screen.document(
        Audit(
            engine=__version__,
            hierarchy=where,
            regions=[len(level) for level in tree.parents],
            n_sizes=n_sizes,
            ok=ok,
            sensitivities=[
                VectorSensitivity(
                    vector=row.kind,
                    move_l1=row.moves.l1,
                    move_l2_squared=row.moves.l2_squared,
                    move_l1_by_level=list(row.moves.l1_by_level),
                    new_l1=row.new.l1,
                    dropped_l1=row.dropped.l1,
                    true_epsilon_of_published_noise_at_1=str(row.published_epsilon),
                )
                for row in rows
            ],
            enumerations=[
                Enumeration(
                    regions=list(c.levels), n_sizes=c.n_sizes, total=c.total, n_pairs=c.n_pairs, ok=c.agreed
                )
                for c in confirmed
            ],
            published_chain_output=[
                ChainOutput(
                    claimed=str(leak.claimed),
                    epsilon=float(figures.decimal(Fraction(leak.epsilon), 6, down=True)),
                    bound=str(leak.bound),
                    output=list(leak.output),
                    data=(list(leak.first), list(leak.second)),
                    smallest_probability=leak.floor,
                )
                for leak in leaks
            ],
        )
    )
    screen.say(f"Sensitivities for {where}: {levels} regions, {n_sizes:,} sizes. Derived, not typed in.")
    screen.heading(
        "What one step changes", "   L1 over all levels; squared L2 is the same for every vector here"
    )
    columns = [
        Column("vector"),
        *(Column(t, right=True) for t in ("move", "new group", "dropped", "ε at claim 1")),
    ]
    screen.table(
        columns,
        [
            [
                r.kind,
                f"{r.moves.l1:,}",
                f"{r.new.l1:,}",
                f"{r.dropped.l1:,}",
                figures.decimal(r.published_epsilon, 1, up=True),
            ]
            for r in rows
        ],
    )
    screen.heading("Confirmed by enumeration", "   all data sets and neighbours of small hierarchies")
    for c in confirmed:
        text = f"{'/'.join(map(str, c.levels))} regions, {c.n_sizes} sizes, {c.total} groups: {c.n_pairs:,} pairs"
        screen.item(OK if c.agreed else FAIL, text)
    screen.heading("The published chain leaks more than it claims", "   exact law of its final output")
    screen.say(
        "Root with two leaves, 2 sizes, 6 groups; data (1,3,0,2) and (0,4,0,2): one group grows by one.",
        indent=2,
    )
    leak_columns = [
        Column("claimed ε", right=True),
        Column("real ε, at least", right=True),
        Column("bound", right=True),
    ]
    screen.table(
        leak_columns,
        [
            [
                str(k.claimed),
                figures.decimal(Fraction(k.epsilon), 3, down=True),
                figures.decimal(k.bound, 2, up=True),
            ]
            for k in leaks
        ],
    )
    screen.blank()
    if not ok:
        screen.last("A derived sensitivity is wrong", symbol=FAIL)
        return EXIT_CHECK_FAILED
    screen.last("Derived sensitivities are exact; M_c^ch as published is not private as claimed")
    return EXIT_OK


def _regions(shape: str, hierarchy: Path | None, sizes: int | None):  # type: ignore[no-untyped-def]
    from pgsr.read import read_hierarchy
    from pgsr.synth import synthesize

    if hierarchy is not None:
        return read_hierarchy(hierarchy).tree, sizes or 20, str(hierarchy)
    made = synthesize(shape)
    return made.hierarchy.tree, sizes or len(made.counts), shape
