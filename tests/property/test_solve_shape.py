"""What is asked of all leaves comes with a part of a tree: made anew in the part, each piece of it leads astray."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.helpers import four_levels, policies, solved
from tests.helpers.solved import solve_answers
from topdown.errors import TopdownError
from topdown.formats import Verdict
from topdown.model import Geography, SplitConstraints, SplitForm
from topdown.model import split_polytopes as polytopes
from topdown.solve import LevelModel, Slice, SliceState, TopDownSolver, facts_of_release
from topdown.solve import solve_stage as solve
from topdown.solve import top_down as descend

COUNTIES = 3


@dataclass(frozen=True, eq=False)
class Shape:
    """What a part of a tree is given, and what a release makes from all its leaves."""

    form: SplitForm
    levels: tuple[LevelModel, ...]
    verdicts: tuple[Verdict, ...]


Change = Callable[[Shape, Geography], Shape]


@dataclass(frozen=True)
class Land:
    """A land whose counties, each taken alone, would have another shape.

    Args:
        asked: what a county would answer otherwise than the land, as paths into `Shape`.
        policy: beside the toy's.
        facts: of a block, by geocode; the first digit is the county.
        most_kinds: whose limits are kept.
        old, new: what to replace in the run file.
    """

    asked: tuple[str, ...]
    policy: str
    facts: Callable[[str], four_levels.Facts]
    most_kinds: int = 14
    old: str = ""
    new: str = ""
    failsafe: bool = False


def dormitories_in_one(code: str) -> four_levels.Facts:
    """Say that only one county has dormitories."""
    return 3, int(code[0] == "1"), 1


def dormitories_and_barracks_in_one(code: str) -> four_levels.Facts:
    """Say that only one county has other dwellings than homes."""
    return 3, int(code[0] == "1"), int(code[0] == "1")


def limits_in_one(code: str) -> four_levels.Facts:
    """Say that only one county has so few homes that an upper bound is one."""
    return 5 if code[0] == "1" else 2_000_000_000, 1, 1


def barracks_in_one(code: str) -> four_levels.Facts:
    """Say that only one county has barracks, and that many blocks have dormitories and no homes."""
    return (0 if int(code[2]) % 2 else 3), 2, int(code[0] == "1")


CHAIN = 'rounding = [{ table = "total", weight = 100 }, { table = "dwelling", weight = 1 }'
LANDS = {
    "a home for women": Land(
        (
            *("form.needed", "levels.bounds", "levels.positions", "verdicts"),
            *("partition.class_of", "partition.members", "partition.set_of"),
        ),
        policies.MIXED,
        dormitories_in_one,
    ),
    "chains": Land(
        ("levels.chain",),
        policies.MIXED,
        dormitories_in_one,
        old=CHAIN,
        new='rounding = [{ table = "dwelling", weight = 100 }',
    ),
    "limits that are none": Land(
        ("form.merges",),
        policies.OLD_AT_HOME + "per = 1000000\n",
        limits_in_one,
        old=CHAIN,
        new=CHAIN.replace('"dwelling"', '"dwelling * age"'),
    ),
    "an exact table": Land(
        ("partition.answer_of",),
        policies.exact("homes", "tract", "dwelling"),
        dormitories_and_barracks_in_one,
    ),
    "an exact table, too many kinds": Land(
        ("levels.bounds",),
        policies.exact("both", "tract", "dwelling * sex"),
        dormitories_and_barracks_in_one,
        most_kinds=4,
    ),
    "failsafe": Land(("partition.of_cell",), policies.MIXED, barracks_in_one, most_kinds=0, failsafe=True),
}
ASKED = {path for land in LANDS.values() for path in land.asked}


@dataclass(frozen=True)
class Found:
    """What a solve found, and all that it set up on its way."""

    result: solve.Solved
    trace: list[str]

    def same_as(self, other: Found) -> bool:
        """Tell whether bytes and problems are equal."""
        mine, theirs = self.result, other.result
        columns = ("node", "cell", "count")
        leaves = (
            np.array_equal(getattr(mine.leaves.whole(), c), getattr(theirs.leaves.whole(), c))
            for c in columns
        )
        return mine.document == theirs.document and all(leaves) and self.trace == other.trace


@pytest.fixture(params=LANDS)
def land(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Land:
    """Return one of the lands."""
    found = LANDS[request.param]
    monkeypatch.setattr(polytopes, "MAX_KINDS", found.most_kinds)
    return found


@cache
def census_of(land: Land) -> solved.Census:
    """Return its places and people."""
    run = four_levels.run_text().replace(land.old, land.new)
    return four_levels.make_land(land.policy, land.facts, run)


def shape_of(census: solved.Census) -> Shape:
    """Make a shape from all leaves there are."""
    facts = facts_of_release(census.context, policies.exact_values(census), policies.exact_tables(census))
    return Shape(facts.constraints.form, facts.levels, facts.verdicts)


def shapes_of(land: Land) -> tuple[Shape, list[Shape]]:
    """Return the shape of a land, and what its counties would make of themselves."""
    census = census_of(land)
    alone = [four_levels.county_alone(census, county) for county in range(COUNTIES)]
    return shape_of(census), [shape_of(county) for county in alone]


def solve_land(land: Land, *, by_county: bool, change: Change | None = None) -> Found:
    """Solve a land whole or county by county, where the shape of a county may be changed."""
    census, trace = census_of(land), []

    def told(*values: object) -> None:
        digest = hashlib.sha256()
        write(digest, values)
        trace.append(digest.hexdigest())

    set_up, rounded, decided, made = (
        TopDownSolver.solve_split,
        descend.round_table,
        SplitConstraints.decided,
        SliceState.open,
    )

    def solve_split(self: TopDownSolver, depth: int, split: Any, index: Any, tally: Any) -> Any:
        told(depth, replace(split, objective=None))
        told(depth, "decided", decided(self.facts.constraints, depth))
        return set_up(self, depth, split, index, tally)

    def round_table(problem: Any) -> Any:
        told(problem)
        return rounded(problem)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TopDownSolver, "solve_split", solve_split)
        patch.setattr(descend, "round_table", round_table)
        if change is not None:

            def opened(state: SliceState, part: Slice) -> Any:
                own = change(Shape(state.form, state.levels, state.verdicts), part.geography)
                changed = {name: getattr(own, name) for name in ("form", "levels", "verdicts")}
                return made(replace(state, **changed), part)

            patch.setattr(SliceState, "open", opened)
        patch.setattr(solve, "SOLVE_CUT_LEAVES", 9 if by_county else 999)
        patch.setattr(solve, "RUN_LEAVES", 1 if by_county else 999)
        patch.setattr(solve, "TASKS_PER_WORKER", 1)
        exact, tables = policies.exact_values(census), policies.exact_tables(census)
        noise = solved.noisy(census, 5, size=8.0 if land.failsafe else 3.0)
        return Found(solve_answers(census.context, noise, exact, tables=tables), sorted(trace))


def write(digest: Any, value: object) -> None:
    """Feed a value to a digest."""
    if isinstance(value, np.ndarray):
        digest.update(repr((value.shape, value.dtype.str)).encode() + np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        write(digest, [type(value).__name__, *(getattr(value, f.name) for f in fields(value))])
    elif isinstance(value, tuple | list):
        digest.update(b"(")
        for one in value:
            write(digest, one)
    else:
        digest.update(repr(value).encode())


def digest_of(value: object) -> str:
    """Return a digest of a value."""
    digest = hashlib.sha256()
    write(digest, value)
    return digest.hexdigest()


def pieces(shape: Shape) -> dict[str, object]:
    """Return every piece of a shape by its path; of levels, those that a county solves."""
    form, levels = shape.form, shape.levels
    found: dict[str, object] = {"verdicts": shape.verdicts[2:]}
    found |= {f"levels.{f.name}": [getattr(v, f.name) for v in levels[2:]] for f in fields(levels[0])}
    for name in ("partition", "system"):
        part = getattr(form, name)
        found |= {f"{name}.{f.name}": getattr(part, f.name) for f in fields(part)}
    for field in fields(form):
        if field.name not in ("partition", "system"):
            value = getattr(form, field.name)
            found[f"form.{field.name}"] = value[2:] if isinstance(value, tuple) else value
    return found


def with_piece(shape: Shape, path: str, own: Shape) -> Shape:
    """Return a shape with one piece of another."""
    name, _, inner = path.partition(".")
    if name == "verdicts":
        return replace(shape, verdicts=own.verdicts)
    if name == "levels":
        pairs = zip(shape.levels, own.levels, strict=True)
        mixed = tuple(replace(level, **{inner: getattr(other, inner)}) for level, other in pairs)
        return replace(shape, levels=mixed)
    if name == "form":
        return replace(shape, form=replace(shape.form, **{inner: getattr(own.form, inner)}))
    part = replace(getattr(shape.form, name), **{inner: getattr(getattr(own.form, name), inner)})
    return replace(shape, form=replace(shape.form, **{name: part}))


def test_a_part_made_from_its_own_leaves_goes_astray(land: Land) -> None:
    """Each flag made anew in a county without dormitories must change the way the county is solved, and be seen."""
    whole = solve_land(land, by_county=False)
    assert whole.same_as(solve_land(land, by_county=True))
    assert bool(whole.result.document.failsafe) == land.failsafe
    shape, alone = shapes_of(land)
    for path in land.asked:
        assert any(digest_of(pieces(shape)[path]) != digest_of(pieces(own)[path]) for own in alone), path

        def own_piece(shape: Shape, places: Geography, path: str = path) -> Shape:
            one = len(places.levels[1]) == 1
            return with_piece(shape, path, alone[int(places.levels[1].codes[0]) - 1]) if one else shape

        try:
            astray = not whole.same_as(solve_land(land, by_county=True, change=own_piece))
        except (TopdownError, IndexError):
            astray = True
        assert astray, path


def test_every_piece_that_depends_on_leaves_has_a_land(land: Land) -> None:
    """A new flag of all leaves, which no land puts to the test, could be made anew in a part unseen."""
    shape, alone = shapes_of(land)
    for path, value in pieces(shape).items():
        differs = {digest_of(value)} != {digest_of(pieces(own)[path]) for own in alone}
        assert path in ASKED or not differs, path
