"""Every error a user can meet: what happened, where, and how to fix it.

One root, few leaves. The leaf decides the exit code; the code (`C012`, `D031`, ...) names the page that
`topdown explain CODE` prints. Messages on the confidential side carry rule and column only, never a value.
"""

from __future__ import annotations

SPEND_NOTE = "this run spent: "
"""How a note on an error begins that says what its run has spent."""
EXIT_OK, EXIT_CHECK_FAILED, EXIT_USER, EXIT_INFEASIBLE, EXIT_INTERNAL, EXIT_INTERRUPTED = 0, 1, 2, 3, 4, 130


def _shortened(text: str) -> str:
    """Return a sentence without the rest of words that nobody reads to their end; no name in a path is so long."""
    words = text.split(" ")
    return " ".join(w if len(w) < 256 or "/" in w else f"{w[:60]}..." for w in words)


class TopdownError(Exception):
    """Root of all errors raised on purpose.

    >>> import topdown
    >>> try:
    ...     topdown.Release("nothing here")
    ... except topdown.TopdownError as error:
    ...     print(error.code, error.fix)
    C088 give the folder of a release

    Args:
        text: one sentence: what is wrong and where.
        code: letter and three digits; C config, D data, B budget, I infeasible, H human answer missing,
            V verify, A audit, X internal.
        fix: one sentence in the imperative.
        details: (key, value) lines printed between the sentence and the fix.
        file, line, column: place in a user's file, 1-based.
        source: the offending line of that file, to be printed with a caret (public files only).
        node: geocode of the area concerned.
        key: path of the key concerned in a run file or another TOML file.
    """

    exit_code = EXIT_INTERNAL
    default_code = "X000"

    def __init__(
        self,
        text: str,
        *,
        code: str | None = None,
        fix: str = "",
        details: tuple[tuple[str, str], ...] = (),
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        source: str | None = None,
        caret: str = "",
        node: str | None = None,
        key: tuple[str, ...] = (),
    ) -> None:
        self.text, self.code, self.fix = _shortened(text), code or self.default_code, _shortened(fix)
        super().__init__(self.text)
        self.details = details
        self.file, self.line, self.column, self.source, self.caret = file, line, column, source, caret
        self.node, self.key = node, key

    def to_json(self) -> dict[str, object]:
        """Return the `topdown.error` document (specs of the command line: one shape for screen and JSON)."""
        return {
            "type": "topdown.error",
            "version": 1,
            "code": self.code,
            "text": self.text,
            "details": [list(d) for d in self.details],
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "node": self.node,
            "key": ".".join(self.key) or None,
            "fix": self.fix,
            "exit_code": self.exit_code,
        }


class ConfigError(TopdownError, ValueError):
    """A run file, schema, invariants or settings file says something impossible (exit 2)."""

    exit_code, default_code = EXIT_USER, "C000"


class DataError(TopdownError, ValueError):
    """An input table breaks a rule (exit 2)."""

    exit_code, default_code = EXIT_USER, "D000"


class BudgetError(TopdownError, ValueError):
    """The ledger refuses the spend, or shares do not add up (exit 2)."""

    exit_code, default_code = EXIT_USER, "B000"


class InfeasibleError(TopdownError):
    """No population satisfies the stated constraints together (exit 3)."""

    exit_code, default_code = EXIT_INFEASIBLE, "I000"


class NoSplitError(InfeasibleError):
    """No table of one area splits over its children; a changed table of that area may."""


class CertificateError(TopdownError):
    """A check of a release failed (exit 1)."""

    exit_code, default_code = EXIT_CHECK_FAILED, "V000"


class InternalError(TopdownError, RuntimeError):
    """The engine broke one of its own promises; nothing was published (exit 4)."""

    exit_code, default_code = EXIT_INTERNAL, "X000"


def disk_error(
    error: OSError, what: str = "read or write", place: str = "a file", fix: str = ""
) -> DataError:
    """Return what the operating system refused as an error to show (D050), with its notes.

    Args:
        error: of the system. what: was refused. place: where, if the error names no file. fix: what helps.
    """
    place = str(error.filename or place)
    shown = DataError(
        f"cannot {what} {place}: {error.strerror or type(error).__name__}",
        code="D050",
        file=place,
        fix=fix or "correct the path or the rights, or make room; then run the same command again",
    )
    for note in getattr(error, "__notes__", ()):
        shown.add_note(note)
    return shown


def quoted(path: object) -> str:
    """Return a path as one word of a command line that somebody pastes into a POSIX shell."""
    text = f"./{path}" if str(path).startswith("-") else str(path)
    if text.isascii() and all(c.isalnum() or c in "@%+=:,./_-" for c in text):
        return text
    word = "'" + text.replace("'", "'\"'\"'") + "'"
    return word.replace("\u00a0", in_octal("\u00a0"))  # which a screen shows as a blank


def in_octal(command: str) -> str:
    """Return a command that means the same in ASCII: its other characters, which are quoted, as numbers."""
    octal = ("".join(f"\\{byte:03o}" for byte in c.encode()) for c in command)
    return "".join(
        c if c.isascii() else f"""'"$(printf '{code}')"'""" for c, code in zip(command, octal, strict=True)
    )
