"""Pages of docs/how-to: run their commands and snippets, and look for the lines they show."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

SAVED = re.compile(r"Save\s+it\s+as\s+`([\w.]+)`:\s*\Z")
NOT_RUN = ("r",)  # a program that need not be there
OPTIONAL = (
    "polars",
    "duckdb",
    "geopandas",
)  # libraries that need not be there: their snippets are not run without them
SAVED_AS_IT_IS = ("csv", "geojson")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def flat(text: str) -> str:
    """Forget line breaks, columns and non-breaking spaces."""
    return " ".join(text.replace("\u00a0", " ").split())


def run_page(page: Path, topdown) -> int:
    """Run a page, each command to its exit code; return the number of commands and snippets that ran.

    Args:
        page: Markdown with console, text, python, sql and csv blocks; text shows lines of the console block before it,
            csv is saved under the name that the text before it gives.
        topdown: runs the command line.

    """
    said, n_run = "", 0
    names: dict[str, object] = {}  # blocks of Python follow one another, as a reader types them
    page_text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(page_text):
        language, body = block.groups()
        saved = SAVED.search(page_text[: block.start()])
        if language in SAVED_AS_IT_IS:
            assert saved, f"no file name before:\n{body[:60]}"
            Path(saved.group(1)).write_text(body, encoding="utf-8")
        elif language == "console":
            said = ""
            for line in body.splitlines():
                command, _, expected = line.partition("   # exit ")
                prompt, program, *arguments = shlex.split(command)
                assert (prompt, program) == ("$", "topdown")
                outcome = topdown(*arguments)
                assert outcome.code == int(expected or 0), f"{line}\n{outcome.out}{outcome.err}"
                said += " " + flat(outcome.out + " " + outcome.err)
                n_run += 1
        elif language == "text":
            missing = [line for line in body.splitlines() if flat(line) not in said]
            assert not missing, f"{missing} not in\n{said}"
        else:
            if language in NOT_RUN or any(find_spec(name) is None for name in needed(language, body)):
                continue
            if language == "sql":
                lines = body.splitlines()
                body = f"import duckdb\nfor line in {lines!r}:\n    assert duckdb.sql(line).fetchall(), line"
                language = "python"
            assert language == "python"
            exec(compile(body, str(page), "exec"), names)  # noqa: S102
            n_run += 1
    return n_run


def needed(language: str, body: str) -> set[str]:
    """Return the libraries a snippet needs that need not be there."""
    imported = set(re.findall(r"^import (\w+)", body, re.MULTILINE)) | (
        {"duckdb"} if language == "sql" else set()
    )
    return imported & set(OPTIONAL)
