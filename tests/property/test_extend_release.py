"""A toy release extended end to end: the base table stays, constraints hold, one ledger pays, tampering shows."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.extension import Land, make_land, records_kept
from tests.helpers.failing import fails_with
from tests.helpers.ledgers import limit_as_stated, n_intents
from tests.helpers.sections import solve_small
from tests.helpers.small_release import edit_table, reseal, rewrite_table
from tests.helpers.solved import solve_release
from tests.helpers.tiny_extension import draw_world
from topdown.app import generate_release
from topdown.errors import BudgetError, CertificateError, ConfigError, InfeasibleError
from topdown.measure import draw, load_records, measure, records_form
from topdown.model import support as support_module
from topdown.plan import PreparedRun, load_context, load_release_chain, prepare
from topdown.privacy.ledger import read_book
from topdown.solve import checkpoint_spans, choose_cut
from topdown.solve.extend import find_patterns
from topdown.verify import released_records, verify


def run(land: Land, name: str = "more") -> tuple[PreparedRun, Path]:
    """Extend the base release of a land; return what was prepared and the new release."""
    prepared = prepare(land.run, land.base)
    generate_release(prepared, land.folder / name, base=land.base)
    return prepared, land.folder / name


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One extended land, read by several tests and copied by those that damage it."""
    land = make_land(tmp_path_factory.mktemp("land"), 3)
    prepared, release = run(land)
    return land, prepared, release


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Land:
    """Another land with a base release."""
    return make_land(tmp_path_factory.mktemp("other"), 4)


@pytest.mark.parametrize("by_job", [False, True])
@pytest.mark.parametrize(
    "seed", [10, 13, *(pytest.param(s, marks=pytest.mark.slow) for s in (11, 12, *range(14, 24)))]
)
def test_the_base_table_and_the_constraints_hold(tmp_path: Path, seed: int, *, by_job: bool) -> None:
    """Whatever the noise: every base count the same at every leaf, no zero or bound broken, all roundings proved."""
    land = make_land(tmp_path, seed, n_blocks=4 + seed, by_job=by_job)
    _, release = run(land)
    records_kept(land.base, release)
    document = json.loads((release / "solve.json").read_text())
    assert document["staged"] is True
    assert all(level["n_roundings_optimal"] == level["n_roundings"] for level in document["levels"])
    assert all(level["max_kkt_residual_persons"] <= 1e-5 for level in document["levels"])


def test_one_ledger_pays_for_both(made) -> None:
    """Two products from the same people: the ledger holds two commits, and what they charge adds up."""
    land, prepared, release = made
    book, base = (
        read_book((folder / "ledger.jsonl").read_bytes(), folder)[0] for folder in (release, land.base)
    )
    assert set(book.intents) == book.committed
    assert (book.charged, base.charged) == (
        {"rho": 3},
        {"rho": 2},
    )  # rho 2 of the base, rho 1 of the extension
    stated = json.loads((land.base / "certificate.json").read_text())["plan_hash"]
    assert stated == prepared.plan.base.plan_hash


def test_workers_and_sections_do_not_change_the_table(
    made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scheduling must not be able to change a published number."""
    release = Path(shutil.copytree(made[2], tmp_path / "copy"))
    one = solve_release(release, workers=1)
    solve_small(monkeypatch)
    assert len(checkpoint_spans(made[1].context.geography, choose_cut(made[1].context.geography, 2)[0])) > 2
    two = solve_release(release, workers=2)
    assert one[1] == two[1]
    np.testing.assert_array_equal(one[0].cell, two[0].cell)
    np.testing.assert_array_equal(one[0].count, two[0].count)


def test_only_open_answers_are_measured(made) -> None:
    """A list must hold exactly the answers with an open cell: more wastes, fewer would hide people."""
    context = made[1].context
    level = context.plan.levels[-1]
    table = pq.read_table(made[2] / "measurements" / "block" / "part-000.parquet")
    lengths = [len(row) for row in table.column("answers").to_pylist()]
    nodes = np.flatnonzero(context.inhabited[-1])
    of_cell, rules = context.support.of_cell, context.rules
    expected = []
    for node in nodes:
        present = np.zeros(context.support.levels[-1].n_cells, dtype=bool)
        present[context.support.base(2, int(node))[0]] = True
        opened = present[of_cell] & rules.open[-1][node][rules.class_of_cell]
        expected += [
            len(set(context.plan.query(m.query).labels[opened].tolist())) for m in level.measurements
        ]
    assert expected == lengths
    assert sum(lengths) == context.plan.base.n_numbers[-1] < level.n_numbers


def test_numbers_are_counted_again_whatever_is_kept(made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound release would be refused: areas differ in what is open in a base cell, and not all of it is kept."""
    monkeypatch.setattr(released_records, "KEPT_ANSWERS", 3)
    assert verify(made[2]).check("measurements").ok


def move_one(release: Path) -> None:
    """Move one record to a cell of another sex, as somebody would who corrects one household."""
    path = release / "microdata" / "persons.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    row = next(r for r in rows if r["count"] == 1)
    row["sex"] = "male" if row["sex"] == "female" else "female"
    columns = {name: pa.array([r[name] for r in rows]) for name in table.column_names}
    rewrite_table(path, pa.table(columns))
    reseal(release)


def test_a_moved_record_is_found(made, tmp_path: Path) -> None:
    """The promise of an extension: verify must say where the base table was changed."""
    release = Path(shutil.copytree(made[2], tmp_path / "copy"))
    move_one(release)
    check = verify(release).check("base")
    assert not check.ok
    assert {f.code for f in check.findings} == {"V163"}


@pytest.mark.parametrize("name", ["persons.parquet", "plan.json", "manifest.json"])
def test_another_base_is_found(made, other, tmp_path: Path, name: str) -> None:
    """A base table that was swapped, even with a new manifest around it, breaks a hash of the plan."""
    release = Path(shutil.copytree(made[2], tmp_path / "copy"))
    source = other.base / ("microdata/persons.parquet" if name == "persons.parquet" else name)
    shutil.copyfile(source, release / "base" / name)
    reseal(release)
    result = verify(release)
    assert not result.check("base").ok
    assert {f.code for f in result.check("base").findings} <= {"V160", "V161", "V162", "V163"}
    with fails_with("V160", CertificateError):
        load_context(release, made[1].context)


def test_what_a_run_prepared_serves_only_its_own_plan(made, other) -> None:
    """A run goes on with what it prepared if the folder says the same; another plan is read anew."""
    _, prepared, release = made
    assert load_context(release, prepared.context) is prepared.context
    context = prepare(other.run, other.base).context
    read = load_context(release, context)
    assert read is not context
    assert read.plan.plan_hash == prepared.plan.plan_hash


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("name", "value"), [("_MOST_KEPT", 2**22), ("_MOST_KEPT", 3), ("_SHORT", 3)])
def test_answers_listed_are_those_of_the_open_cells(
    seed: int, name: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer left out, or twice, would shift all that follow; whatever of base cells is kept from other nodes."""
    monkeypatch.setattr(support_module, name, value)
    world = draw_world(seed, n_leaves=6)
    support, geography = world.context().support, world.geography
    for names in (("sex * age", "detailed"), ("kind", "total", "dwelling * sex"), ("detailed",), ()):
        queries = tuple(map(support.query, names))
        for depth, level in enumerate(geography.levels):
            wanted = [
                [sorted(set(query.labels[cells].tolist())) for query in queries]
                for cells in (world.open_cells(depth, node) for node in range(len(level)))
            ]
            found = [support.listed(queries, depth, node) for node in range(len(level))]
            assert wanted == [[answers.tolist() for answers in listed] for listed in found]
            lengths = [[len(answers) for answers in listed] for listed in wanted]
            measured = np.flatnonzero(support.inhabited[depth])
            assert [lengths[node] for node in measured] == support.lengths(depth, queries).tolist()


def test_other_public_facts_of_the_base_are_found(made, tmp_path: Path) -> None:
    """Facts of the base close cells and fix counts: with others, what a base gives away would seem protected."""
    release = Path(shutil.copytree(made[2], tmp_path / "copy"))
    leaves = release / "base" / "public" / "leaves.parquet"
    edit_table(leaves, lambda rows: rows[0].update(homes=rows[0]["homes"] + 1))
    reseal(release)
    assert {"V161"} == {f.code for f in verify(release).check("base").findings}
    with pytest.raises(CertificateError, match="does not hold the public facts"):
        load_release_chain(release)
    leaves.unlink()
    reseal(release)
    result = verify(release)
    assert "V002" in {f.code for f in result.check("manifest").findings}
    assert {"V160"} == {f.code for f in result.check("base").findings}
    assert not result.check("privacy").ok
    with pytest.raises(CertificateError, match="does not hold the public facts"):
        load_context(release)


def test_a_base_that_fails_verification_is_refused(tmp_path: Path) -> None:
    """Nothing may be spent on top of a release that was altered."""
    land = make_land(tmp_path, 5)
    prepared = prepare(land.run, land.base)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    (land.base / "README.txt").write_text("changed")
    with pytest.raises(CertificateError, match="fails its verification"):
        generate_release(prepared, tmp_path / "more", base=land.base)
    assert before == (tmp_path / "ledger.jsonl").read_bytes()


def test_another_ledger_is_refused(tmp_path: Path) -> None:
    """Two ledgers for one data set would each show half of the loss."""
    land = make_land(tmp_path, 6)
    land.run.write_text(land.run.read_text().replace('path = "ledger.jsonl"', 'path = "second.jsonl"'))
    with pytest.raises(BudgetError, match="did not pay"):
        generate_release(prepare(land.run, land.base), tmp_path / "more", base=land.base)
    assert n_intents(tmp_path / "second.jsonl") == 0


def test_contradicting_facts_are_refused_before_noise(tmp_path: Path) -> None:
    """Facilities by type that the base release has no people for: said at once, with the leaf, nothing spent."""
    land = make_land(tmp_path, 7)
    lines = (tmp_path / "leaves.csv").read_text().splitlines()
    head = lines[0].split(",")
    rows = [line.split(",") for line in lines[1:]]
    row = next(r for r in rows if int(r[head.index("homes")]) > 0)
    row[head.index("navies")] = "9999"
    (tmp_path / "leaves.csv").write_text("\n".join([lines[0], *(",".join(r) for r in rows)]) + "\n")
    before = (tmp_path / "ledger.jsonl").read_bytes()
    with pytest.raises(InfeasibleError) as caught:
        generate_release(prepare(land.run, land.base), tmp_path / "more", base=land.base)
    assert (caught.value.code, caught.value.node) == ("I020", row[0])
    assert before == (tmp_path / "ledger.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('sex = "sex"', 'sex = "job"', "C093"),
        ('sex = "sex"', 'height = "sex"', "C093"),
        ('data_set = "toy land"', 'data_set = "another"', "C092"),
        ('neighbours = "bounded"', 'neighbours = "add_remove"', "C092"),
    ],
)
def test_run_files_that_do_not_fit_the_base(made, tmp_path: Path, old: str, new: str, code: str) -> None:
    """What cannot be one data set read two ways must be refused with the reason."""
    land = made[0]
    path = land.folder / f"bad-{code}-{len(new)}.toml"
    path.write_text(land.run.read_text().replace(old, new))
    with fails_with(code, ConfigError):
        prepare(path, land.base)


def test_patterns_follow_public_facts_only(made) -> None:
    """Everything that steers the solver must follow from the base release and public tables."""
    context = load_context(made[2])
    patterns = find_patterns(context)
    for table, base in zip(patterns.tables, context.support.levels, strict=True):
        np.testing.assert_array_equal(table.totals(), base.totals())
    assert len(patterns.reserved)  # this land has leaves with two kinds of one dwelling


@pytest.mark.parametrize("workers", [1, 3])
def test_an_answer_counts_its_own_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    """With next to no noise each listed answer is the true count; records of unlisted answers go nowhere else."""
    land = make_land(tmp_path, 8)
    if workers > 1:  # so that there is enough for each to draw
        monkeypatch.setattr(draw, "NUMBERS_PER_PART", 200)
    text = (
        land.run.read_text()
        .replace('rho = "1"', 'rho = "1000000"')
        .replace('rho_limit = "20"', 'rho_limit = "1000002"')
    )
    land.run.write_text(text)
    limit_as_stated(land.run)
    prepared, release = prepare(land.run, land.base), tmp_path / "more"
    measure(prepared, release, workers=workers)
    context = prepared.context
    truth = load_records(tmp_path / "full.csv", context, records_form(prepared.run)).open_counts().whole()
    parts = sorted((release / "measurements" / "block").iterdir())
    assert (len(parts) > 1) == (workers > 1)
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    n_lost = 0
    for row in rows:
        node = context.geography.leaves.codes.index(row["node"])
        query = context.plan.query(row["query"])
        answers = truth.answers(query)[node]
        listed = context.support.listed((query,), 2, node)[0]
        assert row["answers"] == answers[listed].tolist()
        n_lost += int(answers.sum() - answers[listed].sum())
    assert n_lost > 0  # the base's noise has emptied some cells that have records
