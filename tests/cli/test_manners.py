"""Commands that help: their own options only, the word that was meant, refusals before anything is written."""

import re
from pathlib import Path

import click
import pandas as pd
import pytest

import topdown as package
from topdown.app import MEANT
from topdown.cli import group

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def shown(topdown, *arguments: str) -> set[str]:
    """Return the options that a help page names, outside its examples."""
    return set(OPTION.findall(topdown(*arguments, "--help").out.partition("Examples")[0]))


def test_a_choice_shows_its_own_options(topdown):
    """Twenty options, of which a question takes half, hide those that it needs."""
    pages = {name: shown(topdown, "select", name) for name in ("sites", "order", "frequent")}
    assert {"--candidates", "--k", "--per", "--epsilon", "--out"} <= pages["sites"]
    assert not {"--query", "--cap", "--most-records"} & pages["sites"]
    assert {"--query", "--more-than", "--epsilon"} <= pages["frequent"]
    assert not {"--k", "--candidates", "--radius"} & pages["frequent"]
    assert "--most-records" in pages["order"]
    assert set.union(*pages.values()) == shown(topdown, "select")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (("plan", "run.toml", "--epsilon", "2"), "--budget-for"),
        (("generate", "run.toml", "--output", "x"), "--out"),
        (("generate", "run.toml", "--threads", "2"), "--workers"),
        (("init", "--data", "x"), "--records"),
        (("simulate", "run.toml", "--repeats", "3"), "--replicates"),
    ],
)
def test_the_option_that_is_meant_is_named(topdown, line, meant):
    """Names that look alike are not what people look for: "--epsilon" is no misspelt option of plan."""
    said = topdown(*line)
    assert said.code == 2
    assert meant in said.err


def test_every_word_means_an_option():
    """A hint at an option that no command has sends its reader round in circles."""
    commands, known = group, set[str]()
    context = click.Context(commands)
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        known |= {option for parameter in command.params for option in parameter.opts}
    assert set(MEANT.values()) <= known
    assert set(MEANT) & set(MEANT.values()) <= {"--epsilon"}  # an option of some commands, a word in others


def test_a_second_ledger_is_refused_before_a_file_is_written(topdown, tmp_path, monkeypatch):
    """A draft that is left behind by a refusal looks like one that can be used."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"geocode": ["01", "02"], "sex": ["f", "m"]}).to_csv("people.csv", index=False)
    pd.DataFrame({"geocode": ["01", "02"]}).to_csv("towns.csv", index=False)
    pd.DataFrame({"attribute": ["sex", "sex"], "label": ["f", "m"]}).to_csv("codes.csv", index=False)
    draft = ("init", "--records", "people.csv", "--leaves", "towns.csv", "--codes", "codes.csv", "--no-count")
    draft = (*draft, "--levels", "land=0,town=2")
    assert topdown(*draft, "--out", "one/run.toml").code == 0
    before = sorted(tmp_path.rglob("*"))
    refused = topdown(*draft, "--out", "two/run.toml")
    assert refused.code == 2
    assert "B017" in refused.err
    assert before == sorted(tmp_path.rglob("*"))


def test_records_are_evaluated_as_they_were_read(topdown, tmp_path, monkeypatch):
    """Records that a run file explains cannot be compared with the release by a command that does not read it."""
    monkeypatch.chdir(tmp_path)
    schema = package.Schema.from_lists({"sex": ["f", "m"], "age": ["0-17", "18+"]})
    tree = package.Geography.from_table({"town": ["1", "2"]}, ["land", "town"])
    people = pd.DataFrame(
        {"geocode": list("12") * 40, "sex": ["F", "M"] * 40, "age": [3, 20] * 40, "note": ["x"] * 80}
    )
    people.to_csv("records.csv", index=False)
    planned = package.plan(schema=schema, geography=tree, records=people, rho="1/2")
    run = Path(planned.write(".").prepared.path)
    values = (
        '\n[input.values.sex]\nlabels = { F = "f", M = "m" }\n\n[input.values.age]\nbands = ["0-17", "18+"]\n'
    )
    text = run.read_text(encoding="utf-8")
    at = text.index("\n[geography]")
    run.write_text(text[:at] + values + text[at:], encoding="utf-8")
    assert topdown("generate", "run.toml", "--yes", "--out", "release").code == 0
    assert topdown("evaluate", "release", "--truth", "records.csv").code == 2
    found = topdown("evaluate", "release", "--truth", "records.csv", "--run", "run.toml", "--json")
    assert found.code == 0, found.err
    assert found.document["n_records"]["true"] == 80
