"""The how-to page of the best noise: every command run, every line compared, every snippet executed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "optimal-noise.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def flat(text: str) -> str:
    """Forget line breaks, columns and non-breaking spaces."""
    return " ".join(text.replace("\u00a0", " ").split())


def test_the_page_runs_and_says_what_it_says(topdown, toy, tmp_path, monkeypatch):
    """A command or a figure on the page that no longer holds misleads whoever follows it."""
    monkeypatch.chdir(tmp_path)
    toy(tmp_path)
    said, n_run = "", 0
    for language, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if language == "console":
            said = ""
            for line in body.splitlines():
                prompt, program, *arguments = shlex.split(line)
                assert (prompt, program) == ("$", "topdown")
                outcome = topdown(*arguments)
                assert outcome.code == 0, f"{line}\n{outcome.out}{outcome.err}"
                said += " " + flat(outcome.out)
                n_run += 1
        elif language == "text":
            for line in body.splitlines():
                assert flat(line) in said, f"{line}\nis not in\n{said}"
        else:
            assert language == "python"
            exec(compile(body, str(PAGE), "exec"), {})  # noqa: S102
    assert n_run == 7
    assert (tmp_path / "law.json").exists()
    assert (tmp_path / "law.svg").exists()


def test_one_count_beside_the_discrete_gaussian(topdown):
    """The page says: below a ninth of its variance, at epsilon 1 and delta 1/1000000."""
    found = topdown(
        *["noise", "--epsilon", "1", "--delta", "1/1000000", "--loss", "l2", "--compare", "--json"]
    ).document
    other = next(o for o in found["others"] if o["name"] == "discrete Gaussian")
    assert 9 * float(found["variance"]) < float(other["expected_loss"])
