"""What may be said of records that cannot be taken: which rule they break, never what is in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from topdown.errors import DataError, InternalError, TopdownError
from topdown.frames import HeldTable, Source
from topdown.measure.private_errors import write_private_errors
from topdown.measure.records import Refused
from topdown.stores.place import file_of

Found = TypeVar("Found")
NOT_LISTED = "not listed: nothing of a table in memory is written to a disk"


def read_or_refuse(
    source: Source, read: Callable[[], Found], what: str, spared: str, *, list_errors: bool
) -> Found:
    """Return what `read` makes of records; whatever it raises becomes an error without a word out of them.

    Args:
        source: the records.
        read: reads them.
        what: is done with them, as "the records could not be checked".
        spared: what did not happen, as "nothing was spent".
        list_errors: whether rows that break a rule are listed in a private file beside the records; those of a
            table in memory are not, because nothing of it is written.

    Raises:
        DataError: of a `Refused`: file, column and rule, never a value, a count or a row.
        InternalError: X023 for everything else.
    """
    error: TopdownError
    try:
        return read()
    except Refused as refused:
        error = _public_error(source, refused, list_errors)
    except Exception as unforeseen:
        error = InternalError(  # a library's words may quote a record, so only the kind of error is kept
            f"{what} ({type(unforeseen).__name__})",
            code="X023",
            file=_file(source),
            fix=f"report this with the kind of file it was; {spared}",
        )
    raise error  # here, so that it carries no context and no frame that holds records


def _public_error(source: Source, refused: Refused, list_errors: bool) -> DataError:
    """Return what may be said of records that break a rule; the rows of a file go to the private list."""
    text = (
        refused.text.replace("the records file", "the table")
        if isinstance(source, HeldTable)
        else refused.text
    )
    details = [("file", _file(source) or ""), ("column", refused.column), *refused.details]
    if refused.rows is not None and list_errors:
        rows = ((refused.text, refused.column, place, value) for place, value in refused.rows())
        details.append(
            (
                "rows",
                NOT_LISTED if isinstance(source, HeldTable) else write_private_errors(file_of(source), rows),
            )
        )
    details.append(("this run spent", "nothing: records are checked before the ledger is charged"))
    unnamed = refused.column and repr(refused.column) not in refused.text
    return DataError(
        f"{source.name}: {text}" + (f" (column {refused.column})" if unnamed else ""),
        code=refused.code,
        file=_file(source),
        fix=refused.fix,
        details=tuple((key, value) for key, value in details if value),
    )


def _file(source: Source) -> str | None:
    return None if isinstance(source, HeldTable) else str(source)
