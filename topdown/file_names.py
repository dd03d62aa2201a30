"""Names that become file names, and paths as people give them.

Levels, attributes, recodes and data sets are named by users and become folders and files: a name that is a path, a
link's bait or another file's name is refused before anything is read.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from topdown.errors import ConfigError

MOST_NAME_BYTES = 60
MOST_FILE_BYTES = (
    200  # of names put together, such as a table's; file systems take 255 and need room for endings
)
MOST_PART_BYTES, MOST_PATH_BYTES = 255, 4000  # of a path
INSIDE = "_-."
_ENDINGS = (".tmp", ".json", ".jsonl", ".parquet", ".csv", ".gz", ".txt", ".toml", ".drawn", ".lock")
_DEVICES = {"con", "prn", "aux", "nul"} | {f"{port}{i}" for port in ("com", "lpt") for i in range(10)}
ALPHABET = (
    "a name has letters and digits of any script, and . _ - inside; it begins with a letter or digit, "
    f"has at most {MOST_NAME_BYTES} bytes and is no reserved name"
)


def checked_name(name: str, what: str, *, key: tuple[str, ...] = ()) -> str:
    """Return a name that may become a file name.

    Args:
        name: of a level, an attribute, a recode or a data set.
        what: it names, for the message.
        key: place in the run file.

    Raises:
        ConfigError: C130 it holds another character, is too long, or is reserved.
    """
    problem = _name_problem(name)
    if problem:
        raise ConfigError(f"{what} {_printable_name(name)!r} {problem}", code="C130", fix=ALPHABET, key=key)
    return name


def checked_path(value: str, what: str, *, key: tuple[str, ...] = ()) -> None:
    """Refuse text that no file system takes for a path, or that no document can quote.

    Args:
        value: a path; a folder may end with a slash.
        what: the key or option that gives it.
        key: place in the run file.

    Raises:
        ConfigError: C136 it is empty, has a control character, is not text, or is too long.
    """
    odd = [c for c in value if unicodedata.category(c)[0] == "C"]
    sizes = [len(part.encode("utf-8", "replace")) for part in value.split("/")]
    if not value or odd or max(sizes) > MOST_PART_BYTES or sum(sizes) + len(sizes) > MOST_PATH_BYTES:
        raise ConfigError(
            f"{what} is no path of a file",
            code="C136",
            fix="give a path without control characters and broken letters, at most "
            f"{MOST_PART_BYTES} bytes a name and {MOST_PATH_BYTES} in all",
            key=key,
        )


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def table_name(query: str) -> str:
    """Return the file name of the table of `a * b`."""
    return query.replace(" * ", "_by_")


def refuse_same_file(names: Iterable[str], what: str, *, key: tuple[str, ...] = ()) -> None:
    """Refuse file names that some file system takes for one, or that are too long.

    Args:
        names: `a * b` stands for the file name of the table of a and b.
        what: they name, for the message.
        key: place in the run file.

    Raises:
        ConfigError: C131 two give one file; C130 one is too long.
    """
    seen: dict[str, str] = {}
    for name in names:
        file = table_name(name)
        if len(file.encode()) > MOST_FILE_BYTES:
            raise ConfigError(
                f"{what} {_printable_name(name)!r} gives a file name of more than {MOST_FILE_BYTES} bytes",
                code="C130",
                fix="give shorter names to the attributes or recodes",
                key=key,
            )
        other = seen.setdefault(unicodedata.normalize("NFKC", file).casefold(), name)
        if other != name:
            raise ConfigError(
                f"{what}s {_printable_name(other)!r} and {_printable_name(name)!r} would be one file",
                code="C131",
                fix="rename one of them: capitals do not tell files apart everywhere",
                key=key,
            )


def _name_problem(name: str) -> str:
    if not name:
        return "is empty"
    if len(name.encode("utf-8", "replace")) > MOST_NAME_BYTES:
        return f"has more than {MOST_NAME_BYTES} bytes"
    odd = [c for c in name if unicodedata.category(c)[0] not in "LMN" and c not in INSIDE]
    if odd or unicodedata.normalize("NFC", name) != name:
        return f"has the character U+{ord(odd[0]):04X}" if odd else "is not in composed form (NFC)"
    if unicodedata.category(name[0])[0] not in "LN" or name[-1] == ".":
        return "begins or ends with a mark"
    plain = name.casefold()
    if plain.endswith(_ENDINGS) or plain.split(".")[0] in _DEVICES:
        return "is a reserved name"
    return ""


def _printable_name(name: str) -> str:
    text = name.encode("unicode_escape").decode() if not name.isprintable() else name
    return text if len(text) <= MOST_NAME_BYTES else text[:MOST_NAME_BYTES] + "..."
