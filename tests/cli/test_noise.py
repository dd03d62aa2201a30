"""`topdown noise` in its three modes: what it prints is what it saves, and what it saves is checked when it is read."""

import json
import re
from fractions import Fraction

import msgspec
import pytest

import topdown as package
from tests.helpers.schemas import problems
from topdown.app import law_document, law_of, noise_document, read_law
from topdown.errors import CertificateError, ConfigError, TopdownError
from topdown.formats import document_schema

WISH = ("noise", "--epsilon", "1", "--delta", "1/1000", "--sensitivity", "2")


def test_screen_and_document_say_the_same(topdown, tmp_path):
    """A rounded loss below the exact one, or a bound above it, would be a false claim."""
    said, saved = (
        topdown(*WISH, "--compare"),
        topdown(*WISH, "--compare", "--json", "--out", tmp_path / "law.json"),
    )
    document = saved.document
    assert said.code == saved.code == 0
    assert problems(document, document_schema("noise")) == []
    law = package.noise(epsilon=1, delta="1/1000", sensitivity=2).law
    assert (
        Fraction(document["least_possible_loss"])
        <= law.bound
        <= law.loss
        <= Fraction(document["expected_loss"])
    )
    assert Fraction(document["gap"]) >= law.gap
    assert law.delta(Fraction(1, 2)) <= Fraction(document["delta_at"]["1/2"])
    assert Fraction(document["delta_at"]["1"]) == Fraction(1, 1000)
    for shown in (document["expected_loss"], document["least_possible_loss"], *document["delta_at"].values()):
        assert shown in said.out
    gaussian = next(o for o in document["others"] if o["name"] == "discrete Gaussian")
    assert float(gaussian["expected_loss"]) == pytest.approx(4.096562, rel=1e-6)
    assert gaussian["saved_percent"] == "54.90"
    assert json.loads((tmp_path / "law.json").read_text()) == document["law"]


def test_a_saved_law_is_read_and_checked(topdown, tmp_path):
    """What was saved comes back as it was; one changed weight must not."""
    place, plot = tmp_path / "law.json", tmp_path / "law.svg"
    assert topdown(*WISH, "--out", place, "--plot", plot).code == 0
    assert plot.read_text().startswith("<svg")
    law = package.noise(epsilon=1, delta="1/1000", sensitivity=2).law
    assert read_law(place) == law
    assert topdown("noise", "--check", place, "--json").document == msgspec.to_builtins(noise_document(law))
    assert topdown(*WISH, "--out", place).code == 2  # not replaced unasked
    document = json.loads(place.read_text())
    assert problems(document, document_schema("noise_law")) == []
    middle = -law.first
    changed = [int(w) for w in document["weights"]]
    changed[middle], changed[middle - 1] = changed[middle] - 10**33, changed[middle - 1] + 10**33
    place.write_text(json.dumps(document | {"weights": [str(w) for w in changed]}))
    refused = topdown("noise", "--check", place)
    assert refused.code == 1
    assert "does not keep" in refused.err


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"type": "topdown.noise"}, ConfigError),
        ({"version": 2}, ConfigError),
        ({"bits": 64}, ConfigError),
        ({"extra": 1}, ConfigError),
        ({"weights": []}, ConfigError),
        ({"weights": ["1", "2"]}, CertificateError),
        ({"weights": ["-1"]}, ConfigError),
        ({"sensitivity": 3}, CertificateError),
        ({"promises": [{"epsilon": "1", "delta": "1/1001"}]}, CertificateError),
        ({"promises": [{"epsilon": "99/100", "delta": "1/1000"}]}, CertificateError),
        ({"promises": [{"epsilon": "1", "delta": "0"}]}, ConfigError),
        ({"first": 10**12}, ConfigError),
        ({"promises": [{"epsilon": "1" * 5000, "delta": "1/1000"}]}, ConfigError),
        ({"weights": ["1"] * 10**5, "sensitivity": 1000}, ConfigError),
        ({"loss": "l3"}, ConfigError),
        (
            {"multipliers": [{"promise": 1, "shift": 1, "start": 0, "left": "0", "values": []}]},
            CertificateError,
        ),
        (
            {"multipliers": [{"promise": 0, "shift": 0, "start": 0, "left": "0", "values": []}]},
            CertificateError,
        ),
        (
            {"multipliers": [{"promise": 0, "shift": 1, "start": 10**9, "left": "0", "values": []}]},
            ConfigError,
        ),
        ({"multipliers": [{"promise": 0, "shift": 1, "start": 0, "left": "-1", "values": []}]}, ConfigError),
    ],
)
def test_laws_that_say_something_false_are_refused(change, error):
    """A reader that believes a file would draw noise that keeps less than the file says."""
    document = msgspec.to_builtins(law_document(package.noise(epsilon=1, delta="1/1000", sensitivity=2).law))
    assert law_of(document).gap < Fraction(1, 10**9)
    with pytest.raises(error):
        law_of(document | change)


def test_a_forged_proof_proves_less():
    """Multipliers decide the bound by what they are, not by what is said of them: without them it is 0."""
    document = msgspec.to_builtins(law_document(package.noise(epsilon=1, delta="1/1000").law))
    assert law_of(document | {"multipliers": []}).bound == 0
    doubled = [m | {"left": str(2 * Fraction(m["left"]))} for m in document["multipliers"]]
    assert law_of(document | {"multipliers": doubled}).bound < law_of(document).bound


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("--epsilon 1", "C005"),
        ("--epsilon 1 --delta 1/100", "C154"),
        ("--epsilon 1 --delta 0", "C152"),
        ("--epsilon 1 --delta 1 --large-delta", "C152"),
        ("--epsilon 700 --delta 1/1000", "C151"),
        ("--epsilon -1 --delta 1/1000", "C151"),
        ("--epsilon nan --delta 1/1000", "A001"),
        ("--epsilon 1 --delta 1/1000 --sensitivity 0", "C153"),
        ("--epsilon 1 --delta 1/1000 --loss l3", "C150"),
        ("--epsilon 1 --delta 1/1000 --loss pinball:0:1", "C150"),
        ("--epsilon 1 --delta 1/1000 --loss table:1,0", "C150"),
        ("--epsilon 0 --delta 1/1000000", "C155"),
        ("--epsilon 1 --delta 1/1000 --sensitivity 1000", "C155"),
        ("--epsilon 1 --delta 1/1000 --also 2", "C005"),
        ("--epsilon 1 --delta 1/1000 --also 2:1/10000 --compare", "C005"),
        ("--check law.json --epsilon 1", "C005"),
        ("--check missing.json", "D050"),
    ],
)
def test_wrong_wishes(topdown, arguments, code):
    """A user error is said with its code and exit 2; nothing is made."""
    assert topdown("noise", *arguments.split(), "--json").refusal == code


def test_what_is_printed_about_several_answers_is_true(topdown):
    """The last line is the one that people act on: made for one answer, and no ledger books it."""
    said = topdown(
        "noise", "--epsilon", "1", "--delta", "1/10", "--large-delta", "--loss", "table:1,0,1", "--quiet"
    )
    assert said.out.startswith("For one answer only")


def test_several_promises_on_the_command_line(topdown):
    """Every promise that was asked for must be in the law that comes back."""
    found = topdown(*WISH, "--also", "2:1/1000000", "--json").document
    assert found["law"]["promises"] == [
        {"epsilon": "1", "delta": "1/1000"},
        {"epsilon": "2", "delta": "1/1000000"},
    ]
    assert Fraction(found["delta_at"]["2"]) <= Fraction(1, 10**6)


def test_floats_are_refused_in_programs():
    """0.001 in binary is not one thousandth."""
    with pytest.raises(TypeError):
        package.noise(epsilon=1, delta=0.001)
    with pytest.raises(TopdownError):
        package.noise(epsilon=1, delta="1/100")


@pytest.mark.parametrize("name", ["law.png", "law", "law.svg.txt"])
def test_a_picture_is_called_what_it_is(topdown, tmp_path, name):
    """SVG under another ending opens in nothing, and the one who made it thinks the picture broken."""
    said = topdown("noise", "--epsilon", "1", "--delta", "1/1000", "--plot", tmp_path / name)
    assert (said.code, "does not end in .svg" in " ".join(said.err.split())) == (2, True)
    assert not (tmp_path / name).exists()


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
    asked_for = {"largest_count": 12, "sensitivity": 2, "loss": "l2", "minimised": "largest"}
    assert asked_for.items() <= document.items()
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
    assert topdown("noise", *USUAL, *more).refusal == code


@pytest.mark.parametrize(
    "mode", [("--continuous", "--cells", "2"), ("--dependent", "0:12")], ids=lambda m: m[0]
)
def test_other_modes_compare_and_draw(topdown, tmp_path, mode):
    """The two options of the usual mode mean the same here: other noise is shown, and the laws are drawn."""
    plot = tmp_path / "law.svg"
    asked = ("noise", *USUAL, *mode, "--compare", "--plot", plot)
    found = topdown(*asked).ok()
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
    assert said.refusal == code
