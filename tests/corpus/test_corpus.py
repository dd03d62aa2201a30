"""Wrong inputs, each a case of data: refused with one error, in time, and without a trace.

A file `*.toml` here holds groups of cases. A group says which command runs on which valid input, what attack it stands
for, and what must come of it; a case is one edit of that input (see README.md). A case that is accepted, crashes, is
charged, changes an input, writes elsewhere or shows a value of a record is a fault.
"""

import hashlib
import json
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgsr.cli import main as pgsr_main
from tests.cli.conftest import write_toy
from tests.corpus.edits import make
from tests.helpers.small_release import reseal
from topdown.app import pipeline
from topdown.cli import main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SECONDS = 20  # of CPU; a command that waits for ever is ended by the limit of the whole test
_LABELS = ", ".join(f'"v{i}"' for i in range(300))
LONG = {  # what would fill pages of a file of cases
    "LONG": "x" * 2001,
    "MANY": "".join(f'[[attribute]]\nname = "many{i}"\nlabels = [{_LABELS}]\n' for i in range(8)),
}
PRIVATE = "PRIVATE-input-errors.csv"
GROUPS = "region,size,count\nA,1,3\nA,2,2\nB,1,4\n"
HIERARCHY = "region,parent,level\nT,,top\nA,T,leaf\nB,T,leaf\n"
PGSR_RUN = """\
groups = "groups.csv"
hierarchy = "hierarchy.csv"
sizes = 5
epsilon = "1/2"
data_set = "groups"
public = "public.csv"
out = "out"
"""


def cases() -> list[Any]:
    """Return every case with its group's words, in the order of the files."""
    found = []
    for path in sorted(HERE.glob("*.toml")):
        for group in tomllib.loads(path.read_text(encoding="utf-8"))["group"]:
            edits = group.pop("edits")
            for number, edit in enumerate(_expand(edits)):
                case = group | {
                    "edit": edit[1:],
                    "code": group["code"],
                    "group": f"{path.stem}: {group['name']}",
                }
                if (
                    isinstance(edit[0], str) and "=" in edit[0]
                ):  # "id=CODE" where the group's code is not the case's
                    name, case["code"] = edit[0].split("=")
                else:
                    name = edit[0]
                slow = [pytest.mark.slow] if group.get("slow") else []
                found.append(
                    pytest.param(case, id=f"{path.stem}-{group['name']}-{number}-{name}", marks=slow)
                )
    return found


def _expand(edits: list[list[Any]]) -> list[list[Any]]:
    """Write out edits whose last value is a table { each = [...] }: one case a value."""
    out = []
    for edit in edits:
        last = edit[-1]
        if isinstance(last, dict):
            out += [[f"{edit[0]} {i}" if "=" not in edit[0] else edit[0], *edit[1:-1], value]
                    for i, value in enumerate(last["each"])]  # fmt: skip
        else:
            out.append(edit)
    return out


@pytest.fixture(scope="session")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the valid inputs once: a toy census with files of its own, and groups."""
    folder = tmp_path_factory.mktemp("valid")
    write_valid(folder)
    return folder


def write_valid(folder: Path) -> None:
    """Write the valid inputs: census, made (the census with its release), other, groups."""
    run = write_toy(folder / "census")
    for kind, name in (("schemas", "schema"), ("invariants", "invariants"), ("settings", "settings")):
        shutil.copyfile(ROOT / kind / "toy.toml", run.parent / f"{name}.toml")
    text = run.read_text().replace('schema = "toy"', 'schema = "schema.toml"')
    run.write_text(text.replace('invariants = "toy"', 'invariants = "invariants.toml"'))
    made = Path(shutil.copytree(run.parent, folder / "made"))
    shutil.copytree(run.parent / "ledger", made / "before")
    shutil.copyfile(next(made.glob("ledger-*.registry")), made / "before" / "registry.jsonl")
    other = write_toy(folder / "other").parent
    shutil.copytree(other / "ledger", made / "foreign")
    shutil.copyfile(next(other.glob("ledger-*.registry")), made / "foreign" / "registry.jsonl")
    options = ["--out", str(made / "out"), "--yes", "--quiet", "--csv", "--workers", "1"]
    assert main(["generate", str(made / "run.toml"), *options]) == 0
    groups = folder / "groups"
    groups.mkdir()
    (groups / "groups.csv").write_text(GROUPS)
    (groups / "hierarchy.csv").write_text(HIERARCHY)
    (groups / "public.csv").write_text("region,groups\nT,9\n")
    (groups / "run.toml").write_text(PGSR_RUN)
    assert pgsr_main(["ledger", "new", str(groups / "run.toml"), "--quiet"]) == 0


@pytest.fixture(scope="session")
def _done() -> dict[tuple[str, str], Any]:
    """Return what was rehearsed and stated in this session, by name and plan."""
    return {}


@pytest.fixture
def _each_plan_once(_done: dict[tuple[str, str], Any]) -> Iterator[None]:
    """Rehearse a plan and state its privacy once: hundreds of cases change the records only, which neither reads.

    No patch of pytest's, after which caches are emptied: what is remembered here is what was computed.
    """

    def once(work: Callable[..., Any], plan_hash: Callable[[Any], str]) -> Callable[..., Any]:
        def remembered(first: Any, *rest: Any) -> Any:
            key = (work.__name__, plan_hash(first))
            if key not in _done:
                _done[key] = work(first, *rest)
            return _done[key]

        return remembered

    preflight, certified_privacy = pipeline.preflight, pipeline.certified_privacy
    pipeline.preflight = once(preflight, lambda prepared: prepared.plan.plan_hash)
    pipeline.certified_privacy = once(certified_privacy, lambda policy: policy.plan.plan_hash)
    yield
    pipeline.preflight, pipeline.certified_privacy = preflight, certified_privacy


@pytest.mark.usefixtures("_each_plan_once")
@pytest.mark.parametrize("case", cases())
def test_wrong_input_is_refused_without_a_trace(case, valid, tmp_path, monkeypatch, capsys, record_property):
    """What the group's `attack` says: a wrong result without a word, lost data, a charge for nothing."""
    record_property("corpus", case["group"])
    home = tmp_path / "home"
    start(case, valid, home)
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(home)
    before = _snapshot(tmp_path)
    capsys.readouterr()
    started = time.process_time()
    program = pgsr_main if case["program"] == "pgsr" else main
    arguments = [
        str(a).replace("EDIT", LONG.get(str(case["edit"][-1]), str(case["edit"][-1]))) for a in case["run"]
    ]
    code = program([*arguments, "--json"])
    seconds = time.process_time() - started
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    assert seconds < SECONDS
    document = json.loads(said.out)
    if case["run"][0] == "verify":
        assert (case["exit"], case["code"] in _findings(document)) == (code, True), _findings(document)
    elif case["code"]:
        _check_error(case, document, code, said.out + said.err)
    else:
        assert (case["exit"], "topdown.error") != (code, document["type"])
        return  # accepted: what it does then is told by other tests
    after = _snapshot(tmp_path)
    private = {name for name in after if name.endswith("/" + PRIVATE)}
    assert before == {name: seen for name, seen in after.items() if name not in private}
    assert case.get("private", True) or not private


def _findings(document: dict[str, Any]) -> set[str]:
    """Return the codes of what verify found, or of the error it ended with."""
    return {f["code"] for check in document.get("checks", ()) for f in check["findings"]} | {
        document.get("code")
    }


def _check_error(case: dict[str, Any], document: dict[str, Any], code: int, said: str) -> None:
    assert (case["code"], case.get("exit", 2)) == (document["code"], code), document
    assert document["type"] == "topdown.error"
    assert document["fix"]
    assert document["file"] or document["key"] or any(name in document["text"] for name in _places(case))
    assert len(said) < 6000
    assert "\x1b" not in document["text"]
    assert case.get("says", "") in document["text"]
    for secret in case.get("secrets", ()):
        assert secret not in said


def start(case: dict[str, Any], valid: Path, home: Path) -> None:
    """Copy the valid input of a case and make its edit."""
    named = "groups" if case["program"] == "pgsr" else "census"
    shutil.copytree(valid / case.get("input", named), home, symlinks=True)
    for name, old, new in case.get("prepare", ()):
        make(home / name, ["replace", old, new])
    name, edit = (
        case["file"],
        [LONG.get(value, value) if isinstance(value, str) else value for value in case["edit"]],
    )
    if "EDIT" in name:
        name = name.replace("EDIT", edit.pop())
    path = home / name.replace("REGISTRY", next(home.glob("ledger-*.registry"), Path("none")).name)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path, edit)
    if case.get("seal"):
        reseal(home / "out")


def test_there_are_enough_cases():
    """A file of cases that is not read any more would go unnoticed."""
    assert len(cases()) >= 900


def test_the_valid_input_is_accepted(valid, tmp_path, monkeypatch, capsys):
    """Cases that are refused for another reason than their edit would test nothing."""
    for name in ("census", "groups"):
        shutil.copytree(valid / name, tmp_path / name)
    monkeypatch.chdir(tmp_path / "census")
    assert main(["plan", "run.toml", "--quiet"]) == 0
    assert main(["generate", "run.toml", "--out", "out", "--yes", "--quiet", "--workers", "1"]) == 0
    monkeypatch.chdir(tmp_path / "groups")
    assert pgsr_main(["release", "run.toml", "--yes", "--quiet"]) == 0
    capsys.readouterr()


def _places(case: dict[str, Any]) -> tuple[str, ...]:
    return (case["file"], "column", "level", "query", "option", "--", *case.get("places", ()))


def _snapshot(folder: Path) -> dict[str, str]:
    """Return what every name below a folder is: a link, a folder, or the hash of a file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            seen = f"link {path.readlink()}"
        elif path.is_file():
            seen = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            seen = "folder"
        found[str(path.relative_to(folder))] = seen
    return found
