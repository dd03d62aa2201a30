"""Files as people type them: invariants, columns of levels, run files written anew, numbers that cannot be solved."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.helpers.runs import run_text
from tests.helpers.small_release import make_context
from topdown.errors import ConfigError
from topdown.formats import toml_text
from topdown.model import Geography, from_prefixes
from topdown.plan import (
    MOST_FLOW_COST,
    MOST_ROUNDING_WEIGHT,
    BaseTable,
    Budget,
    GeographyTable,
    Plan,
    RunFile,
    check_solvable,
    find_level_columns,
    load_invariants,
    load_run_file,
    load_schema,
    most_flow_nodes,
    prepare,
    read_public,
)
from topdown.practice.synth import synth
from topdown.resources import find

HEAD = 'type = "topdown.invariants"\nversion = 1\nname = "own"\ntitle = "own"\nschema = "toy"\n\n'


def read(folder: Path, *rules: str):
    """Read an invariants file of the toy schema."""
    path = folder / "own.toml"
    path.write_text(HEAD + "".join(f'[[{rule}\nlegal_basis = "law"\n\n' for rule in rules))
    return load_invariants(path, load_schema(find("schemas", "toy", folder)))


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("{ adult = ['adult'] }", "{ age = ['18_64', '65_plus'] }"),
        ("{ home_or_not = ['other', 'home'] }", "{ dwelling = ['home', 'dormitory', 'barracks'] }"),
        ("{ sex = ['male'], adult = ['child'] }", "{ sex = ['male'], age = ['0_17'] }"),
        ("{ age = ['65_plus', '0_17'], adult = ['adult'] }", "{ age = ['65_plus'] }"),
        ("{}", "{ sex = ['female', 'male'] }"),
    ],
)
def test_cells_say_what_their_labels_say(tmp_path, short, long):
    """A recode or {} that the plan kept would be a rule that verify reads in another way."""
    for rule in ("at_least]]\nname = 'a'\ncolumn = 'homes'", "none_where_zero]]\nname = 'a'\ncolumns = ['homes']",
                 "never]]\nname = 'a'", "no_more_than]]\nname = 'a'\nthan = { sex = ['male'] }"):  # fmt: skip
        written = read(tmp_path, f"{rule}\ncells = {long}")
        assert written == read(tmp_path, f"{rule}\ncells = {short}")
    cells = "cells = { age = ['0_17'] }"
    assert read(tmp_path, f"no_more_than]]\nname = 'a'\n{cells}\nthan = {long}") == read(
        tmp_path, f"no_more_than]]\nname = 'a'\n{cells}\nthan = {short}"
    )


@pytest.mark.parametrize(
    ("second", "code", "line", "said"),
    [
        ("never]]\nname = 'b'\ncells = { age = ['oops'] }", "C025", 14, "'oops'"),
        ("never]]\nname = 'b'\ncells = { adult = ['oops'] }", "C025", 14, "child, adult"),
        ("never]]\nname = 'b'\ncells = { oops = ['adult'] }", "C024", 14, "oops"),
        ("never]]\nname = 'b'\ncells = { age = [] }", "C134", 14, "no value"),
        ("never]]\nname = 'b'\ncells = { age = ['0_17'], adult = ['adult'] }", "C134", 14, "no value"),
        ("never]]\nname = 'b'", "C031", 12, "cells"),
        ("never]]\nname = 'b'\nthan = {}\ncells = {}", "C031", 12, "than"),
    ],
)
def test_errors_point_at_the_line_of_their_rule(tmp_path, second, code, line, said):
    """A message that names the run file sends its reader to the wrong file."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "never]]\nname = 'a'\ncells = { age = ['0_17'] }", second)
    error = caught.value
    assert (error.code, error.line, error.file) == (code, line, str(tmp_path / "own.toml"))
    assert said in error.text + error.fix


PLACES = (
    "canton_code;canton;commune_code;commune;village_code;village;post\n"
    "K1;West;7;Aa;12;One;100\nK1;West;8;Bb;3;Two;100\nK2;East;9;Aa;705;Three;200\nK2;East;9;Aa;44;Four;201\n"
)
LEVELS = ("country", "canton", "commune", "village")


def places(folder: Path, text: str = PLACES) -> Path:
    """Write a table of leaves."""
    path = folder / "places.csv"
    path.write_text(text)
    return path


def test_codes_are_taken_before_names(tmp_path):
    """Two communes of one name in two cantons would be one area."""
    found = find_level_columns(places(tmp_path), LEVELS)
    assert (found.key, found.above) == ("village_code", ("canton_code", "commune_code"))
    assert found.told[0] == "country: one area that holds all others"


def test_codes_that_begin_anew_are_joined_and_told(tmp_path):
    """Commune 1 of one canton is not commune 1 of another."""
    text = PLACES.replace(";7;", ";1;").replace(";8;", ";2;").replace(";9;", ";1;")
    path = places(tmp_path, text)
    found = find_level_columns(path, LEVELS)
    assert found.above == ("canton_code", "canton_code + commune_code")
    assert "codes begin anew in each canton" in " ".join(found.told)
    table = GeographyTable(levels=LEVELS, columns=found.above)
    tree, _ = read_public(path, table, (), tmp_path, None, {"geocode": found.key})
    assert [len(level) for level in tree.levels] == [1, 2, 3, 4]


def test_what_no_column_is_called_like_is_asked_for(tmp_path):
    """A column that happens to fit is nobody's decision where another fits too."""
    path = places(tmp_path)
    with pytest.raises(ConfigError) as refused:
        find_level_columns(path, ("country", "canton", "gemeinde", "village"))
    assert (refused.value.code, "gemeinde=COLUMN" in refused.value.fix) == ("C338", True)
    named = find_level_columns(
        path, ("country", "canton", "gemeinde", "village"), {"gemeinde": "commune_code"}
    )
    assert named.above == ("canton_code", "commune_code")


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (("canton", "commune", "village"), "single one"),
        (("country", "canton", "commune"), "each row must be one commune"),
        (("country", "canton", "hamlet"), "no column called like 'hamlet'"),
    ],
)
def test_tables_that_do_not_hold_the_levels_are_refused(tmp_path, levels, said):
    """A tree with two roots or leaves in several rows is found out at the end of a long way."""
    path = places(tmp_path, PLACES.replace(";village_code;", ";nr;").replace(";village;", ";hamlets;"))
    with pytest.raises(ConfigError) as refused:
        find_level_columns(places(tmp_path) if "village" in levels or "commune" in levels else path, levels)
    assert said in refused.value.text


SETTINGS = Path(__file__).resolve().parents[3] / "settings"
ODD = 'a "quoted" \\ name = [x], {y} # z é \u202e'


@pytest.mark.parametrize("name", ["toy", "pl94_2020_tree", "dhc_persons_2022"])
def test_what_is_written_reads_back_the_same(tmp_path: Path, name: str) -> None:
    """A key lost or a text escaped wrongly would make another release of the same name."""
    text = (SETTINGS / f"{name}.toml").read_text(encoding="utf-8")
    (tmp_path / "run.toml").write_text(run_text(text[text.index("[budget]") :]), encoding="utf-8")
    run = load_run_file(tmp_path / "run.toml")
    release = msgspec.structs.replace(run.release, title=ODD, agency="", contact="?")
    other = msgspec.structs.replace(
        run,
        release=release,
        budget=Budget(epsilon=run.budget.rho, large_delta=True),
        base=BaseTable(map={"a.b": ODD}),
    )
    for one in (run, other, msgspec.structs.replace(run, base=BaseTable())):
        (tmp_path / "again.toml").write_text(toml_text(one), encoding="utf-8")
        assert one == load_run_file(tmp_path / "again.toml")
    assert isinstance(other, RunFile)


def flat(n_blocks: int) -> Geography:
    """Return one county with so many blocks."""
    return from_prefixes(("land", "county", "block"), (1, 2, 7), tuple(f"11{i:05d}" for i in range(n_blocks)))


@pytest.fixture
def plan(tmp_path) -> Plan:
    """Return a plan of three levels whose blocks are rounded with the largest weight."""
    made = make_context(tmp_path).plan
    levels = list(made.levels)
    levels[2] = replace(
        levels[2],
        rounding=tuple(
            msgspec.structs.replace(step, weight=MOST_ROUNDING_WEIGHT) for step in levels[2].rounding
        ),
    )
    return replace(made, levels=tuple(levels))


def test_costs_of_many_children_must_stay_exact(plan):
    """A network whose costs do not stay exact leaves roundings unproved; others must not be refused."""
    one, two = (
        most_flow_nodes(plan, flat(n), 2) for n in (1, 2)
    )  # one parent: as many more nodes for every block
    most = 1 + (MOST_FLOW_COST // MOST_ROUNDING_WEIGHT - one) // (two - one)
    check_solvable(plan, flat(most), is_extension=False)
    with pytest.raises(ConfigError, match="areas below one parent") as caught:
        check_solvable(plan, flat(most + 1), is_extension=False)
    assert (caught.value.code, caught.value.key) == ("C055", ("level", "2"))


def test_a_county_of_two_thousand_tracts_is_planned(tmp_path):
    """The production settings of 2020 meet counties of 2,205 tracts, and states of a hundred thousand blocks."""
    levels = ("state", "tract", "block_group")
    made = synth(tmp_path, people=2_000, levels=levels).run_file
    assert made is not None
    wide = from_prefixes(levels, (2, 7, 8), tuple(f"99{i // 9:05d}{i % 9}" for i in range(9 * 2_205)))
    check_solvable(prepare(made).context.plan, wide, is_extension=False)


def test_an_extension_is_not_bound_by_networks_it_does_not_have(plan):
    """A schema of a million cells has more answers than any weight fits: its tables are rounded stage by stage."""
    check_solvable(plan, flat(5_000), is_extension=True)
