"""Documents and screens of both programs: every printed end has the truth on its right side."""

import json
import re
from fractions import Fraction

from topdown.app.screens import decimal
from topdown.plan import prepare
from topdown.privacy import protected_attributes
from topdown.publish import certified_privacy, claims_of, statement_of, steps_of, usual_epsilon

EXACT = {"engine": "ball", "digits": 40}


WHY = "made up for these tests"


def test_the_screen_of_a_gaussian_release_says_no_less(tmp_path, pgsr_cli):
    """The screen shows the upper end of the certificate, as it stands there."""
    (tmp_path / "h.csv").write_text("region,parent,level\n0,,nation\n1,0,state\n2,0,state\n")
    (tmp_path / "g.csv").write_text("region,size,count\n1,1,5\n2,3,7\n")
    given_files = [
        "--groups",
        str(tmp_path / "g.csv"),
        "--hierarchy",
        str(tmp_path / "h.csv"),
        "--sizes",
        "4",
    ]
    said = []
    for i, extra in enumerate(([], ["--json"])):
        arguments = [
            "release",
            *given_files,
            "--rho",
            "2/7",
            "--simulate",
            "1",
            "--truth-is-public",
            WHY,
            *extra,
        ]
        done = pgsr_cli(*arguments, "--out", tmp_path / str(i))
        assert done.code == 0, done.err
        said.append(done.out)
    stated = json.loads(said[1])["privacy"]
    certified = json.loads((tmp_path / "0" / "certificate.json").read_text())["privacy"]
    assert certified == stated
    (shown,) = re.findall(r"ε\s+at\s+most\s+([0-9.e-]+)", said[0])
    assert shown == certified["secrets"][0]["epsilon"]["1e-10"][1]
    (loss,) = re.findall(r"ρ\s([0-9.]+)", said[0])
    assert Fraction(loss) >= Fraction(2, 7)


def test_audit_and_certificate_enclose_the_truth(toy, topdown, tmp_path):
    """Every secret's ends, and the shorter numbers of the screen above them."""
    run = toy(tmp_path)
    policy = prepare(run).context.policy
    found = statement_of(policy)
    (step,) = steps_of(policy)
    for row, secret in zip(
        found["secrets"], protected_attributes(step.measurements, claims_of(policy)), strict=True
    ):
        if secret.loss is None:
            assert "epsilon" not in row
        elif secret.loss.rho:
            _between(row["epsilon"]["1e-10"], secret.loss.epsilon("1e-10", **EXACT))
            guess = secret.loss.best_guess(**EXACT)
            _between(row["best_guess"], guess)
            assert row["right_in_100"] >= 100 * guess.upper
    whole = protected_attributes(step.measurements, claims_of(policy))[0].loss.epsilon("1e-10", **EXACT)
    _between(certified_privacy(policy).epsilon["1e-10"], whole)
    assert Fraction(usual_epsilon(policy.plan.loss, policy.plan.loss_name)) >= whole.upper
    assert decimal(whole.upper, 3, up=True) in topdown("audit", run).out


def test_the_plan_screen_rounds_up(toy, topdown, tmp_path):
    """Whoever approves a plan reads its epsilon and the loss of every level there."""
    run = toy(tmp_path)
    stated = topdown("plan", run, "--json").document
    shown = topdown("plan", run).out
    high = Fraction(stated["privacy"]["certified"]["epsilon"]["1e-10"][1])
    (printed,) = re.findall(r"ε\s+([0-9.]+) at δ 1e-10, certified", shown)
    assert high <= Fraction(printed) < high + Fraction(1, 10**8)
    for level in stated["levels"]:
        (printed,) = re.findall(
            rf"^\s+{level['level']}\s.*\s([0-9]+\.[0-9]{{4}})\s+[0-9.]+ %$", shown, re.MULTILINE
        )
        assert Fraction(printed) >= Fraction(level["loss"])


def _between(pair, truth):
    """Check that stated ends hold an exact enclosure."""
    low, high = map(Fraction, pair)
    assert low <= truth.lower <= truth.upper <= high
