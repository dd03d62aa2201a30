"""Two plans side by side: what each costs, its noise, and how far its estimates will be off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from topdown.errors import ConfigError


@dataclass(frozen=True)
class ComparedNumber:
    """Standard deviation of one query's answers or of one table's estimates at a level, in records.

    Args:
        level, query: names.
        here, there: of the plan and of the other one; None where it has none.
    """

    level: str
    query: str
    here: float | None
    there: float | None


@dataclass(frozen=True)
class PlansCompared:
    """A plan beside another of the same schema.

    Args:
        here, there: their summaries.
        noise: of each measured answer.
        estimates: mean over the areas of a level; empty unless both plans ask for estimates.
    """

    here: Mapping[str, Any]
    there: Mapping[str, Any]
    noise: tuple[ComparedNumber, ...]
    estimates: tuple[ComparedNumber, ...]

    def document(self) -> dict[str, Any]:
        """Return the part `compared` of the plan's summary."""
        there = self.there
        return {
            "plan_hash": there["plan_hash"],
            "title": there["title"],
            "settings": there["settings"],
            "neighbours": there["neighbours"],
            "loss_name": there["privacy"]["loss_name"],
            "loss": there["privacy"]["loss"],
            "certified": there["privacy"]["certified"],
            "n_numbers": sum(level["n_numbers"] for level in there["levels"]),
            "needs": there["needs"],
            "noise": [_row(one) for one in self.noise],
            "estimates": [_row(one) for one in self.estimates],
        }


def compare_plans(here: Mapping[str, Any], there: Mapping[str, Any]) -> PlansCompared:
    """Compare the summaries of two plans.

    Raises: ConfigError C005 for plans of two schemas or units, whose queries mean different things.
    """
    pairs = {
        "schema": (here["schema"], there["schema"]),
        "unit": (here["privacy"]["unit"], there["privacy"]["unit"]),
    }
    for what, (one, other) in pairs.items():
        if one != other:
            raise ConfigError(
                f"plans of two {what}s are not compared: {one} and {other}",
                code="C005",
                fix=f"compare plans of one {what}",
            )
    return PlansCompared(
        here, there, _matched(here, there, "queries"), _matched(here, there, "accuracy", both=True)
    )


def _matched(
    here: Mapping[str, Any],
    there: Mapping[str, Any],
    key: Literal["queries", "accuracy"],
    *,
    both: bool = False,
) -> tuple[ComparedNumber, ...]:
    """Return the deviations under a key, in the order of the first plan, then what the other has besides."""
    mine, others = (_deviations(of.get(key, [])) for of in (here, there))
    if both and not (mine and others):
        return ()
    return tuple(ComparedNumber(*at, mine.get(at), others.get(at)) for at in mine | others)


def _deviations(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    return {(row["level"], row["query"]): row["stddev"] for row in rows}


def _row(one: ComparedNumber) -> dict[str, Any]:
    return {"level": one.level, "query": one.query, "stddev": one.here, "other": one.there}
