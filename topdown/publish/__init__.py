"""Publish: write the files of a release, and sheets for ordinary programs."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.publish.ledger_statement import spent_statement
    from topdown.publish.publish_release import (
        OptionalFiles,
        PublishOptions,
        SectionFiles,
        SectionSource,
        publish,
        section_files,
        verified_in,
    )
    from topdown.publish.release_certificate import (
        certified_privacy,
        claims_of,
        stamps,
        statement_of,
        steps_of,
        usual_epsilon,
    )
    from topdown.publish.release_files import write_manifest
    from topdown.publish.release_tables import workload
    from topdown.publish.report_figures import plan_figures, report_bytes, written
    from topdown.publish.sheets import Sheet, SheetColumn, free_names, write_sheet
    from topdown.publish.table_intervals import (
        TableRows,
        cells_of_answers,
        interval_ends,
        intervals_of,
        is_exact,
        listed_ends,
        normal_quantile,
        rows_of,
    )

__getattr__ = lazy_face(__name__, __file__)
