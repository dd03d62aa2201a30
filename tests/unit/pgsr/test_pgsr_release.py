"""What is released, and what is simulated: consistent counts of every mechanism, charged once or stamped."""

import json
from fractions import Fraction

import numpy as np
import pytest
from msgspec.structs import fields

from pgsr import Budget, LedgerFile, Plan, Policy, Sizes, verify
from pgsr.estimators import MECHANISMS
from pgsr.group_checks import check_folder
from pgsr.group_commands import release_command, verify_command
from pgsr.level_noise import NOT_A_RELEASE
from pgsr.released_groups import read_certificate
from pgsr.run_settings import RunFile, settings_of
from tests.helpers.failing import fails_with
from tests.helpers.groups import (
    GROUPS,
    PEOPLE,
    REGIONS,
    WHY,
    book,
    change_limits,
    changed,
    codes,
    released,
    seal,
    simulated,
)
from topdown.errors import BudgetError, ConfigError
from topdown.inputs import ControlTotals
from topdown.privacy.ledger import LedgerBinding, Limits


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_keeps_its_promises(tmp_path, name):
    """Consistency, validity and faithfulness of the written files, for each mechanism by its published name."""
    known = {"GA": 3, "NY": 3} if MECHANISMS[name].family == "rows" else {}
    made = simulated(GROUPS, REGIONS, name, "1/2", sizes=4, simulate=5, public=known, out=tmp_path / "out")
    assert set() == codes(check_folder(tmp_path / "out"))
    assert made.stamp == NOT_A_RELEASE
    if MECHANISMS[name].consistent:
        assert np.array_equal(made.counts[:, 0], made.counts[:, 1:].sum(axis=1))
        assert made.counts[:, 0].sum() == 6
        assert made.counts.min() >= 0


@pytest.mark.parametrize("name", ["M_H^dp", "M_c^dp", "M_c^ch", "tracking"])
def test_tiny_noise_returns_the_truth(name):
    """Any slip in sizes, regions or directions shows when the noise is gone."""
    for direction in ("tail", "cumulative"):
        made = simulated(GROUPS, REGIONS, name, 4000, sizes=4, direction=direction)
        assert made.counts.tolist() == [[2, 1, 1], [3, 1, 2], [1, 1, 0], [0, 0, 0]]


def test_microdata_and_counts_say_the_same_as_groups():
    """Three input forms, one histogram."""
    counts = {"region": ["GA", "NY", "GA"], "size": [1, 0, 2], "count": [1, 1, 1]}
    for data in (PEOPLE, counts):
        made = simulated(data, REGIONS, "tracking", 4000, sizes=3, smallest=0)
        assert made.counts.tolist() == [[1, 0, 1], [1, 1, 0], [1, 1, 0]]


def test_top_coding_keeps_the_number_of_groups():
    """Dropping large groups would change G and the tail counts by N."""
    groups = changed(size=[1, 2, 9, 1, 2, 2])
    made = simulated(groups, REGIONS, "tracking", 4000, sizes=3, too_large="top-code")
    assert made.counts[:, 0].tolist() == [2, 3, 1]


def test_a_release_is_charged_once_and_checks_out(tmp_path):
    """Ledger, manifest and certificate must agree on the loss; a second release needs a higher limit."""
    named = {"sizes": 5} | book(tmp_path)
    made = released(GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "out", total=6, **named)
    assert made.is_release
    assert set() == codes(verify(tmp_path / "out"))
    files = {"counts.parquet", "measurements", "certificate.json", "ledger.jsonl", "manifest.json"}
    files |= {"README.txt"}
    assert files == {path.name for path in (tmp_path / "out").iterdir()}
    assert (Fraction(1, 2), 1) == (made.charged, made.n_attempts)
    with pytest.raises(BudgetError):
        released(GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "again", **named)
    change_limits({key: named[key] for key in ("ledger", "ledger_id")}, Limits(epsilon=Fraction(1)))
    again = released(
        GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "again", epsilon_limit=1, again=True, **named
    )
    assert Fraction(1, 2) == again.calibration.loss
    assert set() == codes(verify(tmp_path / "again"))


def test_readme_says_whose_release_it_is_and_verify_holds_it_to_the_certificate(tmp_path):
    """Whoever gets the folder reads README.txt first: it must name whom to ask, and say no more than is certified."""
    said = {"title": "Farms", "agency": "Office", "contact": "ask@office.example", "licence": "CC-BY-4.0"}
    released(GROUPS, REGIONS, "M_H^dp", "1/2", out=tmp_path / "out", sizes=5, **said, **book(tmp_path))
    text, stated = (tmp_path / "out" / "README.txt").read_text(), read_certificate(tmp_path / "out")
    assert said == stated["names"]
    assert all(value in text for value in said.values())
    row = stated["privacy"]["secrets"][0]
    assert row["sentence"] in " ".join(text.split())
    assert f"Epsilon is at most {row['epsilon']['0'][1]} " in text
    for line in (f"From:      {said['agency']}\n", "Published without noise: number of groups"):
        assert line in text
        (tmp_path / "out" / "README.txt").write_text(text.replace(line, "From:      Nobody\n"))
        seal(tmp_path / "out")
        assert codes(verify(tmp_path / "out")) == {"manifest"}


def test_tracking_ends_at_the_public_total():
    """Targets that end elsewhere must not change the number of groups."""
    from pgsr.estimators import track

    counts = track(REGIONS.tree, np.array([[1.0, 1.0, 0.0], [4.2, 3.0, 1.0]]), 6)
    assert counts[:, 0].sum() == 6


def test_published_calibration_is_stamped(tmp_path):
    """Numbers made to reproduce the paper must never pass for a release."""
    made = simulated(GROUPS, REGIONS, "M_c^ch", 1, sizes=5, calibration="published", out=tmp_path / "out")
    assert Fraction(3, 2) == made.calibration.loss
    assert not made.is_release
    stated = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert (stated["stamp"], stated["privacy"]["private_as_claimed"]) == (NOT_A_RELEASE, False)


def test_a_simulation_on_unmarked_groups_is_refused(tmp_path):
    """The mean of many uncharged runs on real groups is the groups; nothing may be drawn or written."""
    table = tmp_path / "groups.csv"
    table.write_text("region,size,count\nGA,1,3\nNY,2,2\n")
    options = {"sizes": 4, "simulate": 1}
    for groups, reason in ((GROUPS, ""), (table, ""), (GROUPS, "public"), (table, "public")):
        with fails_with("C121", ConfigError):
            released(groups, REGIONS, "tracking", 1, truth_is_public=reason, out=tmp_path / "out", **options)
        assert not (tmp_path / "out").exists()
    made = released(table, REGIONS, "tracking", 1, truth_is_public=WHY, **options)
    assert (made.origin.kind, made.origin.name, made.origin.reason) == ("public", "groups.csv", WHY)


def test_a_release_has_no_origin_and_a_simulation_states_its_own(tmp_path):
    """Who reads a simulated certificate must see on what, and on whose word, it was made."""
    for name, options in (("real", {}), ("made-up", {"simulate": 1, "truth_is_public": WHY})):
        settings = book(tmp_path) | options
        released(GROUPS, REGIONS, "tracking", 1, sizes=4, out=tmp_path / name, **settings)
    real, simulated = (
        json.loads((tmp_path / name / "certificate.json").read_text())["truth"]
        for name in ("real", "made-up")
    )
    assert real is None
    assert (simulated["kind"], simulated["name"], simulated["reason"]) == ("public", "columns in memory", WHY)


TEXT = """
groups = "g.csv"
hierarchy = "h.csv"
sizes = 5
smallest = 0
too_large = "top-code"
rho = "1/3"
shares = ["1/4", "3/4"]
mechanism = "M_c^dp"
direction = "cumulative"
relations = ["new", "move"]
unit = "household"
total = 9
data_set = "homes"
ledger = "books/homes.jsonl"
ledger_id = "abc"
registry = "/other"
epsilon_limit = 2
limit_reason = "board"
ignore = ["note"]
rows = 7
people = 12
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""


def test_every_key_has_its_option():
    """A key without an option, or the other way, would be a decision that one of the two cannot make."""
    options = {parameter.name for parameter in release_command.params}
    of_every_screen = {parameter.name for parameter in verify_command.params}
    keys = {field.name for field in fields(RunFile)}
    assert keys | {"run", "again", "resume", "approve", "yes"} == options - of_every_screen


def test_a_run_file_makes_the_values_that_a_program_makes(tmp_path):
    """A key that reaches the wrong place would release or charge something else than was written."""
    run = tmp_path / "run.toml"
    run.write_text(TEXT)
    settings = settings_of(run, {"epsilon_limit": "3"})
    budget = Budget(rho=Fraction(1, 3), shares=(Fraction(1, 4), Fraction(3, 4)))
    sizes = Sizes(5, 0, "top-code")
    expected = Plan(sizes, budget, "M_c^dp", "cumulative", ("new", "move"), "household", 9)
    assert expected == settings.plan()
    assert (expected.kind, expected.steps) == ("cumulative", ("move", "new"))
    named = LedgerFile(tmp_path / "books/homes.jsonl", "abc", tmp_path / "/other")
    assert named == settings.ledger_file()
    assert Policy(epsilon_limit="3", reason="board", again=True) == settings.policy(again=True)
    source = settings.source()
    assert source.totals == ControlTotals(7, 12, "0" * 64)
    assert source.files == [tmp_path / "g.csv", tmp_path / "h.csv"]
    assert (source.data_set, source.ignore) == ("homes", ("note",))
    assert LedgerBinding("homes", "add_remove", "household") == expected.binding(source.data_set)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("rho = 0.5", "C014"),
        ('rho = "1,5"', "C014"),
        ("sizes = true", "C015"),
        ('shares = "1/2"', "C015"),
        ('relations = "move"', "C015"),
        ("unit = 7", "C015"),
        ("sises = 5", "C012"),
        ("sizes 5", "C010"),
    ],
)
def test_a_run_file_is_read_by_the_strict_reader(tmp_path, line, code):
    """The error names file and line, as for every TOML file of the house; a float budget is never rounded."""
    run = tmp_path / "run.toml"
    run.write_text(f'groups = "g.csv"\n{line}\n')
    with pytest.raises(ConfigError) as caught:
        settings_of(run, {})
    assert (code, str(run), 2) == (caught.value.code, caught.value.file, caught.value.line)
