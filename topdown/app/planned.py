"""Plan: a run file with everything public it names, before anything is spent.

`plan.json` is saved here, opened again with its run file, and compared value by value.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topdown import app
from topdown.app.calls import PathText, leaves_in_memory, path_of, public_function, require_finished
from topdown.app.resource_needs import check_memory
from topdown.errors import ConfigError, quoted
from topdown.formats.caps import PLAN_BYTES, read_json
from topdown.formats.common import Neighbours
from topdown.formats.plan_documents import ChangedValue, Implied, PlanSummary
from topdown.formats.strict_toml import toml_text
from topdown.inputs import MemoryTable
from topdown.measure.run_ledger import create_run_ledger
from topdown.notebook import card
from topdown.output_paths import refuse_needed, refuse_release, write_new
from topdown.plan import PreparedRun, prepare
from topdown.plan.plan_values import plan_file, read_plan
from topdown.plan.preparation import RunOfValues, prepare_values, write_run
from topdown.plan.settings import Budget
from topdown.privacy.exact_values import threshold
from topdown.progress import Report, silent
from topdown.publish.release_certificate import open_answers

if TYPE_CHECKING:
    import pandas as pd

    from topdown.app.compare_noise import BudgetFor, NoiseCompared
    from topdown.app.compare_plans import PlansCompared
    from topdown.app.tuned_run import TunedRun
    from topdown.inputs import ArrowTable
    from topdown.model import Geography, Invariants, Schema
    from topdown.plan import Plan
    from topdown.plan.settings import Settings
    from topdown.privacy.exact_values import Exact, Threshold


@dataclass(frozen=True, eq=False)
class Planned:
    """A run file with its plan: what a release would measure, at what exact cost. `topdown.plan` makes it.

    >>> import topdown
    >>> planned = topdown.plan("town/run.toml")
    >>> planned.plan.loss_name, str(planned.loss)
    ('rho', '2')

    Args:
        prepared: run file, plan and public facts.
        base: folder of the release that it extends; None if it extends none.
        records: confidential records in memory, in a box that shows nothing; None if the run file names them.
    """

    prepared: PreparedRun
    base: Path | None = None
    records: MemoryTable | None = None

    @property
    def plan(self) -> Plan:
        """Levels, queries, laws of noise, invariants, budget."""
        return self.prepared.plan

    @property
    def plan_hash(self) -> str:
        """SHA-256 of the plan, in hex; the ledger charges under it."""
        return self.plan.plan_hash

    @property
    def loss(self) -> Fraction:
        """What a release spends: exact, in rho or epsilon (`plan.loss_name`)."""
        return self.plan.loss

    @property
    def delta(self) -> Fraction:
        """What a release spends of delta beside `loss`: exact, 0 unless losses are pairs."""
        return self.plan.delta_of(self.plan.loss)

    @cached_property
    def summary(self) -> PlanSummary:
        """The `topdown.plan_summary` document: areas, noise, certified privacy, ledger, needs, warnings."""
        return app.summary_of(self.prepared)

    def compare_noise(self, delta: Threshold, epsilon: Threshold | None = None) -> NoiseCompared:
        """Compare discrete Gaussian noise with the best noise for single counts, under one promise for all queries.

        Nothing is drawn or charged. A run file has the second kind with mechanism = "optimal"; its shares split
        epsilon and delta, so it reaches the variances here only where they come from sums.

        Args:
            delta: of all queries together, exact, above 0, at most 1/1000.
            epsilon: of all queries together, exact, 1/1000 .. 100; what the plan costs at delta if None.

        Returns: variances of both kinds, about in the plan's proportions, and what each kind needs, certified.

        Raises:
            ConfigError: C005 an extension, C151 epsilon, C152 and C154 delta, C155 too wide noise.

        Cost: seconds; a minute for a hundred queries of different noise.
        """
        wanted = None if epsilon is None else threshold(epsilon, "epsilon")
        return app.noise_beside(self.plan, threshold(delta, "delta"), wanted)

    def compare(self, other: Planned) -> PlansCompared:
        """Compare with another plan of the same schema: cost, noise, and how far estimates will be off.

        Args:
            other: from `topdown.plan`.

        Raises:
            ConfigError: C005 two schemas or units.

        Cost: that of both summaries.
        """
        return app.plans_beside(self.summary, other.summary)

    def budget_for(self, epsilon: Threshold, delta: Threshold = "1e-10") -> BudgetFor:
        """Find the budget of at most four digits that costs at most epsilon at delta, with the plan's own shares.

        Args:
            epsilon: exact, 1/1000 .. 100. delta: exact, above 0, below 1.

        Raises:
            ConfigError: C005 an extension or mechanism optimal, C151 epsilon, C152 delta, A014 nothing certified.

        Cost: a second or two.
        """
        return app.budget_for(self.plan, threshold(epsilon, "epsilon"), threshold(delta, "delta"))

    def errors(self) -> pd.DataFrame:
        """Return the expected error of every table that is measured, at every level, in records.

        Returns: level, query, noise (standard deviation of one noisy answer) and estimate (that of the table's
            estimate, from all measurements); NaN where there is none. A release is nearer to the truth than an
            estimate where counts cannot be negative.

        Cost: that of the estimates' covariances: two seconds for 25,181 leaves.
        """
        return app.frame_of(asdict(error) for error in app.expected_errors(self.prepared.context))

    def budget_grid(self, epsilons: Sequence[Threshold], delta: Threshold = "1e-10") -> pd.DataFrame:
        """Return error and risk at the largest budget that keeps each epsilon at delta; all shares stay.

        Args:
            epsilons: 1 to 20 different ones, 1/1000 .. 100. delta: above 0, below 1.

        Returns: epsilon, budget (rho or epsilon, a fraction as text), right_in_100 (the best attacker's chance), and
            for every level and query the columns of `errors`.

        Raises: ConfigError C325 the epsilons, C005 an extension or mechanism optimal, C151, C152, A014.

        Cost: a second or two for each epsilon, and that of `errors`.
        """
        wanted = [threshold(epsilon, "epsilon") for epsilon in epsilons]
        points = app.budget_grid(self.prepared.context, wanted, threshold(delta, "delta"))
        return app.frame_of(
            {"epsilon": float(at.epsilon), "budget": str(at.budget), "right_in_100": at.right_in_100}
            | asdict(error)
            for at in points
            for error in at.errors
        )

    def tune(
        self, out: PathText, *, goals: PathText | None = None, force: bool = False, report: Report = silent
    ) -> TunedRun:
        """Write a run file whose shares make the worst standard deviation, relative to goals, as small as it can be.

        Opens the run file, the public tables and the goals; neither records nor ledger. The budget stays what it is,
        to the last digit. The search takes the same cells for open in every area; the deviations that are told, before
        and after, are those of the plans. They are of estimates: what is released must also be whole and at least 0,
        so simulate before a release.

        >>> import topdown
        >>> made = topdown.synth("shire", people=100, settings="pl94_2020_tree")
        >>> topdown.plan(made.run_file).tune("shire/tuned.toml")
        TunedRun('shire/tuned.toml')
        >>> topdown.plan("shire/tuned.toml").loss == topdown.plan(made.run_file).loss
        True

        Args:
            out: run file to write, in the folder of the plan's own, because its paths are relative to it.
            goals: file of type topdown.goals; 1 for every table if None.
            force: replace what is at `out`, which is never the run file.
            report: see `topdown.generate`.

        Returns: the text of the run file, and the document of `topdown tune --json`.

        Raises:
            ConfigError: C080 `out` exists, C132 it is a file that the run needs, C213 the plan is not fitted to the
                tree estimate at every level above the leaves, C214 the goals, C215 `out` lies elsewhere.

        Cost: half a minute for 25,000 leaves.
        """
        return app.tune_run(self.prepared, out, goals=goals, force=force, report=report)

    def implied(self, node: str | None = None) -> Implied:
        """Return what the invariants mean for an area above the leaves, and for every level whether that is complete.

        >>> import topdown
        >>> found = topdown.plan("town/run.toml").implied()
        >>> [(verdict.level, verdict.title) for verdict in found.verdicts][-1]
        ('block', 'complete and integral')

        Args:
            node: geocode of the area; the root if None.

        Returns: the `topdown.implied` document.

        Raises:
            ConfigError: C103 no area has the geocode, C005 the plan extends a release.
            InfeasibleError: I014 public facts exclude each other.
        """
        return app.implied_of_plan(self.prepared.context, node)

    def to_toml(self) -> str:
        """Return the run file of the plan as text; `topdown.plan` of it gives the same plan hash."""
        return toml_text(self.prepared.run)

    def write(self, folder: PathText) -> Planned:
        """Write a plan that was made of values as files, with the ledger of its data set, and return it again.

        Writes run.toml, schema.toml, invariants.toml, geography.csv and leaves.csv; no record. `generate` then spends.

        Args:
            folder: made if absent; nothing there is replaced.

        Raises:
            ConfigError: C080 a file is there, C340 the plan has files already.
            BudgetError: the ledger that is there belongs to something else.
        """
        where = path_of(folder, "folder")
        if self.prepared.path.is_file():
            raise ConfigError(
                f"the plan of {self.prepared.path} has files already",
                code="C340",
                fix="use these, or copy them",
            )
        run_file = public_function(write_run)(self.prepared, where)
        create_run_ledger(run_file)
        return Planned(prepare(run_file), None, self.records)

    def save(self, path: PathText) -> None:
        """Write plan.json, which `generate` takes in place of the run file.

        Args:
            path: file; another plan there is replaced.

        Raises:
            ConfigError: C080 another file is there, C132 the run needs the file or it lies inside a release.
            DataError: D050 the disk refuses.
        """
        public_function(save_plan)(self.prepared, path_of(path, "path"))

    def __repr__(self) -> str:
        return (
            f"Planned({self.plan.release.id!r}, {self.plan.loss_name} {self.loss}, plan {self.plan_hash[:8]})"
        )

    def _repr_html_(self) -> str:
        plan = self.plan
        rows = [
            (at.name, f"{at.n_nodes:,}", f"{plan.numbers_at(depth):,}", at.loss)
            for depth, at in enumerate(plan.levels)
        ]
        return card(
            f"Plan of {plan.release.id}: {plan.loss_name} {self.loss}",
            rows,
            head=("level", "areas", "noisy numbers", plan.loss_name),
            note=f"Plan {self.plan_hash[:8]}. Nothing was spent.",
        )


@public_function
def plan(
    run: PathText | None = None,
    *,
    base: PathText | None = None,
    leaves: ArrowTable | None = None,
    final: bool = False,
    schema: Schema | None = None,
    geography: Geography | None = None,
    records: ArrowTable | None = None,
    rho: Exact | None = None,
    epsilon: Exact | None = None,
    delta: Exact | None = None,
    budget: Budget | None = None,
    neighbours: Neighbours | None = None,
    settings: Settings | None = None,
    invariants: Invariants | None = None,
    data_set: str = "own",
    columns: Mapping[str, str] | None = None,
) -> Planned:
    """Plan a release and spend nothing; no row of the confidential records is read.

    A plan comes from a run file, or from values: a schema, a geography and a budget. Shares are then those of a draft
    (`Settings.from_shares`), unless settings say otherwise; nothing is exact, unless invariants say so.

    >>> import topdown
    >>> schema = topdown.Schema.from_lists({"sex": ["f", "m"], "age": ["0-17", "18+"]})
    >>> places = {"region": ["N", "N", "S"], "town": ["1", "2", "3"]}
    >>> tree = topdown.Geography.from_table(places, ["land", "region", "town"])
    >>> one, two = (topdown.plan(schema=schema, geography=tree, rho=rho) for rho in ("1/2", 1))
    >>> one.compare(two).frame().shape
    (24, 5)

    Args:
        run: run file; None for a plan of values.
        base: folder of the published release that the run extends.
        leaves: the public leaf table as a data frame, or anything with an Arrow C stream; the file that the run file
            names if None. For a plan of values: geocode and the columns that its invariants read.
        final: refuse answers that only a person can give and that are still open.
        schema, geography: of a plan of values, see `Schema.from_lists` and `Geography.from_table`.
        records: the confidential records as a data frame, for `generate`; now only the names of its columns are read.
        rho, epsilon, delta: the budget: rho for discrete Gaussian noise; epsilon for geometric; epsilon and delta for
            optimal. Exact: whole numbers, Fractions or text such as "0.5"; never floats.
        budget: the same as a value; that of the settings if neither is given.
        neighbours: "bounded": one record replaced; "add_remove": one record more or less; if None, as the settings.
        settings: shares, queries and passes; a draft if None.
        invariants: what stays exactly true; nothing if None.
        data_set: whose ledger is charged; the release is called by it.
        columns: what the records call geocode, count or an attribute, where that is another name, of a plan of values:
            {"geocode": "village_code"}.

    Raises:
        ConfigError: a file says something impossible, H001 an answer is open, C122 the base is a simulation, C250
            `leaves` or `records` is no table, C341 values and a run file, or values that are missing, C342 invariants
            read columns of leaves that are not given, C030 values of another schema.
        DataError: a public table breaks a rule.
        BudgetError: the budget does not add up.
        InfeasibleError: the constraints contradict each other.

    Cost: seconds; `summary` computes the certified loss when it is first asked for.
    """
    if run is not None and schema is None and geography is None and columns is None:
        found = opened(
            path_of(run, "run"),
            None if base is None else path_of(base, "base"),
            leaves_in_memory(leaves, "leaves"),
        )
        found = replace(found, records=leaves_in_memory(records, "records"))
    elif run is None and schema is not None and geography is not None:
        amounts = Budget(rho=rho, epsilon=epsilon, delta=delta)
        if amounts != Budget() and budget is not None:
            raise ConfigError(
                "a plan has one budget, and two are given",
                code="C341",
                fix="give budget=, or rho= or epsilon=",
            )
        if budget is None and (settings is None or amounts != Budget()):
            budget = amounts
        asked = RunOfValues(
            schema, geography, budget, neighbours, settings, invariants, data_set, columns or {}
        )
        people = leaves_in_memory(records, "records")
        found = Planned(prepare_values(asked, people, leaves_in_memory(leaves, "leaves")), None, people)
    else:
        raise ConfigError(
            "a plan is made of a run file, or of schema, geography and a budget",
            code="C341",
            fix="give run, or schema=, geography= and rho= or epsilon=",
        )
    check_memory(found.plan)
    require_answers(found, final=final)
    return found


def opened(run: Path, base: Path | None = None, leaves: MemoryTable | None = None) -> Planned:
    """Open a run file with the release it extends."""
    if base is not None:
        require_finished(base)
    return Planned(prepare(run, base, leaves=leaves), base)


def require_answers(planned: Planned, *, final: bool) -> None:
    """Refuse a final release while answers are open (H001)."""
    unanswered = open_answers(planned.plan) if final else []
    if unanswered:
        raise ConfigError(
            f"{len(unanswered)} answers only a person can give are still open",
            code="H001",
            details=tuple(("open", key) for key in unanswered[:12]),
            fix="answer them in the run file and the invariants, or leave --final out: a DRAFT",
        )


_WEIGHTS = ".weights"  # of a noise law: thousands of numbers, shown as their hash
_NAMES = ("name", "query", "table", "level")
_DERIVED = (".loss", ".parameter", ".n_answers", ".delta", ".weights")  # from budget, shares and schema


def save_plan(prepared: PreparedRun, path: Path) -> None:
    """Write a plan with its hash and the name of its run file; refuse to replace a file that is no plan."""
    if path.exists() and _type_of_document(path) != "topdown.plan":
        raise ConfigError(
            f"{path} exists and is not a plan",
            code="C080",
            fix="give another file with --out, or move it away",
        )
    refuse_needed(path, "--out", prepared.needed)
    refuse_release(path, "--out")
    run_file = os.path.relpath(prepared.path.resolve(), path.resolve().parent)
    write_new(path, plan_file(prepared.plan, run_file), force=True)


def opened_again(path: Path, leaves: MemoryTable | None = None) -> Planned:
    """Open a run file, or a plan.json that must still be the plan of its run file.

    Raises:
        ConfigError: C081 if plan.json names no run file, C082 if the run file now gives another plan.
    """
    if path.suffix != ".json":
        return Planned(prepare(path, leaves=leaves))
    saved = read_plan(path)
    name = read_json(path, PLAN_BYTES).get("run_file")
    if not isinstance(name, str):
        raise ConfigError(
            f"{path} does not name its run file", code="C081", fix="make it with: topdown plan RUN.toml"
        )
    prepared = prepare(Path(os.path.normpath(path.parent / name)), leaves=leaves)
    found = changes(saved, prepared.plan)
    if found:
        n_more, all_of_them = len(found) - 6, f"topdown plan --diff {quoted(path)}"
        more = [("", f"and {n_more} more: {all_of_them}")] if n_more > 0 else []
        raise ConfigError(
            f"{prepared.path} no longer gives the plan saved in {path}",
            code="C082",
            details=(*(("changed", change_text(change)) for change in found[:6]), *more),
            fix=f"undo the changes, or make the plan again: topdown plan {quoted(prepared.path)}",
        )
    return Planned(prepared)


def changes(old: Plan, new: Plan) -> list[ChangedValue]:
    """Compare two plans, value by value; lists of named things are compared by name."""
    before, after = (dict(_values_by_key("", json.loads(json.dumps(p.to_document())))) for p in (old, new))
    keys = sorted(dict.fromkeys([*before, *after]), key=lambda k: k.endswith(_DERIVED))  # causes first
    return [
        ChangedValue(key=k, old=before.get(k), new=after.get(k))
        for k in keys
        if before.get(k) != after.get(k)
    ]


def change_text(change: ChangedValue) -> str:
    """Write one change in a line."""
    old, new = ("-" if value is None else value for value in (change.old, change.new))
    return f"{change.key} {old} -> {new}"


def _values_by_key(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _values_by_key(f"{path}.{key}" if path else str(key), inner)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        names = [next((str(item[n]) for n in _NAMES if n in item), str(i)) for i, item in enumerate(value)]
        for i, (name, item) in enumerate(zip(names, value, strict=True)):
            yield from _values_by_key(f"{path}.{name}" if names.count(name) == 1 else f"{path}.{i + 1}", item)
    elif path.endswith(_WEIGHTS) and isinstance(value, list):
        digest = hashlib.sha256("\n".join(map(str, value)).encode()).hexdigest()
        yield path, f"{len(value):,} weights, {digest[:8]}"
    elif isinstance(value, list):
        plain = all(isinstance(item, str | int) for item in value)
        yield path, ", ".join(map(str, value)) if plain else json.dumps(value, ensure_ascii=False)
    else:
        yield path, str(value)


def _type_of_document(path: Path) -> object:
    try:
        document = read_json(path, PLAN_BYTES)
    except (OSError, ValueError):
        return None
    return document.get("type") if isinstance(document, dict) else None
