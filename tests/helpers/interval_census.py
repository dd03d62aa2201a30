"""Small censuses and releases whose plan asks for intervals."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np

from tests.helpers.ledgers import with_ledger
from tests.helpers.policies import write_records
from tests.helpers.solved import Census, NoisyAnswers, make_census, noisy, toy_run
from topdown import GenerateResult
from topdown.app import generate_release
from topdown.plan import Estimates, prepare
from topdown.publish import TableRows, rows_of, workload
from topdown.solve import AnswersInMemory
from topdown.solve.tree import TreeEstimates, exact_at_root, tree_estimates

COVERAGE = '[estimates]\ncoverage = "19/20"\n\n[budget]'


def asks(census: Census, coverage: Fraction | None, targets: Literal["own", "tree"] = "own") -> Census:
    """Return the census under a plan with intervals."""
    plan = replace(census.context.plan, estimates=Estimates(targets, coverage))
    return replace(census, context=replace(census.context, plan=plan))


def held(census: Census, answers: NoisyAnswers) -> AnswersInMemory:
    """Return noisy answers as the estimate reads them."""
    depths = range(len(census.context.plan.levels))
    nodes = tuple(np.flatnonzero(census.context.rules.inhabited[d]).astype(np.int64) for d in depths)
    return AnswersInMemory(nodes, tuple(answers.values[d][nodes[d]].astype(np.int32) for d in depths))


def numbers(census: Census, seed: int) -> TreeEstimates:
    """Return the estimates of one draw."""
    return tree_estimates(
        census.context,
        held(census, noisy(census, seed)),
        exact_at_root(census.context.plan, census.exact, {}),
    )


def true_rows(census: Census) -> dict[tuple[str, int], TableRows]:
    """Return the rows of every table, with the true counts."""
    out = {}
    for query in workload(census.context.plan):
        for depth, table in enumerate(census.truth):
            out[query.name, depth] = rows_of(census.context, query, depth, table.sparse_answers(query))
    return out


def release(
    folder: Path, *, text: str = COVERAGE, n_blocks: int = 12, mechanism: str = "discrete_gaussian"
) -> GenerateResult:
    """Make a whole release of a toy land."""
    run = toy_run().replace("[budget]", text)
    if mechanism == "geometric":
        run = run.replace("discrete_gaussian", mechanism).replace("rho =", "epsilon =")
    census = make_census(folder, 4, n_blocks=n_blocks, run=run)
    write_records(folder, census)
    return generate_release(prepare(with_ledger(folder / "run.toml")), folder / "release")
