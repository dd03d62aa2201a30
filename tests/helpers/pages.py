"""Pages of docs: run their commands and snippets, save their files, and look for the lines they show."""

import io
import re
import shlex
import subprocess
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

SAVED = re.compile(r"[Ss]ave\s+(?:it|them)\s+as\s+`([\w.]+)`:\s*\Z")
ADDED = re.compile(r"Save\s+`([\w.]+)`\s+with\s+this\s+added\s+as\s+`([\w.]+)`:\s*\Z")
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


def run_page(page: Path, topdown, pgsr=None, printed: list[str] | None = None) -> int:
    """Run a page, each command to its exit code; return the number of commands and snippets that ran.

    Args:
        page: Markdown with console, text, python, sql, csv and toml blocks; text shows lines of the console block
            before it, csv and toml are saved under the name that the text before them gives.
        topdown, pgsr: run the command line of a program.
        printed: gets what each snippet of Python prints.
    """
    said, n_run = "", 0
    names: dict[str, object] = {}  # blocks of Python follow one another, as a reader types them
    page_text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(page_text):
        language, body = block.groups()
        before = page_text[: block.start()]
        if language in (*SAVED_AS_IT_IS, "toml"):
            saved, added = SAVED.search(before), ADDED.search(before)
            assert saved or added or language == "toml", f"no file name before:\n{body[:60]}"
            if added:
                Path(added[2]).write_text(
                    f"{Path(added[1]).read_text(encoding='utf-8')}\n{body}", encoding="utf-8"
                )
            elif saved:
                Path(saved[1]).write_text(body, encoding="utf-8")
        elif language == "console":
            said = ""
            for line in body.splitlines():
                command, _, expected = line.partition("   # exit ")
                prompt, program, *arguments = shlex.split(command)
                assert prompt == "$"
                if program == "sed":
                    subprocess.run(command[2:], shell=True, check=True)  # noqa: S602
                    continue
                outcome = {"topdown": topdown, "pgsr": pgsr}[program](*arguments)
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
            with redirect_stdout(io.StringIO()) as told:
                exec(compile(body, str(page), "exec"), names)  # noqa: S102
            if printed is not None:
                printed.append(told.getvalue())
            n_run += 1
    return n_run


def needed(language: str, body: str) -> set[str]:
    """Return the libraries a snippet needs that need not be there."""
    imported = set(re.findall(r"^import (\w+)", body, re.MULTILINE)) | (
        {"duckdb"} if language == "sql" else set()
    )
    return imported & set(OPTIONAL)
