"""A land of four levels and two queries a level to audit by runs, and drawing code that is wrong in five ways."""

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.helpers.attacked import (
    BLOCKS,
    CENSUS,
    TOY,
    TOY_BLOCKS,
    body_of,
    columns_of,
    shipped,
    without_exact,
    write_leaves,
    write_run,
)
from tests.helpers.rule_texts import rule
from topdown.measure import draw, noise_law
from topdown.model import Histogram
from topdown.plan import MeasurementPlan, PublicContext, optimal_weights, prepare
from topdown.practice import repeated_draws as stage
from topdown.privacy import SimulationBits
from topdown.privacy.laws import DiscreteGaussian

LEVELS = ("land", "region", "county", "block"), (0, 1, 2, 3)
CODES = ("111", "112", "121", "122", "211", "212", "221", "222")
SCHEMA = """\
type = "topdown.schema"
version = 1
name = "ninety"
title = "Ninety cells"
unit = "person"
source = "made up"
[[attribute]]
name = "sex"
labels = ["f", "m"]
[[attribute]]
name = "age"
labels = ["a", "b", "c", "d", "e"]
[[attribute]]
name = "origin"
labels = ["1", "2", "3", "4", "5", "6", "7", "8", "9"]
"""
NOTHING = """\
type = "topdown.invariants"
version = 1
name = "none"
title = "None"
schema = "ninety"
source = "made up"
"""


def body(loss: str) -> str:
    """Return budget and levels: equal parts, the same two queries everywhere."""
    rows = [f'[budget]\nrho = "{loss}"\n']
    rows += [
        f"""[[level]]
name = "{name}"
share = "1/4"
passes = [{{ queries = ["sex * age", "detailed"], table = "detailed" }}]
rounding = [{{ table = "total", weight = 100 }}, {{ table = "detailed", weight = 1 }}]
[level.queries]
"sex * age" = "1/2"
"detailed" = "1/2"
"""
        for name in LEVELS[0]
    ]
    return "\n".join(rows)


def make_land(folder: Path, **settings: Any) -> PublicContext:
    """Write the public files of the land, see `write_land`, and return its plan."""
    return prepare(write_land(folder, **settings)).context


def write_land(
    folder: Path,
    *,
    neighbours: str = "bounded",
    mechanism: str = "discrete_gaussian",
    invariants: str = NOTHING,
    facts: dict[str, tuple[int, ...]] | None = None,
) -> Path:
    """Write the public files of the land, and return its run file."""
    folder.mkdir(parents=True, exist_ok=True)
    write_leaves(folder / "leaves.csv", CODES, facts or {})
    return write_run(
        folder,
        "land",
        schema=SCHEMA,
        invariants=invariants,
        body=body("1/2" if mechanism == "discrete_gaussian" else "8"),
        tree=LEVELS,
        neighbours=neighbours,
        mechanism=mechanism,
    )


def make_shipped(folder: Path, policy: str, settings: str, relation: str = "bounded") -> PublicContext:
    """Write a few blocks under shipped invariants and settings, and return the plan."""
    text, toy = shipped("invariants", policy), policy == "toy"
    folder.mkdir(parents=True, exist_ok=True)
    write_leaves(folder / "leaves.csv", TOY_BLOCKS if toy else BLOCKS, dict.fromkeys(columns_of(text), (1,)))
    of = {"schema": tomllib.loads(text)["schema"], "body": body_of(settings), "tree": TOY if toy else CENSUS}
    text = text if relation == "bounded" else without_exact(text)
    run = write_run(folder, "plain", invariants=text, neighbours=relation, **of)
    return prepare(run).context


def write_almost_closed(folder: Path) -> Path:
    """Write a plan that leaves one block and 2 of 14,400 cells open: neighbours exist, but are not met by chance."""
    labels = [str(i) for i in range(120)]
    head = SCHEMA[: SCHEMA.index("[[attribute]]")]
    attributes = "".join(
        f'[[attribute]]\nname = "{name}"\nlabels = {json.dumps(labels)}\n' for name in ("east", "north")
    )
    shut = (
        {"east": labels[2:]},
        {"north": labels[2:]},
        {"east": ["0"], "north": ["1"]},
        {"east": ["1"], "north": ["0"]},
    )
    rules = [rule("never", str(k), _inline(cells)) for k, cells in enumerate(shut)]
    rules.append(rule("none_where_zero", "homes", _inline({"east": labels}), columns=["homes"]))
    write_leaves(folder / "leaves.csv", CODES, {"homes": (1, 0)})
    asked = body("1/2").replace("sex * age", "east")
    text = NOTHING + "".join(rules)
    return write_run(folder, "closed", schema=head + attributes, invariants=text, body=asked, tree=LEVELS)


def _inline(cells: dict[str, list[str]]) -> str:
    return ", ".join(f"{name} = {json.dumps(values)}" for name, values in cells.items())


Init = Callable[..., None]


@contextmanager
def drawn_with(change: Callable[[Init], Init]) -> Iterator[None]:
    """Replace how drawers are set up."""
    with patch.object(draw.LevelDrawer, "__init__", change(draw.LevelDrawer.__init__)):
        yield


@contextmanager
def narrower(factor: Fraction, query: str = "") -> Iterator[None]:
    """Draw noise of another parameter: that of one query, or of all."""
    right = noise_law

    def wrong(measurement):
        if query in ("", measurement.query):
            measurement = _narrowed(measurement, factor)
        return right(measurement)

    with patch.object(draw, "noise_law", wrong):
        yield


def _narrowed(measurement: MeasurementPlan, factor: Fraction) -> MeasurementPlan:
    if not measurement.weights:
        return replace(measurement, parameter=measurement.parameter * factor)
    weights = optimal_weights(measurement.parameter / factor, measurement.count_delta / factor)
    return replace(measurement, weights=weights)


@contextmanager
def root_of_variance(query: str) -> Iterator[None]:
    """Take the standard deviation for the variance, in one query."""
    right = noise_law

    def wrong(measurement):
        law = right(measurement)
        if query != measurement.query or not isinstance(law, DiscreteGaussian):
            return law
        return DiscreteGaussian(Fraction(round(1000 * float(law.variance) ** 0.5), 1000))

    with patch.object(draw, "noise_law", wrong):
        yield


def calibrated_to_add_remove() -> object:
    """Draw noise for one count moved, where a replaced record moves two."""
    return narrower(Fraction(1, 2))


@contextmanager
def drawn_twice() -> Iterator[None]:
    """Leave two noisy files of each level, as a run does that crashes and draws again."""
    with patch.object(stage, "parts_of_levels", lambda drawer, nodes: [drawer.draw(nodes) for _ in range(2)]):
        yield


def one_stream(*levels: str) -> object:
    """Draw two levels from one stream of bits."""
    streams: dict[int, tuple[object, int]] = {}

    def change(right: Init) -> Init:
        def wrong(self, level, queries, histogram, bits, listed=None):
            if level.name in levels:
                _, seed = streams.setdefault(id(bits), (bits, len(streams)))
                bits = SimulationBits(seed)
            right(self, level, queries, histogram, bits, listed)

        return wrong

    return drawn_with(change)


class _Silent:
    def draw_into(self, out: np.ndarray) -> None:
        out[...] = 0


def silent(level: str, number: int) -> object:
    """Draw no noise for one query of one level."""

    def change(right: Init) -> Init:
        def wrong(self, here, *more):
            right(self, here, *more)
            if here.name == level:
                self._samplers[number] = _Silent()

        return wrong

    return drawn_with(change)


def without_noise() -> object:
    """Draw no noise at all."""

    def change(right: Init) -> Init:
        def wrong(self, *more):
            right(self, *more)
            self._samplers = [_Silent() for _ in self._samplers]

        return wrong

    return drawn_with(change)


def counted_twice(level: str) -> object:
    """Count every record of one level twice: a change moves two where one is claimed."""

    def change(right: Init) -> Init:
        def wrong(self, here, queries, people, *more):
            if here.name == level:
                people = Histogram(people.n_nodes, people.n_cells, people.node, people.cell, 2 * people.count)
            right(self, here, queries, people, *more)

        return wrong

    return drawn_with(change)
