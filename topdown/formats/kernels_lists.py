"""Kernels that pack whole numbers and unpack them (compiled: `topdown.resources`).

The packing is DELTA_BINARY_PACKED of Parquet's format as Arrow writes it, without its head: the first number, then
blocks of 128 differences in four groups of 32, each group with its own width in bits.
"""

from __future__ import annotations

from topdown.arrays import Bytes, BytesOut, IntsOut, Shorts, ShortsOut, Whole

ONE: Whole = 1
LARGEST: Whole = 2147483647  # of a difference
MOST_OF_BLOCK: Whole = 521  # bytes


def put_number(number: Whole, out: BytesOut, at: Whole) -> Whole:
    """Write a number 7 bits a byte, lowest first, and return where it ends."""
    while number >= 128:
        out[at] = (number & 127) | 128
        number >>= 7
        at += 1
    out[at] = number
    return at + 1


def pack(values: Shorts, step: IntsOut, out: BytesOut) -> Whole:
    """Pack 32-bit numbers, and return how many bytes they take; -1 if there is no room, or a difference is too large.

    Args:
        values: int32, one at least. step: int64 (128,), overwritten. out: uint8.
    """
    n: Whole = values.shape[0]
    last: Whole = int(values[0])
    at: Whole = put_number((last << 1) ^ (last >> 63), out, 0)
    for first in range(1, n, 128):
        if at + MOST_OF_BLOCK > out.shape[0]:
            return -1
        size: Whole = min(128, n - first)
        least: Whole = LARGEST
        most: Whole = -LARGEST
        for k in range(size):
            value: Whole = int(values[first + k])
            step[k] = value - last
            least = min(least, value - last)
            most = max(most, value - last)
            last = value
        if least < -LARGEST or most > LARGEST:
            return -1
        for k in range(size, 128):
            step[k] = least
        at = put_number((least << 1) ^ (least >> 63), out, at)
        widths: Whole = at
        at += 4
        for group in range(4):
            most = 0
            for k in range(32 * group, 32 * group + 32):
                step[k] -= least
                most |= step[k]
            width: Whole = 0
            while most >> width:
                width += 1
            out[widths + group] = width
            bits: Whole = 0
            n_bits: Whole = 0
            if width <= 8:
                for k in range(32 * group, 32 * group + 32, 8):
                    bits = 0
                    for j in range(8):
                        bits |= step[k + j] << (j * width)
                    for j in range(width):
                        out[at + j] = bits & 255
                        bits >>= 8
                    at += width
                continue
            for k in range(32 * group, 32 * group + 32):
                bits |= step[k] << n_bits
                n_bits += width
                while n_bits >= 8:
                    out[at] = bits & 255
                    bits >>= 8
                    n_bits -= 8
                    at += 1
    return at


def number_at(data: Bytes, at: Whole) -> Whole:
    """Return the signed number that begins at a byte."""
    coded: Whole = 0
    shift: Whole = 0
    byte: Whole = 128
    while byte >= 128 and shift < 35:
        byte = int(data[at])
        coded |= (byte & 127) << shift
        shift += 7
        at += 1
    return (coded >> 1) ^ -(coded & 1)


def unpack(data: Bytes, out: ShortsOut) -> bool:
    """Unpack 32-bit numbers; False if the bytes end elsewhere, or a number is too large (IndexError: too few).

    Args:
        data: uint8. out: int32, one at least, overwritten.
    """
    n: Whole = out.shape[0]
    at: Whole = 0
    last: Whole = 0
    for first in range(-127, n, 128):
        least: Whole = number_at(data, at)
        while data[at] >= 128:
            at += 1
        at += 1
        if first < 0:
            if least > LARGEST or least < -LARGEST - 1:
                return False
            out[0] = last = least
            continue
        widths: Whole = at
        at += 4
        for start in range(first, min(first + 128, n), 32):
            width: Whole = int(data[widths])
            widths += 1
            stop: Whole = min(start + 32, n)
            due: Whole = at + 4 * width
            mask: Whole = (ONE << width) - 1
            bits: Whole = 0
            n_bits: Whole = 0
            if width > 32:
                return False
            if width <= 8 and stop - start == 32:
                for k in range(start, stop, 8):
                    bits = 0
                    for j in range(width):
                        byte: Whole = int(data[at + j])
                        bits |= byte << (8 * j)
                    for j in range(8):
                        last += least + ((bits >> (j * width)) & mask)
                        if last > LARGEST or last < -LARGEST - 1:
                            return False
                        out[k + j] = last
                    at += width
                continue
            for k in range(start, stop):
                while n_bits < width:
                    byte = int(data[at])
                    bits |= byte << n_bits
                    n_bits += 8
                    at += 1
                last += least + (bits & mask)
                if last > LARGEST or last < -LARGEST - 1:
                    return False
                out[k] = last
                bits >>= width
                n_bits -= width
            at = due
    return bool(at == data.shape[0])
