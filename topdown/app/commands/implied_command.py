"""`topdown implied`: what invariants mean for the areas above the leaves, or for one area with its numbers."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET, structs

from topdown import app
from topdown.app.commands.command import command
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
    Verdict,
    VerdictKind,
)
from topdown.resources import find
from topdown.solve.implied.linear_systems import eliminate, equivalent, row_text, system_lines
from topdown.solve.implied.worked_examples import EXAMPLES

if TYPE_CHECKING:
    from topdown.formats.plan_documents import ExampleName
    from topdown.model import Geography, PublicFacts
    from topdown.solve.implied import Example


MOST_LIMITS = 20
MOST_ROWS = 12
_TITLES: dict[VerdictKind, str] = {
    "complete_integral": "complete and integral",
    "complete": "complete, integrality not guaranteed",
    "always_splits": "always splits, narrower than complete",
    "not_guaranteed": "not guaranteed",
    "refused": "refused",
}


LEVELS_FIX = "give every level with the characters of its geocodes: --levels land:1,county:2,block:4"


def read_geography(path: Path, levels: str | None, columns: tuple[str, ...]) -> tuple[Geography, PublicFacts]:
    """Read a public leaf table and build the tree.

    Args:
        path: as input.leaves of a run file.
        levels: `name:characters` from the root to the leaves, without characters for census names; if None, those of
            the census spine that fit geocodes of 15 characters.
        columns: public columns the invariants need.

    Raises:
        ConfigError: C102 levels that are not understood. DataError: see `plan.public_tables.read_public`.
    """
    if levels is None:
        code = str(app.read_table(path, app.text_columns("geocode"), ignored=None).text("geocode")[0])
        if len(code) != app.CENSUS_PREFIXES["block"]:
            raise ConfigError(
                f"the geocodes of {path} are not those of census blocks, so the levels are unknown",
                code="C102",
                fix=LEVELS_FIX,
            )
        names = tuple(name for name in app.CENSUS_PREFIXES if name != "us")
        lengths = tuple(app.CENSUS_PREFIXES[name] for name in names)
    else:
        parts = [part.strip().partition(":") for part in levels.split(",")]
        names = tuple(name for name, _, _ in parts)
        known = [length or str(app.CENSUS_PREFIXES.get(name, "")) for name, _, length in parts]
        wrong = next((n for n, length in zip(names, known, strict=True) if not length.isdigit()), None)
        if wrong is not None:
            raise ConfigError(
                f"--levels does not say how many characters of the geocode name a {wrong}",
                code="C102",
                fix=LEVELS_FIX,
            )
        lengths = tuple(int(length) for length in known)
    if list(lengths) != sorted(set(lengths)) or len(set(names)) != len(names):
        raise ConfigError("--levels must go from the root to the leaves", code="C102", fix=LEVELS_FIX)
    table = app.GeographyTable(levels=names, prefix_lengths=lengths)
    return app.read_public(path, table, columns, Path.cwd(), ignored=None)


def find_node(geography: Geography, geocode: str | None) -> tuple[int, int]:
    """Return (depth, index) of an area, the root if no geocode is given; the highest if several have the code.

    Raises:
        ConfigError: C103 no area has it.
    """
    if geocode is None:
        return 0, 0
    for depth, level in enumerate(geography.levels):
        if geocode in level.codes:
            return depth, level.codes.index(geocode)
    known = [code for level in geography.levels for code in level.codes]
    near = get_close_matches(geocode, known, n=3) or known[:3]
    raise ConfigError(
        f"no area has the geocode {geocode!r}", code="C103", fix=f"for example: {', '.join(near)}"
    )


def judge_area(
    schema_name: str, invariants_name: str, path: Path, levels: str | None, geocode: str | None
) -> tuple[str, tuple[Verdict, ...], Area | None]:
    """Read everything; return the invariants' name, the verdicts, and the area's constraints unless refused.

    Raises:
        TopdownError: a file, level or geocode is wrong, or public facts exclude each other (I014).
    """
    schema = app.load_schema(find("schemas", schema_name, Path.cwd()))
    invariants = app.load_invariants(find("invariants", invariants_name, Path.cwd()), schema)
    geography, facts = read_geography(path, levels, invariants.columns)
    depth, node = find_node(geography, geocode)
    judged = app.judge_levels(schema, invariants, geography, facts)
    if any(v.kind == "refused" for v in judged):
        return invariants.name, judged, None
    rules = app.ConstraintSystem.from_facts(schema, geography, invariants, facts)
    found = app.find_contradiction(schema, geography, invariants, facts, {}, rules=rules)
    if found is not None:
        raise found.error()
    ground = app.VerdictInputs(
        schema, invariants, rules, app.public_constraints(schema, invariants, geography, rules), ()
    )
    area = app.node_constraints(ground, facts.columns, depth, node, most_limits=MOST_LIMITS)
    return invariants.name, judged, area


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
        ("topdown implied --example college-town", "Work through an example of the paper."),
    ),
)
@click.argument("invariants", required=False)
@click.option("--schema", "schema_name", metavar="NAME", help="Schema of the invariants.")
@click.option(
    "--levels", metavar="A,B,C", help="All levels from the root to the leaves; A:2,B:5,... with --leaves."
)
@click.option(
    "--leaves",
    metavar="TABLE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Public leaf table, as input.leaves of a run file.",
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
        return _show_example(screen, example)
    if schema_name is None:
        raise ConfigError(
            "INVARIANTS need --schema", code="C005", fix="add --schema NAME, the schema they are written for"
        )
    if leaves is not None:
        return _implied_of_area(screen, str(invariants), schema_name, levels, leaves, node)
    if node is not None:
        raise ConfigError(
            "--node needs --leaves",
            code="C005",
            fix="add --leaves LEAVES, the public table of the leaves",
        )
    return _chosen_invariants(screen, str(invariants), schema_name, levels)


def _chosen_invariants(screen: Screen, name: str, schema_name: str, levels: str | None) -> int:

    schema = app.load_schema(find("schemas", schema_name, Path.cwd()))
    found = app.load_invariants(find("invariants", name, Path.cwd()), schema)
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
    judged = app.verdicts(schema, found, names)
    lines = app.node_lines(schema, found, judged)
    screen.document(Implied(invariants=found.name, constraints=lines, verdicts=_titled(judged)))
    screen.heading("Constraints", " of an area above the leaves; sums run over its leaves")
    _show_lines(screen, lines)
    _show_verdicts(screen, found.name, judged)
    return EXIT_OK


def _implied_of_area(
    screen: Screen, name: str, schema_name: str, levels: str | None, leaves: Path, node: str | None
) -> int:
    found, judged, area = judge_area(schema_name, name, leaves, levels, node)
    screen.document(
        Implied(
            invariants=found,
            constraints=[] if area is None else area.lines,
            verdicts=_titled(judged),
            area=area or UNSET,
        )
    )
    if area is not None:
        show_area(screen, area)
    _show_verdicts(screen, found, judged)
    return EXIT_OK


def _show_verdicts(screen: Screen, name: str, judged: tuple[Verdict, ...]) -> None:
    screen.heading("Verdict", " by level")
    screen.table(
        [Column("level"), Column("promise"), Column("by")],
        [[v.level, _TITLES[v.kind], ", ".join(v.theorems) or "-"] for v in judged],
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
    return [TitledVerdict(**structs.asdict(verdict), title=_TITLES[verdict.kind]) for verdict in judged]


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
