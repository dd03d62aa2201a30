"""The only code that opens confidential files: records in, noisy answers and exact statistics out."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.measure.children import draw_in_children
    from topdown.measure.choosing import ChoiceRequest
    from topdown.measure.confidential import (
        Confidential,
        check_against_public,
        load_records,
        noise_law,
    )
    from topdown.measure.draw import (
        add_counts,
        add_in_64_bits,
        encode_part,
        level_drawer,
        part_size,
        plan_parts,
    )
    from topdown.measure.evaluation import (
        QUANTILES,
        ErrorStatistics,
        evaluate,
        evaluated_queries,
        invariant_exactness,
        subtract_truth,
        summed_total_variation,
        write_evaluation,
    )
    from topdown.measure.measurement import MeasureResult, PartDrawer, draw_files, measure
    from topdown.measure.record_counts import AggregatedCounts, LeafCounts, SortedRuns
    from topdown.measure.records import (
        MOST_LABELS,
        PLAIN_FORM,
        PRIVATE_LIST,
        ColumnValues,
        ConfirmedColumn,
        RecordsForm,
        Refused,
        confirmed_labels,
        counts_records,
        read_or_refuse,
        read_records,
        records_form,
        unread_columns,
    )
    from topdown.measure.released import read_microdata
    from topdown.measure.run_ledger import create_run_ledger, drawn_laws_by_level, ledger_location
    from topdown.measure.truth import Truth, exact_bytes, exact_values

__getattr__ = lazy_face(__name__, __file__)
