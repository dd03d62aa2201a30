"""Build the documentation: `python docs/site/build.py [--out FOLDER]`, or `make docs`.

Pages that follow from the code (commands, input files, error codes, documents, Python functions) are written from it
each time, and the pictures of the gallery are made by the commands, into a scratch folder beside copies of the
hand-written pages; nothing generated is kept in the repository.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from msgspec.structs import fields

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gallery import make_gallery  # noqa: E402

import pgsr  # noqa: E402
import topdown  # noqa: E402
from pgsr.cli import PROGRAM as PGSR  # noqa: E402
from topdown.app import FAMILIES, TITLES, pages, reference  # noqa: E402
from topdown.cli import PROGRAM as TOPDOWN  # noqa: E402
from topdown.formats.json_schema import DOCUMENTS, document_schema  # noqa: E402

WIDTH = 90
"""Columns of a help page in the command reference."""
HAND_WRITTEN = (
    "tutorials",
    "how-to",
    "coming-from",
    "explanation",
    "glossary.md",
    "format.md",
    "architecture.md",
)
CONTRIBUTORS = ("where-does-my-change-go.md",)
BESIDE = {"README.md": "readme.md", "SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages at the top of the repository, and what they are called in the site."""


def command_pages() -> Iterator[tuple[str, str]]:
    """Yield the help of every command of both programs as one page a program."""
    for program in (TOPDOWN, PGSR):
        about = f"For people at a terminal. {program.about} {_plain(program.first)}"
        lines = [f"# Commands of {program.name}", "", about, ""]
        for title, listed in program.commands.items():
            lines += [f"## {title}" if title else "## Commands", ""]
            for name, (about, _) in listed.items():
                lines += [f"### {program.name} {name}", "", about, "", "```text"]
                lines += [_help(program.group, program.name, name), "```", ""]
        yield f"reference/{program.name}-commands.md", "\n".join(lines)


def _help(group: click.Group, program: str, name: str) -> str:
    parent = click.Context(group, info_name=program, max_content_width=WIDTH, terminal_width=WIDTH)
    command = group.get_command(parent, name)
    if command is None:
        raise LookupError(f"{program} has no command {name}")
    context = click.Context(command, parent=parent, info_name=name, terminal_width=WIDTH)
    return command.get_help(context).rstrip()


def _plain(text: str) -> str:
    """Keep angle brackets and stars of a sentence from being read as markup."""
    return " ".join(text.split()).replace("<", r"\<").replace("*", r"\*")


def input_page() -> tuple[str, str]:
    """Return the keys of every input file, as the structs that read them declare them."""
    lines = ["# Input files", ""]
    lines += [
        "For people who write run files: every key of their TOML files. `topdown schema run` prints the same.",
        "",
    ]
    for name in TITLES:
        found = reference(name)
        lines += [f"## {_plain(found.title)}", ""]
        for table in found.tables:
            if table.table:
                lines += [f"### `{table.table}`", ""]
            lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
            for key in table.keys:
                codes = "".join(f" [{code}](errors.md#{code.lower()})" for code in key.codes)
                default = "required" if key.required else f"`{key.default}`" if key.default else ""
                example = f" Example: `{key.example}`" if key.example else ""
                lines.append(
                    f"| `{key.key}` | {_cell(key.type)} | {_cell(default)} | {_cell(key.text + example)}{codes} |"
                )
            lines.append("")
    return "reference/input-files.md", "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def error_page() -> tuple[str, str]:
    """Return the catalogue of error codes."""
    lines = [
        "# Error codes",
        "",
        "For people who met an error. What `topdown explain CODE` prints: what an error means and what to do.",
        "",
    ]
    found = pages()
    for letter, family in FAMILIES.items():
        lines += [f"## {letter}: {family}", ""]
        for code, page in found.items():
            if code.startswith(letter):
                lines += [
                    f"### {code}",
                    "",
                    f"**{_plain(page.title)}.** {_plain(page.why)}",
                    "",
                    f"What to do: {_plain(page.fix)}",
                    "",
                ]
                lines += ["```text", page.example.strip("\n"), "```", ""] if page.example else []
    return "reference/errors.md", "\n".join(lines)


def document_page() -> tuple[str, str]:
    """Return the keys of every JSON document, from its declaration."""
    lines = ["# JSON documents", ""]
    lines += [
        "For programmers. What `--json` prints and files hold; `topdown schema NAME` prints the JSON Schema.",
        "",
    ]
    for name, place in DOCUMENTS.items():
        module, _, struct = place.partition(":")
        declared = getattr(import_module(module), struct)
        schema = document_schema(name)
        required = set(schema["required"])
        lines += [
            f"## {schema['properties']['type']['const']}",
            "",
            _plain((declared.__doc__ or "").split("\n\n")[0]),
            "",
        ]
        lines += ["| key | always there | JSON type |", "|---|---|---|"]
        names = [field.encode_name for field in fields(declared)]
        for key in [*[k for k in schema["properties"] if k not in names], *names]:
            lines.append(
                f"| `{key}` | {'yes' if key in required else ''} | {_json_type(schema['properties'][key])} |"
            )
        lines.append("")
    return "reference/documents.md", "\n".join(lines)


def _json_type(schema: object) -> str:
    if not isinstance(schema, dict):
        return ""
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(filter(None, map(_json_type, schema["anyOf"]))))
    if "enum" in schema:
        return "one of " + ", ".join(f"`{one}`" for one in schema["enum"])
    kind = schema.get("type", "object" if "$ref" in schema else "")
    if kind == "array":
        return f"list of {_json_type(schema.get('items', {})) or 'values'}"
    return kind if isinstance(kind, str) else " or ".join(kind)


def python_pages() -> Iterator[tuple[str, str]]:
    """Yield the public names of both packages, for autodoc."""
    for package in (topdown, pgsr):
        about = "For programmers. The public functions and values, from their docstrings."
        lines = [f"# Python: {package.__name__}", "", about, "", "```{eval-rst}"]
        for name in package.__all__:
            kind = "autoclass" if isinstance(getattr(package, name), type) else "autofunction"
            lines += [
                f".. {kind}:: {package.__name__}.{name}",
                *(["   :members:"] if kind == "autoclass" else []),
                "",
            ]
        yield f"reference/python-{package.__name__}.md", "\n".join([*lines, "```", ""])


def write_sources(folder: Path) -> None:
    """Write all pages of the site into a folder: copies of those that people wrote, and those made from the code."""
    for name in (*HAND_WRITTEN, *CONTRIBUTORS):
        source = ROOT / "docs" / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copyfile(source, folder / name)
    for name, page in BESIDE.items():
        shutil.copyfile(ROOT / name, folder / page)
    for page in ("index.md", "which-tool.md", "gallery.md", "conf.py"):
        shutil.copyfile(Path(__file__).with_name(page), folder / page)
    shutil.copytree(Path(__file__).with_name("static"), folder / "static")
    write_gallery(folder)
    for page, text in (*command_pages(), input_page(), error_page(), document_page(), *python_pages()):
        (folder / page).parent.mkdir(exist_ok=True)
        (folder / page).write_text(text, encoding="utf-8")
    for page in folder.rglob("*.md"):
        page.write_text(_within_site(page.read_text(encoding="utf-8"), page, folder), encoding="utf-8")


def write_gallery(folder: Path) -> None:
    """Make the pictures of the gallery, and put the first screen into the landing page."""
    with TemporaryDirectory() as scratch:
        screen = make_gallery(Path(scratch))
        (folder / "gallery").mkdir()
        for made in (*Path(scratch).glob("*.svg"), Path(scratch) / "report.html"):
            shutil.copyfile(made, folder / "gallery" / made.name)
    index = folder / "index.md"
    text = index.read_text(encoding="utf-8").replace("<!-- first screen -->", f"```text\n{screen}```")
    index.write_text(text, encoding="utf-8")


def _within_site(text: str, page: Path, folder: Path) -> str:
    """Point links to pages beside docs/ at their copies; a link to a file that is not in the site keeps its words."""
    up = "../" * (len(page.relative_to(folder).parts) - 1)

    def link(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if re.match(r"https?:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        name = path.removeprefix("docs/").lstrip("./") if page.name in BESIDE.values() else path
        beside = next((to for of, to in BESIDE.items() if path.endswith(of) and "docs/" not in path), None)
        at = f"{up}{beside}" if beside else name or "index.md"
        inside = (page.parent / at).exists()
        return f"[{words}]({at}{'#' + anchor if anchor else ''})" if inside and Path(at).suffix else words

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, text)


def build(out: Path) -> int:
    """Build the site; return the exit code of sphinx, which takes warnings for errors."""
    from sphinx.cmd.build import main

    with TemporaryDirectory() as scratch:
        source = Path(scratch) / "source"
        source.mkdir()
        write_sources(source)
        return main(
            ["-W", "--keep-going", "-q", "-b", "html", "-d", f"{scratch}/trees", str(source), str(out)]
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "site")
    sys.exit(build(parser.parse_args().out))
