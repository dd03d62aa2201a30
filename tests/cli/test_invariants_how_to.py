"""The how-to page about an office's own invariants: every file written, every command run, every answer compared."""

import re
import shlex
import subprocess
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "your-own-invariants.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDED = re.compile(r"Save\s+`([\w.]+)`\s+with\s+this\s+added\s+as\s+`([\w.]+)`:\s*\Z")
SAVED = re.compile(r"Save\s+it\s+as\s+`([\w.]+)`:\s*\Z")


def flat(text: str) -> str:
    """Forget line breaks, columns and non-breaking spaces."""
    return " ".join(text.replace("\u00a0", " ").split())


def write(folder: Path, before: str, body: str) -> None:
    """Save a block under the name that the text before it gives."""
    if found := ADDED.search(before):
        old, new = found.groups()
        (folder / new).write_text((folder / old).read_text() + "\n" + body)
        return
    found = SAVED.search(before)
    assert found, f"no file name before:\n{body[:60]}"
    (folder / found.group(1)).write_text(body)


def test_the_page_runs_and_says_what_it_says(topdown, tmp_path):
    """A verdict on the page that the program does not give would mislead an office about its own law."""
    text = PAGE.read_text(encoding="utf-8")
    said, n_compared, verdicts = "", 0, set()
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        if language in ("csv", "toml"):
            write(tmp_path, text[: block.start()], body)
        elif language == "text":
            for line in body.splitlines():
                assert flat(line) in said, f"{line}\nis not in\n{said}"
                n_compared += 1
        elif language == "python":
            exec(compile(body, str(PAGE), "exec"), {})  # noqa: S102
        else:
            assert language == "console"
            said = ""
            for line in body.splitlines():
                command, _, expected = line.partition("   # exit ")
                prompt, program, *arguments = shlex.split(command)
                assert prompt == "$"
                if program == "sed":
                    subprocess.run(command[2:], shell=True, cwd=tmp_path, check=True)  # noqa: S602
                    continue
                assert program == "topdown"
                outcome = topdown(*arguments)
                assert outcome.code == int(expected or 0), f"{line}\n{outcome.out}{outcome.err}"
                said += " " + flat(outcome.out + " " + outcome.err)
                if arguments[0] == "implied":
                    verdicts |= {v["kind"] for v in topdown(*arguments, "--json").document["verdicts"]}
    assert n_compared > 20
    assert verdicts == {
        "complete_integral",
        "not_guaranteed",
        "refused",
    }  # an integer program needs a run file


def test_links_of_the_page_lead_somewhere():
    """A page that was renamed leaves a dead link."""
    for target in re.findall(r"\]\(([^)#]+)", PAGE.read_text(encoding="utf-8")):
        assert (PAGE.parent / target).is_file(), target
