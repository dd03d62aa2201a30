"""`topdown implied`: what invariants mean for the areas above the leaves, or for one area with its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import topdown
from topdown import app
from topdown.app.commands.command import command
from topdown.app.commands.options import FILE
from topdown.app.screens.console import Screen
from topdown.app.screens.text_layout import Chunk, Column, numbers
from topdown.errors import EXIT_OK, ConfigError
from topdown.formats.plan_documents import (
    AlgebraLine,
    Area,
    Combination,
    Implied,
    RefusedTable,
    TitledVerdict,
)
from topdown.solve.implied.linear_systems import eliminate, equivalent, row_text, system_lines
from topdown.solve.implied.worked_examples import EXAMPLES

if TYPE_CHECKING:
    from topdown.formats.plan_documents import ExampleName
    from topdown.solve.implied import Example


MOST_ROWS = 12


def show_area(screen: Screen, area: Area) -> None:
    """Write the constraints of an area."""
    below = (
        "" if area.level == area.leaf_level else f", {area.n_leaves:,} of level {area.leaf_level} below it"
    )
    screen.heading("Area", f" {area.level} {area.node}{below}")
    screen.heading("Kinds of cells", f", which no constraint tells apart ({len(area.kinds)})")
    kinds = [(k.name, f"{k.n_cells:,}", f"{k.n_leaves:,}") for k in area.kinds]
    columns = [Column("kind", wraps=True), *numbers("cells", "open at")]
    screen.table(columns, _first_limits(screen, kinds))
    _more_limits(screen, len(kinds), "kinds")
    screen.heading("Constraints", " of its table")
    _show_lines(screen, area.lines)
    screen.say("x >= 0, whole; the children add up to x", indent=2, hang=4)
    if area.limits:
        n = len(area.limits) + area.n_more
        screen.heading("Limits", f" on sets of kinds that follow from no others ({n})")
        for line in area.limits:
            screen.say(line, indent=2, hang=4)
        if area.n_more:
            screen.say(f"and {area.n_more:,} more", indent=2)
    if area.totals:
        said = f" of open kinds at level {area.total_level}, and the sum of their exact totals"
        _show_combinations(screen, said, area.totals)
    if area.leaf_level not in (area.level, area.total_level):
        _show_combinations(screen, f" of open kinds among the leaves, level {area.leaf_level}", area.leaves)


def _show_lines(screen: Screen, lines: list[AlgebraLine]) -> None:
    for line in lines:
        screen.say(line.algebra, indent=2, hang=4)
        if screen.verbose:
            screen.say(line.reason, indent=6, hang=6)


def _show_combinations(screen: Screen, said: str, combinations: list[Combination]) -> None:
    screen.heading("Combinations", said)
    symbols = any(c.symbol for c in combinations)
    rows: list[tuple[Chunk, ...]] = [
        (
            *((c.symbol or "-",) if symbols else ()),
            f"{c.n_areas:,}",
            "; ".join(c.kinds) or "nothing: no record can be there",
        )
        for c in combinations
    ]
    columns = [*([Column("sum")] if symbols else []), Column("areas", right=True), Column("open", wraps=True)]
    screen.table(columns, _first_limits(screen, rows))
    _more_limits(screen, len(rows), "combinations")


def _first_limits(screen: Screen, rows: list[Any]) -> list[Any]:
    return rows if screen.verbose else rows[:MOST_ROWS]


def _more_limits(screen: Screen, n: int, what: str) -> None:
    if n > MOST_ROWS and not screen.verbose:
        screen.say(f"and {n - MOST_ROWS:,} more {what} (-v shows all)", indent=2)


NAMES = ("college-town", "two-by-two", "appendix", "seven-counties")


@command(
    "implied",
    examples=(
        (
            "topdown implied pl94_2020 --schema pl94 --levels state,county,block",
            "Print the constraints of an inner area and a verdict for every level.",
        ),
        (
            "topdown implied pl94_2020 --schema pl94 --leaves blocks.csv.gz --node 44007",
            "Print those of one area with its numbers; without --node, of the root.",
        ),
        ("topdown implied run.toml --node 44007", "Print those of one area of a run file."),
        ("topdown implied --example college-town", "Work through an example of the paper."),
    ),
)
@click.argument("invariants", required=False, metavar="[RUN.toml|INVARIANTS]")
@click.option("--schema", "schema_name", metavar="NAME", help="Schema of the invariants.")
@click.option(
    "--levels", metavar="A,B,C", help="All levels from the root to the leaves; A:2,B:5,... with --leaves."
)
@click.option(
    "--leaves", metavar="TABLE", type=FILE, help="Public leaf table, as input.leaves of a run file."
)
@click.option("--node", metavar="GEOCODE", help="Area of these leaves; default: the root.")
@click.option("--example", type=click.Choice(NAMES), help="An example of the paper instead.")
def implied_command(
    screen: Screen,
    *,
    invariants: str | None,
    schema_name: str | None,
    levels: str | None,
    leaves: Path | None,
    node: str | None,
    example: ExampleName | None,
) -> int:
    """Show what invariants imply for areas above the leaves.

    Says per level whether the constraints are complete and integral, and why. Reads public tables only. With a run
    file: of its own invariants and areas. INVARIANTS and NAME are bundled names or files ending in .toml.
    """
    if (invariants is None) == (example is None):
        raise ConfigError(
            "give either a run file, INVARIANTS or --example",
            code="C005",
            fix="look at the examples: topdown implied --help",
        )
    if example is not None:
        return _show_example(screen, example)
    source = Path(str(invariants))
    if schema_name is None and source.is_file():
        if levels is not None or leaves is not None:
            raise ConfigError(
                "--levels and --leaves are of invariants with --schema; a run file has its own",
                code="C005",
                fix="leave them out",
            )
        return _show_implied(screen, topdown.plan(source).implied(node))
    if schema_name is None:
        raise ConfigError(
            "INVARIANTS need --schema",
            code="C005",
            fix="add --schema NAME, the schema they are written for, or give a run file",
        )
    if leaves is not None:
        return _show_implied(
            screen, app.implied_of_leaves(schema_name, str(invariants), leaves, levels, node)
        )
    if node is not None:
        raise ConfigError(
            "--node needs --leaves or a run file",
            code="C005",
            fix="add --leaves LEAVES, the public table of the leaves",
        )
    return _show_implied(screen, app.implied_of_levels(schema_name, str(invariants), levels))


def _show_implied(screen: Screen, made: Implied) -> int:
    screen.document(made)
    judged = made.verdicts or []
    if made.area:
        show_area(screen, made.area)
    elif made.constraints:
        screen.heading("Constraints", " of an area above the leaves; sums run over its leaves")
        _show_lines(screen, made.constraints)
    _show_verdicts(screen, made.invariants or "", judged)
    return EXIT_OK


def _show_verdicts(screen: Screen, name: str, judged: list[TitledVerdict]) -> None:
    screen.heading("Verdict", " by level")
    screen.table(
        [Column("level"), Column("promise"), Column("by")],
        [[v.level, v.title, ", ".join(v.theorems) or "-"] for v in judged],
    )
    screen.blank()
    sentences: dict[str, list[str]] = {}
    for v in judged:
        sentences.setdefault(v.sentence, []).append(v.level)
    for sentence, levels in sentences.items():
        screen.say(f"{', '.join(levels)}: {sentence}.", indent=2, hang=4)
    screen.blank()
    worst = [v.level for v in judged if v.kind != "complete_integral"]
    codes = list(dict.fromkeys(v.code for v in judged if v.code))
    said = "complete and integral" + (f" except at: {', '.join(worst)}" if worst else " at every level")
    if codes:
        said = f"refused ({', '.join(codes)})"
    if "C074" in codes:
        screen.say(
            "An extension of a published release has other means: topdown plan RUN.toml --base RELEASE judges it.",
            indent=2,
            hang=4,
        )
        screen.blank()
    screen.last(f"{name}: {said}", symbol="")


def _show_example(screen: Screen, name: ExampleName) -> int:
    example = EXAMPLES[name]
    system = example.implied
    agree = equivalent(system, eliminate(*example.definition))
    lines = system_lines(system, solved=example.solved)
    refused = _refused_table(example)
    screen.document(
        Implied(
            example=name,
            facts=list(example.facts),
            constraints=[AlgebraLine(algebra=line, reason=example.theorem) for line in lines],
            elimination_agrees=agree,
            refused=refused,
        )
    )
    screen.heading("Example", f" {example.title}")
    for fact in example.facts:
        screen.say(fact, indent=2, hang=4)
    screen.heading("Constraints", f" of the area above, complete ({example.theorem})")
    for line in lines:
        screen.say(line, indent=2, hang=4)
    screen.blank()
    if refused is not None:
        screen.say(f"Refused: ({', '.join(map(str, refused.table))}) breaks {refused.breaks}.")
    said = "gives the same constraints" if agree else "gives other constraints"
    screen.last(f"Elimination of the leaves {said}.", symbol="")
    return EXIT_OK


def _refused_table(example: Example) -> RefusedTable | None:
    broken = example.implied.broken(example.refused) if example.refused else None
    if broken is None:
        return None
    variables = example.implied.variables
    return RefusedTable(table=list(example.refused), breaks=row_text(broken, variables))
