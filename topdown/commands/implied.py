"""`topdown implied`: what invariants mean for the areas above the leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.solve.implied.examples import Example

NAMES = ("college-town", "two-by-two", "appendix", "seven-counties")


@command(
    "implied",
    examples=(
        (
            "topdown implied pl94_2020 --schema pl94 --levels state,county,block",
            "Print the constraints of an inner area and a verdict for every level.",
        ),
        ("topdown implied --example college-town", "Work through an example of the paper."),
    ),
)
@click.argument("invariants", required=False)
@click.option("--schema", "schema_name", metavar="NAME", help="Schema of the invariants.")
@click.option("--levels", metavar="A,B,C", help="All levels from the root to the leaves.")
@click.option("--example", type=click.Choice(NAMES), help="An example of the paper instead.")
def implied(
    screen: Screen,
    *,
    invariants: str | None,
    schema_name: str | None,
    levels: str | None,
    example: str | None,
) -> int:
    """Show what invariants imply for areas above the leaves.

    Says per level whether the constraints are complete and integral, and why. Reads no data. INVARIANTS and NAME are
    bundled names or files ending in .toml.
    """
    if (invariants is None) == (example is None):
        raise ConfigError(
            "give either INVARIANTS or --example",
            code="C005",
            fix="look at the examples: topdown implied --help",
        )
    if example is not None:
        return _example(screen, example)
    if schema_name is None:
        raise ConfigError(
            "INVARIANTS need --schema", code="C005", fix="add --schema NAME, the schema they are written for"
        )
    return _invariants(screen, str(invariants), schema_name, levels)


def _invariants(screen: Screen, name: str, schema_name: str, levels: str | None) -> int:
    from topdown.plan.files import load_invariants, load_schema
    from topdown.resources import find
    from topdown.screen.layout import Column
    from topdown.solve.implied.classify import verdicts
    from topdown.solve.implied.describe import node_lines

    schema = load_schema(find("schemas", schema_name, Path.cwd()))
    found = load_invariants(find("invariants", name, Path.cwd()), schema)
    if levels is None:
        exact = dict.fromkeys(e.level for e in found.exact)
        names = ["levels above", *exact, "levels below"] if exact else ["all levels"]
    else:
        names = [part.strip() for part in levels.split(",")]
    judged = verdicts(schema, found, names)
    lines = node_lines(schema, found, judged)
    screen.document(
        {
            "type": "topdown.implied",
            "version": 1,
            "invariants": found.name,
            "constraints": [{"algebra": algebra, "reason": reason} for algebra, reason in lines],
            "verdicts": [v.to_json() | {"title": v.title} for v in judged],
        }
    )
    screen.heading("Constraints", " of an area above the leaves; sums run over its leaves")
    for algebra, reason in lines:
        screen.say(algebra, indent=2, hang=4)
        if screen.verbose:
            screen.say(reason, indent=6, hang=6)
    screen.heading("Verdict", " by level")
    screen.table(
        [Column("level"), Column("promise"), Column("by")],
        [[v.level, v.title, ", ".join(v.theorems) or "-"] for v in judged],
    )
    screen.blank()
    for v in judged:
        screen.say(f"{v.level}: {v.sentence}.", indent=2, hang=4)
    screen.blank()
    worst = [v.level for v in judged if v.kind != "complete_integral"]
    said = (
        f"complete and integral except at: {', '.join(worst)}"
        if worst
        else "complete and integral at every level"
    )
    screen.last(f"{found.name}: {said}", symbol="")
    return EXIT_OK


def _example(screen: Screen, name: str) -> int:
    from topdown.solve.implied.algebra import system_lines
    from topdown.solve.implied.examples import EXAMPLES
    from topdown.solve.implied.fourier_motzkin import eliminate, equivalent

    example = EXAMPLES[name]
    system = example.implied
    agree = equivalent(system, eliminate(*example.definition))
    lines = system_lines(system, solved=example.solved)
    refused = _refused(example)
    document: dict[str, Any] = {
        "type": "topdown.implied",
        "version": 1,
        "example": name,
        "facts": list(example.facts),
        "constraints": [{"algebra": line, "reason": example.theorem} for line in lines],
        "elimination_agrees": agree,
        "refused": refused,
    }
    screen.document(document)
    screen.heading("Example", f" {example.title}")
    for fact in example.facts:
        screen.say(fact, indent=2, hang=4)
    screen.heading("Constraints", f" of the area above, complete ({example.theorem})")
    for line in lines:
        screen.say(line, indent=2, hang=4)
    screen.blank()
    if refused is not None:
        screen.say(f"Refused: ({', '.join(map(str, refused['table']))}) breaks {refused['breaks']}.")
    said = "gives the same constraints" if agree else "gives other constraints"
    screen.last(f"Elimination of the leaves {said}.", symbol="")
    return EXIT_OK


def _refused(example: Example) -> dict[str, Any] | None:
    from topdown.solve.implied.algebra import row_text

    broken = example.implied.broken(example.refused) if example.refused else None
    if broken is None:
        return None
    variables = example.implied.variables
    return {"table": list(example.refused), "breaks": row_text(broken, variables)}
