"""zCDP and pure-DP bookkeeping, secrets, and the certificate of the 2020 redistricting release."""

import math
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.compositions import weighted
from topdown.errors import ConfigError
from topdown.privacy import Claim, Measurement, protected_attributes
from topdown.privacy.accountant import (
    WholeLoss,
    bun_steinke,
    canonne_kamath_steinke,
)

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
        s.claim.name("person"): float(canonne_kamath_steinke(s.loss.rho, "1e-10"))
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
    """No order gives less than the lower end; the classic conversion gives no less than the upper end."""
    box = canonne_kamath_steinke(rho, delta)
    assert box.upper <= bun_steinke(rho, delta).upper
    assert box.relative_width in (0.0, math.inf) or box.relative_width < 1e-20
    budget, log_inverse = (
        float(Fraction(rho)),
        math.log(2) * (math.log2(Fraction(delta).denominator) - math.log2(Fraction(delta).numerator)),
    )
    for exponent in range(-60, 100):
        x = 10 ** (exponent / 10)
        bound = (1 + x) * budget + (log_inverse - math.log1p(x)) / x - math.log1p(1 / x)
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
