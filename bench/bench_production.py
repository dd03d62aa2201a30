"""Errors of the Bureau's published output for one county beside those of our releases of the same county.

Run: `DRAWS=20 pytest bench/bench_production.py -s`, a minute on two slow cores. Needs ../shared beside the checkout.
Writes bench/results/production.json and the tables of docs/explanation/beside-production.md, which says what is
compared. An area's error is in people; every area of a level counts the same, empty ones too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pytest
from numpy.typing import NDArray

from topdown.arrays import Ints
from topdown.model import Geography, Histogram, Query
from topdown.plan import PublicContext, RunFileAnswers, prepare, run_file_text
from topdown.practice import Simulation, open_simulation

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "guernsey_2010"
PAGE = ROOT / "docs" / "explanation" / "beside-production.md"
RESULT = ROOT / "bench" / "results" / "production.json"
DRAWS, WORKERS = int(os.environ.get("DRAWS", "20")), 2
WHY = "made from published tables of the 2010 census"
SETTINGS = ("pl94_2020", "pl94_2020_tree", "pl94_tuned")
LEVELS = ("county", "tract", "block_group", "block")
TABLES = {"total": "total", "cenrace": "63 races", "hispanic * cenrace": "Hispanic origin by 63 races"}
SIZES = ((0, 0), (1, 9), (10, 49), (50, 99), (100, None))  # people of a block: least and most
Figures = dict[str, float]


def open_county(folder: Path, settings: str) -> Simulation:
    """Return the simulation of the county under some settings; its root is the county, whose total is not exact."""
    run = folder / f"{settings}.toml"
    answers = RunFileAnswers(prefix_lengths=(5, 11, 12, 15), data_set="guernsey")
    files = DATA / "persons.csv.gz", DATA / "blocks.csv.gz"
    text = run_file_text("pl94", settings, *files, run, LEVELS, answers)
    text = text.replace('invariants = "pl94_2020"', f'invariants = "{DATA / "inv.toml"}"')
    run.write_text(text, encoding="utf-8")
    return open_simulation(prepare(run), files[0], truth_is_public=WHY)


def published_leaves(context: PublicContext) -> Histogram:
    """Return the Bureau's privacy-protected microdata as counts by block and cell."""
    names = ("GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE", "GEOID10")
    text = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), include_columns=names)
    rows = pa_csv.read_csv(DATA / "ppmf_20210608_guernsey.csv.gz", convert_options=text)
    codes = [rows[name].cast(pa.int64()).to_numpy() for name in names[:-1]]
    place = pc.index_in(rows["GEOID10"], pa.array(context.geography.leaves.codes))
    if place.null_count:
        raise ValueError("the published file has a block that the census of 2010 has not")
    quarters, *from_one = codes  # quarters are numbered from 0, the others from 1
    coordinates = (quarters, *(code - 1 for code in from_one))
    schema = context.plan.schema
    cell = np.ravel_multi_index(coordinates, tuple(len(a.labels) for a in schema.attributes))
    n_blocks = len(context.geography.leaves)
    return Histogram.build(n_blocks, schema.n_cells, place.to_numpy(), cell, np.ones_like(cell))


def mean_l1(true: Histogram, released: Histogram, query: Query) -> float:
    """Return the sum over a table's answers of absolute errors, as a mean over all areas of a level, in people."""
    parts = [table.sparse_answers(query) for table in (released, true)]
    node, answer = (np.concatenate([getattr(part, at) for part in parts]) for at in ("node", "cell"))
    counts = np.concatenate([parts[0].count, -parts[1].count])
    off = Histogram.build(true.n_nodes, query.n_answers, node, answer, counts)
    return float(np.abs(off.count).sum() / true.n_nodes)


def of_size(true: Ints) -> dict[str, NDArray[np.bool_]]:
    """Return which blocks are of each size, by what the size is called."""
    out = {}
    for least, most in SIZES:
        name = f"{least} and more" if most is None else str(least) if least == most else f"{least} to {most}"
        out[name] = (true >= least) & ((most is None) | (true <= (most or 0)))
    return out


def by_true_size(true: Ints, released: Ints) -> tuple[Figures, dict[str, int]]:
    """Return mean signed errors of block totals by true size, and how many inhabited blocks were released as empty.

    Args:
        true, released: people of every block.
    """
    found = {}
    for name, here in of_size(true).items():
        found[name] = float((released - true)[here].mean()) if here.any() else 0.0
    emptied = int(((true > 0) & (released == 0)).sum())
    return found, {"emptied": emptied, "filled": int(((true == 0) & (released > 0)).sum())}


def figures_of(
    geography: Geography, queries: Sequence[Query], truth: Sequence[Histogram], leaves: Histogram
) -> Figures:
    """Return every figure of the page for one set of microdata.

    Args:
        geography: its last three levels are compared. queries: tables to compare. truth: true counts of every level,
            root first. leaves: released counts of every leaf.
    """
    found: Figures = {}
    levels = leaves.at_every_level(geography)
    for depth, name in list(enumerate(geography.level_names))[-3:]:
        for query in queries:
            found[f"{name} {query.name}"] = mean_l1(truth[depth], levels[depth], query)
    bias, blocks = by_true_size(truth[-1].totals(), leaves.totals())
    return found | {f"bias {size}": value for size, value in bias.items()} | blocks


def spread(draws: Iterable[Figures]) -> dict[str, Figures]:
    """Return mean, standard deviation of one draw and standard error of the mean, of every figure."""
    listed = list(draws)
    out = {}
    for name in listed[0]:
        values = np.array([draw[name] for draw in listed])
        deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        rounded = (float(values.mean()), deviation, deviation / len(values) ** 0.5)
        out[name] = dict(zip(("mean", "deviation", "error"), (round(v, 5) for v in rounded), strict=True))
    return out


def page_tables(result: Mapping[str, Any]) -> str:
    """Return the tables of the page, made from the result file."""
    n, blocks = result["areas"], result["blocks_by_size"]
    errors = [
        (f"{level} {query}", f"{level.replace('_', ' ')} ({n[level]:,}), {called}")
        for level in reversed(LEVELS[1:])
        for query, called in TABLES.items()
    ]
    sizes = [(f"bias {size}", f"{size} ({blocks[size]:,} blocks)") for size in blocks]
    counts = [("emptied", "inhabited, published as empty"), ("filled", "empty, published as inhabited")]
    return "\n".join(
        [
            f"Mean over all areas of the L1 error of a table, in people; {result['draws']} simulated draws:\n",
            *_table(result, "", errors, 2),
            "\nMean of published minus true total, by true number of people in the block:\n",
            *_table(result, "people in the block", sizes, 2),
            "\nBlocks:\n",
            *_table(result, "", counts, 1),
        ]
    )


def _table(result: Mapping[str, Any], corner: str, rows: Sequence[tuple[str, str]], digits: int) -> list[str]:
    plain = SETTINGS[0]
    heads = [corner, "Bureau", *(f"`{name}`" for name in SETTINGS), f"one draw of `{plain}`"]
    out = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for key, called in rows:
        bureau = result["bureau"][key]
        cells = [called, f"{bureau:.{digits if isinstance(bureau, float) else 0}f}"]
        ours = [result["settings"][name][key] for name in SETTINGS]
        cells += [f"{at['mean']:.{digits}f} ({at['error']:.{digits + 1}f})" for at in ours]
        cells.append(f"± {ours[0]['deviation']:.{digits}f}")
        out.append("| " + " | ".join(cells) + " |")
    return out


END = "<!-- end of tables -->\n"


def with_tables(page: str, tables: str, bench: str = "bench_production") -> str:
    """Return a page with other tables between the two marks of a benchmark."""
    begin = f"<!-- tables: made by bench/{bench}.py -->\n"
    before, rest = page.split(begin)
    return before + begin + tables + "\n" + END + rest.split(END, 1)[1]


@pytest.mark.timeout(0)
@pytest.mark.skipif(not DATA.is_dir(), reason="../shared with Guernsey County is not beside the checkout")
def test_beside_production(tmp_path: Path) -> None:
    """The plain settings err as production does: in blocks as much, in tracts within three deviations of a draw."""
    start, drawn, bureau = time.monotonic(), {}, Figures()
    for settings in SETTINGS:
        way = open_county(tmp_path, settings)
        context = way.context
        queries = [context.plan.query(name) for name in TABLES]
        compared = context.geography, queries, way.truth
        drawn[settings] = spread(figures_of(*compared, r.leaves) for r in way.run(DRAWS, workers=WORKERS))
        bureau = figures_of(*compared, published_leaves(context))
    result: dict[str, Any] = {"draws": DRAWS}
    result["areas"] = {level: table.n_nodes for level, table in zip(LEVELS, way.truth, strict=True)}
    sizes = of_size(way.truth[-1].totals())
    result["blocks_by_size"] = {name: int(here.sum()) for name, here in sizes.items()}
    result["bureau"] = {key: round(value, 5) for key, value in bureau.items()}
    result["settings"] = drawn
    tables = page_tables(result)
    print(f"\n{tables}\n{time.monotonic() - start:.0f} seconds")
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
    plain = drawn["pl94_2020"]
    for key, least, most in (("block total", 0.9, 1.15), ("block cenrace", 0.95, 1.05)):
        assert least <= plain[key]["mean"] / bureau[key] <= most
    if DRAWS < 10:  # deviations of few draws say nothing
        return
    for key in ("tract total", "tract cenrace", "tract hispanic * cenrace"):
        assert abs(plain[key]["mean"] - bureau[key]) <= 3 * plain[key]["deviation"]
