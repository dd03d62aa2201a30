"""Releases: what is refused before a charge, what is written, and what the checker finds."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pgsr import release, verify
from pgsr.budget import NOT_A_RELEASE
from pgsr.checks import check_folder, exchange_gain_plain
from pgsr.mechanism import MECHANISMS
from pgsr.read import read_hierarchy
from pgsr.runfile import public_totals
from tests.helpers.groups import GROUPS, REGIONS, WHY, book, edit_document, seal
from topdown.errors import BudgetError, ConfigError, DataError, TopdownError

PEOPLE = {
    "user": ["01", "02", "03", "04"],
    "unit": ["A", "B", "A", "C"],
    "region": ["GA", "GA", "GA", "NY"],
    "quantity": [1, 1, 1, 0],
}


def changed(**columns):
    return GROUPS | columns


def codes(checks):
    return {check.name for check in checks if not check.ok}


@pytest.mark.parametrize(
    ("groups", "options", "code"),
    [
        (changed(size=[1, 2, -3, 1, 2, 2]), {}, "D133"),
        (changed(size=[1, 2, 9, 1, 2, 2]), {}, "D133"),
        (changed(size=[0, 2, 3, 1, 2, 2]), {}, "D133"),
        (changed(size=["x", 2, 3, 1, 2, 2]), {}, "D133"),
        (changed(region=["GA", "GA", "FR", "NY", "NY", "NY"]), {}, "D131"),
        (changed(region=["GA", "GA", "US", "NY", "NY", "NY"]), {}, "D131"),
        (changed(unit=list("AACDEF")), {}, "D133"),
        ({"region": ["GA"], "size": [1], "count": [-2]}, {}, "D133"),
        ({"place": ["GA"]}, {}, "D132"),
        (PEOPLE | {"quantity": [1, 1, 2, 0]}, {"smallest": 0}, "D134"),
        (PEOPLE | {"user": ["01", "01", "03", "04"]}, {"smallest": 0}, "D135"),
        (PEOPLE | {"region": ["GA", "GA", "NY", "NY"]}, {"smallest": 0}, "D135"),
        (GROUPS, {"total": 7}, "D136"),
        (GROUPS, {"public": {"GA": 4}}, "D136"),
        (GROUPS, {"total": 6, "public": {"US": 5}}, "D136"),
        (GROUPS, {"public": {"FR": 1}}, "D131"),
        (GROUPS, {"epsilon": 0.5}, "C142"),
        (GROUPS, {"epsilon": "0"}, "C144"),
        (GROUPS, {"epsilon": "-1/2"}, "C144"),
        (GROUPS, {"mechanism": "M_x"}, "C153"),
        (GROUPS, {"rho": "1/2"}, "C161"),
        (GROUPS, {"n_sizes": 0}, "C158"),
        (GROUPS, {"too_large": "drop"}, "C160"),
        (GROUPS, {"calibration": "published", "mechanism": "M_c^ch"}, "C162"),
        (GROUPS, {"shares": ["1/2", "1/4"]}, "B111"),
        (GROUPS, {"limit": "1/4"}, "B004"),
        (GROUPS, {"relations": ("new",)}, "C169"),
        (GROUPS, {"relations": ("new", "dropped")}, "C169"),
        (GROUPS, {"n_sizes": 1, "too_large": "top-code"}, "C169"),
        (GROUPS, {"relations": ("move",)}, "B007"),
        (GROUPS, {"unit": "household"}, "B007"),
        (GROUPS, {"epsilon": None, "rho": "1/2", "noise": "gaussian"}, "B007"),
        (GROUPS, {"ledger_id": ""}, "C170"),
        (GROUPS, {"ledger_id": "0" * 16}, "B007"),
        (GROUPS, {"data_set": "others"}, "B007"),
        (GROUPS, {"ledger": None}, "C163"),
        (GROUPS, {"ledger": "nowhere.jsonl"}, "B011"),
        ({"region": ["GA"], "size": [1], "count": [5000]}, {"mechanism": "M_H"}, "C151"),
        ({"region": ["GA"], "size": [1], "count": [5000]}, {"mechanism": "M_c"}, "C151"),
        ({"region": ["GA"], "size": [1], "count": [5000]}, {"mechanism": "M_dp^OP"}, "C151"),
        ({"region": ["GA"], "size": [1], "count": [2**40]}, {"n_sizes": 2000}, "C146"),
        ({"region": ["GA"], "size": [1], "count": [2**60]}, {}, "D133"),
    ],
)
def test_bad_input_draws_and_charges_nothing(tmp_path, groups, options, code):
    """A refused release must leave neither files nor a spent budget."""
    settings = {"mechanism": "tracking", "epsilon": "1/2", "n_sizes": 5} | book(tmp_path) | options
    with pytest.raises(TopdownError) as caught:
        release(groups, REGIONS, out=tmp_path / "out", **settings)
    assert code == caught.value.code
    assert caught.value.exit_code == 2
    assert caught.value.fix
    assert dict(caught.value.details)["this run spent"] == "nothing"
    assert not (tmp_path / "out").exists()
    assert "intent" not in (tmp_path / "groups.ledger.jsonl").read_text()


def test_error_messages_carry_no_confidential_value(tmp_path):
    """The wrong region and size belong in the private file, not on a screen."""
    source = tmp_path / "groups.csv"
    source.write_text("unit,region,size\nA,GA,1\nB,SECRET,2\n")
    with pytest.raises(DataError) as caught:
        release(source, REGIONS, "tracking", "1/2", n_sizes=5, out=tmp_path / "out")
    assert "SECRET" not in str(caught.value.to_json())
    listed = tmp_path / "PRIVATE-input-errors.csv"
    assert listed.stat().st_mode & 0o777 == 0o600
    assert "3,region" in listed.read_text()


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_keeps_its_promises(tmp_path, name):
    """Consistency, validity and faithfulness of the written files, for each mechanism by its published name."""
    made = release(
        GROUPS, REGIONS, name, "1/2", n_sizes=4, simulate=5, truth_is_public=WHY, out=tmp_path / "out"
    )
    assert set() == codes(check_folder(tmp_path / "out"))
    assert made.stamp == NOT_A_RELEASE
    if MECHANISMS[name].keeps:
        assert np.array_equal(made.counts[:, 0], made.counts[:, 1:].sum(axis=1))
        assert made.counts[:, 0].sum() == 6
        assert made.counts.min() >= 0


@pytest.mark.parametrize("name", ["M_H^dp", "M_c^dp", "M_c^ch", "tracking"])
def test_tiny_noise_returns_the_truth(name):
    """Any slip in sizes, regions or directions shows when the noise is gone."""
    for direction in ("tail", "cumulative"):
        made = release(
            GROUPS, REGIONS, name, 4000, n_sizes=4, simulate=1, truth_is_public=WHY, direction=direction
        )
        assert made.counts.tolist() == [[2, 1, 1], [3, 1, 2], [1, 1, 0], [0, 0, 0]]


def test_microdata_and_counts_say_the_same_as_groups():
    """Three input forms, one histogram."""
    counts = {"region": ["GA", "NY", "GA"], "size": [1, 0, 2], "count": [1, 1, 1]}
    found = [
        release(
            data, REGIONS, "tracking", 4000, n_sizes=3, smallest=0, simulate=1, truth_is_public=WHY
        ).counts.tolist()
        for data in (PEOPLE, counts)
    ]
    assert found == [[[1, 0, 1], [1, 1, 0], [1, 1, 0]]] * 2


def test_top_coding_keeps_the_number_of_groups():
    """Dropping large groups would change G and the tail counts by N."""
    made = release(
        changed(size=[1, 2, 9, 1, 2, 2]),
        REGIONS,
        "tracking",
        4000,
        n_sizes=3,
        too_large="top-code",
        simulate=1,
        truth_is_public=WHY,
    )
    assert made.counts[:, 0].tolist() == [2, 3, 1]


def test_a_release_is_charged_once_and_checks_out(tmp_path):
    """Ledger, manifest and certificate must agree on the loss; a second release needs a higher limit."""
    named = {"n_sizes": 5} | book(tmp_path)
    made = release(GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "out", total=6, **named)
    assert made.is_release
    assert set() == codes(verify(tmp_path / "out"))
    files = {"counts.parquet", "measurements", "certificate.json", "ledger.jsonl", "manifest.json"}
    assert files == {path.name for path in (tmp_path / "out").iterdir()}
    assert (Fraction(1, 2), 1) == (made.charged, made.n_attempts)
    with pytest.raises(BudgetError):
        release(GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "again", **named)
    again = release(GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "again", limit=1, again=True, **named)
    assert Fraction(1, 2) == again.calibration.loss
    assert set() == codes(verify(tmp_path / "again"))


def test_published_calibration_is_stamped(tmp_path):
    """Numbers made to reproduce the paper must never pass for a release."""
    made = release(
        GROUPS,
        REGIONS,
        "M_c^ch",
        1,
        n_sizes=5,
        simulate=1,
        truth_is_public=WHY,
        calibration="published",
        out=tmp_path / "out",
    )
    assert Fraction(3, 2) == made.calibration.loss
    assert not made.is_release
    stated = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert (stated["stamp"], stated["privacy"]["private_as_claimed"]) == (NOT_A_RELEASE, False)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "out"
    release(GROUPS, REGIONS, "M_H^dp", "1/2", n_sizes=5, out=folder, **book(folder.parent))
    return folder


def _copy(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy")


def test_a_changed_byte_is_found(made, tmp_path):
    """The manifest is the first line of defence."""
    folder = _copy(made, tmp_path)
    with (folder / "counts.parquet").open("ab") as file:
        file.write(b"x")
    assert "manifest" in codes(verify(folder))


def _moved_count(made, tmp_path, region, by):
    folder = _copy(made, tmp_path)
    table = parquet.read_table(folder / "counts.parquet")
    counts = table.column("count").to_numpy().copy()
    counts[region * 5 : region * 5 + 2] += by
    position = table.schema.get_field_index("count")
    with parquet.ParquetWriter(folder / "counts.parquet", table.schema, store_schema=False) as writer:
        writer.write_table(table.set_column(position, "count", pa.array(counts)))
        writer.add_key_value_metadata({"type": "pgsr.counts", "version": "1"})
    seal(folder)
    return folder


def test_counts_that_do_not_add_up_are_found(made, tmp_path):
    """A resealed but inconsistent table."""
    assert "hierarchy" in codes(verify(_moved_count(made, tmp_path, 1, [1, -1])))


def test_a_negative_count_and_a_wrong_total_are_found(made, tmp_path):
    """Validity and faithfulness are separate checks."""
    assert {"whole numbers", "hierarchy", "total"} <= codes(
        verify(_moved_count(made, tmp_path, 0, [-100, 7]))
    )


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        (lambda d: d["privacy"].update(loss="1/4"), "privacy"),
        (lambda d: d["levels"][0].update(parameter="1"), "privacy"),
        (lambda d: d["levels"][1].update(sensitivity=1), "privacy"),
        (lambda d: d["mechanism"].update(measures="chain"), "privacy"),
        (lambda d: d["privacy"].update(private_as_claimed=False), "privacy"),
        (lambda d: d.update(journal="0" * 32), "ledger"),
        (lambda d: d.update(total=7), "total"),
        (lambda d: d.pop("sizes"), "files"),
    ],
)
def test_a_false_certificate_is_found(made, tmp_path, edit, check):
    """Each stated number is recomputed, so that none can be dressed up."""
    folder = _copy(made, tmp_path)
    edit_document(folder, "certificate.json", edit)
    assert check in codes(verify(folder))


def test_exchange_check_rejects_a_worse_table():
    """The optimality check must be able to fail."""
    parent = np.array([-1, 0, 0])
    answers = np.array([[2, 3, 0], [1, 0, 1]])
    assert exchange_gain_plain(parent, answers, np.array([[3, 3, 0], [1, 0, 1]]))[0] <= 0
    assert exchange_gain_plain(parent, answers, np.array([[3, 0, 3], [1, 0, 1]]))[0] > 0


def test_a_folder_that_is_no_release_is_refused(tmp_path):
    """An empty list of checks would look like a pass."""
    with pytest.raises(DataError):
        verify(tmp_path)


def test_output_is_never_overwritten(tmp_path):
    """A second run must not mix files of two releases."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").touch()
    with pytest.raises(ConfigError):
        release(
            GROUPS,
            REGIONS,
            "tracking",
            "1/2",
            n_sizes=5,
            simulate=1,
            truth_is_public=WHY,
            out=tmp_path / "out",
        )


def test_tracking_ends_at_the_public_total():
    """Targets that end elsewhere must not change the number of groups."""
    from pgsr.cumulative import track

    counts = track(REGIONS.tree, np.array([[1.0, 1.0, 0.0], [4.2, 3.0, 1.0]]), 6)
    assert counts[:, 0].sum() == 6


def test_a_simulation_on_unmarked_groups_is_refused(tmp_path):
    """The mean of many uncharged runs on real groups is the groups; nothing may be drawn or written."""
    table = tmp_path / "groups.csv"
    table.write_text("region,size,count\nGA,1,3\nNY,2,2\n")
    options = {"n_sizes": 4, "simulate": 1}
    for groups, reason in ((GROUPS, ""), (table, ""), (GROUPS, "public"), (table, "public")):
        with pytest.raises(ConfigError) as caught:
            release(groups, REGIONS, "tracking", 1, truth_is_public=reason, out=tmp_path / "out", **options)
        assert caught.value.code == "C121"
        assert not (tmp_path / "out").exists()
    made = release(table, REGIONS, "tracking", 1, truth_is_public=WHY, **options)
    assert (made.origin.kind, made.origin.name, made.origin.reason) == ("public", "groups.csv", WHY)


def test_a_release_has_no_origin_and_a_simulation_states_its_own(tmp_path):
    """Who reads a simulated certificate must see on what, and on whose word, it was made."""
    for name, options in (("real", {}), ("made-up", {"simulate": 1, "truth_is_public": WHY})):
        settings = book(tmp_path) | options
        release(GROUPS, REGIONS, "tracking", 1, n_sizes=4, out=tmp_path / name, **settings)
    real, simulated = (
        json.loads((tmp_path / name / "certificate.json").read_text())["truth"]
        for name in ("real", "made-up")
    )
    assert real is None
    assert (simulated["kind"], simulated["name"], simulated["reason"]) == ("public", "columns in memory", WHY)


def test_the_same_plan_is_not_charged_twice_unasked(tmp_path):
    """Two noisy versions of one release must be somebody's wish, and both be in the ledger."""
    settings = {"n_sizes": 4} | book(tmp_path) | {"limit": 10}
    release(GROUPS, REGIONS, "tracking", 1, out=tmp_path / "a", **settings)
    with pytest.raises(TopdownError) as caught:
        release(GROUPS, REGIONS, "tracking", 1, out=tmp_path / "b", **settings)
    assert caught.value.code == "B013"
    assert dict(caught.value.details)["this run spent"] == "nothing"
    release(GROUPS, REGIONS, "tracking", 1, out=tmp_path / "b", again=True, **settings)
    assert (tmp_path / "groups.ledger.jsonl").read_text().count('"kind":"intent"') == 2


HIERARCHY = "region,parent,level\nUS,,nation\nGA,US,state\nNY,US,state\n"


def from_file(folder, text, name="groups.csv", **options):
    """Simulate on a file of groups; return the counts of the root, by size."""
    (folder / name).write_text(text, newline="")
    settings = {"n_sizes": 40, "simulate": 1, "truth_is_public": WHY, "calibration": "correct"} | options
    return release(folder / name, REGIONS, "tracking", 4000, **settings).counts[:, 0].tolist()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("unit,region,size,count\nA,GA,1,65\nB,GA,2,1\n", "D040"),
        ("region,size,count,count\nGA,1,3,4\n", "D132"),
        ("region,size,size,count\nGA,1,3,4\n", "D132"),
        ("region,size,Count\nGA,1,3\n", "D132"),
        ("region,size,count,note\nGA,1,3,x\n", "D040"),
        ("region,size,count\nGA,0x1F,1\n", "D133"),
        ("region,size,count\nGA,1,1e3\n", "D133"),
        ("region,size,count\nGA,1,1.0\n", "D133"),
        ("region,size,count\nGA,1,\n", "D133"),
        ("region,size,count\nGA,1, 3\n", "D133"),
        ("region,size,count\nGA,1,9223372036854775808\n", "D133"),
        ("region,size,count\nGA,1,1e300\n", "D133"),
        ("region,size,count\nGA,1,1_000\n", "D133"),
        ("region,size,count\nGA,1,\u0663\n", "D133"),
        ('region,size,count\nGA,1,3\nGA"x,1,3\n', "D042"),
        ("region,size,count\n" + "GA,1\n", "D130"),
        ("GA,1,3\nNY,1,2\n", "D132"),
        ("", "D132"),
    ],
)
def test_a_file_that_could_be_read_two_ways_is_refused(tmp_path, text, code):
    """A count that is passed over, a column that wins over its twin, 0x1F read as 31: wrong without a word."""
    with pytest.raises(DataError) as caught:
        from_file(tmp_path, text)
    assert code == caught.value.code
    assert caught.value.fix
    assert "NY" not in str(caught.value.to_json())


def test_columns_named_in_ignore_are_not_read(tmp_path):
    """A file may carry more than one form if the run says which columns it does not read."""
    text = "unit,region,size,count\nA,GA,1,65\nB,NY,2,1\n"
    assert [1, 1, *[0] * 38] == from_file(tmp_path, text, ignore=["count"])
    assert [65, 1, *[0] * 38] == from_file(tmp_path, text, ignore=["unit"])


@pytest.mark.parametrize("shift", [0, 11, 23])
def test_a_quoted_line_break_at_the_edge_of_a_block_makes_no_group(tmp_path, shift):
    """Text of a column nobody reads became groups where a block of the reader began inside it."""
    row, head = f"GA,1,1,{'x' * 20}\n", "region,size,count,note\n"
    n = ((1 << 20) - 500 - len(head)) // len(row)
    text = head + row * n + f'GA,1,1,"{"x" * shift}\n{row * 40}"\n' + row
    assert n + 2 == from_file(tmp_path, text, ignore=["note"])[0]


@pytest.mark.parametrize("values", [[True, 1], [1.0, 2], ["0x1F", "1"], [2**63, 1], [None, 1], [1e300, 1]])
def test_numbers_by_luck_are_refused_in_memory_too(tmp_path, values):
    """A truth value is no size, and a number past 64 bits must not end in a traceback."""
    with pytest.raises(DataError) as caught:
        release(
            {"region": ["GA", "NY"], "size": values, "count": [1, 1]}, REGIONS, "tracking", "1/2",
            n_sizes=3, simulate=1, truth_is_public=WHY,
        )  # fmt: skip
    assert caught.value.code == "D133"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("region,groups\nUS,6\nUS,7\n", "D133"),
        ("region,groups,groups\nUS,6,7\n", "D132"),
        ("region,Groups\nUS,6\n", "D132"),
        ("region,groups,note\nUS,6,x\n", "D040"),
        ("region,groups\nUS,0x6\n", "D133"),
        ("region,groups\nUS,-6\n", "D133"),
    ],
)
def test_public_totals_are_read_one_way(tmp_path, text, code):
    """Of two numbers for one region the last would win."""
    path = tmp_path / "public.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        public_totals(path)
    assert code == caught.value.code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (HIERARCHY.replace("level", "Level", 1), "D132"),
        (HIERARCHY.replace("region,parent,level", "region,parent,level,level"), "D130"),
        ("region,parent,level,note\nUS,,nation,x\n", "D040"),
        ("region,parent,region\nUS,,nation\n", "D132"),
    ],
)
def test_a_hierarchy_is_read_one_way(tmp_path, text, code):
    """Of two parents of a region the last would win."""
    path = tmp_path / "hierarchy.csv"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read_hierarchy(path)
    assert code == caught.value.code


@pytest.mark.parametrize(
    ("column", "kind"),
    [("count", pa.float16()), ("count", pa.float64()), ("count", pa.bool_()), ("size", pa.binary()),
     ("size", pa.date32()), ("region", pa.int64()), ("region", pa.binary()), ("size", pa.list_(pa.int64()))],
)  # fmt: skip
def test_a_parquet_column_of_another_type_is_refused(tmp_path, column, kind):
    """A date, a truth value or a half float that looks like a number is none."""
    columns = {"region": pa.array(["GA"]), "size": pa.array([1]), "count": pa.array([1])}
    some = {"binary": b"1", "bool": True, "list": [1]}.get(str(kind).partition("<")[0], 1)
    columns[column] = pa.array([np.float16(1) if kind == pa.float16() else some], kind)
    path = tmp_path / "groups.parquet"
    parquet.write_table(pa.table(columns), path)
    with pytest.raises(DataError) as caught:
        release(path, REGIONS, "tracking", 4000, n_sizes=3, simulate=1, truth_is_public=WHY)
    assert caught.value.code == "D024"
