"""`topdown implied`: verdicts, the constraints of one area, the paper's examples, and what it refuses."""

import pytest

from tests.helpers.policies import BLOCKS, FEW, FULL_BARRACKS
from tests.helpers.rule_texts import rule
from topdown.plan import load_run_file
from topdown.resources import bundled_root
from topdown.solve.implied import EXAMPLES

LAND = ("--levels", "land:1,county:2,block:4")


def own(folder, more):
    """Write the toy invariants with more of them."""
    text = (bundled_root() / "invariants" / "toy.toml").read_text()
    (folder / "own.toml").write_text(text + more)
    return "own.toml"


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_agree_with_elimination(topdown, check, example):
    """The paper's examples are the witness that the theorems are coded right."""
    said = topdown("implied", "--example", example, "--json").ok()
    check(said.document)
    assert said.document["elimination_agrees"]


@pytest.mark.parametrize(
    ("invariants", "schema"),
    [
        ("pl94_2020", "pl94"),
        ("pl94_block_population", "pl94"),
        ("toy", "toy"),
        ("dhc_persons_2020", "dhc_persons"),
    ],
)
def test_bundled_sets_are_complete_and_integral(topdown, check, invariants, schema):
    """Every set that ships must be one the engine keeps without a failsafe."""
    document = topdown("implied", invariants, "--schema", schema, "--json").document
    check(document)
    assert {v["kind"] for v in document["verdicts"]} == {"complete_integral"}


def test_an_area_with_its_numbers(topdown, toy, check, tmp_path):
    """Bounds are added up below the area, and kinds of leaves counted."""
    toy(tmp_path)
    line = ("implied", "toy", "--schema", "toy", "--leaves", "leaves.csv", *LAND)
    said = topdown(*line).ok()
    assert "x[dwelling=dormitory] >= 6" in said.out
    assert "x[total] = the land's total" in said.out
    document = topdown(*line, "--node", "11", "--json").document
    check(document)
    area = document["area"]
    assert (area["level"], area["node"], area["n_leaves"]) == ("county", "11", 4)
    assert {"algebra": "x[dwelling=barracks] >= 1", "reason": "at least one person per barracks"} in area[
        "lines"
    ]
    assert sorted((c["n_areas"], len(c["kinds"])) for c in area["leaves"]) == [(1, 0), (1, 1), (1, 2), (1, 2)]
    assert area["limits"] == []


def test_limits_with_exact_block_totals_are_symbols(topdown, toy, check, tmp_path):
    """Exact values are confidential: the totals stand as symbols, the bounds as numbers."""
    toy(tmp_path)
    line = ("implied", own(tmp_path, BLOCKS), "--schema", "toy", "--leaves", "leaves.csv", *LAND)
    area = topdown(*line, "--json").document["area"]
    assert area["total_level"] == "block"
    assert "x[total] = the sum of every block's total" in [row["algebra"] for row in area["lines"]]
    symbol = {" & ".join(c["kinds"]): c["symbol"] for c in area["totals"]}
    home = symbol["home"]
    dorm = next(s for kinds, s in symbol.items() if "dormitory" in kinds)
    assert f"x[dormitory] <= {dorm}" in area["limits"]
    assert "x[dormitory] >= 6" in area["limits"]
    assert symbol[""] == ""
    assert home not in " ".join(line for line in area["limits"] if line.startswith("x[dormitory]"))
    assert "the sum of their exact totals" in topdown(*line).out


def test_limits_with_upper_bounds_are_numbers(topdown, toy, tmp_path):
    """Without exact totals below, upper bounds give numbers."""
    toy(tmp_path)
    line = (
        "implied",
        own(tmp_path, FULL_BARRACKS),
        "--schema",
        "toy",
        "--leaves",
        "leaves.csv",
        *LAND,
        "--json",
    )
    county = topdown(*line, "--node", "12").document["area"]
    assert county["limits"][:2] == ["x[barracks & 18_64|65_plus] <= 4", "x[barracks & 18_64|65_plus] >= 1"]
    land = topdown(*line).document["area"]
    assert land["limits"][:2] == ["x[barracks & 18_64|65_plus] <= 12", "x[barracks & 18_64|65_plus] >= 3"]


def test_limits_of_exact_tables_are_a_formula(topdown, toy, check, tmp_path):
    """Where numbers depend on confidential tables, nothing that looks like a number may stand there."""
    toy(tmp_path)
    table = BLOCKS.replace('"total"', '"dwelling"')
    line = ("implied", own(tmp_path, table), "--schema", "toy", "--leaves", "leaves.csv", *LAND, "--json")
    document = topdown(*line).document
    check(document)
    (only,) = document["area"]["limits"]
    assert only.startswith("x[A] <= the sum over every block of min(")
    assert "x[dwelling] = the sum of every block's dwelling" in [
        r["algebra"] for r in document["area"]["lines"]
    ]


def test_census_geocodes_need_no_levels(topdown, check):
    """The sample data must work as it ships, and a county by its code."""
    blocks = bundled_root() / "sample_data" / "blocks.csv.gz"
    line = ("implied", "pl94_block_population", "--schema", "pl94", "--leaves", blocks, "--json")
    document = topdown(*line, "--node", "99001").document
    check(document)
    assert document["area"]["level"] == "county"
    assert [v["level"] for v in document["verdicts"]] == ["state", "county", "tract", "block_group", "block"]
    assert any(limit.startswith("x[military]") for limit in document["area"]["limits"])


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--node", "77", *LAND), "C103", "for example: 1, 11, 12"),
        (("--levels", "land,county,block"), "C102", "land:1,county:2,block:4"),
        (("--levels", "land:2,county:1,block:4"), "C102", "from the root to the leaves"),
        (("--levels", "land:1,county:2,block:9"), "D011", "4 characters"),
        (("--levels", "state:2,block:4"), "D013", "exactly one"),
        (("--levels", "country:1,block:4"), "C032", "names level 'land'"),
        ((), "C102", "levels are unknown"),
    ],
)
def test_wrong_areas_and_levels_are_refused(topdown, toy, tmp_path, more, code, words):
    """Each mistake has its own error, with what to write instead."""
    toy(tmp_path)
    said = topdown("implied", "toy", "--schema", "toy", "--leaves", "leaves.csv", *more)
    assert said.refusal == code
    assert words in " ".join(said.err.split())


def test_facts_that_exclude_each_other_are_refused(topdown, toy, tmp_path):
    """An area whose leaves have no population has no constraints worth printing."""
    toy(tmp_path)
    none = rule("never", "nobody in barracks", 'dwelling = ["barracks"]')
    line = ("implied", own(tmp_path, none), "--schema", "toy", "--leaves", "leaves.csv", *LAND)
    said = topdown(*line, "--json")
    assert (said.code, said.document["code"], said.document["node"]) == (3, "I014", "1101")


def test_refused_sets_say_so_without_numbers(topdown, toy, check, tmp_path):
    """A set that a plan would refuse has the refusal as its verdict."""
    toy(tmp_path)
    sexes = BLOCKS.replace('"total"', '"sex"')
    line = ("implied", own(tmp_path, sexes), "--schema", "toy", "--leaves", "leaves.csv", *LAND, "--json")
    document = topdown(*line).document
    check(document)
    assert {(v["kind"], v["code"]) for v in document["verdicts"]} == {("refused", "C073")}
    assert "area" not in document


def test_node_needs_a_geography(topdown):
    """Without a leaf table there are no areas to name."""
    assert topdown("implied", "toy", "--schema", "toy", "--node", "1").refusal == "C005"


SEXES = BLOCKS.replace("blocks", "dwellings").replace("block", "county").replace('"total"', '"dwelling"')


def test_soft_rules_are_shown_and_promise_nothing(topdown, toy, check, tmp_path):
    """A reader must not take a soft rule for a promise: the line and every verdict say so."""
    toy(tmp_path)
    line = ("implied", own(tmp_path, FEW), "--schema", "toy")
    document = topdown(*line, "--json").document
    check(document)
    wanted = "x[age=0_17] <= 9 x[age=18_64], soft"
    assert wanted in [row["algebra"] for row in document["constraints"]]
    plain = topdown("implied", "toy", "--schema", "toy", "--json").document
    for soft, hard in zip(document["verdicts"], plain["verdicts"], strict=True):
        assert soft["kind"] == hard["kind"]
        assert (
            soft["sentence"]
            == f"{hard['sentence']}; soft rules are kept where possible and reported where not"
        )
    area = topdown(*line, "--leaves", "leaves.csv", *LAND, "--json").document["area"]
    assert wanted in [row["algebra"] for row in area["lines"]]


def test_an_exact_table_of_an_inner_level(topdown, toy, check, tmp_path):
    """At its level and above there are limits by answer; below nothing more is needed."""
    toy(tmp_path)
    line = ("implied", own(tmp_path, SEXES), "--schema", "toy")
    refused = topdown(*line)
    assert "C005" in refused.err
    assert "add --levels" in refused.err
    document = topdown(*line, "--levels", "land,county,block", "--json").document
    check(document)
    assert [v["kind"] for v in document["verdicts"]] == ["complete_integral"] * 3
    assert [v["needs"] for v in document["verdicts"]] == ["combination_table"] * 2 + ["nothing"]
    assert '"dwellings" fixed at level county' in document["verdicts"][0]["sentence"]
    area = topdown(*line, "--leaves", "leaves.csv", *LAND, "--json").document["area"]
    assert "depend on exact statistics" in area["limits"][0]


def test_an_exact_table_without_complete_constraints_is_refused(topdown, toy, check, tmp_path):
    """Block totals cut across a county's table: the verdict carries the code that a plan ends with."""
    toy(tmp_path)
    line = ("implied", own(tmp_path, SEXES + BLOCKS), "--schema", "toy", "--levels", "land,county,block")
    document = topdown(*line, "--json").document
    check(document)
    assert {(v["kind"], v["code"]) for v in document["verdicts"]} == {("refused", "C033")}
    assert "'dwellings'" in document["verdicts"][0]["sentence"]


def test_a_crossing_table_of_the_root_is_complete_but_no_flow(topdown, toy, check, tmp_path):
    """The root's table may cut across bounds: one integer program, named with its table."""
    toy(tmp_path)
    ages = BLOCKS.replace("blocks", "ages").replace("block", "land").replace('"total"', '"age"')
    line = (
        "implied",
        own(tmp_path, ages + FULL_BARRACKS),
        "--schema",
        "toy",
        "--levels",
        "land,county,block",
    )
    document = topdown(*line, "--json").document
    check(document)
    kinds = [(v["kind"], v["constraints"]) for v in document["verdicts"]]
    assert kinds == [("complete", ["ages"]), ("complete_integral", []), ("complete_integral", [])]


def test_of_a_run_file(topdown, check, toy, tmp_path):
    """Who has a run file need not say again which schema, invariants, levels and leaves it has."""
    run = toy(tmp_path / "census")
    leaves = load_run_file(run).input.leaves
    said = topdown("implied", run, "--json").ok()
    check(said.document)
    apart = topdown("implied", "toy", "--schema", "toy", "--leaves", run.parent / leaves, *LAND, "--json")
    assert said.document == apart.document
    area = topdown("implied", run, "--node", apart.document["area"]["node"], "--json")
    assert area.document == said.document
    assert topdown("implied", run, "--levels", "land,county", "--json").document["code"] == "C005"
    assert topdown("implied", run, "--node", "nowhere", "--json").document["code"] == "C103"
