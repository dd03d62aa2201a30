"""A goals file: which tables matter more than others when shares are tuned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from msgspec import Struct

from topdown.errors import ConfigError, TopdownError
from topdown.plan.document import at, locate, read_toml
from topdown.plan.plan import Plan

USUAL_LEAST = Fraction(1, 50)  # below it, splits of wide levels take long to solve
LEAST_LEAST, MOST_LEAST = Fraction(1, 1000), Fraction(1, 2)
LEAST_GOAL, MOST_GOAL = Fraction(1, 1000), Fraction(1000)


class GoalTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[goal]]`: below 1, deviations of this table matter more; above 1, less."""

    level: str
    query: str
    goal: Fraction


class GoalsFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A goals file. `least_detailed` is the part of every level that `detailed` keeps where it is measured."""

    type: str
    version: int
    goal: tuple[GoalTable, ...] = ()
    least_detailed: Fraction = USUAL_LEAST


@dataclass(frozen=True)
class Goals:
    """What matters more.

    Args:
        of: goal of a level's name and a query's; 1 where there is none.
        least_detailed: part of every level that `detailed` keeps where it is measured.
    """

    of: Mapping[tuple[str, str], Fraction] = field(default_factory=dict)
    least_detailed: Fraction = USUAL_LEAST


def load_goals(path: Path, plan: Plan) -> Goals:
    """Read a goals file.

    Args:
        path: the file. plan: whose levels and tables it names.

    Raises:
        ConfigError: see `read_toml`; C214 an unknown level or table, one named twice, or a number outside its range.
    """
    file = read_toml(path, GoalsFile, "topdown.goals")
    try:
        return _goals(file, plan)
    except TopdownError as error:
        locate(error, path)
        raise


def _goals(file: GoalsFile, plan: Plan) -> Goals:
    levels = [level.name for level in plan.levels]
    measured = {"total", *(m.query for level in plan.levels for m in level.measurements)}
    found: dict[tuple[str, str], Fraction] = {}
    for i, table in enumerate(file.goal):
        with at("goal", str(i)):
            if table.level not in levels:
                raise _wrong(
                    f"level {table.level!r} is none of the plan's", f"use one of: {', '.join(levels)}"
                )
            name = plan.query(table.query).name
            if name not in measured:
                raise _wrong(
                    f"the plan measures no table {name!r}", f"use one of: {', '.join(sorted(measured))}"
                )
            if (table.level, name) in found:
                raise _wrong(f"{name!r} of level {table.level!r} has two goals", "keep one of them")
            if not LEAST_GOAL <= table.goal <= MOST_GOAL:
                raise _wrong(
                    f"the goal {table.goal} is not from {LEAST_GOAL} to {MOST_GOAL}",
                    "write a number below 1 for what matters more",
                )
            found[table.level, name] = table.goal
    with at("least_detailed"):
        if file.least_detailed > MOST_LEAST:
            raise _wrong(f"least_detailed is {file.least_detailed}, more than {MOST_LEAST}", 'write "1/50"')
    return Goals(found, file.least_detailed)


def _wrong(text: str, fix: str) -> ConfigError:
    return ConfigError(text, code="C214", fix=fix + "; nothing was written")
