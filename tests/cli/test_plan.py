"""`topdown plan`: the screen at every width, the saved file, the exit codes."""

import json
import os
import re
import resource
from pathlib import Path

import pytest

from tests.helpers.attacked import TOY, write_leaves, write_run
from tests.helpers.odd_plans import ONE_ATTRIBUTE
from tests.helpers.rule_texts import rule
from topdown.resources import bundled_root

GOLDEN = Path(__file__).parent / "golden"


def _stable(text: str) -> str:
    return re.sub(r"Plan [0-9a-f]{8}:", "Plan 01234567:", text)


@pytest.mark.parametrize(
    ("name", "width", "options"),
    [
        ("plan-80", 80, ()),
        ("plan-46", 46, ()),
        ("plan-120", 120, ("--details",)),
        ("plan-80-ascii", 80, ("--ascii",)),
        ("plan-80-colour", 80, ("--color", "always")),
    ],
)
def test_golden_transcripts(topdown, toy, tmp_path, name, width, options):
    """Any change of the screen must be looked at; TOPDOWN_UPDATE_GOLDEN=1 accepts it."""
    toy(tmp_path / "toy")
    said = topdown("plan", "toy/run.toml", *options, width=width).ok()
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TOPDOWN_UPDATE_GOLDEN") == "1":
        path.write_text(_stable(said.out), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == _stable(said.out)


@pytest.mark.parametrize("width", [46, 80, 120])
@pytest.mark.parametrize("color", ["never", "always"])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_line_fits(topdown, toy, tmp_path, width, color, ascii_only):
    """A line wider than the screen is broken by the terminal where nobody wants it."""
    toy(tmp_path / "toy")
    said = topdown(
        "plan", "toy/run.toml", "--color", color, *(["--ascii"] if ascii_only else []), width=width
    )
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said.out)
    copied = "  topdown generate"  # a command to copy is never broken
    assert max(len(line) for line in plain.splitlines() if not line.startswith(copied)) <= width
    assert said.out.isascii() or not ascii_only
    assert (plain != said.out) == (color == "always")


def test_colour_carries_no_meaning(topdown, toy, tmp_path):
    """Colour taken away must leave the same words."""
    toy(tmp_path / "toy")
    plain = topdown("plan", "toy/run.toml", "--color", "never").out
    coloured = topdown("plan", "toy/run.toml", "--color", "always").out
    assert plain == re.sub(r"\x1b\[[0-9;]*m", "", coloured)


def test_records_need_not_exist(topdown, toy, tmp_path):
    """Making a plan must not touch the confidential file."""
    run = toy(tmp_path / "toy")
    (run.parent / "persons.csv").unlink()
    assert topdown("plan", run).code == 0


def test_quiet_is_one_line(topdown, toy, tmp_path):
    """-q is for logs: one line, and it names the plan."""
    said = topdown("plan", toy(tmp_path / "toy"), "-q")
    assert re.fullmatch(r"Plan [0-9a-f]{8}: .*\n", said.out)


def test_plan_file_names_run_file_and_hash(topdown, toy, tmp_path, check):
    """Generate finds the run file through plan.json, wherever it is called from."""
    toy(tmp_path / "toy")
    assert topdown("plan", "toy/run.toml").code == 0
    document = json.loads((tmp_path / "toy" / "plan.json").read_text())
    check(document)
    assert document["run_file"] == "run.toml"


def test_exit_code_tells_whether_the_plan_differs(topdown, toy, tmp_path):
    """A script that watches for a changed plan must get 5, 0, 5, and the saved plan must stay."""
    run = toy(tmp_path / "toy")
    assert topdown("plan", run, "--exit-code").code == 5
    assert topdown("plan", run).code == 0
    assert topdown("plan", run, "--exit-code").code == 0
    saved = (run.parent / "plan.json").read_bytes()
    toy(tmp_path / "toy", lambda text: text.replace('rho = "2"', 'rho = "1"'))
    said = topdown("plan", run, "--exit-code", "--json")
    assert (said.code, said.document["differs"]) == (5, True)
    assert saved == (run.parent / "plan.json").read_bytes()


def test_diff_names_causes_first(topdown, toy, tmp_path, check):
    """A changed budget must be the first line of the changes, before all that follows from it."""
    run = toy(tmp_path / "toy")
    topdown("plan", run, "--out", tmp_path / "old.json")
    toy(tmp_path / "toy", lambda text: text.replace('rho = "2"', 'rho = "1"'))
    said = topdown("plan", run, "--diff", tmp_path / "old.json")
    assert said.out.split("\n  ~ ")[1] == "budget 2 -> 1"
    document = topdown("plan", run, "--diff", tmp_path / "old.json", "--json").document
    check(document)
    assert document["changes"][0] == {"key": "budget", "old": "2", "new": "1"}


def test_plan_does_not_replace_other_files(topdown, toy, tmp_path):
    """--out that names a file of the user must not destroy it."""
    run = toy(tmp_path / "toy")
    assert topdown("plan", run, "--out", run).refusal == "C080"
    assert 'type = "topdown.run"' in run.read_text()


def test_final_refuses_open_answers(topdown, toy, tmp_path):
    """A final release without the name of its agency must be refused before anything is spent."""
    run = toy(tmp_path / "toy")
    said = topdown("plan", run, "--final")
    assert (said.code, "error[H001]" in said.err, "release.agency" in said.err) == (2, True, True)
    answered = toy(tmp_path / "toy", lambda text: text.replace('"?"', '"Office"'))
    assert topdown("plan", answered, "--final").code == 0


@pytest.mark.parametrize("blank", ["", "  ", "\u200b", " ? ", "-"])
def test_a_blank_is_no_answer(topdown, toy, tmp_path, blank):
    """A final release without title, agency and contact must be refused, however the nothing is spelt."""

    def unsaid(text: str) -> str:
        text = re.sub('title = ".*"', f'title = "{blank}"', text, count=1)
        return re.sub('(agency|contact) = "[^"]*"', rf'\1 = "{blank}"', text, count=2)

    run = toy(tmp_path / "toy", unsaid)
    said = topdown("plan", run, "--final", "--json").document
    assert said["code"] == "H001"
    open_keys = ["release.title", "release.agency", "release.contact"]
    assert topdown("plan", run, "--json").document["open_answers"] == open_keys
    out = tmp_path / "out"
    assert topdown("generate", run, "--out", out, "--yes", "--workers", 1).code == 0
    assert "DRAFT: not for use as official statistics" in (out / "README.txt").read_text()
    report = (out / "report.html").read_text()
    assert "[title still open]" in report
    assert "[agency still open]" in report
    assert topdown("verify", out).code == 0


def test_plan_warns_when_the_ledger_is_too_small(topdown, toy, tmp_path):
    """Somebody who plans over the limit must hear it now, not in the secure room."""
    run = toy(tmp_path / "toy", lambda text: re.sub(r'rho_limit = "[^"]*"', 'rho_limit = "1"', text))
    document = topdown("plan", run, "--json").document
    assert [w["code"] for w in document["warnings"]] == ["B004", "H001"]


def test_plan_lists_soft_rules(topdown, toy, tmp_path, check):
    """Everything asked of the data is listed with its legal basis, soft rules too, and not as a promise."""
    run = toy(tmp_path / "toy", lambda text: text.replace('invariants = "toy"', 'invariants = "own.toml"'))
    text = (bundled_root() / "invariants" / "toy.toml").read_text()
    than = 'dwelling = ["home"]'
    soft = rule("no_more_than", "barracks by homes", 'dwelling = ["barracks"]', than=than, times=2)
    (run.parent / "own.toml").write_text(text + soft)
    document = topdown("plan", run, "--json").document
    check(document)
    row = next(row for row in document["invariants"] if row["kind"] == "no_more_than")
    assert (row["name"], row["n"], row["legal_basis"]) == ("barracks by homes", 12, "made up")
    assert all("soft rules" in v["sentence"] for v in document["feasible"]["verdicts"])
    said = topdown("plan", run)
    assert "barracks by homes" in said.out


def test_a_record_that_nothing_can_replace_is_planned(topdown, tmp_path):
    """One place and one kind of record leave nothing but its presence to protect: its plan ended in an engine error."""
    write_leaves(tmp_path / "leaves.csv", ("111",), {})
    queries = '[level.queries]\ndetailed = "1"'
    shape = 'passes = [{ table = "detailed" }]\nrounding = [{ table = "detailed", weight = 1 }]'
    levels = [f'[[level]]\nname = "{name}"\nshare = "1/3"\n{shape}\n{queries}' for name in TOY[0]]
    body = "\n".join(['[budget]\nrho = "1"', *levels])
    invariants = 'type = "topdown.invariants"\nversion = 1\nname = "none"\ntitle = "none"\nschema = "odd"\n'
    schema = ONE_ATTRIBUTE.format(unit="person", name="a", labels='"x"')
    of = {"schema": schema, "body": body, "neighbours": "add_remove"}
    run = write_run(tmp_path, "one", invariants=invariants, **of)
    said = topdown("plan", run).ok()
    assert "whether one record" in said.out
    assert "one person, everything: disclosed by: the schema" in said.out
    assert "which of two answers" not in said.out


def test_what_no_replaced_record_moves_is_named_beside_the_loss(topdown, toy, tmp_path):
    """Totals of a level with one area cost nothing; the loss that counts them was called the exact one."""
    toy(tmp_path / "one", lambda text: text.replace("[1, 2, 4]", "[0, 1, 4]"))
    toy(tmp_path / "many")
    counted = "counted, though no replaced record moves it: total of county"
    assert counted in topdown("audit", "one/run.toml").out
    assert "counted, though" not in topdown("audit", "many/run.toml").out


def test_where_nothing_may_be_written_a_plan_is_shown(topdown, toy, release, tmp_path):
    """Planning spends nothing; what cannot be written is named as it was asked for, not by the name it begins with."""
    toy(tmp_path / "toy")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        said, asked = topdown("plan", "toy/run.toml"), topdown("report", release, "--out", "asked")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "Not saved (cannot read or write toy/plan.json: " in " ".join(said.ok().out.split())
    assert "\n  topdown generate toy/run.toml --out release/\n" in said.out
    assert (asked.refusal, "write asked: " in asked.err) == ("D050", True)
