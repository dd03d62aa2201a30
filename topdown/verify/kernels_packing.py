"""Kernel that checks packed whole numbers without unpacking them (compiled: `topdown.resources`).

The packing is DELTA_BINARY_PACKED of Parquet's format: a head, then blocks of 128 differences in four groups of 32,
each group with its own width in bits.
"""

from __future__ import annotations

from topdown.arrays import Bytes, Whole

ONE: Whole = 1
LARGEST: Whole = 2147483647
LARGEST_WRITTEN: Whole = 4294967295


def number_at(data: Bytes, at: Whole) -> Whole:
    """Return the number that begins at a byte, 7 bits a byte, lowest first; -1 if it is no shortest form below 2^32."""
    value: Whole = 0
    shift: Whole = 0
    while at < data.shape[0] and shift < 35:
        byte: Whole = int(data[at])
        value |= (byte & 127) << shift
        if byte < 128:
            return -1 if (byte == 0 and shift > 0) or value > LARGEST_WRITTEN else value
        at += 1
        shift += 7
    return -1


def length_of(number: Whole) -> Whole:
    """Return how many bytes `number_at` reads for a number."""
    n_bytes: Whole = 1
    while number >= 128:
        number >>= 7
        n_bytes += 1
    return n_bytes


def end_of_packed(data: Bytes, at: Whole, n_values: Whole) -> Whole:
    """Return where packed 32-bit numbers end; -1 if they are not packed as Arrow packs them.

    In every block the least difference occurs, widths are those of the largest number, what fills up a group is 0, and
    no group holds nothing: so each list of numbers has one form.

    Args:
        data: uint8. at: where they begin. n_values: how many they must be.
    """
    for k in range(4):
        number: Whole = number_at(data, at)  # differences a block, groups a block, how many, the first
        if (
            number < 0
            or (k == 0 and number != 128)
            or (k == 1 and number != 4)
            or (k == 2 and number != n_values)
        ):
            return -1
        if k == 3 and n_values == 0 and number != 0:
            return -1
        at += length_of(number)
    left: Whole = n_values - 1
    while left > 0:
        coded: Whole = number_at(data, at)
        if coded < 0:
            return -1
        at += length_of(coded)
        least: Whole = (coded >> 1) ^ -(coded & 1)
        widths: Whole = at
        at += 4
        if at > data.shape[0]:
            return -1
        has_least = False
        for group in range(4):
            width: Whole = int(data[widths + group])
            here: Whole = min(32, left - 32 * group)
            end: Whole = at + 4 * width
            if here <= 0:
                if width != 0:
                    return -1
                continue
            if width > 32 or end > data.shape[0]:
                return -1
            mask: Whole = (ONE << width) - 1
            bits: Whole = 0
            n_bits: Whole = 0
            most: Whole = 0
            for _ in range(here):
                while n_bits < width:
                    byte: Whole = int(data[at])
                    bits |= byte << n_bits
                    n_bits += 8
                    at += 1
                value: Whole = bits & mask
                bits >>= width
                n_bits -= width
                most = max(most, value)
                if value == 0:
                    has_least = True
            while at < end:
                byte = int(data[at])
                bits |= byte
                at += 1
            if bits != 0 or (width > 0 and most >> (width - 1) == 0) or least + most > LARGEST:
                return -1
        if not has_least:
            return -1
        left -= 128
    return at
