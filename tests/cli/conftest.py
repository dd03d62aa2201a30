"""A small census on disk, the command line run in this process, and a judge of JSON documents."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pgsr.cli import main as pgsr_main
from pgsr.formats import document_schema as pgsr_schema
from tests.helpers.commands import Said, pgsr
from tests.helpers.runs import init_run
from tests.helpers.schemas import problems
from tests.pinned.seeded import seeded
from topdown.cli import main
from topdown.errors import TopdownError
from topdown.formats import document_schema
from topdown.measure import create_run_ledger

LEAVES = "geocode,homes,dormitories,barracks\n" + "".join(
    f"1{county}{block:02d},{0 if block == 3 else 9},{int(block == 2)},{int(block == 1)}\n"
    for county in (1, 2, 3)
    for block in (1, 2, 3, 4)
)
PERSONS = "geocode,dwelling,sex,age,count\n" + "".join(
    f"1{county}{block:02d},{row}\n"
    for county in (1, 2, 3)
    for block, row in (
        (1, "home,female,18_64,12"),
        (1, "barracks,male,18_64,5"),
        (2, "dormitory,female,18_64,7"),
        (2, "home,male,0_17,3"),
        (4, "home,male,65_plus,4"),
    )
)


def write_toy(folder: Path, edit: Callable[[str], str] = lambda text: text) -> Path:
    """Write leaves, records and run file of the toy census; return the run file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "leaves.csv").write_text(LEAVES)
    (folder / "persons.csv").write_text(PERSONS)
    run = init_run(folder / "persons.csv", folder)
    text = run.read_text()
    run.write_text(edit(text))
    try:
        create_run_ledger(run)
    except TopdownError:  # broken on purpose: the ledger of the file as it was
        run.write_text(text)
        create_run_ledger(run)
        run.write_text(edit(run.read_text()))
    return run


@pytest.fixture
def toy() -> Callable[..., Path]:
    """Write a toy census into a folder."""
    return write_toy


@pytest.fixture
def _screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Give a command line an empty folder and a screen of a given width; say what it did."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TOPDOWN_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.chdir(tmp_path)

    def of(program: Callable[[list[str]], int]) -> Callable[..., Said]:
        def run(*arguments: object, width: int = 80) -> Said:
            monkeypatch.setenv("COLUMNS", str(width))
            code = program([str(a) for a in arguments])
            said = capsys.readouterr()
            return Said(code, said.out, said.err)

        return run

    return of


@pytest.fixture
def topdown(_screen) -> Callable[..., Said]:
    """Run a topdown command in this process, in an empty folder, on a screen of a given width."""
    return _screen(main)


@pytest.fixture
def pgsr_cli(_screen) -> Callable[..., Said]:
    """Run a pgsr command in the same way."""
    return _screen(pgsr_main)


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a toy release once, with the same noise in every run of the tests; copy it before changing it."""
    folder = tmp_path_factory.mktemp("release")
    with seeded("toy"):
        options = ["--out", str(folder / "release"), "--yes", "--quiet", "--workers", "1"]
        assert main(["generate", str(write_toy(folder)), *options]) == 0
    return folder / "release"


@pytest.fixture
def check() -> Callable[[dict[str, Any]], None]:
    """Validate a document against the JSON Schema of its type."""

    def validate(document: dict[str, Any]) -> None:
        program, name = document["type"].split(".", 1)
        schema = pgsr_schema(name) if program == "pgsr" else document_schema(name)
        assert problems(document, schema) == []

    return validate


@pytest.fixture
def practice(tmp_path: Path) -> Path:
    """Return a folder with made-up groups, a run file of pgsr and its ledger."""
    folder = tmp_path / "practice"
    pgsr("synth", "--shape", "tiny", "--out", folder).ok()
    pgsr("ledger", "new", folder / "run.toml").ok()
    return folder
