"""Tune: shares of a plan's budget that suit the estimate of the whole tree, from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from topdown.app.calls import PathText, path_of, public_function
from topdown.app.plan_summary import mean_deviations
from topdown.errors import ConfigError, InternalError, quoted
from topdown.formats.accuracy_documents import Tune, TunedDeviation, TunedLevel, TunedQuery
from topdown.formats.strict_toml import exact_text, toml_text
from topdown.output_paths import refuse_existing, refuse_needed, write_new
from topdown.plan.planning import make_plan
from topdown.plan.preparation import PublicContext
from topdown.practice.tune_shares import Goals, best_exact_shares, load_goals, tuned_run
from topdown.progress import Event, Report, silent
from topdown.publish.release_tables import workload
from topdown.publish.table_intervals import is_exact
from topdown.solve.tree.coverage import choose_levels, lattice_form

if TYPE_CHECKING:
    from topdown.plan import PreparedRun, RunFile
    from topdown.solve.tree import LatticeForm


@dataclass(frozen=True)
class TunedRun:
    """A run file with tuned shares, and what they change. `Planned.tune` makes it.

    Args:
        text: of the run file. document: what `topdown tune --json` prints.
    """

    text: str
    document: Tune

    def __repr__(self) -> str:
        return f"TunedRun({self.document.out!r})"


@public_function
def tune_run(
    prepared: PreparedRun,
    out: PathText,
    *,
    goals: PathText | None = None,
    force: bool = False,
    report: Report = silent,
) -> TunedRun:
    """Write a run file with shares that suit the tree estimate: see `Planned.tune`."""
    source, target = prepared.path, path_of(out, "out")
    wished = None if goals is None else path_of(goals, "goals")
    refuse_needed(target, "--out", (*prepared.needed, source, *([] if wished is None else [wished])))
    if target.resolve().parent != source.resolve().parent:
        raise ConfigError(
            f"{target} is not in the folder of {source}, to which its paths are relative",
            code="C215",
            fix=f"use --out {quoted(source.parent / target.name)}",
        )
    refuse_existing(target, force=force)
    asked = Goals() if wished is None else load_goals(wished, prepared.plan)
    found = _tuned_run(prepared, asked, (str(source), str(target)), report)
    write_new(target, found.text.encode("utf-8"), force=force)
    return found


def _tuned_run(prepared: PreparedRun, goals: Goals, places: tuple[str, str], report: Report) -> TunedRun:
    """Find shares for the run file at the first place; the text is for the second."""
    source, target = places
    context, plan = prepared.context, prepared.plan
    form = _lattice_form(context)
    queries = workload(plan)
    exact = {
        (depth, i): is_exact(plan, query, depth)
        for depth in range(len(plan.levels))
        for i, query in enumerate(queries)
    }
    shares = best_exact_shares(context, form, goals, exact, [query.name for query in queries], report)
    report(Event("tune", 1, 2, "deviations before and after"))
    run = tuned_run(prepared.run, plan, shares.levels)
    new = PublicContext(
        make_plan(run, plan.schema, plan.invariants, context.geography, context.facts),
        context.geography,
        context.facts,
    )
    if new.plan.loss != plan.loss or choose_levels(new).levels != choose_levels(context).levels:
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
        levels=_tuned_levels(prepared.run, run, context),
        deviations=_tuned_deviations(context, new, goals),
    )
    head = (
        f"# Shares tuned for the estimate of the whole tree. Made from {Path(source).name} by topdown tune.\n"
    )
    return TunedRun(head + toml_text(run), document)


def _lattice_form(context: PublicContext) -> LatticeForm:
    """Return the lattice form of a plan that is fitted to the tree estimate wherever something is below (C213)."""
    if not context.plan.fits_tree:
        why = 'each area is fitted to its own measurements only: [estimates] targets is not "tree"'
    else:
        left = [at for at in choose_levels(context).levels[:-1] if at.targets == "own"]
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


def _tuned_levels(old: RunFile, new: RunFile, context: PublicContext) -> list[TunedLevel]:
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


def _tuned_deviations(old: PublicContext, new: PublicContext, goals: Goals) -> list[TunedDeviation]:
    before, after = ({(at.level, at.query): at.stddev for at in mean_deviations(c)} for c in (old, new))
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
