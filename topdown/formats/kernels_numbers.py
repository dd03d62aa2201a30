"""Kernel that unpacks whole numbers (compiled: `topdown.resources`): DELTA_BINARY_PACKED of Parquet's format.

A head: differences a block, groups a block, how many numbers, the first. Then blocks of 128 differences: the least of
them, the widths in bits of its four groups of 32, one byte each, and the groups, each difference less the least, lowest
bits first. Numbers of the head and the least are written 7 bits a byte; the first and the least have their sign in the
lowest bit. Arrow's reader is the slow twin, and takes whatever is handed back.

Source: Apache Parquet, Encodings.md, "Delta Encoding".
"""

from __future__ import annotations

from topdown.arrays import Bytes, ShortsOut, StridedInts, Whole

ONE: Whole = 1
LARGEST: Whole = 2147483647


def unpack(data: Bytes, words: StridedInts, at: Whole, out: ShortsOut) -> Whole:
    """Write packed numbers.

    Args:
        data: uint8. words: the eight bytes from each byte of `data` on and from its end, zeros behind it, as int64.
        at: where the numbers begin. out: int32, as many as there are.

    Returns:
        where the numbers end; -1 if they are packed in another way, are not in `data`, or are beyond 32 bits.
    """
    current: Whole = 0
    for k in range(4):  # differences a block, groups a block, how many, the first
        number: Whole = number_at(data, at)
        current = number >> 4
        if number < 0 or (k < 3 and current != (128 if k == 0 else 4 if k == 1 else out.shape[0])):
            return -1
        at += number & 15
    current = (current >> 1) ^ -(current & 1)
    done: Whole = 0
    if out.shape[0]:
        out[0] = int(current)
        done = 1
    while done < out.shape[0]:
        number = number_at(data, at)
        if number < 0:
            return -1
        at += number & 15
        least: Whole = ((number >> 4) >> 1) ^ -((number >> 4) & 1)
        widths: Whole = at
        at += 4
        if at > data.shape[0]:
            return -1
        for group in range(4):
            width: Whole = int(data[widths + group])
            here: Whole = min(32, out.shape[0] - done)
            if here == 0:
                break
            end: Whole = at + 4 * width
            if width > 32 or end > data.shape[0]:
                return -1
            mask: Whole = (ONE << width) - 1
            bit: Whole = 0
            for k in range(done, done + here):
                current += least + ((words[at + (bit >> 3)] >> (bit & 7)) & mask)
                if current > LARGEST or current < -LARGEST - 1:
                    return -1  # differences beyond 32 bits are written without their highest
                out[k] = int(current)
                bit += width
            done += here
            at = end
    return at


def number_at(data: Bytes, at: Whole) -> Whole:
    """Return the number that begins at a byte, 7 bits a byte, times 16, plus its bytes; -1 if it has more than five."""
    value: Whole = 0
    for k in range(5):
        if at + k >= data.shape[0]:
            return -1
        byte: Whole = int(data[at + k])
        value |= (byte & 127) << (7 * k)
        if byte < 128:
            return value * 16 + k + 1
    return -1
