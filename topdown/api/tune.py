"""Shares of a run's budget that suit the estimate of the whole tree, from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from topdown.api.call import PathText, place, public
from topdown.errors import ConfigError

if TYPE_CHECKING:
    from topdown.documents.tune import Tune, TunedDeviation, TunedLevel
    from topdown.plan.prepare import Context, Prepared
    from topdown.plan.runfile import RunFile
    from topdown.solve.tree.covered import LatticeForm
    from topdown.tune.goals import Goals


@dataclass(frozen=True)
class TunedRun:
    """A run file with tuned shares, and what they change.

    Args:
        text: of the run file. document: what `topdown tune --json` prints.
    """

    text: str
    document: Tune


@public
def tune(run: PathText, out: PathText, *, goals: PathText | None = None, force: bool = False) -> TunedRun:
    """Write a run file whose shares make the worst standard deviation, relative to goals, as small as it can be.

    Opens the run file, the public tables and the goals; neither records nor ledger. The budget stays what it is, to
    the last digit. The search takes the same cells for open in every area; the deviations that are told, before and
    after, are those of the plans. They are of estimates: what is released must also be whole and at least 0, so
    simulate before a release.

    Args:
        run: run file with `[estimates] targets = "tree"`.
        out: run file to write, in the same folder, because its paths are relative to it.
        goals: file of type topdown.goals; 1 for every table if None.
        force: replace what is at `out`, which is never the run file.

    Raises:
        ConfigError: C080 `out` exists, C132 it is a file that the run needs, C213 the plan is not fitted to the tree
            estimate at every level above the leaves, C214 the goals, C215 `out` lies elsewhere.
        DataError: a public table breaks a rule.
        BudgetError: the budget does not add up.

    Cost: half a minute for 25,000 leaves.
    """
    from topdown.outputs import refuse_existing, refuse_needed, write_new
    from topdown.plan.prepare import prepare
    from topdown.tune.goals import Goals, load_goals

    source, target = place(run, "run"), place(out, "out")
    wished = None if goals is None else place(goals, "goals")
    prepared = prepare(source)
    refuse_needed(target, "--out", (*prepared.needed, source, *([] if wished is None else [wished])))
    if target.resolve().parent != source.resolve().parent:
        raise ConfigError(
            f"{target} is not in the folder of {source}, to which its paths are relative",
            code="C215",
            fix=f"use --out {source.parent / target.name}",
        )
    refuse_existing(target, force=force)
    asked = Goals() if wished is None else load_goals(wished, prepared.context.plan)
    found = _tuned(prepared, asked, str(source), str(target))
    write_new(target, found.text.encode("utf-8"), force=force)
    return found


def _tuned(prepared: Prepared, goals: Goals, source: str, target: str) -> TunedRun:
    from topdown.documents.tune import Tune
    from topdown.errors import InternalError
    from topdown.plan.document import exact_text
    from topdown.plan.make import make_plan
    from topdown.plan.prepare import Context
    from topdown.plan.write_toml import toml_text
    from topdown.publish.intervals import is_exact
    from topdown.publish.tables import workload
    from topdown.solve.tree.covered import choose
    from topdown.tune.adapt import tuned_run
    from topdown.tune.tune import tune as find_shares

    context, plan = prepared.context, prepared.context.plan
    form = _form(context)
    queries = workload(plan)
    exact = {
        (depth, i): is_exact(plan, query, depth)
        for depth in range(len(plan.levels))
        for i, query in enumerate(queries)
    }
    shares = find_shares(context, form, goals, exact, [query.name for query in queries])
    run = tuned_run(prepared.run, plan, shares.levels)
    new = Context(
        make_plan(run, plan.schema, plan.invariants, context.geography, context.facts),
        context.geography,
        context.facts,
    )
    if new.plan.loss != plan.loss or choose(new).levels != choose(context).levels:
        raise InternalError(
            "tuned shares cost another loss, or leave the tree estimate less than it covered",
            code="X048",
            fix="report it with the run file and the public tables; nothing was written",
        )
    document = Tune(
        run_file=source,
        out=target,
        plan_hash=new.plan.plan_hash,
        budget=exact_text(plan.budget),
        loss=exact_text(plan.loss),
        compared=shares.compared,
        levels=_levels(prepared.run, run, context),
        deviations=_deviations(context, new, goals),
    )
    head = (
        f"# Shares tuned for the estimate of the whole tree. Made from {Path(source).name} by topdown tune.\n"
    )
    return TunedRun(head + toml_text(run), document)


def _form(context: Context) -> LatticeForm:
    """Return the lattice form of a plan that is fitted to the tree estimate wherever something is below (C213)."""
    from topdown.solve.tree.covered import choose, lattice_form

    if not context.plan.fits_tree:
        why = 'each area is fitted to its own measurements only: [estimates] targets is not "tree"'
    else:
        left = [at for at in choose(context).levels[:-1] if at.targets == "own"]
        why = f"level {left[0].level} is fitted to its own measurements only: {left[0].why}" if left else ""
    form = lattice_form(context)
    if why or isinstance(form, str):
        raise ConfigError(
            f"shares are tuned for the estimate of the whole tree, and {why or form}",
            code="C213",
            fix="use settings with the tree estimate, such as pl94_2020_tree; nothing was written",
            key=("estimates",) if not context.plan.fits_tree else (),
        )
    return form


def _levels(old: RunFile, new: RunFile, context: Context) -> list[TunedLevel]:
    from topdown.documents.tune import TunedLevel, TunedQuery
    from topdown.plan.document import exact_text

    before, after = ({table.name: table for table in run.level} for run in (old, new))
    out = []
    for level in context.plan.levels:
        was, now = before[level.name], after[level.name]
        queries = [
            TunedQuery(
                query=name,
                before=exact_text(share),
                after=exact_text(now.queries[name]) if name in now.queries else "0",
            )
            for name, share in was.queries.items()
        ]
        out.append(
            TunedLevel(
                level=level.name, before=exact_text(was.share), after=exact_text(now.share), queries=queries
            )
        )
    return out


def _deviations(old: Context, new: Context, goals: Goals) -> list[TunedDeviation]:
    from topdown.api.plan_summary import mean_deviations
    from topdown.documents.tune import TunedDeviation
    from topdown.plan.document import exact_text

    before, after = (
        {(at["level"], at["query"]): at["stddev"] for at in mean_deviations(c)} for c in (old, new)
    )
    return [
        TunedDeviation(
            level=level,
            query=query,
            goal=exact_text(goals.of.get((level, query), Fraction(1))),
            before=was,
            after=after[level, query],
        )
        for (level, query), was in before.items()
    ]
