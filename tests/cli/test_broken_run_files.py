"""Broken run files: every mistake is refused with its code, its line and a fix, before anything is read."""

from pathlib import Path

import pytest

from tests.helpers.attacked import shipped

# name: (what to replace, by what, code, text of the line the error must point at, words of the fix)
CORPUS = {
    "misspelt table": ("[budget]\nrho", "[bugdet]\nrho", "C012", "[bugdet]", "rename"),
    "misspelt key": ('agency = "?"', 'agancy = "?"', "C012", "agancy", "rename"),
    "foreign key": ('agency = "?"', 'colour = "red"', "C012", "colour", "remove"),
    "misspelt inner key": ("weight = 100 }", "wait = 100 }", "C012", "wait = 100", "rename"),
    "simulation": ('schema = "toy"', 'simulate = true\nschema = "toy"', "C012", "simulate", "topdown simulate"),
    "missing key": ('id = "persons-r1"\n', "", "C013", "[release]", "add id"),
    "missing table": ("[ledger]\n", "[ledgers]\n", "C012", "[ledgers]", "rename"),
    "float budget": ('rho = "2"', "rho = 2.0", "C014", "rho = 2.0", "fractions in quotes"),
    "comma text": ('rho = "2"', 'rho = "1,500"', "C014", 'rho = "1,500"', "fractions in quotes"),
    "negative budget": ('rho = "2"', "rho = -2", "C015", "rho = -2", "correct"),
    "float share": ('share = "1/2"', "share = 0.5", "C014", "share = 0.5", "fractions in quotes"),
    "decimal comma": ('rho = "2"', 'rho = "0,95"', "C014", 'rho = "0,95"', "fractions in quotes"),
    "share of a query": ('"sex * age" = "1/4"', '"sex * age" = 0.25', "C014", "sex * age", "fractions in quotes"),
    "division by zero": ('rho = "2"', 'rho = "2/0"', "C014", 'rho = "2/0"', "fractions in quotes"),
    "wrong type": ('title = "Toy', 'title = 5 # "Toy', "C015", "title = 5", "correct"),
    "two lines of README": ('title = "Toy', 'title = "A\\n\\nHow well people are protected\\nWholly. Toy',
        "C015", "title", "correct"),
    "a last line break": ('agency = "?"', 'agency = "Office\\n"', "C015", "agency", "correct"),
    "escape codes": ('contact = "?"', 'contact = "\\u001b[2J"', "C015", "contact", "correct"),
    "empty id": ('id = "persons-r1"', 'id = ""', "C015", 'id = ""', "correct"),
    "blank id": ('id = "persons-r1"', 'id = "\u00a0"', "C015", "id =", "correct"),
    "unknown relation": ('neighbours = "bounded"', 'neighbours = "close"', "C015", "neighbours", "correct"),
    "unknown mechanism": ('mechanism = "discrete_gaussian"', 'mechanism = "laplace"',
        "C015", "mechanism", "correct"),
    "optimal noise": ('mechanism = "discrete_gaussian"', 'mechanism = "optimal"',
        "C050", "budget", "delta"),
    "not TOML": ("[input]", "[input", "C010", "[input", "syntax"),
    "no quotes": ('id = "persons-r1"', "id = persons-r1", "C010", "id = persons-r1", "syntax"),
    "another document": ('type = "topdown.run"', 'type = "topdown.settings"', "C011", None, "topdown.run"),
    "another version": ("version = 1", "version = 2", "C011", None, "version = 1"),
    "unknown schema": ('schema = "toy"', 'schema = "toys"', "C004", None, "toy"),
    "missing schema file": ('schema = "toy"', 'schema = "my.toml"', "C003", None, "path"),
    "unknown invariants": ('invariants = "toy"', 'invariants = "nothing"', "C004", None, "pl94_2020"),
    "invariants of another schema": ('invariants = "toy"', 'invariants = "pl94_2020"', "C030", None, "schema"),
    "shares over one": ('share = "1/2"', 'share = "2/3"', "B001", None, "exactly 1"),
    "query shares": ('"detailed" = "1/2"\n\n[[level]]', '"detailed" = "1/3"\n\n[[level]]', "B001", None, "exactly 1"),
    "zero share": ('share = "1/2"', "share = 0", "B002", None, "positive"),
    "zero budget": ('rho = "2"', "rho = 0", "B003", None, "positive"),
    "epsilon for gaussian": ('rho = "2"', 'epsilon = "2"', "C050", None, "rho"),
    "unknown recode": ('"sex * age" = "1/2"', '"sex * aged" = "1/2"', "C024", None, "age"),
    "attribute twice": ('"sex * age" = "1/2"', '"age * adult" = "1/2"', "C027", None, "one attribute"),
    "pass without query": ('queries = ["sex * age", "detailed"]', 'queries = ["total", "detailed"]',
        "C053", None, "level.queries"),
    "weight zero": ("weight = 100 }", "weight = 0 }", "C055", None, "raise"),
    "level without table": ('name = "county"', 'name = "parish"', "C052", None, "add"),
    "prefix lengths": ("prefix_lengths = [1, 2, 4]", "prefix_lengths = [2, 1, 4]", "C041", None, "increasing"),
    "no geography": ("prefix_lengths = [1, 2, 4]", "", "C040", None, "keep one"),
    "level twice": ('levels = ["land", "county", "block"]', 'levels = ["land", "land", "block"]',
        "C042", None, "rename"),
    "wrong length": ("prefix_lengths = [1, 2, 4]", "prefix_lengths = [1, 2, 5]", "D011", None, "zeros"),
    "no leaves": ('leaves = "leaves.csv"', 'leaves = "leafs.csv"', "D001", None, "path"),
}  # fmt: skip


@pytest.mark.parametrize("name", CORPUS)
def test_broken_run_file(topdown, toy, tmp_path, check, name):
    """A mistake that is accepted, misplaced, or shown without a fix."""
    old, new, code, line, fix = CORPUS[name]
    run = toy(tmp_path / "toy")
    text = run.read_text()
    assert old in text, "the corpus no longer fits the toy run file"
    run.write_text(text.replace(old, new, 1))
    said = topdown("plan", run, "--json")
    document = said.document
    check(document)
    assert (2, code) == (said.code, document["code"])
    assert fix in document["fix"]
    assert said.err == ""
    if line is not None:
        assert line in run.read_text().splitlines()[document["line"] - 1]
    screen = topdown("plan", run)
    assert screen.out == ""
    assert screen.err.startswith(f"error[{code}] ")
    assert "\n  fix" in screen.err
    assert "Traceback" not in screen.err
    assert not (run.parent / "plan.json").exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"sex * age" = "1/4"', '"sex * age" = 0.25', ('level.queries."sex * age" in', 'write "1/4"')),
        ('rho = "2"', 'rho = "0,95"', ("budget.rho in", '"0,95" has a comma: write "0.95"')),
        ('rho = "2"', 'rho = "1,500"', ("budget.rho in", 'in two ways: write "1500" or "1.500"')),
        ('rho = "2"', 'rho = "1,234,567.5"', ("budget.rho in", 'has a comma: write "1234567.5"')),
        ('rho = "2"', 'rho = "1.234,5"', ("budget.rho in", '"1.234,5" is no exact number')),
        ('"bounded"', f'"{"x" * 1500}"', ("neighbours in", f"{'x' * 59}...")),
        ("ignore = []", 'values.age.labls = { M = "male" }', ('unknown key "labls"',)),
    ],
)
def test_words_of_a_broken_run_file(topdown, toy, tmp_path, old, new, said):
    """A key that nobody wrote, a proposal that is another number, or a page of one letter help nobody."""
    run = toy(tmp_path / "toy")
    run.write_text(run.read_text().replace(old, new, 1))
    document = topdown("plan", run, "--json").document
    for words in said:
        assert words in document["text"]
    assert len(document["text"]) < 400


def test_keys_known_inside_a_table_of_ones_own(topdown, toy, tmp_path):
    """The keys of the whole file would be named as those of a table of values, or of one that may be missing."""
    for add, meant in (("[input.values.age]\nlabls = {}", "labels"), ("[base]\nmaps = {}", "map")):
        run = toy(tmp_path / "toy")
        run.write_text(f"{run.read_text()}\n{add}\n")
        assert f'did you mean "{meant}"?' in topdown("plan", run).err


def test_a_mark_before_the_first_line_is_no_mistake(topdown, toy, tmp_path):
    """Editors on Windows write three bytes first; "invalid statement" helped nobody to find them."""
    run = toy(tmp_path / "toy")
    plans = [topdown("plan", run, "--json").document["plan_hash"]]
    run.write_bytes(b"\xef\xbb\xbf" + run.read_bytes())
    plans.append(topdown("plan", run, "--json").document["plan_hash"])
    assert plans[0] == plans[1]
    run.write_text(run.read_text().replace("[budget]", "[bugdet]"))
    assert topdown("plan", run, "--json").document["line"] is not None


def test_golden_caret(topdown, toy):
    """The caret must stand under the misspelt name, as in the documentation."""
    toy_run = toy(Path("toy"), lambda text: text.replace("[budget]", "[bugdet]"))
    number = toy_run.read_text().splitlines().index("[bugdet]") + 1
    said = topdown("plan", "toy/run.toml")
    assert said.err.splitlines() == [
        f'error[C012] unknown key "bugdet" in toy/run.toml, line {number}',
        f"  {number} │ [bugdet]",
        '     │  ^^^^^^ did you mean "budget"?',
        "  fix  rename the key; nothing was read or spent",
    ]


def test_text_from_files_cannot_steer_the_terminal(topdown, toy, tmp_path):
    """A legal basis with escape codes must not be able to rewrite what stands on the screen."""
    escaped = "\\u001b[2J\\u202e"
    (tmp_path / "rules.toml").write_text(
        shipped("invariants", "toy").replace('"made up"', f'"{escaped}made up"')
    )
    run = toy(
        tmp_path / "toy", lambda text: text.replace('invariants = "toy"', 'invariants = "../rules.toml"')
    )
    said = topdown("plan", run).ok()
    assert "[2J" in said.out
    assert "\x1b" not in said.out
    assert "\u202e" not in said.out
