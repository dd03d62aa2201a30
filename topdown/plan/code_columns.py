"""Columns of geocodes, between Arrow and `Codes`, without an object for each text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topdown.model.codes import WASTE, Codes, codes_of


def read_codes(column: pa.ChunkedArray) -> Sequence[str]:
    """Return a text column without empty places as `codes_of` gives it."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    held = column.cast(pa.large_string()).combine_chunks()
    if isinstance(held, pa.ChunkedArray):
        held = pa.concat_arrays(held.chunks) if held.num_chunks else pa.array([], pa.large_string())
    sizes = pc.binary_length(held.cast(pa.large_binary())).to_numpy(zero_copy_only=False)
    most, total = int(sizes.max(initial=1)), int(sizes.sum())
    _, offsets, data = held.buffers()
    first = int(np.frombuffer(offsets, np.int64)[held.offset]) if len(held) else 0
    each = np.frombuffer(data, np.uint8)[first : first + total] if total else np.zeros(0, np.uint8)
    if not (sizes > 0).all() or not each.all() or most * len(sizes) > WASTE * total + 4_096:
        return codes_of(held.to_pylist())
    out = np.zeros((len(sizes), most), dtype=np.uint8)
    if (sizes == most).all():
        out[:] = each.reshape(-1, most)
    else:
        out[np.arange(most) < sizes[:, None]] = each
    return Codes(out.view(f"S{most}").reshape(-1))


def code_column(codes: Sequence[str]) -> pa.Array:
    """Return geocodes as a text column."""
    if isinstance(codes, Codes):
        return pa.array(np.ascontiguousarray(codes.coded)).cast(pa.string())
    return pa.array(codes, pa.string())
