"""Run file in, plan and public context out. Opens public files only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from topdown.errors import ConfigError, TopdownError
from topdown.model.geography import Geography
from topdown.model.public import PublicFacts, Rules, derive_rules
from topdown.model.query import Query, parse_query
from topdown.plan.document import at, locate
from topdown.plan.files import load_invariants, load_schema
from topdown.plan.make import make_plan
from topdown.plan.plan import (
    Plan,
    plan_from_document,
)
from topdown.plan.public_tables import public_sha256, read_public, read_release_public
from topdown.plan.runfile import RunFile, load_runfile
from topdown.resources import find


@dataclass(frozen=True, eq=False)
class Context:
    """A plan with the public facts it was made from: all that measure, solve and publish need to know."""

    plan: Plan
    geography: Geography
    facts: PublicFacts

    @cached_property
    def rules(self) -> Rules:
        """Open classes and lower bounds of every node."""
        return derive_rules(self.plan.schema, self.geography, self.plan.invariants, self.facts)

    def queries(self, level: str) -> tuple[Query, ...]:
        """Return the queries measured at a level, in the order of their answers in the measurement files."""
        return tuple(parse_query(self.plan.schema, m.query) for m in self.plan.level(level).measurements)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A context together with the run file it came from (paths and ledger policy are not part of the plan)."""

    context: Context
    run: RunFile
    path: Path

    @property
    def records_path(self) -> Path:
        """The confidential records."""
        return self.path.parent / self.run.input.records

    @property
    def ledger_path(self) -> Path:
        """The ledger of the data set."""
        return self.path.parent / self.run.ledger.path


def prepare(path: Path) -> Prepared:
    """Read a run file and everything public it names, and make the plan.

    Raises:
        ConfigError, DataError, BudgetError: what is wrong, where, and the fix; nothing is spent.
    """
    run = load_runfile(path)
    beside = path.resolve().parent
    try:
        with at("schema"):
            schema = load_schema(find("schemas", run.schema, beside))
        with at("invariants"):
            invariants = load_invariants(find("invariants", run.invariants, beside), schema)
        with at("input", "leaves"):
            geography, facts = read_public(
                beside / run.input.leaves, run.geography, invariants.columns, beside
            )
        plan = make_plan(run, schema, invariants, geography, facts)
    except TopdownError as error:
        locate(error, path)
        raise
    return Prepared(Context(plan, geography, facts), run, path)


def load_context(release: Path) -> Context:
    """Read a plan and its public facts back from a release folder.

    Raises:
        ConfigError: plan.json is missing, damaged, or was made for other public facts.
    """
    document = read_plan_document(release / "plan.json")
    plan = plan_from_document(document)
    geography, facts = read_release_public(release / "public")
    if public_sha256(geography, facts) != plan.public_sha256:
        raise ConfigError(
            f"the public facts in {release / 'public'} are not those of plan.json",
            code="C017",
            fix="get the release again; do not mix files of two runs",
        )
    return Context(plan, geography, facts)


def read_plan_document(path: Path) -> dict[str, object]:
    """Read plan.json without its own hash; ConfigError if it does not match that hash."""
    import json

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        stated = document.pop("plan_hash")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"{path} is not a plan ({type(error).__name__})",
            code="C016",
            fix="make it with: topdown plan RUN.toml",
        ) from None
    document.pop("run_file", None)
    if plan_from_document(document).plan_hash != stated:
        raise ConfigError(
            f"{path} was altered: its hash does not match", code="C018", fix="make the plan again"
        )
    return dict(document)
