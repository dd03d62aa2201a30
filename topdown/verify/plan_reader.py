"""Read plan.json anew: every key known, numbers as exact fractions, nothing taken on trust."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from topdown.formats.release_documents import Plan, PlanBase, PlanEstimates, PlanMeasured, PlanMeasurement
from topdown.verify.exact_arithmetic import exact_text, fraction
from topdown.verify.noise_laws import CheckedLaw, CheckedRelation, law_of_mechanism, relation_of_plan, unit_of
from topdown.verify.query_labels import Query, Schema, read_schema
from topdown.verify.rule_kinds import Rules
from topdown.verify.strict_reader import read_json, unreadable

VERSION = 2  # the only one read; releases of another are for the engine that made them
MAX_CELLS = 2**21
MOST_WEIGHTS = 25_000
LEAST_COVERAGE, MOST_COVERAGE = Fraction(1, 2), Fraction(9999, 10_000)
_WEIGHT = re.compile(r"[1-9][0-9]{0,38}")
FILE = "plan.json"


@dataclass(frozen=True, eq=False)
class PlanFile:
    """A plan as read from the release.

    Args:
        doc: what the file says.
        computed_hash: SHA-256 of its canonical JSON without `plan_hash`.
        schema: the cells of its schema document.
        queries: every query named anywhere, by name.
    """

    doc: Plan
    computed_hash: str
    schema: Schema
    queries: dict[str, Query]

    @cached_property
    def rules(self) -> Rules:
        """What it demands of the records."""
        return Rules.of_plan(self.doc.invariants)

    @property
    def base(self) -> PlanBase | None:
        """The release that it extends, if any."""
        return self.doc.base or None

    @property
    def measured(self) -> PlanMeasured | None:
        """The release whose measurement it solves in another way, if any."""
        return self.doc.measured or None

    @property
    def estimates(self) -> PlanEstimates | None:
        """What splits were fitted to, if it says so."""
        return self.doc.estimates or None

    @property
    def whole_delta(self) -> Fraction:
        """Delta of the whole budget; 0 unless losses are pairs."""
        return fraction(self.doc.delta or "0")

    @cached_property
    def workload(self) -> tuple[Query, ...]:
        """Queries published as tables: `total`, then every measured one, in order of first appearance."""
        names = ["total"] + [m.query for level in self.doc.levels for m in level.measurements]
        return tuple(self.queries[name] for name in dict.fromkeys(names))

    @cached_property
    def loss(self) -> Fraction:
        """Loss that the budget and the shares imply, from nothing else."""
        shares = (
            fraction(one.share) * fraction(m.share) for one in self.doc.levels for m in one.measurements
        )
        return fraction(self.doc.budget) * sum(shares, Fraction(0))

    @cached_property
    def delta(self) -> Fraction:
        """Delta beside the loss: the same shares of the total delta; 0 unless losses are pairs."""
        return self.loss * self.whole_delta / fraction(self.doc.budget)

    @property
    def fits_tree(self) -> bool:
        """Whether splits were fitted to the tree estimate."""
        return self.estimates is not None and self.estimates.targets == "tree"

    @cached_property
    def coverage(self) -> Fraction | None:
        """Chance of every interval in the tables; None if they have none."""
        stated = self.estimates and self.estimates.coverage
        return fraction(stated) if stated else None

    @property
    def stamps(self) -> dict[str, str]:
        """What every Parquet file with protected numbers carries beside its type; no simulation's stamp."""
        return {"plan_hash": self.computed_hash, "stamp": ""}

    @property
    def measured_hash(self) -> str:
        """The hash of the plan that was charged and measured."""
        return self.computed_hash if self.measured is None else self.measured.plan_hash

    @property
    def loss_name(self) -> str:
        """`rho`, `epsilon` or `epsilon_delta`."""
        return self.noise.loss_name

    @property
    def law(self) -> str:
        """The law of every noise, by its name in plan and ledger."""
        return self.noise.name

    @cached_property
    def relation(self) -> CheckedRelation:
        """What neighbours change; ValueError where it is not known of a unit of several records."""
        several = unit_of(self.schema.unit).n_records > 1
        known = several and (self.rules.exact or any(rule.is_most for rule in self.rules.bounds))
        return relation_of_plan(self.doc.neighbours, self.schema.unit, self.noise, known=bool(known))

    @property
    def noise(self) -> CheckedLaw:
        """The law of every noise."""
        return law_of_mechanism(self.doc.mechanism)

    def delta_of_count(self, m: PlanMeasurement) -> Fraction:
        """Return the delta of each count that a neighbour moves; 0 where losses are no pairs."""
        delta = fraction(m.delta or "0")
        return delta / self.sensitivities(self.queries[m.query])[0] if delta else delta

    def sensitivities(self, query: Query) -> tuple[int, int]:
        """Bound the change of a query's answers over all nodes of a level between neighbours: (L1, squared L2).

        A record adds 1 to one answer of one node; checked: one label a cell.
        """
        labels = query.labels
        if labels.shape != (self.schema.n_cells,) or labels.min() < 0 or labels.max() >= query.n_answers:
            raise ValueError(f"query {query.name!r} does not count every cell once")
        return self.relation.l1, self.relation.l2_squared


def table_path(query: Query, level: str) -> str:
    """Return the path of a query's table at a level."""
    return f"tables/{query.name.replace(' * ', '_by_')}/{level}.parquet"


def canonical(document: object) -> bytes:
    """Return the JSON that is hashed: sorted keys, no spaces, UTF-8."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def load_plan(root: Path, path: str = FILE, code: str = "V010") -> PlanFile:
    """Read plan.json, the plan of a base release, or that of the measurement.

    Raises: UnreadableError (V010) for what is no plan, has unknown keys, or is too large to check.
    """
    document = read_json(root, path, code, "topdown.plan", VERSION)
    n_cells = 1  # counted before anything is built: a plan may claim a domain that does not fit into memory
    try:
        for attribute in document["schema"]["attributes"]:
            n_cells *= len(attribute["labels"])
    except (KeyError, TypeError):
        raise unreadable("V010", FILE, "has no schema") from None
    if not 0 < n_cells <= MAX_CELLS:
        raise unreadable("V010", FILE, f"has {n_cells:,} cells; this verifier reads at most {MAX_CELLS:,}")
    try:
        doc = msgspec.convert(document, Plan, strict=True)
        _check_known(doc, document)
        schema = read_schema(doc.schema)
        queries = {name: schema.query(name) for name in _query_names(doc)}
        _check_names(doc, schema, queries)
        rest = {key: value for key, value in document.items() if key != "plan_hash"}
        plan = PlanFile(doc, hashlib.sha256(canonical(rest)).hexdigest(), schema, queries)
        _ = plan.relation  # refuses a unit whose loss is not known
    except (ValueError, TypeError, RecursionError) as error:
        raise unreadable(code, path, f"is not a plan: {str(error)[:160]}") from None
    return plan


def _check_known(doc: Plan, document: dict[str, Any]) -> None:
    known, noise = msgspec.to_builtins(doc), law_of_mechanism(doc.mechanism)
    if canonical(known) != canonical(document) or doc.run_file:
        raise ValueError("it holds keys or values the format does not know")
    numbers = [doc.budget, doc.delta or "0", *(share for _, share in doc.unspent)]
    if doc.estimates and doc.estimates.coverage:
        coverage = fraction(doc.estimates.coverage)
        if doc.base or noise.composed_as != "gaussian":
            raise ValueError("its noise or its base table has no intervals")
        if not LEAST_COVERAGE <= coverage <= MOST_COVERAGE or exact_text(coverage) != doc.estimates.coverage:
            raise ValueError("the coverage of its intervals is not one that is made")
    elif doc.estimates and doc.estimates.targets == "own":
        raise ValueError("its estimates ask for nothing")
    if doc.base and (doc.measured or noise.has_delta):
        raise ValueError("an extension whose noise has a delta, or that is solved again, is not checked")
    weights = []
    for level in doc.levels:
        numbers += [level.share, level.loss]
        numbers += [
            text for m in level.measurements for text in (m.share, m.loss, m.parameter, m.delta or "0")
        ]
        weights += [m.weights or [] for m in level.measurements]
    if any(len(law) > MOST_WEIGHTS or not all(map(_WEIGHT.fullmatch, law)) for law in weights):
        raise ValueError("a law has weights that are no whole numbers above 0, or too many")
    if any(one != noise.has_delta for one in [*map(bool, weights), (doc.delta or "0") != "0"]):
        raise ValueError("weights and delta are of noise that has both")
    for text in numbers:
        fraction(text)


def _query_names(doc: Plan) -> set[str]:
    names = {"total", "detailed"} | {e.query for e in doc.invariants.exact}
    for level in doc.levels:
        names |= {m.query for m in level.measurements} | {p.table for p in level.passes}
        names |= {q for p in level.passes for q in p.queries} | {r.table for r in level.rounding}
    return names


def _check_names(doc: Plan, schema: Schema, queries: dict[str, Query]) -> None:
    names = [level.name for level in doc.levels]
    if not names or len(set(names)) != len(names):
        raise ValueError("levels are missing or named twice")
    if any(not name or name.startswith(".") or set(name) & set("/\\\0") for name in [*names, *queries]):
        raise ValueError("a level or query name cannot be a file name")
    folders = {name.replace(" * ", "_by_") for name in queries}
    if len(folders) != len(queries):
        raise ValueError("two queries would share one table folder")
    if doc.invariants.schema != doc.schema.name:
        raise ValueError("the invariants are for another schema")
    Rules.of_plan(doc.invariants).check(schema, names)
