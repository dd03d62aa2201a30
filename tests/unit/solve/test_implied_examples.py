"""The worked examples of the paper, to the letter."""

from itertools import product

import pytest

from topdown.solve.implied import (
    EXAMPLES,
    Row,
    System,
    eliminate,
    equivalent,
    row_text,
    system_lines,
)

LINES = {
    "college-town": ["F + C + M = 196", "F >= 0", "C >= 0", "M >= 0", "F + C >= 98", "C + M >= 98"],
    "two-by-two": ["h00 = 1 + h11", "h01 = 20 - h11", "h10 = 21 - h11", "0 <= h11 <= 10"],
    "appendix": ["h00 = h11", "h01 = 20 - h11", "h10 = 20 - h11", "0 <= h11 <= 10"],
    "seven-counties": ["A + B + C = 611", "A >= 16", "B >= 4", "C >= 223", "A + B >= 50", "A + C >= 577"],
}


@pytest.mark.parametrize("name", LINES)
def test_examples_come_out_exactly(name: str) -> None:
    """The theorem must print the paper's constraints, and elimination of all leaf cells must agree."""
    example = EXAMPLES[name]
    assert LINES[name] == system_lines(example.implied, solved=example.solved)
    assert equivalent(example.implied, eliminate(*example.definition))


def test_elimination_prints_example_2_and_3() -> None:
    """Elimination alone, without Lemma 1, must come to the same lines."""
    for name in ("two-by-two", "appendix"):
        assert LINES[name] == system_lines(eliminate(*EXAMPLES[name].definition), solved=True)


def test_college_town_refuses_the_naive_table() -> None:
    """(48, 49, 99) adds up and is nonnegative, but region 1 alone has 98 people in F and C."""
    town = EXAMPLES["college-town"]
    broken = town.implied.broken((48, 49, 99))
    assert broken is not None
    assert row_text(broken, ("F", "C", "M")) == "F + C >= 98"
    assert town.implied.broken((49, 49, 98)) is None


def test_appendix_refuses_the_naive_table() -> None:
    """(11, 9; 9, 11) has the right margins; every h[0,0] from 0 to 10 extends, 11 does not."""
    implied = EXAMPLES["appendix"].implied
    for h00 in range(12):
        assert (implied.broken((h00, 20 - h00, 20 - h00, h00)) is None) == (h00 <= 10)


def test_seven_counties_say_what_their_groups_do() -> None:
    """Dormitories, nursing homes and households must go to counties that have them, above their least."""
    node = EXAMPLES["seven-counties"].leaves
    combinations = {"+".join(node.combinations.members(mask)) for mask in node.combinations.people}
    assert combinations == {"A", "B", "A+C", "A+B", "C"}
    for a, b in product(range(14, 400, 7), range(2, 40)):
        x = (a, b, 611 - a - b)
        most = [
            sum(n for j, n in enumerate(x) if groups >> j & 1) <= node.combinations.most(groups)
            for groups in range(1, 8)
        ]
        assert (EXAMPLES["seven-counties"].implied.broken(x) is None) == all(most)


def test_algebra() -> None:
    """Signs, ones and zeros must read as people write them."""
    assert row_text(Row((0, 0), "<=", -1), "xy") == "0 >= 1"
    assert row_text(Row((2, -3), "=", 0), "xy") == "2 x - 3 y = 0"
    assert row_text(Row((2, -1), "=", 4), "xy", solved=True) == "y = -4 + 2 x"
    assert row_text(Row((-1, 1), "<=", 4), "xy") == "-x + y <= 4"
    system = System.of("xy", [({"x": -1, "y": 1}, ">=", 2), ({"x": 1, "y": -1}, ">=", -5)])
    assert system_lines(system) == ["-5 <= x - y <= -2"]
