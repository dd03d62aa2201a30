"""A release as a checker reads it, and what it says of privacy and its ledger, derived again with other code.

Files are read strictly, following no link, from their formats only. Sensitivities come from the closed forms of the
definitions, not from positions in vectors; losses, what an attacker can guess and what the whole ledger costs from the
code of `topdown verify`. Shared with the code that made them are the words and the half widths, which promise nothing
about privacy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, convert

from pgsr.estimators import half_width
from pgsr.formats import (
    ANSWER,
    CERTIFICATE,
    COUNT,
    COUNTS,
    EXACT,
    JOURNAL,
    MEASUREMENTS,
    PART,
    VERSION,
    Certificate,
    bound_columns,
    part_file,
)
from pgsr.hierarchy import Sizes
from pgsr.neighbours import step_in_words, step_sentence, unit_means
from topdown.arrays import Ints
from topdown.errors import DataError
from topdown.verify.change_losses import MovedCounts, loss_of
from topdown.verify.check_ledger import check_order
from topdown.verify.check_privacy import check_everything_released
from topdown.verify.exact_arithmetic import fraction
from topdown.verify.findings import Findings
from topdown.verify.ledger_reader import GROUP_STEPS, OF_GROUP_SIZES, Charge, LedgerFile, Opened, load_ledger
from topdown.verify.stated_losses import Comparison, StatedRow
from topdown.verify.strict_parquet import TEXT, WHOLE, ParquetTable, TableForm
from topdown.verify.strict_reader import (
    UnreadableError,
    check_bytes,
    open_inside,
    parse_json,
    read_bytes,
    unreadable,
)
from topdown.verify.strict_reader import sha256_of as digest_of

UNUSABLE = "V199"  # of a file that is not what its format says
TABLE_KINDS = {COUNT: "pgsr.counts", ANSWER: "pgsr.measurements"}


@dataclass(frozen=True, eq=False)
class ReleasedFiles:
    """Contents of a release.

    Args:
        counts: released counts [size][region].
        bounds: lower and upper bounds beside them, [size][region], of every coverage of the certificate.
        answers: noisy answers, [size][region].
        parent: region of each region's parent, -1 at the root.
        level: level of each region.
    """

    folder: Path
    certificate: dict[str, Any]
    counts: Ints
    bounds: tuple[tuple[Ints, Ints], ...]
    answers: Ints
    parent: Ints
    level: Ints

    @property
    def level_names(self) -> list[str]:
        """Names of the levels, root first."""
        return [level["name"] for level in self.certificate["levels"]]


def load_files(place: Path, certificate: dict[str, Any]) -> ReleasedFiles:
    """Read counts and answers of a release whose certificate has the right form.

    Raises:
        UnreadableError: a file is not what its format says.
    """
    regions, stamp = certificate["regions"], certificate["stamp"]
    names = [level["name"] for level in certificate["levels"]]
    index = {code: i for i, (code, _, _) in enumerate(regions)}
    try:
        parent = np.array([index[up] if up else -1 for _, _, up in regions], dtype=np.int64)
        level = np.array([names.index(name) for _, name, _ in regions], dtype=np.int64)
    except (KeyError, ValueError):
        raise unreadable(UNUSABLE, CERTIFICATE, "names a parent or a level that is not listed") from None
    own = np.arange(len(regions))
    ordered = np.array_equal(level, np.sort(level)) and np.all(parent < own) and np.all(parent[1:] >= 0)
    nested = len(parent) == 1 or np.array_equal(level[parent[1:]] + 1, level[1:])
    if (
        len(index) != len(regions)
        or not ordered
        or not nested
        or set(level.tolist()) != set(range(len(names)))
    ):
        raise unreadable(UNUSABLE, CERTIFICATE, "does not list its regions as a tree, level by level")
    columns = (COUNT, *bound_columns(certificate["coverage"]))
    counts, *ends = _read_cells(place, COUNTS, columns, certificate, slice(None), stamp)
    bounds = tuple(zip(ends[::2], ends[1::2], strict=True))
    parts = []
    for i, name in enumerate(names):
        here = np.flatnonzero(level == i)
        nodes = slice(int(here[0]), int(here[-1]) + 1)
        parts += _read_cells(place, part_file(name), (ANSWER,), certificate, nodes, stamp)
    return ReleasedFiles(place, certificate, counts, bounds, np.concatenate(parts, axis=1), parent, level)


def read_certificate(place: Path) -> dict[str, Any]:
    """Return the certificate; UnreadableError if it has another form, or is not written in its canonical form.

    Raises:
        DataError: it is one of another version (D138).
    """
    document = read_document(place, CERTIFICATE)
    if (
        document.get("type") == "pgsr.certificate"
        and type(document.get("version")) is int
        and document["version"] != VERSION
    ):
        raise DataError(
            f"{place} was written by another version of pgsr, whose certificate says less",
            code="D138",
            fix="check it with that version, or release again",
        )
    try:
        check_form(document, Certificate)
    except (ValueError, TypeError, RecursionError) as error:
        raise unreadable(UNUSABLE, CERTIFICATE, f"is not of its form: {str(error)[:120]}") from None
    return document


def check_form(document: dict[str, Any], form: type[Struct]) -> None:
    """Raise ValueError, in words that name the place, unless a document has exactly this form."""
    convert(document, form, strict=True)


def read_document(place: Path, path: str) -> dict[str, Any]:
    """Return a JSON object that is written in its canonical form; UnreadableError otherwise."""
    data = read_bytes(place, path, UNUSABLE)
    document = parse_json(data, UNUSABLE, path)
    check_bytes(path, data, document)
    return document


def sha256_of(place: Path, path: str) -> str:
    """Return the SHA-256 of a plain file below a folder; OSError or ValueError if it is none."""
    with open_inside(place, path) as file:
        return digest_of(file)


def _read_cells(
    place: Path, path: str, values: tuple[str, ...], certificate: dict[str, Any], nodes: slice, stamp: str
) -> list[Ints]:
    """Return columns, [size][region] each; every region and size exactly once, in the certificate's order."""
    regions, sizes = certificate["regions"][nodes], certificate["sizes"]
    n_sizes, n_rows = int(sizes["n_sizes"]), int(sizes["n_sizes"]) * len(regions)
    columns = {"region": TEXT, "level": TEXT, "size": pa.int32(), **dict.fromkeys(values, WHOLE)}
    form = TableForm(TABLE_KINDS[values[0]], columns, {"stamp": stamp})
    opened = ParquetTable(place, path, UNUSABLE, form, n_rows)
    if opened.n_rows != n_rows:
        opened.close()
        raise unreadable(UNUSABLE, path, "does not have one row a region and size")
    table = opened.read()
    for name, place_in in (("region", 0), ("level", 1)):
        due = pa.array([row[place_in] for row in regions], pa.string()).take(
            pa.array(np.repeat(np.arange(len(regions)), n_sizes))
        )
        if not table.column(name).combine_chunks().cast(pa.string()).equals(due):
            raise unreadable(UNUSABLE, path, f"does not list every {name} in the certificate's order")
    expected = np.tile(np.arange(n_sizes) + int(sizes["smallest"]), len(regions))
    if not np.array_equal(table.column("size").to_numpy(), expected):
        raise unreadable(UNUSABLE, path, "does not list every size")
    shape = len(regions), n_sizes
    return [np.ascontiguousarray(table.column(name).to_numpy().reshape(shape).T) for name in values]


LAWS = {"geometric": "two_sided_geometric", "gaussian": "discrete_gaussian"}


def check_ledger(files: ReleasedFiles, check: Findings) -> str:
    """Check the ledger's chain, what was charged, and that the noisy answers are the ones it has recorded."""
    document = files.certificate
    if not document["release"]:
        check.n_checked = 1
        if not document["stamp"] or document["journal"] or document["everything_released"] is not None:
            check.fail("a simulation must be stamped and charge nothing")
        return f"none: {document['stamp']}"
    try:
        ledger = load_ledger(files.folder)
    except UnreadableError as error:
        check.add(error.finding)
        return ""
    check_order(ledger, check)
    check.warnings += ledger.persons_said
    check_statement(check, ledger, document["everything_released"])
    first = ledger.lines[0]
    commits = [line for line in ledger.commits if line.journal == document["journal"]]
    if not isinstance(first, Opened) or not commits or ledger.lines[-1] is not commits[-1]:
        check.fail("the ledger does not end with the commit of this release")
        return ""
    commit, mine = commits[-1], ledger.of_journal(document["journal"])
    _check_charges(check, files, first, list(mine.values()))
    if set(commit.intents) != set(mine) or commit.plan_hash != document["plan_hash"]:
        check.fail("the ledger's commit is that of another plan or of other charges")
    _check_parts(check, files, ledger, commit.files)
    charged = sum((fraction(intent.loss) for intent in mine.values()), Fraction(0))
    return (
        f"{document['privacy']['loss_name']} {charged} charged for this release in {len(mine)} intents; "
        f"chain of {len(ledger.lines)} records unbroken, so far charged: {ledger.charged_words}"
    )


def check_statement(check: Findings, ledger: LedgerFile, stated: dict[str, Any] | None) -> None:
    """Expect the certificate to say which ledger it is, and what everything that was charged costs together."""
    compare = Comparison(check)
    with compare.reading("V136", "everything_released"):
        check_everything_released(compare, ledger, stated or {}, "everything_released")


def _check_charges(check: Findings, files: ReleasedFiles, bound: Opened, mine: list[Charge]) -> None:
    """Expect one charge for all levels first, and then whole levels that were lost and drawn again."""
    document = files.certificate
    stated, sizes = document["privacy"], document["sizes"]
    new = "new of size 0 or 1" if sizes["smallest"] == 0 else "new"
    steps = "+".join(new if s == "new" else s for s in stated["relations"])
    persons = "household" not in stated["relations"]
    laws = {
        level["name"]: (LAWS[stated["noise"]], Fraction(level["parameter"]), 1, level["sensitivity"])
        for level in document["levels"]
    }
    expected: dict[str, tuple[object, object]] = {
        "unit of privacy": (bound.unit, stated["unit"]),
        "relation": (bound.neighbours, OF_GROUP_SIZES if persons else steps),
        "loss": (fraction(mine[0].loss) if mine else None, Fraction(stated["loss"])),
        "range of levels": (list(mine[0].covers) if mine else [], files.level_names),
    }
    for intent in mine:
        drawn = [(x.level, (x.law, x.scale, x.shift, x.coordinates)) for x in intent.laws]
        expected["neighbour steps"] = (intent.neighbours, f"{GROUP_STEPS}{steps}" if persons else steps)
        expected["noise"] = (drawn, [(level, laws.get(level)) for level in intent.covers])
        expected["statistics published exactly"] = (list(intent.exact), stated["conditional_on"])
        expected["plan"] = (intent.plan_hash, document["plan_hash"])
        for what, (charged, certified) in expected.items():
            check.n_checked += 1
            if charged != certified:
                check.fail(f"the ledger was charged for another {what} than the certificate states")


def _check_parts(check: Findings, files: ReleasedFiles, ledger: LedgerFile, committed: str) -> None:
    """Expect each part to be the file recorded last, and all of them the ones the commit names."""
    journal = files.certificate["journal"]
    hashes = {EXACT: sha256_of(files.folder, f"{MEASUREMENTS}/{EXACT}")}
    for level in files.level_names:
        check.n_checked += 1
        key, sha256 = f"{level}/{PART}", sha256_of(files.folder, part_file(level))
        hashes[f"{key}.parquet"] = sha256
        begun = ledger.begun.get((journal, key), ())
        if not begun or ledger.drawn.get((begun[-1], key)) != sha256:
            check.fail(f"the answers of level {level} are not the ones the ledger has recorded")
    lines = "".join(f"{sha256}  {path}\n" for path, sha256 in sorted(hashes.items()))
    if hashlib.sha256(lines.encode()).hexdigest() != committed:
        check.fail("the committed measurements are not these")
    document = files.certificate
    exact = read_document(files.folder, f"{MEASUREMENTS}/{EXACT}")
    if exact != {"total": document["total"], "public_totals": document["public_totals"]}:
        check.fail(f"{EXACT} states other numbers than the certificate")
    due = {"type": "topdown.journal", "version": 2, "journal": journal, "plan_hash": document["plan_hash"]}
    line = read_bytes(files.folder, f"{MEASUREMENTS}/{JOURNAL}", UNUSABLE)
    if line != (json.dumps(due, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n").encode():
        check.fail(f"{JOURNAL} is that of another run")


HASHED = ("mechanism", "privacy", "total", "public_totals", "sizes", "coverage", "levels", "regions")
STEPS = ("move", "new", "dropped", "household", "appears")
SETS_OF_WHOLE_GROUPS = (["household"], ["household", "appears"])
MOST_LOSS, MOST_SPREAD = 40_000, 2**54


def check_privacy(files: ReleasedFiles, check: Findings) -> str:
    """Recompute plan hash, sensitivities, loss, and what is said about every neighbour step."""
    document = files.certificate
    stated, levels = document["privacy"], document["levels"]
    check.n_checked = 3 + len(levels)
    hashed = (*HASHED, "names") if "names" in document else HASHED
    plan = json.dumps({name: document[name] for name in hashed}, sort_keys=True, ensure_ascii=False)
    if hashlib.sha256(plan.encode()).hexdigest() != document["plan_hash"]:
        check.fail("the certificate is not that of the plan whose hash it states")
    relations = stated["relations"]
    if relations != [step for step in STEPS if step in relations] or not (
        relations in SETS_OF_WHOLE_GROUPS
        if {"household", "appears"} & set(relations)
        else "move" in relations
    ):
        check.fail(f"the neighbour steps {', '.join(map(str, relations))} promise nothing")
        return ""
    regions = [int((files.level == level).sum()) for level in range(len(levels))]
    kind, sizes = document["mechanism"]["measures"], document["sizes"]
    if kind == "tail_rows" and not {"dropped", "household"}.isdisjoint(relations):
        check.fail("rows do not cover steps of more than one person")
        return ""
    by_step = {step: [_answers_moved(kind, step, n, sizes) for n in regions] for step in relations}
    derived = [max(column) for column in zip(*by_step.values(), strict=True)]
    for level, expected in zip(levels, derived, strict=True):
        if level["sensitivity"] != expected:
            check.fail(f"level {level['name']}: sensitivity {level['sensitivity']}, derived {expected}")
    noise, parameters = stated["noise"], [Fraction(level["parameter"]) for level in levels]
    loss = _loss(noise, parameters, derived)
    if loss > MOST_LOSS or max(parameters) > MOST_SPREAD:
        check.fail("no release is made with a loss or noise of this size")
        return ""
    _widths_and_unit(check, document, parameters)
    name = {"geometric": "epsilon", "gaussian": "rho"}.get(noise)
    if loss != Fraction(stated["loss"]) or name != stated["loss_name"]:
        check.fail(
            f"the noise costs {name} {loss}, the certificate states {stated['loss_name']} {stated['loss']}"
        )
    honest = loss <= Fraction(stated["claimed"])
    if honest != stated["private_as_claimed"]:
        check.fail("the certificate misstates whether the claim holds")
    if document["release"] and not honest:
        check.fail("a release must be private as claimed")
    known = _exact_statistics(document)
    if stated["conditional_on"] != known:
        check.fail(f"what is exact is {', '.join(known)}; the certificate states {stated['conditional_on']}")
    spoken_of = SETS_OF_WHOLE_GROUPS[1] if "household" in relations else relations
    due = [_stated_row(step, document, known, parameters, by_step.get(step, [])) for step in spoken_of]
    Comparison(check).rows("V133", "privacy.secrets", stated["secrets"], due)
    return f"{name} {loss} from the noise of {len(levels)} levels, {len(relations)} neighbour steps"


def _widths_and_unit(check: Findings, document: dict[str, Any], parameters: Sequence[Fraction]) -> None:
    """Check how far noise reaches at every level, and the words for the unit."""
    stated, accumulates = document["privacy"], document["mechanism"]["measures"] != "histogram"
    coverage = [Fraction(text) for text in document["coverage"]]
    if coverage != sorted(set(coverage)):
        check.fail("levels of coverage are not stated once each, in ascending order")
    for level, parameter in zip(document["levels"], parameters, strict=True):
        widths = [
            half_width(stated["noise"], parameter, accumulates=accumulates, coverage=c) for c in coverage
        ]
        if level["half_widths"] != widths:
            check.fail(f"level {level['name']}: half widths {level['half_widths']}, derived {widths}")
    if stated["unit_means"] != unit_means(stated["unit"], stated["relations"]):
        check.fail("what a unit means is described in other words than the format has")


def _answers_moved(kind: str, step: str, n_regions: int, sizes: dict[str, Any]) -> int:
    """Return how many answers of a level one step moves at most, each by one.

    A group that grows by one leaves one running sum of its own region, or, in a chain, one of every region. A group
    that appears in row s stands in all running sums from there on: N - s of them upwards, s + 1 downwards.
    """
    n, smallest = int(sizes["n_sizes"]), int(sizes["smallest"])
    several = n_regions if kind in ("chain", "tail_chain") else 1
    if step == "move":
        return 0 if n == 1 else 2 if kind == "histogram" else several
    if step == "household":
        return 0 if n == 1 else 2 if kind == "histogram" else several * (n - 1)
    if step == "appears":
        return 1 if kind == "histogram" else several * n
    lowest, highest = (0, min(1 - smallest, n - 1)) if step == "new" else (n - 1, n - 1)
    if kind == "histogram":
        return 1
    return several * (highest + 1 if kind in ("tail", "tail_rows", "tail_chain") else n - lowest)


def _loss(noise: str, parameters: Sequence[Fraction], moved: Sequence[int]) -> Fraction:
    half = 2 if noise == "gaussian" else 1
    return sum((n / (half * p) for n, p in zip(moved, parameters, strict=True)), Fraction(0))


def _exact_statistics(document: dict[str, Any]) -> list[str]:
    sizes = document["sizes"]
    known = ["number of groups"]
    if sizes["too_large"] != "top-code":
        known.append(f"no group larger than {sizes['smallest'] + sizes['n_sizes'] - 1}")
    return known + (["public numbers of groups of regions"] if document["public_totals"] else [])


def _stated_row(
    step: str,
    document: dict[str, Any],
    known: list[str],
    parameters: Sequence[Fraction],
    moved: Sequence[int],
) -> StatedRow:
    """Return what must be stated of one neighbour step: numbers of its own, and none where it is disclosed."""
    stated = document["privacy"]
    this = step_in_words(step, Sizes(**document["sizes"]), document["public_totals"], stated["unit"])
    head: dict[str, Any] = {
        "name": this.name,
        "kind": this.kind,
        "relation": step,
        "neighbours": this.neighbours,
    }
    if step not in ("move", "household"):
        exact = [name for name in known if step == "appears" or not name.startswith("no group")]
        return StatedRow(
            head | {"status": "disclosed", "exact": exact}, None, lambda _: f"disclosed by: {known[0]}"
        )
    exact = [name for name in known if name.startswith("no group")]
    loss = str(_loss(stated["noise"], parameters, moved))
    head |= {"status": "conditional" if exact else "protected", "exact": exact, "loss": loss}
    law = LAWS[stated["noise"]]
    own = loss_of(law, [MovedCounts(p, 1, n) for p, n in zip(parameters, moved, strict=True) if n])
    return StatedRow(head, own, lambda times: step_sentence(this, times, tuple(known)), own.stated_at)
