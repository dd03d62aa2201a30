"""The checker computes what a certificate claims again, and refuses every claim that differs."""

import json
import shutil
from math import ceil, comb

import numpy as np
import pytest

from pgsr import level_noise as budget
from pgsr import tree_of, verify
from pgsr.group_files import hash_sections
from pgsr.neighbours import RELATIONS
from pgsr.released_groups import _answers_moved
from pgsr.vectors import Sensitivity, sensitivity
from tests.helpers.failing import fails_with
from tests.helpers.groups import GROUPS, REGIONS, book, edit_document, released
from topdown.errors import ConfigError, DataError

HASHED = ("mechanism", "privacy", "total", "public_totals", "sizes", "coverage", "levels", "regions")
NOISES = {"geometric": {"epsilon": "1/2"}, "gaussian": {"rho": "1/3"}}


@pytest.fixture(scope="module", params=NOISES)
def made(request, tmp_path_factory):
    """Make one release of each noise."""
    folder = tmp_path_factory.mktemp(request.param)
    options = {"epsilon": None, **NOISES[request.param], **book(folder)}
    released(GROUPS, REGIONS, "tracking", sizes=5, out=folder / "out", public={"GA": 3}, **options)
    return folder / "out"


def tampered(made, tmp_path, edit, *, rehash=True):
    """Change a certificate, and seal it again: manifest and plan hash are renewed as an attacker would."""
    folder = shutil.copytree(made, tmp_path / "copy")

    def edit_and_rehash(document):
        edit(document)
        if rehash:
            document["plan_hash"] = hash_sections({key: document[key] for key in HASHED})

    edit_document(folder, "certificate.json", edit_and_rehash)
    return folder


def findings(folder):
    return {check.name: [f.text for f in check.findings] for check in verify(folder) if not check.ok}


def secret(n):
    """Return a function that updates the n-th row."""
    return lambda **new: lambda d: d["privacy"]["secrets"][n].update(new)


def lower_ends(key):
    """Return an edit that makes an enclosure more favourable, yet still above its lower end."""

    def edit(document):
        row = document["privacy"]["secrets"][0]
        pair = row[key] if key == "best_guess" else next(iter(row[key].values()))
        pair[:] = [str(float(pair[0]) - 0.01), str(float(pair[0]) - 0.001)]

    return edit


EDITS = {
    "loss": lambda d: d["privacy"].update(loss="1/4"),
    "claimed and loss": lambda d: d["privacy"].update(loss="1/4", claimed="1/4"),
    "kind of loss": lambda d: d["privacy"].update(
        loss_name={"rho": "epsilon", "epsilon": "rho"}[d["privacy"]["loss_name"]]
    ),
    "private": lambda d: d["privacy"].update(private_as_claimed=False),
    "parameter": lambda d: d["levels"][0].update(parameter="1000"),
    "sensitivity": lambda d: d["levels"][1].update(sensitivity=3),
    "row loss": secret(0)(loss="1/9"),
    "counts moved": secret(0)(n_counts_moved=1),
    "epsilon": lower_ends("epsilon"),
    "best guess": lower_ends("best_guess"),
    "right in 100": secret(0)(right_in_100=51),
    "sentence": secret(0)(sentence="Nobody can be found."),
    "status": secret(0)(status="protected"),
    "exact": secret(0)(exact=[]),
    "disclosed row protected": secret(1)(status="protected"),
    "disclosed row with a loss": secret(1)(loss="1/2"),
    "disclosed row, other words": secret(1)(sentence="protected by noise"),
    "row left out": lambda d: d["privacy"]["secrets"].pop(),
    "condition left out": lambda d: d["privacy"]["conditional_on"].pop(),
    "public totals left out": lambda d: d.update(public_totals={}),
    "top-coding invented": lambda d: d["sizes"].update(too_large="top-code"),
    "steps without move": lambda d: d["privacy"].update(relations=["new"]),
    "vector": lambda d: d["mechanism"].update(measures="histogram"),
}


@pytest.mark.parametrize("what", EDITS)
def test_a_false_claim_is_found(made, tmp_path, what):
    """Each claim is changed alone, manifest and plan hash are renewed, and the check of privacy itself must see it."""
    assert "privacy" in findings(tampered(made, tmp_path, EDITS[what]))
    assert "privacy" in findings(tampered(made, tmp_path / "again", EDITS[what], rehash=False))


@pytest.mark.parametrize("key", ["relations", "conditional_on", "secrets"])
def test_an_empty_claim_has_no_form(made, tmp_path, key):
    """A certificate that names no step, no condition or no secret says nothing that could be checked."""
    said = findings(tampered(made, tmp_path, lambda d: d["privacy"].update({key: []})))
    assert f"$.privacy.{key}" in said["files"][0]


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda d: d["privacy"].update(unit="household"), "unit"),
        (lambda d: d["privacy"].update(relations=["move"], secrets=d["privacy"]["secrets"][:1]), "steps"),
        (lambda d: d["levels"][0].update(parameter="1000"), "noise"),
    ],
)
def test_the_ledger_knows_better(made, tmp_path, edit, what):
    """A lie about unit, steps or noise is not what was charged, even if all hashes are renewed."""
    assert "ledger" in findings(tampered(made, tmp_path, edit, rehash=False)), what


STEPS = {"person": {}, "household": {"relations": ("household",), "unit": "household"}}


@pytest.fixture(scope="module", params=STEPS)
def second(request, tmp_path_factory):
    """Make two releases of one data set; return the second."""
    folder, bound = tmp_path_factory.mktemp(request.param), STEPS[request.param]
    named = book(folder, **bound) | bound
    for name in ("first", "second"):
        again = {"again": name == "second", "epsilon_limit": 2}
        sizes = {"sizes": 2, "too_large": "top-code", "out": folder / name}
        released(GROUPS, REGIONS, "tracking", "1/2", **sizes, **again, **named)
    return folder / "second"


def test_everything_released_is_composed(second):
    """Two equal releases tell more than one: whoever adds nothing up would take both for the promise of one."""
    document = json.loads((second / "certificate.json").read_text())
    stated = document["everything_released"]
    (row,) = stated["secrets"]
    assert (stated["charged"], row["n_counts_moved"], row["epsilon"]["0"][1]) == ({"epsilon": "1"}, 4, "1")
    right = 1 / (1 + np.exp(-1 / 4))  # of each of four noisy answers that move by one, in noise of scale 4
    chances = [comb(4, n) * right**n * (1 - right) ** (4 - n) for n in range(5)]
    guess = chances[4] + chances[3] + chances[2] / 2
    assert pytest.approx(guess, abs=1e-11) == float(row["best_guess"][1])
    own = document["privacy"]["secrets"][0]["right_in_100"]
    assert own < row["right_in_100"] == ceil(100 * guess)
    assert f"at most {row['right_in_100']} times in 100" in row["sentence"]
    assert "number of groups" in row["sentence"]
    assert findings(second) == {}


FALSE = {
    "right in 100": lambda d: d["secrets"][0].update(right_in_100=51),
    "best guess": lambda d: d["secrets"][0].update(best_guess=["0.5", "0.51"]),
    "epsilon": lambda d: d["secrets"][0].update(epsilon={"0": ["0.9", "0.9"]}),
    "counts": lambda d: d["secrets"][0].update(n_counts_moved=2),
    "sentence": lambda d: d["secrets"][0].update(sentence="Nobody can be found."),
    "no row": lambda d: d["secrets"].clear(),
    "charged": lambda d: d.update(charged={"epsilon": "1/2"}),
    "exact": lambda d: d.update(conditional_on=[]),
    "data set": lambda d: d.update(data_set="other"),
    "steps": lambda d: d.update(neighbours="bounded"),
    "nothing": lambda d: d.clear(),
}


@pytest.mark.parametrize("what", FALSE)
def test_a_false_statement_of_everything_is_found(second, tmp_path, what):
    """What all releases cost together is what an office answers for; it must be what the ledger holds."""

    def edit(document):
        FALSE[what](document["everything_released"])
        document["everything_released"] = document["everything_released"] or None

    assert "ledger" in findings(tampered(second, tmp_path, edit, rehash=False))


def test_a_release_of_another_version_is_refused(made, tmp_path):
    """Its certificate lacks statements; checks that skip them would pass it."""
    with fails_with("D138", DataError):
        verify(tampered(made, tmp_path, lambda d: d.update(version=1)))


def test_an_untouched_release_passes(made, tmp_path):
    """A checker that fails everything would pass all tests above."""
    assert findings(tampered(made, tmp_path, lambda d: None)) == {}


@pytest.mark.parametrize("kind", ["histogram", "cumulative", "tail", "chain", "tail_chain"])
def test_closed_forms_are_the_derived_sensitivities(kind):
    """Checker and calibration share no line; they must agree for every step and size."""
    tree = tree_of([[-1], [0, 0], [0, 0, 1]])
    for step in RELATIONS:
        for smallest in (0, 1):
            for n in (1, 2, 5):
                sizes = {"n_sizes": n, "smallest": smallest}
                derived = sensitivity(kind, step, tree, n, smallest).l1_by_level
                assert derived == tuple(_answers_moved(kind, step, regions, sizes) for regions in (1, 2, 3))


def test_noise_calibrated_to_less_than_a_step_moves_is_refused(tmp_path, monkeypatch):
    """The checker counts for itself: a slip in the derivation must stop a release before it is charged."""
    found = Sensitivity((1, 1), 2, 2)
    monkeypatch.setattr(budget, "joint_sensitivity", lambda *_: found)
    named = book(tmp_path)
    released(GROUPS, REGIONS, "tracking", "1/2", sizes=5, out=tmp_path / "tail", **named)
    with pytest.raises(ConfigError, match="sensitivity 1, derived 2") as caught:
        released(GROUPS, REGIONS, "M_H^dp", "1/2", sizes=5, out=tmp_path / "out", epsilon_limit=9, **named)
    assert (caught.value.code, dict(caught.value.details)) == ("C175", {"this run spent": "nothing"})
    assert not (tmp_path / "out").exists()
