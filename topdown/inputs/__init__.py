"""Tables in: files, databases and tables in memory, read a batch at a time; columns checked as they are declared."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.inputs.file_formats import (
        codes_from_arrow,
        codes_to_arrow,
        has_stamps,
        label_positions,
        parquet_bytes,
        separator_of,
        write_parquet,
    )
    from topdown.inputs.sources import (
        NO_TOTALS,
        ArrowTable,
        ControlTotals,
        DatabaseTable,
        MemoryTable,
        TableLocation,
        TableProblem,
        TableSource,
        containing_file,
        locate_table,
        location_text,
        printable,
    )
    from topdown.inputs.table_reader import (
        LabelIndex,
        PublicTable,
        TableColumn,
        TableReader,
        header_if_readable,
        read_header,
        read_table,
        text_columns,
        whole_columns,
    )
    from topdown.inputs.value_labels import BLANK, ValueLabels, bands_among, bands_from, check_values

__getattr__ = lazy_face(__name__, __file__)
