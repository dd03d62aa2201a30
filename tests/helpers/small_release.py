"""Build a small release in the documented format without measure or solve: a made-up land of a few blocks."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.helpers.runs import run_text
from topdown.formats import CertifiedPrivacy
from topdown.inputs import parquet_bytes
from topdown.measure import drawn_laws_by_level
from topdown.model import Histogram
from topdown.plan import PublicContext, exact_table_names, prepare, write_public
from topdown.privacy.ledger import LEDGER_VERSION, Begun, Commit, Drawn, Event, Intent, Opened, to_fields
from topdown.publish import OptionalFiles, certified_privacy, publish

TOP = Path(__file__).resolve().parents[2]
LEAVES = """\
geocode,homes,dormitories,barracks
011,3,1,0
012,2,0,1
021,0,0,0
022,4,0,0
023,1,2,1
"""
ZEROS = "0" * 64


@dataclass(frozen=True)
class Small:
    """A built release with what it was made from."""

    folder: Path
    context: PublicContext
    leaves: Histogram
    ledger: Path


def run_file(
    leaves: str = "leaves.csv",
    mechanism: str = "discrete_gaussian",
    *,
    policy: str = "toy",
    neighbours: str = "bounded",
) -> str:
    """Return a run file for the toy schema over three levels."""
    settings = (TOP / "settings" / "toy.toml").read_text(encoding="utf-8")
    budget = settings[settings.index("[budget]") :]
    if mechanism == "geometric":
        budget = budget.replace("rho =", "epsilon =")
    if mechanism == "optimal":
        budget = budget.replace('rho = "2"', 'epsilon = "4"\ndelta = "1/100000"')
    return run_text(
        budget,
        {"invariants": policy, "settings": "toy", "neighbours": neighbours, "mechanism": mechanism},
        input={"records": "none.csv", "leaves": leaves},
        geography={"prefix_lengths": [0, 2, 3]},
        ledger={"rho_limit": None, "epsilon_limit": "5", "delta_limit": "1/50000"}
        if mechanism == "optimal"
        else {"rho_limit": "5"},
    )


def make_context(
    folder: Path, mechanism: str = "discrete_gaussian", *, invariants: str = "", neighbours: str = "bounded"
) -> PublicContext:
    """Write the public files of the toy land and read them as a run would.

    Args:
        invariants: text of an invariants file; the bundled one if empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "leaves.csv").write_text(LEAVES, encoding="utf-8")
    (folder / "own.toml").write_text(invariants, encoding="utf-8")
    text = run_file(mechanism=mechanism, policy="own.toml" if invariants else "toy", neighbours=neighbours)
    (folder / "run.toml").write_text(text, encoding="utf-8")
    return prepare(folder / "run.toml").context


def allowed(context: PublicContext) -> np.ndarray:
    """Return which cells may hold records at each leaf, shape (n_leaves, n_cells)."""
    return context.rules.open[-1][:, context.rules.class_of_cell]


def population(context: PublicContext, seed: int = 1) -> Histogram:
    """Draw records that meet every constraint of the toy land."""
    draw = np.random.default_rng(seed)
    open_cells = allowed(context)
    dense = draw.integers(0, 4, open_cells.shape) * open_cells
    for cells, lower in zip(context.rules.bound_cells, context.rules.lower[-1].T, strict=True):
        for leaf, least in enumerate(lower):
            if dense[leaf, cells].sum() < least:
                dense[leaf, np.flatnonzero(cells & open_cells[leaf])[0]] += least
    return from_dense(dense)


def from_dense(dense: np.ndarray) -> Histogram:
    """Return a dense array of leaf counts as a histogram."""
    node, cell = np.nonzero(dense)
    return Histogram(
        *dense.shape, node.astype(np.int64), cell.astype(np.int64), dense[node, cell].astype(np.int64)
    )


def build(
    folder: Path,
    leaves: Histogram | None = None,
    *,
    mechanism: str = "discrete_gaussian",
    csv: bool = False,
    privacy: CertifiedPrivacy | None = None,
    nodes_a_part: int = 2,
    invariants: str = "",
    neighbours: str = "bounded",
) -> Small:
    """Write inputs, measurements, ledger and solve.json, then publish.

    Args:
        folder: gets `in/` with the public files and `release/`.
        leaves: the records; drawn at random if not given.
        privacy: what the certificate says; what is true if not given.
    """
    context = make_context(folder / "in", mechanism, invariants=invariants, neighbours=neighbours)
    leaves = leaves or population(context)
    release, ledger = folder / "release", folder / "in" / "ledger.jsonl"
    write_plan(release, context)
    write_public(release / "public", context.geography, context.facts)
    write_measurements(release, context, nodes_a_part)
    write_exact(release, context, leaves)
    write_journal(release, context)
    write_ledger(ledger, context, release)
    write_solve(release, context, leaves)
    privacy = certified(mechanism, invariants, neighbours) if privacy is None else privacy
    publish(release, context, leaves, ledger, optional=OptionalFiles(csv), privacy=privacy)
    return Small(release, context, leaves, ledger)


@cache
def certified(
    mechanism: str = "discrete_gaussian", invariants: str = "", neighbours: str = "bounded"
) -> CertifiedPrivacy:
    """Return what is true of the privacy of the toy land, computed once."""
    with TemporaryDirectory() as folder:
        context = make_context(Path(folder), mechanism, invariants=invariants, neighbours=neighbours)
        return certified_privacy(context.policy)


MEASUREMENTS = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in {
            "level": pa.string(),
            "node": pa.string(),
            "query": pa.string(),
            "answers": pa.list_(pa.field("element", pa.int32(), nullable=False)),
            "variance_numerator": pa.int64(),
            "variance_denominator": pa.int64(),
        }.items()
    ]
)


def write_plan(release: Path, context: PublicContext) -> None:
    """Write plan.json."""
    release.mkdir(parents=True, exist_ok=True)
    document = context.plan.to_document() | {"plan_hash": context.plan.plan_hash}
    write_canonical(release / "plan.json", document)


def write_measurements(release: Path, context: PublicContext, nodes_a_part: int) -> None:
    """Write noisy answers that are only noise; the verifier knows nothing of truth."""
    draw = np.random.default_rng(7)
    for depth, level in enumerate(context.plan.levels):
        nodes = np.flatnonzero(context.rules.inhabited[depth])
        for part, first in enumerate(range(0, len(nodes), nodes_a_part)):
            codes = [context.geography.levels[depth].codes[i] for i in nodes[first : first + nodes_a_part]]
            rows = [(code, m) for code in codes for m in level.measurements]
            columns = {
                "level": [level.name] * len(rows),
                "node": [code for code, _ in rows],
                "query": [m.query for _, m in rows],
                "answers": [draw.integers(-5, 9, m.n_answers).tolist() for _, m in rows],
                "variance_numerator": [m.variance.numerator for _, m in rows],
                "variance_denominator": [m.variance.denominator for _, m in rows],
            }
            table = pa.table(columns, schema=MEASUREMENTS)
            path = release / "measurements" / level.name / f"part-{part:03d}.parquet"
            more = {"level": level.name, "queries": json.dumps([m.query for m in level.measurements])}
            write_stamped(path, table, "topdown.measurements", context.plan.plan_hash, **more)


def write_stamped(path: Path, table: pa.Table, kind: str, plan_hash: str, **more: str) -> None:
    """Write a Parquet file with its stamps."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(parquet_bytes(kind, table, {"plan_hash": plan_hash, **more}))


def write_exact(release: Path, context: PublicContext, leaves: Histogram) -> None:
    """Write the statistics that are exact by policy."""
    levels = dict(zip(context.geography.level_names, leaves.at_every_level(context.geography), strict=True))
    values, tables, folder = [], exact_table_names(context.plan), release / "measurements"
    for e in context.plan.invariants.exact:
        nodes = list(context.geography.levels[context.geography.index(e.level)].codes)
        answers = levels[e.level].answers(context.plan.query(e.query)).tolist()
        head: dict[str, Any] = {"name": e.name, "level": e.level, "query": e.query}
        if e.name in tables:
            table = pa.table({"geocode": nodes, "answers": pa.array(answers, pa.list_(pa.int64()))})
            path = folder / tables[e.name]
            write_stamped(path, table, "topdown.exact_answers", context.plan.plan_hash, **head)
            values.append(head | {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()})
        else:
            values.append(head | {"nodes": nodes, "answers": answers})
    document = {"type": "topdown.exact", "version": 1, "plan_hash": context.plan.plan_hash, "values": values}
    write_canonical(folder / "exact.json", document)


def files_digest(release: Path) -> str:
    """Return what a commit says of the measurement files: the SHA-256 of what sha256sum prints."""
    folder = release / "measurements"
    paths = sorted(
        p.relative_to(folder).as_posix() for p in [*folder.glob("*/*.parquet"), folder / "exact.json"]
    )
    lines = [f"{hashlib.sha256((folder / path).read_bytes()).hexdigest()}  {path}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def ledger_events(context: PublicContext, release: Path) -> list[dict[str, Any]]:
    """Return the records of a ledger that holds the one measurement in a release folder; the commit comes last."""
    plan, journal = context.plan, "ab" * 16
    laws = drawn_laws_by_level(plan)
    exact = tuple(e.name for e in plan.invariants.exact)
    every = tuple(law for level in laws.values() for law in level)
    head = (plan.release.id, plan.plan_hash, every, exact, 1, tuple(laws), journal, plan.neighbours)
    intent = Intent(*head, rho_limit=Fraction(5))
    binding = (plan.release.data_set, plan.neighbours, plan.schema.unit)
    events: list[Event] = [Opened("0123456789abcdef", LEDGER_VERSION, *binding), intent]
    for path in sorted((release / "measurements").glob("*/*.parquet")):
        part = f"{path.parent.name}/{path.stem}"
        events += [Begun(1, part), Drawn(1, part, hashlib.sha256(path.read_bytes()).hexdigest())]
    events.append(Commit((1,), plan.plan_hash, journal, files_digest(release)))
    return [to_fields(event) for event in events]


def write_journal(release: Path, context: PublicContext) -> None:
    """Write the id under which the ledger knows the measurement."""
    head = {"type": "topdown.journal", "version": 2, "journal": "ab" * 16, "layout": "0" * 64}
    path = release / "measurements" / "journal.json"
    path.write_bytes(canonical(head | {"plan_hash": context.plan.plan_hash}) + b"\n")


def seal(events: list[dict[str, Any]], time: bool = True) -> bytes:
    """Write ledger or journal records as a chain of sealed lines."""
    lines, prev = b"", ZEROS
    for seq, event in enumerate(events):
        inner = event | {"seq": seq, "prev": prev} | ({"time": "2026-01-02T03:04:05Z"} if time else {})
        line = canonical(inner | {"hash": hashlib.sha256(canonical(inner)).hexdigest()})
        prev = hashlib.sha256(line).hexdigest()
        lines += line + b"\n"
    return lines


def canonical(document: Any) -> bytes:
    """Return JSON with sorted keys and no spaces."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def write_ledger(path: Path, context: PublicContext, release: Path) -> None:
    """Write the ledger of the data set."""
    path.write_bytes(seal(ledger_events(context, release)))


def write_solve(
    release: Path, context: PublicContext, leaves: Histogram | None = None, **changes: object
) -> None:
    """Write solve.json: everything solved, residuals tiny; without leaves the one before names the records."""
    numbers = {"n_splits": 1, "n_problems": 1, "n_variables": 18, "n_unconverged": 0, "max_iterations": 40}
    numbers |= {"max_kkt_residual_persons": 1.5e-7, "n_roundings": 1, "n_roundings_optimal": 1, "n_milp": 0}
    path = release / "solve.json"
    before = json.loads(path.read_text(encoding="utf-8")) if leaves is None else {}
    levels = [{"level": level.name} | numbers | changes for level in context.plan.levels]
    document = {"type": "topdown.solve", "version": 1, "plan_hash": context.plan.plan_hash, "failsafe": []}
    document["target_kkt_residual_persons"] = 1e-6
    document["inputs_sha256"] = inputs_digest(release)
    document["records_sha256"] = before["records_sha256"] if leaves is None else records_digest(leaves)
    write_canonical(path, document | {"levels": levels})


def inputs_digest(release: Path) -> str:
    """Return what solve.json says of the files it was made from: the SHA-256 of what sha256sum prints."""
    names = ["plan.json", "public/*.parquet", "measurements/exact.json", "measurements/*/*.parquet", "base/*"]
    paths = sorted(p.relative_to(release).as_posix() for name in names for p in release.glob(name))
    lines = [f"{hashlib.sha256((release / path).read_bytes()).hexdigest()}  {path}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def records_digest(leaves: Histogram) -> str:
    """Return what solve.json says of the records: entries, then leaves, cells and counts, eight bytes each."""
    text = f"records {len(leaves.count)}\n".encode()
    for column in (leaves.node, leaves.cell, leaves.count):
        text += b"".join(int(value).to_bytes(8, "little") for value in column)
    return hashlib.sha256(text).hexdigest()


def reseal(release: Path) -> None:
    """Rewrite manifest.json over the files as they are now, as somebody would who hides a change."""
    paths = sorted(p.relative_to(release).as_posix() for p in release.rglob("*") if p.is_file())
    paths.remove("manifest.json")
    files = []
    for path in paths:
        held = (release / path).read_bytes()
        files.append({"path": path, "bytes": len(held), "sha256": hashlib.sha256(held).hexdigest()})
    document = json.loads((release / "manifest.json").read_text(encoding="utf-8")) | {"files": files}
    write_canonical(release / "manifest.json", document)


def write_canonical(path: Path, document: Any) -> None:
    """Write JSON as publish does."""
    path.write_bytes(
        (json.dumps(document, sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode("utf-8")
    )


def edit_json(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON document in place, canonically."""
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    write_canonical(path, document)


def edit_table(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the rows of a Parquet file in place, keeping types and stamps, as its publisher would."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    rewrite_table(path, pa.Table.from_pylist(rows, schema=table.schema.remove_metadata()))


def rewrite_table(path: Path, table: pa.Table, **stamps: str) -> None:
    """Write other rows into a Parquet file as its publisher would, with the stamps it has, and more."""
    have = {key.decode(): text.decode() for key, text in pq.read_metadata(path).metadata.items()} | stamps
    path.write_bytes(parquet_bytes(have["type"], table, have))


def half(loss: str) -> str:
    """Return half of an exact number."""
    return str(Fraction(loss) / 2)
