"""`topdown init --ask-labels`: no label of a record is kept before a person said that its list is published."""

import io
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.helpers.folders import files
from topdown.app.screens import Painter
from topdown.measure import MOST_LABELS
from topdown.plan import load_schema

ASK = ("init", "--ask-labels", "--levels", "land,town", "--records", "people.csv", "--leaves", "places.csv",
       "--no-count", "--out", "out/run.toml")  # fmt: skip
LABELS = ("Zorn", "Quib", "Wexel")  # of the attribute `kind`; Zorn is one person's
ROWS = "".join(f"{place},{kind},{n}\n" for place in ("a", "b") for kind in LABELS[1:] for n in (10, 9, 2))


class Typed(io.StringIO):
    """Answers of a person."""

    def isatty(self) -> bool:
        """Say that a person sits there."""
        return True


@pytest.fixture
def office(topdown, monkeypatch, tmp_path):
    """Give people.csv and places.csv; return what runs a command with the answers of a person."""
    (tmp_path / "people.csv").write_text("town,kind,rank\n" + ROWS + "a,Zorn,2\n")
    (tmp_path / "places.csv").write_text("land,town\nX,a\nX,b\n")
    seen = list[str]()
    put = Painter.put
    monkeypatch.setattr(Painter, "put", lambda self, text: (seen.append(text), put(self, text))[1])
    monkeypatch.setattr("topdown.app.commands.draft_dialogue.can_ask", lambda screen: True)

    def run(*answers: str, options: tuple[str, ...] = (), arguments: tuple[str, ...] = ASK):
        seen.clear()
        monkeypatch.setattr(sys, "stdin", Typed("".join(f"{answer}\n" for answer in answers)))
        outcome = topdown(*arguments, *options)
        return outcome, "".join(seen)

    return run


def written(folder: Path) -> bytes:
    """Return the bytes of every file but the records."""
    held = files(folder)
    return b"".join(held[name] for name in held if not name.startswith("people")) + "".join(held).encode()


@pytest.mark.parametrize(
    ("answers", "options"),
    [
        ((), ()),  # the person left
        (("", ""), ()),
        (("", "yes"), ("--json",)),
        (("", "Public"), ()),
        (("", "public it is"), ("-v", "--force")),
        (("", "public"), ()),  # left before the second attribute
        (("", "public"), ("--json",)),
        (("", "public", "", "no"), ()),  # the second is not: the first is not written either
        (("", "public", "", "no"), ("-v", "--force")),
        (("another", "", "public", "", "n"), ()),
    ],
)
def test_nothing_is_written_before_the_last_answer(office, tmp_path, answers, options):
    """A label in a half-written file, a message or a log tells that somebody has it."""
    before = files(tmp_path)
    said, _ = office(*answers, options=options)
    assert said.code in (2, 130)
    assert before == files(tmp_path)
    assert not [label for label in LABELS if label in said.out]
    after_questions = said.err.partition("error")[2]
    assert not [label for label in LABELS if label in after_questions]


def test_an_interrupted_question_leaves_nothing(office, tmp_path, monkeypatch):
    """Ctrl-C at the second question comes after the first labels were confirmed."""
    left = iter(["\n", "public\n"])

    def readline() -> str:
        for line in left:
            return line
        raise KeyboardInterrupt

    before = files(tmp_path)
    monkeypatch.setattr(Typed, "readline", lambda self: readline())
    assert office()[0].code == 130
    assert before == files(tmp_path)


def test_a_person_confirms_each_list(office, topdown, tmp_path):
    """The list is the published one: labels nobody has stand in it, and numbers come in their order."""
    said, seen = office("Nobody's", "", "public", "", "public")
    assert said.code == 0, said.err
    schema = load_schema(tmp_path / "out" / "schema.toml")
    assert [(a.name, a.labels) for a in schema.attributes] == [
        ("kind", ("Quib", "Wexel", "Zorn", "Nobody's")),
        ("rank", ("2", "9", "10")),
    ]
    after = seen.split('"Quib", "Wexel", "Zorn"')[1]  # no counts beside them
    assert after.split()[:4] == ["Type", "a", "label", "of"]
    assert not [label for label in LABELS if label in said.out]
    assert topdown("plan", "out/run.toml").code == 0


def test_a_column_left_out_is_in_no_file(office, tmp_path):
    """Skipped labels were shown, and not confirmed."""
    said, _ = office("", "skip", "", "public")
    assert said.code == 0, said.err
    found = written(tmp_path)
    assert not [label for label in LABELS if label.encode() in found]
    assert b'ignore = ["land", "kind"]' in found


@pytest.mark.parametrize(
    "values",
    [
        [f"name{i}" for i in range(MOST_LABELS + 1)],
        ["\x1b[2Jred", "blue"],
        ["\u202edesrever", "blue"],
        ["x" * 200, "blue"],
        [" blue", "blue"],
    ],
)
def test_what_cannot_be_read_by_a_person_is_not_shown(office, tmp_path, values):
    """Nobody reads four hundred names; a label that paints over another would be confirmed unread."""
    text = "town,rank,note\n" + "".join(f'a,1,"{value}"\n' for value in values)
    (tmp_path / "people.csv").write_text(text)
    said, seen = office("", "public", "")
    assert said.code == 0, said.err
    assert not [value for value in values if value in seen or value.encode() in written(tmp_path)]
    refused, _ = office("", "public", "public", options=("--force",))
    assert refused.refusal == "C242"


def test_without_a_terminal_the_records_stay_closed(topdown, tmp_path):
    """Without a person there is nobody who could know that a label is public."""
    (tmp_path / "places.csv").write_text("land,town\nX,a\nX,b\n")
    assert topdown(*ASK, "--json").refusal == "C241"
    assert topdown(*ASK, "--codes", "codes.csv", "--json").refusal == "C005"
    assert [Path("places.csv")] == [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("town,kind\na,\na,x\n", "D031"),
        ("kind\nZorn\n", "D023"),
        ("town,kind\na,Zorn,Zorn\n", "D021"),
        ("town,kind,kind\na,Zorn,Zorn\n", "D023"),
        ("", "D023"),
    ],
)
def test_tables_that_cannot_be_read(office, tmp_path, text, code):
    """A reader that quotes the row would write a label into a log."""
    (tmp_path / "people.csv").write_text(text)
    before = files(tmp_path)
    said, _ = office("", "public")
    assert (said.code, code in said.err, "Zorn" in said.err) == (2, True, False), said.err
    assert before == files(tmp_path)


@pytest.mark.slow
def test_a_country_in_a_database_is_released(office, topdown, tmp_path):
    """From a database to a verified release; no document of it says where the records are."""
    with closing(sqlite3.connect(tmp_path / "people.db")) as to, to:
        to.execute("CREATE TABLE 'my people' (town TEXT, kind TEXT, rank INT)")
        lines = (tmp_path / "people.csv").read_text().splitlines()[1:]
        to.executemany("INSERT INTO 'my people' VALUES (?, ?, ?)", [line.split(",") for line in lines])
        to.execute("CREATE TABLE places AS SELECT DISTINCT 1 AS land, town FROM 'my people'")
    records, leaves = "sqlite:people.db?table=my people", "sqlite:people.db?table=places"
    arguments = (*ASK[:4], "--records", records, "--leaves", leaves, "--no-count", "--out", "run.toml")
    said, _ = office("", "public", "", "public", arguments=arguments)
    assert said.code == 0, said.err
    assert topdown("generate", "run.toml", "--out", "release", "--yes", "--workers", "1").code == 0
    assert topdown("verify", "release").code == 0
    assert not [name for name, data in files(tmp_path / "release").items() if b"people.db" in data]
    compared = topdown(
        "evaluate", "release", "--truth", records, "--no-count", "--column", "geocode=town", "--json"
    )
    assert compared.document["n_records"]["true"] == len(lines)
    over = topdown("evaluate", "release", "--truth", records, "--no-count", "--column", "geocode=town",
                   "--out", "people.db", "--force", "--json")  # fmt: skip
    assert over.document["code"] == "C132"
