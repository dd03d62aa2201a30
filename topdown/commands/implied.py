"""`topdown implied`: what invariants mean for the areas above the leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from topdown.commands.base import command
from topdown.errors import EXIT_OK, ConfigError
from topdown.screen.console import Screen

if TYPE_CHECKING:
    from topdown.documents.implied import ExampleName, RefusedTable, TitledVerdict
    from topdown.solve.implied.classify import Verdict
    from topdown.solve.implied.examples import Example

NAMES = ("college-town", "two-by-two", "appendix", "seven-counties")


@command(
    "implied",
    examples=(
        (
            "topdown implied pl94_2020 --schema pl94 --levels state,county,block",
            "Print the constraints of an inner area and a verdict for every level.",
        ),
        (
            "topdown implied pl94_2020 --schema pl94 --geography blocks.csv.gz --node 44007",
            "Print those of one area with its numbers; without --node, of the root.",
        ),
        ("topdown implied --example college-town", "Work through an example of the paper."),
    ),
)
@click.argument("invariants", required=False)
@click.option("--schema", "schema_name", metavar="NAME", help="Schema of the invariants.")
@click.option(
    "--levels", metavar="A,B,C", help="All levels from the root to the leaves; A:2,B:5,... with a geography."
)
@click.option(
    "--geography",
    metavar="LEAVES",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Public leaf table, as input.leaves of a run file.",
)
@click.option("--node", metavar="GEOCODE", help="Area of the geography; default: the root.")
@click.option("--example", type=click.Choice(NAMES), help="An example of the paper instead.")
def implied(
    screen: Screen,
    *,
    invariants: str | None,
    schema_name: str | None,
    levels: str | None,
    geography: Path | None,
    node: str | None,
    example: ExampleName | None,
) -> int:
    """Show what invariants imply for areas above the leaves.

    Says per level whether the constraints are complete and integral, and why. Reads public tables only. INVARIANTS
    and NAME are bundled names or files ending in .toml.
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
    if geography is not None:
        return _area(screen, str(invariants), schema_name, levels, geography, node)
    if node is not None:
        raise ConfigError(
            "--node needs --geography",
            code="C005",
            fix="add --geography LEAVES, the public table of the leaves",
        )
    return _invariants(screen, str(invariants), schema_name, levels)


def _invariants(screen: Screen, name: str, schema_name: str, levels: str | None) -> int:
    from topdown.commands.implied_area import algebra_lines
    from topdown.documents.implied import Implied
    from topdown.plan.files import load_schema
    from topdown.plan.invariants_file import load_invariants
    from topdown.resources import find
    from topdown.solve.implied.classify import verdicts
    from topdown.solve.implied.describe import node_lines

    schema = load_schema(find("schemas", schema_name, Path.cwd()))
    found = load_invariants(find("invariants", name, Path.cwd()), schema)
    if levels is None:
        exact = dict.fromkeys(e.level for e in found.exact)
        names = ["levels above", *exact, "levels below"] if exact else ["all levels"]
        table = next((e for e in found.exact if e.query != "total"), None)
        if table is not None:  # what it means depends on how far down its level is
            raise ConfigError(
                f"{table.name!r} keeps a table exact, so the verdict depends on the levels",
                code="C005",
                fix="add --levels A,B,C, all levels from the root to the leaves",
            )
    else:
        names = [part.strip().partition(":")[0] for part in levels.split(",")]
    judged = verdicts(schema, found, names)
    lines = node_lines(schema, found, judged)
    screen.document(
        Implied(invariants=found.name, constraints=algebra_lines(lines), verdicts=_titled(judged))
    )
    screen.heading("Constraints", " of an area above the leaves; sums run over its leaves")
    for algebra, reason in lines:
        screen.say(algebra, indent=2, hang=4)
        if screen.verbose:
            screen.say(reason, indent=6, hang=6)
    _show_verdicts(screen, found.name, judged)
    return EXIT_OK


def _area(
    screen: Screen, name: str, schema_name: str, levels: str | None, leaves: Path, node: str | None
) -> int:
    from msgspec import UNSET

    from topdown.commands.implied_area import algebra_lines, area_document, judge_area, show_area
    from topdown.documents.implied import Implied

    found, judged, area = judge_area(schema_name, name, leaves, levels, node)
    screen.document(
        Implied(
            invariants=found,
            constraints=[] if area is None else algebra_lines(area.lines),
            verdicts=_titled(judged),
            area=UNSET if area is None else area_document(area),
        )
    )
    if area is not None:
        show_area(screen, area)
    _show_verdicts(screen, found, judged)
    return EXIT_OK


def _show_verdicts(screen: Screen, name: str, judged: tuple[Verdict, ...]) -> None:
    from topdown.screen.layout import Column

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


def _titled(judged: tuple[Verdict, ...]) -> list[TitledVerdict]:
    from msgspec import convert

    from topdown.documents.implied import TitledVerdict

    return [convert(verdict, TitledVerdict, from_attributes=True) for verdict in judged]


def _example(screen: Screen, name: ExampleName) -> int:
    from topdown.documents.implied import AlgebraLine, Implied
    from topdown.solve.implied.algebra import system_lines
    from topdown.solve.implied.examples import EXAMPLES
    from topdown.solve.implied.fourier_motzkin import eliminate, equivalent

    example = EXAMPLES[name]
    system = example.implied
    agree = equivalent(system, eliminate(*example.definition))
    lines = system_lines(system, solved=example.solved)
    refused = _refused(example)
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


def _refused(example: Example) -> RefusedTable | None:
    from topdown.documents.implied import RefusedTable
    from topdown.solve.implied.algebra import row_text

    broken = example.implied.broken(example.refused) if example.refused else None
    if broken is None:
        return None
    variables = example.implied.variables
    return RefusedTable(table=list(example.refused), breaks=row_text(broken, variables))
