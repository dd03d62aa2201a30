"""Tables in: files, databases and tables in memory, read a batch at a time; columns checked as they are declared."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.inputs.sources import (
        ArrowTable,
        DatabaseTable,
        MemoryTable,
        MiscountedError,
        StoreError,
        TableLocation,
        TableSource,
        TooLargeError,
        UnreadableError,
        containing_file,
        locate_table,
        location_text,
        source_exists,
    )
    from topdown.inputs.table_reader import (
        codes_from_arrow,
        codes_to_arrow,
        column_names,
        find_header_problem,
        printable,
        read_header,
        read_rows,
        read_source_batches,
        read_table,
        separator_of,
        whole_number_column,
    )

__all__ = [
    "ArrowTable",
    "DatabaseTable",
    "MemoryTable",
    "MiscountedError",
    "StoreError",
    "TableLocation",
    "TableSource",
    "TooLargeError",
    "UnreadableError",
    "codes_from_arrow",
    "codes_to_arrow",
    "column_names",
    "containing_file",
    "find_header_problem",
    "locate_table",
    "location_text",
    "printable",
    "read_header",
    "read_rows",
    "read_source_batches",
    "read_table",
    "separator_of",
    "source_exists",
    "whole_number_column",
]
__getattr__ = lazy_face(__name__, __file__)
