"""Table 1 of the optimised-noise paper: our certified intervals beside its numbers, and where they differ, why.

Run: `python bench/bench_optimal_noise_table.py` (all 100 cells, some minutes) or with `--few` (10 cells and the
golden intervals of the smallest programs). The paper prints how far truncated Laplace noise is above its optimum
O, in per cent of max(O, 1), and how far a literature bound is below it. Times are CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import math
import time
from fractions import Fraction

from topdown.optimal_noise import (
    Promise,
    RealNoise,
    RealQuestion,
    geng_lower,
    sandwich,
    truncated_laplace,
    truncated_laplace_reach,
)

EPSILONS = ("0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5")
DELTAS = ("0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.25", "0.3", "0.5", "0.75")
PUBLISHED_BOTH = """
1.87 1.21 1.20 6.10 18.53 3.55 49.59 23.18 49.96 33.34
2.89 1.42 8.00 2.32 17.08 3.08 49.18 23.03 49.92 33.35
2.84 2.83 0.56 15.09 14.19 67.44 48.39 22.74 49.83 33.37
1.85 2.11 2.57 18.36 6.22 66.03 46.15 21.95 49.58 33.42
4.78 4.18 8.68 19.37 33.32 63.85 42.87 20.85 49.17 33.50
10.43 9.60 8.90 17.29 19.82 60.17 37.70 19.36 48.33 33.63
23.10 21.41 25.45 16.36 38.70 42.56 29.52 18.48 45.85 33.79
40.11 39.73 40.23 40.41 28.62 32.53 26.63 21.43 41.80 33.36
33.96 34.18 33.45 31.63 32.46 28.70 27.12 25.67 34.35 30.51
19.32 19.31 19.29 19.23 19.15 19.01 18.94 18.88 18.65 19.06
"""
PUBLISHED_ABOVE = """
0.17 0.12 0.03 0.26 0.26 0.65 0.64 0.63 0.49 8.37
0.41 0.33 0.58 0.54 0.54 0.68 0.55 0.55 0.55 5.26
0.28 0.41 0.04 0.58 0.58 0.73 0.61 1.24 0.61 8.53
0.50 0.27 0.38 0.45 0.73 0.89 0.80 1.48 0.87 8.73
0.38 0.45 0.58 0.54 0.90 1.14 1.15 1.88 1.25 9.12
0.78 0.87 1.02 0.92 0.96 1.66 1.92 2.61 1.80 10.24
1.81 1.91 2.09 2.58 2.71 3.35 3.92 4.08 4.33 12.91
4.70 4.72 4.66 4.84 5.10 5.82 6.03 6.35 8.09 16.38
7.99 8.02 8.09 8.39 8.70 9.60 10.18 10.86 13.05 19.74
12.25 12.28 12.33 12.50 12.78 13.37 13.67 13.97 14.86 16.74
"""
KNOWN = {
    ("0.01", "0.75"): "published value does not fit its neighbours 8.37 and 8.53",
    ("2", "0.5"): "published O is above our certified interval",
    ("5", "0.005"): "published O is below our certified interval",
}
GOLDEN = """
0.5 0.05 1.356978 1.357091 2.959392 2.959885
0.5 0.2 0.782771 0.782850 0.916030 0.916238
1 0.005 0.929028 0.929297 1.705557 1.706245
1 0.05 0.787746 0.787837 1.100777 1.100985
1 0.2 0.558636 0.558754 0.512257 0.512466
1 0.5 0.332019 0.333380 0.209490 0.209699
2 0.005 0.419706 0.419999 0.401811 0.402137
2 0.05 0.388201 0.388407 0.324578 0.324786
2 0.2 0.319800 0.320325 0.218529 0.218737
2 0.5 0.199866 0.202450 0.114631 0.114839
5 0.005 0.082103 0.082959 0.029206 0.029415
5 0.2 0.065948 0.067857 0.022873 0.023082
"""
PRINTED = Fraction(1, 10**6)  # the golden ends are rounded to nearest


def cells_of(promise: Promise, rows: int) -> int:
    """Choose the cells of the sensitivity for a program of about so many rows."""
    reach = truncated_laplace_reach(promise, 1) + 1
    return min(max(2, math.isqrt(rows // (2 * reach))), 24)


def found_at(epsilon: str, delta: str, loss: str, rows: int) -> RealNoise:
    promise = Promise(Fraction(epsilon), Fraction(delta))
    return sandwich(RealQuestion(promise, Fraction(1), cells_of(promise, rows)), loss)


def table(text: str) -> list[list[float]]:
    return [[float(x) for x in line.split()] for line in text.split("\n") if line]


def show_cell(epsilon: str, delta: str, rows: int) -> tuple[bool, float]:
    """Print one cell; tell whether it needs no explanation, and the middle of our value minus the published."""
    i, j = EPSILONS.index(epsilon), DELTAS.index(delta)
    published, both = table(PUBLISHED_ABOVE)[i][j], table(PUBLISHED_BOTH)[i][j]
    found = found_at(epsilon, delta, "l1", rows)
    low, high = float(found.lower), float(found.upper)
    laplace = truncated_laplace(float(epsilon), float(delta), 1.0)[0]
    bounds = [geng_lower(float(epsilon), float(delta), 1.0, up=up) for up in (True, False)]
    scale = max(low, 1) / 100
    literature = min(bounds, key=lambda bound: abs((laplace - bound) / scale - both))
    above = [100 * (laplace - o) / max(o, 1) for o in (high, low)]
    whole = [100 * (laplace - literature) / max(o, 1) for o in (high, low)]
    implied = laplace / (1 + published / 100)
    if implied < 1:
        implied = laplace - published / 100
    allowed = 1.4 if delta == "0.75" else 1.0
    near = above[0] - allowed <= published <= above[1] + allowed
    if (epsilon, delta) in KNOWN:
        why = KNOWN[epsilon, delta]
    elif low <= implied <= high:
        why = "published O inside our interval"
    elif near:
        why = f"published O {implied - (low if implied < low else high):+.4f} off: its cells of 0.02"
    else:
        why = "NOT EXPLAINED"
    print(
        f"{epsilon:>6} {delta:>6} {found.question.cells:>3} [{low:10.6f},{high:10.6f}] "
        f"{above[0]:6.2f}..{above[1]:5.2f} {published:6.2f}  {whole[0]:6.2f}..{whole[1]:6.2f} {both:6.2f}  {why}"
        + (", bound rounded down" if literature < bounds[0] else "")
        + (", rounded up it is false" if bounds[0] > high else "")
    )
    return why != "NOT EXPLAINED", published - sum(above) / 2


def show_table(rows: int, *, few: bool) -> int:
    """Print the table; return how many cells are left without an explanation."""
    print(
        "epsilon delta  k  our interval for O     TL above O, %: ours, published; TL - bound, %: ours, published"
    )
    start, unexplained, offsets = time.process_time(), 0, []
    for i, epsilon in enumerate(EPSILONS):
        for j, delta in enumerate(DELTAS):
            if few and (i + 3 * j) % 10 != 0:
                continue
            explained, offset = show_cell(epsilon, delta, rows)
            unexplained += not explained
            if (epsilon, delta) not in KNOWN:
                offsets.append(offset)
    print(
        f"\n{len(offsets)} cells besides the known exceptions; published minus ours: mean "
        f"{sum(offsets) / len(offsets):+.2f},\n{min(offsets):+.2f} .. {max(offsets):+.2f} points. Its O is the middle "
        "of bounds from cells of 0.02, of which the lower is 0.01 below\nthe upper: about 0.005 below the optimum, "
        "which makes truncated Laplace look worse by about 0.5 point.\nOur ends are recomputed from integer weights "
        "and multipliers, and printed here through floats. The literature\nbound asks for a whole n. Rounded up it "
        "is not proved; the paper rounds it up in some cells and down in others.\n'False' marks cells where a "
        f"certified private law costs less than the bound rounded up. {time.process_time() - start:.0f} s of CPU time."
    )
    return unexplained


def show_golden(rows: int, *, few: bool) -> int:
    """Print the golden intervals beside ours; return how many do not meet."""
    print("\nepsilon delta loss  k  ours                      golden")
    apart = 0
    for line in GOLDEN.split("\n"):
        if not line or (few and line[0] == "0"):
            continue
        epsilon, delta, *ends = line.split()
        for loss, low, high in (("l1", *ends[:2]), ("l2", *ends[2:])):
            found = found_at(epsilon, delta, loss, rows)
            meet = found.lower <= Fraction(high) + PRINTED and Fraction(low) - PRINTED <= found.upper
            apart += not meet
            print(
                f"{epsilon:>6} {delta:>6} {loss} {found.question.cells:>3} [{float(found.lower):.6f},"
                f"{float(found.upper):.6f}] [{low},{high}] {'' if meet else 'APART'}"
            )
    return apart


def show_reference_case() -> None:
    """Print what the reference case takes."""
    promise = Promise(Fraction(1), Fraction(1, 5))
    start = time.process_time()
    found = sandwich(RealQuestion(promise, Fraction(1), 36), "l1")
    print(
        f"\n(1, 1/5), 36 cells: [{float(found.lower):.6f}, {float(found.upper):.6f}] in "
        f"{time.process_time() - start:.2f} s of CPU time"
    )


def test_few_cells_agree() -> None:
    """A cell that nobody can explain means that one of two published tables is wrong, ours perhaps."""
    assert (show_table(600, few=True), show_golden(600, few=True)) == (0, 0)
    show_reference_case()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--few", action="store_true", help="ten cells, small programs")
    few = parser.parse_args().few
    rows = 600 if few else 3000
    failed = show_table(rows, few=few) + show_golden(rows, few=few)
    show_reference_case()
    raise SystemExit(1 if failed else 0)
