"""Names that become file names, and where a command may write: nothing it reads, no link, no ledger, no release.

Levels, attributes, recodes and data sets are named by users and become folders and files: a name that is a path, a
link's bait or another file's name is refused before anything is read. A path is not a file: two spellings, a link and
a hard link can all be the confidential records. So paths are compared as resolved names and as device and inode, and
files are created exclusively.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from topdown.errors import ConfigError
from topdown.formats.caps import read_json

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


_GIVE_ANOTHER_PATH = "give another path; nothing was written"
_LOG_KEYS = {"time", "stage", "done", "total"}


def refuse_needed(target: Path, option: str, needed: Iterable[Path]) -> None:
    """Refuse to write to a file that the command reads or keeps (ConfigError C132).

    Args:
        target: what would be written.
        option: that named it.
        needed: records, leaves, run file, ledger.
    """
    for path in needed:
        if is_same_file(target, path):
            raise ConfigError(
                f"{option} names {path}, which this command needs",
                code="C132",
                fix=_GIVE_ANOTHER_PATH,
                file=str(target),
            )


def is_same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths are one file, by name or by device and inode."""
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except (OSError, ValueError, RuntimeError):
        return False


def refuse_inside(folder: Path, option: str, needed: Iterable[Path]) -> None:
    """Refuse an output folder that holds, or would hold, a file the command needs (ConfigError C132)."""
    place = folder.resolve()
    for path in needed:
        if path.resolve().is_relative_to(place):
            raise ConfigError(
                f"{path} lies inside {option} {folder}: the release would replace it",
                code="C132",
                fix="keep records, leaves and the ledger outside the folder of a release; nothing was written",
                file=str(path),
            )


def refuse_release(target: Path, option: str) -> None:
    """Refuse a file inside a folder that holds a release (ConfigError C132)."""
    for folder in target.resolve().parents[:3]:
        if _document_type(folder / "manifest.json").endswith(".manifest") or (
            (folder / "measurements").is_dir() and (folder / "plan.json").exists()
        ):
            raise ConfigError(
                f"{option} lies inside the release {folder}",
                code="C132",
                fix=_GIVE_ANOTHER_PATH,
                file=str(target),
            )


def refuse_existing(path: Path, *, force: bool) -> None:
    """Refuse a path that is taken, by a dangling link too, unless it may be replaced (ConfigError C080)."""
    if os.path.lexists(path) and not force:
        raise ConfigError(f"{path} exists", code="C080", fix="give another file, or replace it with --force")


@contextmanager
def new_folder(target: Path, *, beside_others: bool = False) -> Iterator[Path]:
    """Give a folder to write in, which gets the name `target` once the block is done, and is removed if it fails.

    What a killed run left is removed by the next one.

    Args:
        target: it must not exist, or be an empty folder.
        beside_others: it may be a folder with other files: the files written get their names in it one after the other,
            tables before the run files that name them, and replace what is there.
    """
    inside = beside_others and target.is_dir()
    part = target / ".unfinished" if inside else target.with_name(f".{target.name[:100]}.unfinished")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
        if inside:
            for path in sorted(part.iterdir(), key=lambda path: path.suffix == ".toml"):
                path.replace(target / path.name)
            part.rmdir()
        else:
            part.rename(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def refuse_irreplaceable(path: Path) -> None:
    """Refuse to replace a link, what is no plain file, or a ledger (ConfigError C132)."""
    if os.path.lexists(path) and (not stat.S_ISREG(path.lstat().st_mode) or _is_ledger(path)):
        raise ConfigError(
            f"{path} is a link, a ledger or no plain file",
            code="C132",
            fix=_GIVE_ANOTHER_PATH,
            file=str(path),
        )


def write_new(path: Path, data: bytes, *, force: bool = False, mode: int = 0o644) -> None:
    """Create a file that must not exist; with `force` replace a file, but no link and no ledger.

    Raises:
        ConfigError: C080 it exists, C132 it is a link, no plain file, a ledger, or inside a release.
    """
    refuse_release(path, "the file to write")
    path.parent.mkdir(parents=True, exist_ok=True)
    refuse_existing(path, force=force)
    refuse_irreplaceable(path)
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb"
        ) as file:
            file.write(data)
        refuse_existing(path, force=force)  # another run may have been quicker
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def open_log(path: Path, needed: Iterable[Path]) -> TextIO:
    """Open a log for appending: a new file, or one that begins as a log (ConfigError C132)."""
    refuse_needed(path, "--log-json", needed)
    refuse_release(path, "--log-json")
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o644)
    except OSError as error:
        raise ConfigError(
            f"--log-json {path} cannot be opened ({error.strerror})",
            code="C132",
            fix=_GIVE_ANOTHER_PATH,
            file=str(path),
        ) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not _is_log(os.pread(descriptor, 4096, 0)):
        os.close(descriptor)
        raise ConfigError(
            f"--log-json {path} is there and is no log of this engine",
            code="C132",
            fix=_GIVE_ANOTHER_PATH,
            file=str(path),
        )
    return os.fdopen(descriptor, "a", encoding="utf-8")


def _is_log(start: bytes) -> bool:
    if not start:
        return True
    try:
        return set(json.loads(start.partition(b"\n")[0])) >= _LOG_KEYS
    except (ValueError, TypeError, RecursionError):
        return False


def _is_ledger(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(4096).partition(b"\n")[0]
    return b'"kind":"open"' in start and b'"prev":"000000' in start


def _document_type(path: Path) -> str:
    try:
        return str(read_json(path).get("type", ""))
    except (OSError, ValueError, AttributeError):
        return ""
