"""The how-to page of pgsr, run as a reader would."""

import re
import shlex
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "pgsr.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_how_to_page_runs(pgsr_cli, tmp_path, capsys):
    """A command, table or file name on the page that no longer works stops a reader at the first step."""
    pytest.importorskip("pandas")
    text = PAGE.read_text(encoding="utf-8")
    commands = []
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        if language in ("csv", "toml"):
            name = re.findall(rf"`(\w+\.{language})`", text[: block.start()])[-1]
            (tmp_path / name).write_text(body)
        elif language == "python":
            exec(compile(body, str(PAGE), "exec"), {})  # noqa: S102
            assert "municipality" in capsys.readouterr().out
        else:
            assert language == "console"
            for line in body.splitlines():
                prompt, program, *arguments = shlex.split(line)
                assert (prompt, program) == ("$", "pgsr")
                said = pgsr_cli(*arguments)
                assert said.code == 0, said.err
                commands.append(arguments[0])
    assert commands == ["ledger", "release", "release", "verify", "compare", "microdata", "explain", "schema"]
    assert len((tmp_path / "groups.csv").read_text().splitlines()) == 11
    named = set(re.findall(r"`(\w+\.(?:parquet|json|jsonl|csv|toml))`", text))
    written = {path.name for path in (*tmp_path.iterdir(), *(tmp_path / "release").iterdir())}
    assert named <= written | {"groups.ledger.jsonl"}


def test_links_of_the_page_lead_somewhere():
    """A page that was renamed leaves a dead link."""
    for target in re.findall(r"\]\(([^)#]+)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).is_file(), target
