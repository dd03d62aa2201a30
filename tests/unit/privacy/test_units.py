"""Units of several records: every pair of neighbours of a toy against what is stated, and both readings of the text."""

from contextlib import nullcontext
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.failing import fails_with
from tests.helpers.households import write_households
from topdown.errors import ConfigError
from topdown.measure import drawn_laws_by_level
from topdown.model import Schema
from topdown.plan import prepare
from topdown.privacy import Relation
from topdown.privacy.accountant import NoisyCounts, compose_noise
from topdown.privacy.ledger import Book, DrawnLaw, Intent, Opened
from topdown.verify import noise_laws

SEVERAL = "household of at most 2 persons"
PLACES = (
    (0, 0),
    (0, 9),
    (3, 0),
    (4, 17),
)  # leaf and cell: same block, same county, far; other dwelling, sex, age


def households(most: int) -> list[tuple[tuple[int, int], ...]]:
    """Return every household of at most so many records in these places, that of nobody first."""
    return [found for size in range(most + 1) for found in combinations_with_replacement(PLACES, size)]


@pytest.mark.parametrize("neighbours", ["bounded", "add_remove"])
def test_no_pair_of_neighbours_beats_the_statement_and_one_reaches_it(tmp_path, neighbours):
    """A sensitivity of one record, or of records that stay together, would be beaten by a pair that is listed here."""
    prepared = prepare(write_households(tmp_path, neighbours, unit=SEVERAL))
    plan, geography = prepared.plan, prepared.context.geography

    @cache
    def places_of(record: tuple[int, int]) -> dict[tuple[int, int, int, int], int]:
        leaf, cell = record
        return {
            (
                depth,
                i,
                int(geography.ancestors_of_leaves[depth][leaf]),
                int(plan.query(m.query).labels[cell]),
            ): 1
            for depth, level in enumerate(plan.levels)
            for i, m in enumerate(level.measurements)
        }

    def loss(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> Fraction:
        counts: dict[tuple[int, int, int, int], int] = {}
        for sign, household in ((1, one), (-1, other)):
            for record in household:
                for place in places_of(record):
                    counts[place] = counts.get(place, 0) + sign
        scales = {
            (d, i): m.parameter
            for d, level in enumerate(plan.levels)
            for i, m in enumerate(level.measurements)
        }
        return sum((abs(n) / scales[place[:2]] for place, n in counts.items()), Fraction(0))

    every = households(2)
    nobody = every[0]
    pairs = product(every, every) if neighbours == "bounded" else ((one, nobody) for one in every)
    assert max(loss(one, other) for one, other in pairs) == plan.loss
    laws = [law for level in drawn_laws_by_level(plan).values() for law in level]
    assert sum(law.loss for law in laws) == plan.loss


@pytest.mark.parametrize("spread", [(3,), (2, 1), (1, 1, 1)])
def test_a_household_that_spreads_is_guessed_no_better_than_stated(spread):
    """The best attacker against records that move different counts must not be right more often than is stated."""
    scale = Fraction(5)
    stated = compose_noise([NoisyCounts("two_sided_geometric", scale, 1, sum(spread))], "epsilon")
    a = float(np.exp(-1 / float(scale)))
    line = np.arange(-60, 64)
    mass = (1 - a) / (1 + a) * a ** np.abs(line)
    one, other = np.ones(1), np.ones(1)
    for shift in spread:
        moved = (1 - a) / (1 + a) * a ** np.abs(line - shift)
        one, other = np.multiply.outer(one, mass).reshape(-1), np.multiply.outer(other, moved).reshape(-1)
    right = float(np.maximum(one, other).sum()) / 2
    assert 0.5 < right <= float(stated.best_guess().upper)
    seen = float(np.log(one / other).max())
    assert seen == pytest.approx(float(stated.epsilon))


@given(
    name=st.sampled_from(["household", "Wohnung", "housing_unit", "two words", "h2", "", "person"]),
    middle=st.sampled_from([" of at most ", " of at most  ", " of up to ", " "]),
    most=st.sampled_from(["", "0", "1", "2", "02", "999", "1000", "1001", "10000", "\u0663", "4.5", "-3"]),
    record=st.sampled_from(["persons", "person", "s", "Personen", "married persons", "p3s", "residents"]),
)
def test_both_sides_read_a_unit_alike(name, middle, most, record):
    """Where verify reads another bound, a release would be refused after it was charged, or judged by the wrong one."""
    text = f"{name}{middle}{most} {record}"
    mine, own = Relation.named("bounded", text).unit, noise_laws.unit_of(text)
    assert (mine.name, mine.record, mine.most_records) == (own.name, own.record, own.n_records)
    attributes = Schema.from_lists({"a": ["x"]}).attributes
    law, several = noise_laws.LAWS["two_sided_geometric"], mine.most_records > 1
    if several or not any(character.isdigit() for character in text):
        assert Schema("own", "", text, attributes).record == mine.record
        relation = noise_laws.relation_of_plan("bounded", text, law, known=False)
        assert relation.shifts == Relation.named("bounded", text).shifts
        with pytest.raises(ValueError, match="is not checked") if several else nullcontext():
            noise_laws.relation_of_plan("bounded", text, law, known=True)
        return
    with fails_with("A080", ConfigError):
        Schema("own", "", text, attributes)
    with pytest.raises(ValueError, match="no unit"):
        noise_laws.relation_of_plan("bounded", text, law, known=False)


STEPS = "steps of group sizes: move+new"
LAW = DrawnLaw("two_sided_geometric", Fraction(3), 2, 1, "land", "total")


@pytest.mark.parametrize(
    ("unit", "charged", "composes"),
    [
        (SEVERAL, "add_remove", True),
        (SEVERAL, STEPS, False),
        ("person", "add_remove", True),
        ("person", STEPS, True),
    ],
)
def test_what_speaks_of_one_record_is_not_charged_for_several(unit, charged, composes):
    """A step of group sizes is about one person; all persons of a household may move one answer together."""
    book = Book()
    book.add(Opened("0" * 16, 3, "people", "add_remove", unit), "2026-01-01T00:00:00Z", "0" * 64)
    intent = Intent("r", "0" * 64, (LAW,), (), 1, ("land",), "j", charged)
    assert (book.problem(intent) == "") == composes
    assert noise_laws.speaks_of_unit(unit, charged, is_noise=True) == composes
    assert noise_laws.speaks_of_unit(unit, "add_remove", is_noise=False) == (unit == "person")
    if composes:
        assert book.composed(more=[intent]).epsilon_at(0).upper == LAW.loss
