"""The auditor: it finds the exact ratios of known mechanisms, and fails what is known to leak."""

from fractions import Fraction
from itertools import combinations

import pytest

from topdown.selection import (
    Chance,
    DataSet,
    Ratios,
    choice_law,
    lift,
    mechanism_laws,
    poisson_sampler,
    whole_sample,
    worst_ratios,
    worst_replacement,
)

HALF, THREE = Fraction(1, 2), Fraction(3)


def tight(base: Fraction):
    """Return the mechanism of PROOF.md, section 2, that meets the theorem with equality."""

    def mechanism(sample: DataSet, chance: Chance) -> str:
        return "q" if sample or chance.coin(1 / base) else "o"

    return mechanism


@pytest.mark.parametrize(
    ("rate", "base", "added", "removed"),
    [
        ("1/2", "2", "3/2", "2"),
        ("1/2", "3", "2", "2"),
        ("1/3", "5/2", "3/2", "3/2"),
        ("1/11", "21/10", "11/10", "11/10"),
    ],
)
def test_the_tight_example(rate: str, base: str, added: str, removed: str) -> None:
    """An auditor that finds less than is there would pass anything."""
    p, e = Fraction(rate), Fraction(base)
    found = worst_ratios(mechanism_laws(tight(e), poisson_sampler(p)), ["x"], 0)
    assert Ratios(Fraction(added), Fraction(removed)) == found
    assert max(found.added, found.removed) == lift(p, e, Fraction(0), "add_remove")[0]


def mechanism(sample: DataSet, chance: Chance) -> str:
    """Answer "q" if a record says so, else in one of three cases."""
    return "q" if "y" in sample or chance.coin(1 / THREE) else "o"


def test_replaced_records_are_compared_with_each_other() -> None:
    """Ratios of added records alone say nothing of a record that is replaced."""
    law = mechanism_laws(mechanism, poisson_sampler(HALF))
    assert worst_replacement(law, ["x", "y"], 0) == 2
    assert lift(HALF, THREE, Fraction(0), "bounded")[0] == 4


def test_delta_shrinks_with_the_rate() -> None:
    """The stated delta of a sampled mechanism must be reached, and only when a record is added."""

    def mechanism(sample: DataSet, chance: Chance) -> str:
        if sample:
            return "sure" if chance.coin(Fraction(1, 10)) else "q"
        return "q" if chance.coin(Fraction(3, 10)) else "o"

    law = mechanism_laws(mechanism, poisson_sampler(HALF))
    more, fewer = law(("x",)), law(())
    above = [
        sum(max(one[found] - 2 * other.get(found, 0), 0) for found in one)
        for one, other in ((more, fewer), (fewer, more))
    ]
    assert above == [Fraction(1, 20), 0]


def test_one_sample_charged_twice_fails() -> None:
    """Two calls on one sample cost 5, not the 4 of two fresh samples."""

    def shared(sample: DataSet, chance: Chance) -> tuple[str, str]:
        return tight(THREE)(sample, chance), tight(THREE)(sample, chance)

    def fresh(records: DataSet, chance: Chance) -> tuple[str, ...]:
        samples = [tuple(r for r in records if chance.coin(HALF)) for _ in range(2)]
        return tuple(tight(THREE)(sample, chance) for sample in samples)

    on_one, on_two = (
        worst_ratios(mechanism_laws(m, s), ["x"], 0)
        for m, s in ((shared, poisson_sampler(HALF)), (fresh, whole_sample))
    )
    assert Ratios(Fraction(5), Fraction(2)) == on_one
    assert not on_one.within(Fraction(4))
    assert Ratios(Fraction(4), Fraction(4)) == on_two


def test_samples_of_a_fixed_size_fail() -> None:
    """Without replacement the sample changes for a record that was not drawn; nothing bounds that."""

    def one_of(records: DataSet):
        samples = list(combinations(records, 1)) or [()]
        return [(sample, Fraction(1, len(samples))) for sample in samples]

    assert worst_ratios(mechanism_laws(mechanism, whole_sample), ["x", "y"], 1).added == THREE
    assert worst_ratios(mechanism_laws(mechanism, poisson_sampler(HALF)), ["x", "y"], 1).within(Fraction(2))
    assert None is worst_ratios(mechanism_laws(mechanism, one_of), ["x", "y"], 1).added


def test_household_samples_fail_persons() -> None:
    """A sampled household takes its members along, so a person is worth more than her own record."""

    def households(records: DataSet):
        names = sorted({name for name, _ in records})
        for kept in [c for n in range(len(names) + 1) for c in combinations(names, n)]:
            weight = HALF ** len(names)
            yield tuple(r for r in records if r[0] in kept), weight

    def mechanism(sample: DataSet, chance: Chance) -> str:
        return "q" if chance.coin(min(Fraction(1), THREE ** len(sample) / 9)) else "o"

    people = [("a", 1), ("a", 2)]

    def persons_within(sampler) -> list[bool]:
        law = mechanism_laws(mechanism, sampler)
        with_both, with_one = law(tuple(people)), law((people[0],))
        pairs = ((with_both, with_one), (with_one, with_both))
        return [all(p <= 2 * other.get(o, 0) for o, p in law_.items()) for law_, other in pairs]

    assert persons_within(poisson_sampler(HALF)) == [True, True]
    assert not all(persons_within(households))


def test_the_wrong_laplace_scale_fails() -> None:
    """Noise of scale 1/2 for a charge of half an epsilon costs four times that."""
    charged = Fraction(2)

    def count(base: Fraction):
        def mechanism(records: DataSet, chance: Chance) -> int:
            return len(records) + chance.raised(0, base, 12) - chance.raised(0, base, 12)

        return mechanism

    def clamped(base: Fraction):
        return lambda records, chance: max(-4, min(5, count(base)(records, chance)))

    assert worst_ratios(mechanism_laws(clamped(charged), whole_sample), ["x"], 0).within(
        charged * Fraction(101, 100)
    )
    assert not worst_ratios(mechanism_laws(clamped(charged**4), whole_sample), ["x"], 0).within(charged**3)


def test_a_path_of_probability_zero_is_no_outcome() -> None:
    """An outcome that cannot be would hide an infinite ratio behind 0 / 0."""
    assert choice_law(lambda chance: chance.accept(Fraction(2), 0)) == {True: 1}
    assert choice_law(lambda chance: (chance.coin(Fraction(1)), chance.raised(9, THREE, 0))) == {(True, 0): 1}
