"""Whole releases: pair search, envelopes, inverse problems, documents, the plot, and the bookkeeping of secrets."""

import json
import math
import tomllib
import xml.etree.ElementTree as ET
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.compositions import weighted
from topdown.errors import ConfigError
from topdown.privacy import Claim, Measurement, accuracy_percent, exp_neg, protected_attributes, trade_off_svg
from topdown.privacy.accountant import (
    Composition,
    WholeLoss,
    account_document,
    all_pairs,
    budget_scale,
    bun_steinke,
    canonne_kamath_steinke,
    dhc2020_document,
    dhc_paths,
    pair_composition,
    parse_rhos,
    release_path,
    worst_epsilon,
)

TOY = [
    release_path("a", {"1/10": 4}),
    release_path("b", {"1/5": 2}),
    release_path("c", {"2/5": 1}),
    release_path("again", {"1/10": 4, "0": 7}),
]


def census() -> Composition:
    paths, unbypassed = dhc_paths()
    return pair_composition(paths[unbypassed], paths[unbypassed])


def test_the_43_paths():
    """Every path spends 24811/5000, and the un-bypassed pair has the published lattice and multiplicities."""
    paths, _ = dhc_paths()
    assert len(paths) == 43
    assert {Fraction(24811, 5000)} == {p.rho for p in paths}
    law = census().law
    assert (160, 12, Fraction(1, 10000)) == (law.coordinates, len(law.groups), law.spacing)
    assert len(all_pairs(paths)) == 946


def test_pairs_with_equal_budgets_count_once():
    """Two bypass patterns with the same budgets are the same composition."""
    assert len(all_pairs(TOY)) == 6
    with pytest.raises(ConfigError, match="no path"):
        all_pairs([])


def test_worst_pair_is_the_maximum():
    """Skipping a pair by its certified delta must not lose the worst one."""
    for worst in worst_epsilon(TOY, ["1e-3", "1e-12"]):
        every = {(a.name, b.name): pair_composition(a, b).epsilon(worst.delta) for a, b in all_pairs(TOY)}
        assert max(every, key=lambda pair: every[pair].lower) == worst.pair
        assert every[worst.pair].lower <= worst.epsilon.upper
        assert worst.epsilon.lower <= every[worst.pair].upper


@pytest.mark.slow
def test_worst_of_946_pairs():
    """The headline of the whole release: path 6 with itself, 24.45651445734."""
    found = dhc2020_document(["1e-10"])["worst"]["1e-10"]
    assert found["paths"] == ["6", "6"]
    assert all(number.startswith("24.45651445733") for number in found["epsilon"])


def test_proxy_is_the_unbypassed_pair():
    """The proxy for tuning is path 13 with itself."""
    found = dhc2020_document(["1e-10"], proxy=True)
    assert found["n_pairs"] == 1
    assert all(n.startswith("24.45649395439") for n in found["worst"]["1e-10"]["epsilon"])


@pytest.mark.parametrize(
    ("delta", "tight", "scale", "reduction"),
    [
        ("1e-5", False, "1.204954461974", "0.170093"),
        ("1e-10", False, "1.129256078721", "0.114461"),
        ("1e-10", True, None, "0.061395"),
    ],
)
def test_variance_reductions_of_the_census(delta, tight, scale, reduction):
    """How much noise the exact account gives back (table of the specification)."""
    whole = census()
    formula = (canonne_kamath_steinke if tight else bun_steinke)(whole.rho, delta)
    found = budget_scale(whole, formula, delta)
    if scale:
        assert abs(float(found) - float(scale)) < 2e-12
    assert math.isclose(float(reduction), 1 - 1 / float(found), abs_tol=6e-7)


def test_scale_reproduces_its_target():
    """Budgets multiplied by the scale must have exactly the target epsilon."""
    case = weighted({"1/3": 2, "1/5": 1})
    scale = budget_scale(case, "4", "1e-6")
    assert (
        case.scaled(scale.lower).epsilon("1e-6").lower <= 4 <= case.scaled(scale.upper).epsilon("1e-6").upper
    )
    assert scale.relative_width < 1e-11


def test_account_document():
    """The command's JSON: enclosures as decimal strings, comparison labelled, a true sentence.

    Five measurements of rho 1/10 move ten counts of variance 10 when a record is replaced; so do ten of rho 1/20 when
    one is added.
    """
    asked = {"epsilons": ["23/20"], "deltas": ["1e-10"], "alphas": ["1/20"]}
    found = json.loads(json.dumps(account_document("1/10*5", **asked)))
    low, high = map(Fraction, found["epsilon"]["1e-10"])
    assert low <= Fraction("6.55081355149595361371449592") <= high
    low, high = map(Fraction, found["delta"]["23/20"])
    assert low <= Fraction("0.10174019510342754358953519501364") <= high
    assert "not a bound" in found["usual"]["gaussian_note"]
    assert "at most 70 times in 100; a coin gives 50" in found["sentence"]
    assert {"1e-10"} == account_document("1/10*5")["epsilon"].keys()
    assert (found["neighbours"], found["rho"]) == ("bounded", "1/2")
    assert (found["n_measurements"], found["n_counts_moved"]) == (5, 10)
    assert found["measurements"] == [{"rho": "1/10", "variance": "10", "count": 5}]
    other = account_document("1/20*10", neighbours="add_remove", **asked)
    assert all(
        other[key] == found[key]
        for key in ("rho", "n_counts_moved", "epsilon", "delta", "trade_off", "best_guess")
    )
    assert "at all, chooses rightly at most 70 times in 100" in other["sentence"]


def test_best_guess_is_the_best_point_of_the_curve():
    """(1 + delta(0)) / 2 must equal 1 - min (alpha + f) / 2 over the curve, and is rounded up for print."""
    case = weighted({"1/3": 3})
    alphas = [Fraction(k, 400) for k in range(401)]
    curve = case.trade_off_curve(alphas)
    best = max(1 - (a + f.lower) / 2 for a, f in zip(alphas, curve, strict=True))
    guess = case.best_guess()
    assert float(guess.lower) - 1e-3 < float(best) <= float(guess.upper) + 1e-12
    assert accuracy_percent(guess) >= 100 * float(guess.upper)


def test_rho_text():
    """The --rho text: a count after *, exact fractions, no floats by accident."""
    assert [(Fraction(11, 10000), 20), (Fraction(73, 10000), 1)] == parse_rhos("11/10000*20, 73/10000")
    for text in ("1/2*x", "1/2*", "1/2*-1", "1/2*\u00b2"):
        with pytest.raises(ConfigError, match="whole number after"):
            parse_rhos(text)
    with pytest.raises(ConfigError, match="not a number"):
        parse_rhos("1/2,,1/3")


def test_plot_is_svg_with_a_falling_curve():
    """The picture must parse, escape its title and fall from (0, 1) to (1, 0)."""
    root = ET.fromstring(trade_off_svg(weighted({"1/10": 10}), "a < b & c"))  # noqa: S314 - our own text
    line = next(e for e in root.iter() if e.tag.endswith("polyline"))
    heights = [float(p.split(",")[1]) for p in line.attrib["points"].split()]
    assert heights == sorted(heights)
    assert root.attrib["aria-label"] == "a < b & c"


SETTINGS = Path(__file__).parents[3] / "settings" / "pl94_2020.toml"
FACTORS = {"total": [], "detailed": ["hhgq", "votingage", "hispanic", "cenrace"], "hhinstlevels": ["hhgq"]}
CERTIFIED = {
    "one person, everything": 17.14, "hhgq only": 7.24, "votingage only": 7.57, "hispanic only": 10.04,
    "cenrace only": 10.08, "place within one block_group": 2.93, "place within one tract": 9.38,
    "place within one county": 11.70, "place within one state": 13.05, "place within one us": 16.89,
}  # fmt: skip


def measurements() -> list[Measurement]:
    settings = tomllib.loads(SETTINGS.read_text())
    out = []
    for i, level in enumerate(settings["level"]):
        for query, share in level["queries"].items():
            names = frozenset(a for part in query.split(" * ") for a in FACTORS.get(part, [part]))
            rho = Fraction(settings["budget"]["rho"]) * Fraction(level["share"]) * Fraction(share)
            out.append(Measurement(i, level["name"], query, names, 1 / rho))
    return out


def claims(rows: list[Measurement]) -> list[Claim]:
    """Return every secret of a release without exact statistics."""
    names = {m.level: m.level_name for m in rows}
    out = [Claim("everything", "", "protected")]
    out += [Claim("attribute", a, "protected") for a in sorted({a for m in rows for a in m.attributes})]
    return out + [Claim("within_level", names[i], "protected", (), i) for i in sorted(names)[:-1]]


def test_secrets_reproduce_the_2020_certificate():
    """A coordinate too many or too few in any secret would miss the signed zCDP epsilons (delta 1e-10)."""
    found = {
        s.claim.stated("person").name: float(canonne_kamath_steinke(s.loss.rho, "1e-10"))
        for s in protected_attributes(measurements(), claims(measurements()))
    }
    assert CERTIFIED.keys() == found.keys()
    assert all(abs(CERTIFIED[name] - epsilon) < 0.0075 for name, epsilon in found.items())


def test_exact_epsilons_stay_below_the_certificate():
    """The exact loss cannot exceed a valid bound of it."""
    for secret in protected_attributes(measurements(), claims(measurements())):
        exact = secret.loss.epsilon("1e-10")
        assert exact.upper < canonne_kamath_steinke(secret.loss.rho, "1e-10").lower
        assert exact.relative_width < 1e-10


def test_presence_moves_one_count_per_measurement():
    """Adding a record changes one count where replacing changes two: half the loss, not the same."""
    presence, replaced = protected_attributes(
        measurements(), [Claim("presence", "", "protected"), Claim("everything", "", "protected")]
    )
    assert replaced.loss.rho == 2 * presence.loss.rho
    assert replaced.loss.law.coordinates == 2 * presence.loss.law.coordinates == 2 * len(measurements())


def test_what_nothing_measures_costs_nothing():
    """An attribute that no query resolves has loss zero; one that is disclosed has none at all."""
    rows = [m for m in measurements() if "hispanic" not in m.attributes]
    free, lost = protected_attributes(
        rows,
        [Claim("attribute", "hispanic", "protected"), Claim("attribute", "cenrace", "disclosed", ("x",))],
    )
    assert (free.loss.epsilon, free.loss.best_guess().upper, lost.loss) == (0, Fraction(1, 2), None)


def test_secrets_refuse_nonsense():
    """Nothing measured, two laws at once, a float variance must not give a number."""
    everything = [Claim("everything", "", "protected")]
    with pytest.raises(ConfigError, match="nothing is measured"):
        protected_attributes([], everything)
    with pytest.raises(TypeError, match="variance of total"):
        Measurement(0, "us", "total", frozenset(), 0.5)  # type: ignore[arg-type]
    rows = [
        Measurement(0, "us", "total", frozenset(), Fraction(1), law)
        for law in ("discrete_gaussian", "two_sided_geometric")
    ]
    with pytest.raises(ConfigError, match="two noise laws"):
        protected_attributes(rows, everything)


def test_bun_steinke_matches_the_published_number():
    """Rho + 2 sqrt(rho ln(1/delta)) of the 2020 DHC persons release."""
    box = bun_steinke("24811/5000", "1e-10")
    assert math.isclose(26.340588852722324, float(box), rel_tol=1e-15)
    assert 0 < box.relative_width < 1e-40


@pytest.mark.parametrize("rho", ["1/1000000", "1/100", "1", "24811/5000", "300"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-30", "1/2", "1e-500"])
def test_tight_conversion_encloses_the_minimum(rho, delta):
    """No order gives less than the lower end; the classic one, whose ends are shown by series, is no less."""
    box, classic, budget = canonne_kamath_steinke(rho, delta), bun_steinke(rho, delta), Fraction(rho)
    assert box.upper <= classic.upper
    assert box.relative_width in (0.0, math.inf) or box.relative_width < 1e-20
    low, high = ((end - budget) ** 2 / (4 * budget) for end in (classic.lower, classic.upper))
    assert exp_neg(high, 4_000)[0] <= Fraction(delta) * 2**4_000 <= exp_neg(low, 4_000)[1]
    for exponent in range(-60, 100):
        x = 10 ** (exponent / 10)
        bound = (1 + x) * budget + (float(low) - math.log1p(x)) / x - math.log1p(1 / x)
        assert max(bound, 0.0) >= float(box.lower) * (1 - 1e-9) - 1e-12


@pytest.mark.parametrize("odds", [Fraction(101, 100), Fraction(3), Fraction(1000)])
def test_pure_to_zcdp_is_exact_for_randomised_response(odds):
    """Rho is the largest Renyi divergence over its order: reached as the order falls to 1, never exceeded."""
    p, q = float(odds / (odds + 1)), float(1 / (odds + 1))
    rho = float(WholeLoss((), ((Fraction(math.log(odds)), odds),)).rho)
    divergence = (p - q) * math.log(odds)
    assert math.isclose(divergence, rho, rel_tol=1e-12)
    assert rho <= math.log(odds) ** 2 / 2
    for order in (1.01, 1.5, 2.0, 3.0, 10.0, 40.0):
        renyi = math.log(p**order * q ** (1 - order) + q**order * p ** (1 - order)) / (order - 1)
        assert renyi <= order * rho * (1 + 1e-9)


def test_exact_epsilon_never_exceeds_the_conversions():
    """The conversions are bounds: an exact value above one would break a theorem."""
    for budgets in ({"1": 1}, {"1/3": 4, "1/7": 2}, {"1/1000": 100}):
        case = weighted(budgets)
        for delta in ("1/10", "1e-6", "1e-15"):
            assert case.epsilon(delta).upper <= canonne_kamath_steinke(case.rho, delta).upper
