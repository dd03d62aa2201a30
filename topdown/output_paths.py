"""Where a command may write: nothing it reads, no link, no ledger, no release.

A path is not a file: two spellings, a link and a hard link can all be the confidential records. So paths are compared
as resolved names and as device and inode, and files are created exclusively.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from topdown.errors import ConfigError
from topdown.formats.caps import read_json

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
    """Refuse an output folder in a release, or that would hold a file the command needs (ConfigError C132)."""
    refuse_release(folder, option)
    place = folder.resolve()
    for path in needed:
        if path.resolve().is_relative_to(place):
            raise ConfigError(
                f"{path} lies inside {option} {folder}: the release would replace it",
                code="C132",
                fix="keep records, leaves and the ledger outside the folder of a release; nothing was written",
                file=str(path),
            )


def names_in_run(out: Path, needed: Iterable[Path], *, resume: bool) -> list[str]:
    """Return the names in the folder of a run, sorted; none if it is new.

    Raises: ConfigError: C085 it is no folder, C132 it holds a needed file, C087 there is nothing to go on with.
    """
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise ConfigError(f"{out} is not a folder", code="C085", fix="give --out a new folder")
    refuse_inside(out, "--out", needed)
    there = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    if resume and not there:
        raise ConfigError(
            f"nothing was begun in {out}, and nothing was spent for it",
            code="C087",
            fix="run the same command without --resume; if a run was begun elsewhere, give its folder to --out",
        )
    return there


def refuse_release(target: Path, option: str) -> None:
    """Refuse a file or folder inside a folder that holds a release (ConfigError C132)."""
    for folder in target.resolve().parents:
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


def is_filled(folder: Path) -> bool:
    """Tell whether a path is taken by anything but an empty folder."""
    return folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir())))


def refuse_filled(out: Path) -> None:
    """Refuse a folder that is not new or empty (ConfigError C085), or lies inside a release (C132)."""
    refuse_release(out, "--out")
    if is_filled(out):
        raise ConfigError(
            f"{out} exists and is not an empty folder", code="C085", fix="give --out a new folder"
        )


@contextmanager
def new_folder(target: Path, *, beside_others: bool = False) -> Iterator[Path]:
    """Give a folder to write in, which gets the name `target` once the block is done, and is removed if it fails.

    What a killed run left is removed by the next one.

    Args:
        target: it must not exist, or be an empty folder.
        beside_others: it may be a folder with other files: the files written get their names in it one after the other,
            tables before the run files that name them, and replace what is there.
    """
    refuse_release(target, "the folder to write")
    inside = beside_others and target.is_dir()
    part = target / ".unfinished" if inside else target.with_name(f".{target.name[:100]}.unfinished")
    shutil.rmtree(part, ignore_errors=True)
    with _begun_elsewhere(part, target):
        part.mkdir(parents=True)
        yield part
        if inside:
            for path in sorted(part.iterdir(), key=lambda path: path.suffix == ".toml"):
                path.replace(target / path.name)
            part.rmdir()
        else:
            part.rename(target)


@contextmanager
def _begun_elsewhere(part: Path, asked: Path) -> Iterator[None]:
    """Remove what was begun if the block fails; an error of the system names what was asked for."""
    try:
        yield
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(
            OSError
        ):  # gone as a folder, or never begun: a file system that is only read says so again
            part.unlink()
        if isinstance(error, OSError):
            error.filename = str(error.filename or part).replace(str(part), str(asked), 1)
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
    part = path.with_name(f".{os.urandom(8).hex()}.part")
    with _begun_elsewhere(part, path):
        with os.fdopen(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb"
        ) as file:
            file.write(data)
        refuse_existing(path, force=force)  # another run may have been quicker
        part.replace(path)


def open_log(path: Path, needed: Iterable[Path], out: Path) -> TextIO:
    """Open a log for appending, not in the folder of the run: a new file, or one that begins as a log (C132)."""
    refuse_needed(path, "--log-json", needed)
    if path.resolve().is_relative_to(out.resolve()):
        raise ConfigError(
            f"--log-json {path} lies in --out {out}, which holds the release alone",
            code="C132",
            fix=_GIVE_ANOTHER_PATH,
            file=str(path),
        )
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
