"""`topdown noise --continuous` and `--dependent`: what is shown is what is written, and strange wishes are refused."""

import re
from fractions import Fraction

import pytest

from tests.helpers.schemas import problems
from topdown.formats import document_schema

USUAL = ("--epsilon", "1", "--delta", "1/1000")


def test_continuous_on_the_screen_and_as_json(topdown):
    """Two ways to say one enclosure must not differ in a digit."""
    asked = ("noise", "--continuous", *USUAL, "--sensitivity", "3/2", "--cells", "4")
    said, written = topdown(*asked), topdown(*asked, "--json")
    assert said.code == written.code == 0
    document = written.document
    assert problems(document, document_schema("noise.continuous")) == []
    assert (document["width"], document["loss"]) == ("3/8", "l1")
    low, high = document["least_loss"]
    assert Fraction(low) < Fraction(high)
    for shown in (low, high, document["lattice_loss"], "multiple of 3/8", "not certified"):
        assert shown in " ".join(said.out.split())


def test_dependent_on_the_screen_and_as_json(topdown):
    """The simple rules are part of the answer: without them the kernel looks better than it is."""
    asked = ("noise", "--dependent", "0:12", *USUAL, "--sensitivity", "2", "--loss", "l2")
    said, written = topdown(*asked, "--worst-case"), topdown(*asked, "--worst-case", "--json")
    assert said.code == written.code == 0
    document = written.document
    assert problems(document, document_schema("noise.dependent")) == []
    assert tuple(document[key] for key in ("largest_count", "sensitivity", "loss", "minimised")) == (
        12,
        2,
        "l2",
        "largest",
    )
    assert len(document["weights"]) == len(document["row_losses"]) == 13
    for shown in (*document["least_loss"], *document["compared"].values(), "checked in integers"):
        assert shown in " ".join(said.out.split())
    average = topdown(*asked, "--json").document
    assert Fraction(average["least_loss"][0]) < Fraction(document["least_loss"][1])


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--continuous", "--dependent", "0:4"), "C005"),
        (("--continuous", "--integer"), "C005"),
        (("--continuous", "--also", "2:1/2000"), "C005"),
        (("--dependent", "0:4", "--out", "law.json"), "C005"),
        (("--dependent", "0:4", "--cells", "3"), "C005"),
        (("--continuous", "--worst-case"), "C005"),
        (("--cells", "3"), "C005"),
        (("--sensitivity", "3/2"), "C153"),
        (("--dependent", "0:4", "--sensitivity", "3/2"), "C153"),
        (("--dependent", "1:4"), "C161"),
        (("--dependent", "0:4", "--sensitivity", "5"), "C161"),
        (("--continuous", "--sensitivity", "0"), "C162"),
        (("--continuous", "--cells", "0"), "C162"),
        (("--continuous", "--cells", "900"), "C163"),
        (("--continuous", "--loss", "pinball:2:1"), "C164"),
        (("--continuous", "--delta", "1/5"), "C154"),
        (("--dependent", "0:4", "--delta", "1/5"), "C154"),
        (("--continuous", "--delta", "0"), "C152"),
        (("--continuous", "--epsilon", "-1"), "C151"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_strange_wishes_are_refused(topdown, more, code):
    """An option that is taken silently and ignored is a false promise."""
    found = topdown("noise", *USUAL, *more)
    assert found.code == 2
    assert code in found.err


@pytest.mark.parametrize(
    "mode", [("--continuous", "--cells", "2"), ("--dependent", "0:12")], ids=lambda m: m[0]
)
def test_other_modes_compare_and_draw(topdown, tmp_path, mode):
    """The two options of the usual mode mean the same here: other noise is shown, and the laws are drawn."""
    plot = tmp_path / "law.svg"
    asked = ("noise", *USUAL, *mode, "--compare", "--plot", plot)
    found = topdown(*asked)
    assert found.code == 0
    assert found.out == topdown("noise", *USUAL, *mode).out
    drawn = plot.read_text()
    panels, tall = (5, 92) if mode[0] == "--dependent" else (1, 224)
    assert drawn.count("<g ") == panels
    assert tall == max(float(height) for height in re.findall('<rect x[^>]* height="([0-9.]+)"', drawn))
    assert topdown(*asked).code == 2


@pytest.mark.parametrize(
    ("option", "code"),
    [
        (("--sensitivity", "1e400"), "C285"),
        (("--sensitivity", "1e-400"), "C285"),
        (("--cells", str(2**64)), "C163"),
        (("--cells", "+5"), "C005"),
        (("--sensitivity", "1_0"), "A001"),
    ],
)
def test_numbers_beyond_what_is_computed_are_refused(topdown, option, code):
    """They ended in an internal error: a float without an end, a range without a length."""
    said = topdown("noise", "--continuous", "--epsilon", "1", "--delta", "1/1000", *option, "--json")
    assert (said.code, said.document["code"]) == (2, code)
