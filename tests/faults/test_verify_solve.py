"""`verify --solve`: records that do not follow from the measurements fail, however well the rest is redone."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import write_toy
from tests.helpers import small_release
from tests.helpers.extension import make_land
from tests.helpers.folders import files
from tests.helpers.forged import forge, microdata, move_one, solved_release
from tests.helpers.ledgers import with_ledger
from tests.helpers.many_kinds import write_crowded_land
from tests.helpers.small_release import Small, edit_json, edit_table, reseal
from topdown.app import SOLVED_CHECK, generate_release, verify_and_solve
from topdown.errors import CertificateError
from topdown.measure import load_records
from topdown.model import Histogram
from topdown.plan import load_context, prepare
from topdown.solve import compare_with_published, open_release, records_sha256, solve_folder
from topdown.verify import VerifyResult, verify

PERSONS = "microdata/persons.parquet"
TWINS = "geocode,homes,dormitories,barracks\n" + "".join(
    f"{county}{block},{homes},{int(block == 2)},1\n"
    for county in ("01", "02", "03")
    for block, homes in ((1, 3), (2, 5), (3, 0))
)


def codes(result: VerifyResult, check: str = SOLVED_CHECK) -> set[str]:
    """Return the codes of the findings of one check."""
    return {finding.code for finding in result.check(check).findings}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Return a release whose records follow from its measurements, made once and never changed."""
    return solved_release(tmp_path_factory.mktemp("sound"))


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Histogram]:
    """Return a generated release and the confidential records it was made from."""
    folder = tmp_path_factory.mktemp("generated")
    prepared = prepare(write_toy(folder))
    generate_release(prepared, folder / "release")
    return folder / "release", load_records(prepared.records_path, prepared.context).open_counts().whole()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sound_release_is_equal_and_left_alone(sound: Small, workers: int) -> None:
    """An honest release must pass with any number of workers, and nothing may be written into it."""
    before = files(sound.folder)
    result = verify_and_solve(sound.folder, workers=workers)
    check = result.check(SOLVED_CHECK)
    assert (result.ok, check.text, check.warnings) == (True, "5 of 5 block areas equal", ())
    assert result.not_checked == ()
    assert before == files(sound.folder)


def test_confidential_records_as_microdata(generated: tuple[Path, Histogram], tmp_path: Path) -> None:
    """The records themselves, published with everything redone, pass every check but this one."""
    release, truth = generated
    forged = forge(release, tmp_path / "forged", truth)
    plain, left = verify(forged), "that the microdata follow from the measurements (--solve)"
    assert (plain.ok, plain.not_checked) == (True, (left,))
    result = verify_and_solve(forged)
    assert (False, {"V172"}) == (result.ok, codes(result))
    assert 0 < result.check(SOLVED_CHECK).n_failed <= 12
    assert result.check(SOLVED_CHECK).n_checked == 12


@pytest.mark.parametrize("between_leaves", [False, True])
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in (1, 2))])
def test_one_moved_record(sound: Small, tmp_path: Path, seed: int, *, between_leaves: bool) -> None:
    """A single record put elsewhere, with all files redone, would go unseen by sums and digests."""
    rng = np.random.default_rng(seed)
    for attempt in range(100):  # most moves break a rule, and are not even published
        try:
            moved = move_one(sound.leaves, rng, between_leaves=between_leaves)
            forged = forge(sound.folder, tmp_path / str(attempt), moved)
            break
        except CertificateError:
            shutil.rmtree(tmp_path / str(attempt))
    assert verify(forged).ok
    result = verify_and_solve(forged)
    assert (False, {"V172"}) == (result.ok, codes(result))
    assert 1 + between_leaves == result.check(SOLVED_CHECK).n_failed
    assert "2 counts differ, by 2 records" in result.check(SOLVED_CHECK).text


def test_another_optimum_passes_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counties with equal answers may change places: a library that breaks the tie otherwise is not at fault."""
    monkeypatch.setattr(small_release, "LEAVES", TWINS)
    release = solved_release(tmp_path, lambda row: [1 + i % 3 for i in range(len(row["answers"]))])
    assert verify_and_solve(release.folder).check(SOLVED_CHECK).text == "9 of 9 block areas equal"
    dense = release.leaves.dense(0, 9)
    first, second = next(
        (a, b) for a, b in ((0, 3), (0, 6), (3, 6)) if (dense[a : a + 3] != dense[b : b + 3]).any()
    )
    dense[[*range(first, first + 3), *range(second, second + 3)]] = dense[
        [*range(second, second + 3), *range(first, first + 3)]
    ]
    forged = forge(release.folder, tmp_path / "forged", small_release.from_dense(dense))
    result = verify_and_solve(forged)
    check = result.check(SOLVED_CHECK)
    assert (result.ok, check.findings) == (True, ())
    assert "the others another optimum" in check.text
    differ = int((microdata(forged).dense(0, 9) != release.leaves.dense(0, 9)).sum())
    assert f"{differ} counts differ" in check.warnings[0]
    assert "land 0: its rounding cost differs by +0.000000 persons" in check.warnings[1]
    assert result.n_warnings == 2


def test_a_moved_record_is_found_where_it_was_moved(sound: Small, tmp_path: Path) -> None:
    """Two records that change places between two blocks leave every level above as it was: only that split is wrong."""
    dense, rules = sound.leaves.dense(0, 5), sound.context.rules
    is_open = rules.open[-1][:, rules.class_of_cell]
    forged = None
    for a, b in np.argwhere(
        (dense[0] > 0)[:, None] & (dense[1] > 0)[None, :] & is_open[1][:, None] & is_open[0]
    ):
        if a != b and forged is None:
            swapped = dense.copy()
            swapped[[0, 1, 0, 1], [a, a, b, b]] += [-1, 1, 1, -1]
            try:
                forged = forge(sound.folder, tmp_path / f"{a} {b}", small_release.from_dense(swapped))
            except CertificateError:
                continue
    assert forged is not None
    check = verify_and_solve(forged).check(SOLVED_CHECK)
    assert {("V172", "01")} == {(finding.code, finding.node) for finding in check.findings}
    assert check.text == "3 of 5 block areas equal; 4 counts differ, by 4 records in all; not optimal"


@pytest.mark.slow
def test_a_release_that_needed_the_failsafe(tmp_path: Path) -> None:
    """A table changed before its split is published in no place: honest releases must pass, others never quietly."""
    prepared = prepare(with_ledger(write_crowded_land(tmp_path / "land")))
    release = tmp_path / "release"
    made = generate_release(prepared, release)
    assert made.n_failsafe > 0
    result = verify_and_solve(release)
    assert (result.ok, result.check(SOLVED_CHECK).text) == (True, "90 of 90 block areas equal")
    moved = move_one(microdata(release), np.random.default_rng(1), between_leaves=True)
    context = load_context(release)
    descent = open_release(release, context)
    own = solve_folder(release, context, solver=descent)
    again = compare_with_published(
        context, descent, own, moved, json.loads((release / "solve.json").read_text())
    )
    assert again.verdicts["worse"] + again.verdicts["unjudged"] > 0


def test_digest_of_the_records(copy: Small) -> None:
    """Records changed without solve.json must not pass as those the solver reported on."""
    release = copy.folder
    edit_table(release / PERSONS, lambda rows: rows[0].update(count=rows[0]["count"] + 1))
    reseal(release)
    assert {"V171"} == codes(verify(release), "digests")


@pytest.mark.parametrize("name", ["inputs_sha256", "records_sha256"])
def test_digests_must_be_there(copy: Small, name: str) -> None:
    """A solve.json without digests would say nothing about which release it is of."""
    release = copy.folder
    edit_json(release / "solve.json", lambda document: document.pop(name))
    reseal(release)
    assert {"V120"} == codes(verify(release), "solver")
    assert {"V150"} == codes(verify(release), "digests")


def test_digest_of_the_inputs(copy: Small) -> None:
    """A report of a solve of other measurements must not stand beside these."""
    release = copy.folder
    path = release / "measurements" / "block" / "part-000.parquet"
    edit_table(path, lambda rows: rows[0].update(answers=[a + 1 for a in rows[0]["answers"]]))
    reseal(release)
    assert {"V170"} == codes(verify(release), "digests")


def test_the_digest_is_of_the_table_not_of_the_file(sound: Small) -> None:
    """A digest of Parquet bytes would change with the library that writes them."""
    stated = json.loads((sound.folder / "solve.json").read_text())["records_sha256"]
    assert stated == records_sha256(sound.leaves) == small_release.records_digest(sound.leaves)


def test_an_invented_failsafe(copy: Small) -> None:
    """solve.json could excuse or accuse areas that the solver never changed; only a second solve can tell."""
    release = copy.folder
    use = {
        "node": "01",
        "level": "county",
        "distance": 2,
        "marginals_kept": True,
        "constraints": [],
        "smallest": True,
    }
    for name in ("solve.json", "certificate.json"):
        edit_json(release / name, lambda document: document.update(failsafe=[use]))
    reseal(release)
    assert {"V174"} == codes(verify_and_solve(release))


def test_files_that_fail_before_are_not_solved(copy: Small) -> None:
    """The solver's readers trust files; what the verifier's own refuse must not reach them."""
    release = copy.folder
    edit_table(release / PERSONS, lambda rows: rows[0].update(geocode="elsewhere"))
    reseal(release)
    result = verify_and_solve(release)
    assert ({"V150"}, False) == (codes(result), result.ok)


def test_statistics_that_cannot_be_met_are_a_finding(copy: Small) -> None:
    """What the solver refuses must come out as a finding, not as a traceback."""
    release = copy.folder
    path = release / "measurements" / "exact.json"
    edit_json(path, lambda document: document["values"][0].update(answers=[[1]]))
    reseal(release)
    assert {"V175"} == codes(verify_and_solve(release))


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an extension of a toy release."""
    land = make_land(tmp_path_factory.mktemp("extended"), 3)
    generate_release(prepare(land.run, land.base), land.folder / "more", base=land.base)
    return land.folder / "more"


def test_a_sound_extension_is_equal(extended: Path) -> None:
    """Extensions are solved in stages; an honest one must pass too, base table and all."""
    result = verify_and_solve(extended, workers=2)
    assert (result.ok, result.check(SOLVED_CHECK).text) == (True, "14 of 14 block areas equal")


def test_a_record_moved_within_the_base_table(extended: Path, tmp_path: Path) -> None:
    """An extension's records could be swapped below the base table, which stays as it was."""
    context, leaves, rng = load_context(extended), microdata(extended), np.random.default_rng(0)
    assert context.support is not None
    for attempt in range(400):
        moved = move_one(leaves, rng, between_leaves=False)
        now, then = (
            np.bincount(context.support.of_cell[table.cell], table.count, minlength=18)
            for table in (moved, leaves)
        )
        if not np.array_equal(now, then):
            continue
        try:
            forged = forge(extended, tmp_path / str(attempt), moved)
            break
        except CertificateError:
            shutil.rmtree(tmp_path / str(attempt))
    assert verify(forged).ok
    result = verify_and_solve(forged)
    assert codes(result) <= {"V172", "V173"}
    assert not result.ok
