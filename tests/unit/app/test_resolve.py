"""`resolve`: another release from the same noisy numbers, charged to nobody, and checked against what was measured."""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import topdown
from tests.helpers.failing import fails_with, stopping_at
from tests.helpers.folders import files
from tests.helpers.small_release import canonical, reseal
from topdown.formats import json_bytes
from topdown.plan import Base, SolveChanges, load_context, make_resolved_plan, refuse_resolved
from topdown.verify import verify_measured

SETTINGS = Path(__file__).resolve().parents[3] / "settings" / "toy.toml"


@pytest.fixture(scope="module")
def tree(town, tmp_path_factory) -> Path:
    """Return a release of the town's measurement that is fitted to the tree estimate, with intervals."""
    out = tmp_path_factory.mktemp("resolved") / "tree"
    made = topdown.resolve(town.release, out, targets="tree", coverage="19/20", name="tree")
    assert (made.n_records, made.n_drawn, made.loss) == (400, 0, "2")
    return out


def test_a_resolved_release_is_whole_and_says_whose_measurement_it_is(town, tree):
    """A second release from one measurement must promise what the first does, cost nothing, and be checked as one."""
    first, second = topdown.Release(town.release), topdown.Release(tree)
    checks = topdown.verify(tree, solve=True)
    assert checks.ok
    assert "measured" in [check.name for check in checks.checks]
    one, other = (dict(each.certificate["privacy"]) for each in (first, second))
    (own,), (copied,) = (each.pop("everything_released")["secrets"] for each in (one, other))
    assert one == other
    assert {**own, "sentence": ""} == {**copied, "sentence": ""}
    assert "According to a copy that ends at record" in copied["sentence"]
    assert second.certificate["measured"] == {"release": "made-up", "plan_hash": first.plan.plan_hash}
    assert (second.plan.release.id, second.plan.coverage) == ("made-up-tree", Fraction(19, 20))
    text = (tree / "README.txt").read_text(encoding="utf-8")
    assert f"solves the measurement of made-up, plan {first.plan.plan_hash[:8]}" in text
    assert "charged for this release" not in (tree / "report.html").read_text(encoding="utf-8")
    whole = topdown.audit_ledger(tree / "ledger.jsonl")
    assert (whole.charged, len(whole.releases)) == ({"rho": "2"}, 1)
    assert topdown.audit(tree).agrees
    assert (town.release / "ledger.jsonl").read_bytes() == (tree / "ledger.jsonl").read_bytes()
    assert (town.release / "plan.json").read_bytes() == (tree / "measurements" / "plan.json").read_bytes()


def test_back_again_gives_the_first_records(town, tree, tmp_path):
    """Noise that came from anywhere but the first measurement would give other records."""
    topdown.resolve(tree, tmp_path / "own", targets="own", coverage="9/10", name="back")
    back = topdown.Release(tmp_path / "own")
    assert topdown.Release(town.release).microdata().equals(back.microdata())
    assert back.plan.release.id == "made-up-back"
    copied = town.run.parent / "ledger.jsonl"
    ledger = copied if copied.exists() else topdown.plan(town.run).prepared.ledger_path
    (half := tmp_path / "half").mkdir()
    for name in ("plan.json", "public", "measurements"):  # as `topdown measure` leaves it
        source = town.release / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, half / name)
    with fails_with("C088"):
        topdown.resolve(half, tmp_path / "more", targets="tree")
    topdown.resolve(half, tmp_path / "more", targets="tree", coverage="19/20", name="tree", ledger=ledger)
    assert files(tmp_path / "more") == files(tree)


def test_estimates_are_those_of_the_published_tables(town, tree):
    """Arrays that came from elsewhere would be another estimate than the one whose chances are stated."""
    release = topdown.Release(tree)
    for query in release.tables:
        for level in release.levels:
            found, table = release.estimates(query, level), release.table(query, level)
            labels = [tuple(row) for row in table[list(found.attributes)].astype(str).to_numpy()]
            at = [found.geocodes.index(code) for code in table["geocode"]]
            of = [found.labels.index(one) for one in labels]
            assert table["estimate"].tolist() == found.estimate[at, of].tolist()
            assert table["stddev"].tolist() == found.stddev[at, of].tolist()
            assert found.exact == ((query, level) == ("total", "land"))
            assert (found.estimate.sum(), found.stddev.min() >= 0) == (pytest.approx(400, abs=0.02), True)
    plain = topdown.Release(town.release).estimates("sex", "block")  # no table of it, and no intervals
    assert plain.estimate.shape == plain.stddev.shape == (8, 2)
    assert plain.estimate.sum(axis=0) == pytest.approx(release.estimates("sex", "land").estimate[0], abs=0.02)
    for query, level, code in (("income", "block", "C024"), ("sex", "moon", "C181")):
        with fails_with(code):
            release.estimates(query, level)


def written(path: Path, old: str, new: str) -> Path:
    """Write the toy's settings with a change."""
    text = SETTINGS.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_settings_that_measure_the_same_are_taken(town, tmp_path):
    """Passes and rounding chains are a matter of solving; a settings file is how a person writes them."""
    old = '{ table = "total", weight = 100 }, { table = "dwelling", weight = 1 }'
    chosen = written(tmp_path / "flat.toml", old, '{ table = "total", weight = 7 }')
    made = topdown.resolve(town.release, tmp_path / "flat", settings=chosen, name="flat")
    assert made.checks.ok
    county = topdown.Release(tmp_path / "flat").plan.level("county")
    assert [(r.table, r.weight) for r in county.rounding] == [("total", 7), ("detailed", 1)]


WRONG = {
    "C251": {
        "budget": ('rho = "2"', 'rho = "3"'),
        "neighbours": ('neighbours = "bounded"', 'neighbours = "add_remove"'),
        "queries": ('"sex * age" = "1/2"', '"sex" = "1/2"'),
        "query shares": ('"total" = "1/2"\n"sex * age" = "1/4"', '"total" = "1/4"\n"sex * age" = "1/2"'),
        "level shares": ('name = "land"\nshare = "1/4"', 'name = "land"\nshare = "1/5"'),
    },
    "C252": {"nothing": ("made up", "made up")},
    "C053": {"pass": ('queries = ["total"], table = "total"', 'queries = ["sex"], table = "total"')},
}


@pytest.mark.parametrize(("code", "case"), [(code, case) for code, cases in WRONG.items() for case in cases])
def test_settings_that_measure_something_else_are_refused(town, tmp_path, code, case):
    """Noise of one plan that is read as answers of another would be a release of numbers nobody protected."""
    chosen = written(tmp_path / "other.toml", *WRONG[code][case])
    with fails_with(code):
        topdown.resolve(town.release, tmp_path / "out", settings=chosen)
    assert not (tmp_path / "out").exists()


def test_extensions_and_full_folders_are_refused(town, tree, tmp_path):
    """What cannot be solved in another way must say so before anything is written."""
    context = load_context(town.release)
    base = Base("made-up", "0" * 64, "0" * 64, "0" * 64, (), (0, 0, 0))
    extends = replace(context, plan=replace(context.plan, base=base))
    for call in (
        lambda: make_resolved_plan(extends, SolveChanges(targets="tree")),
        lambda: refuse_resolved(topdown.Release(tree).plan),
    ):
        with fails_with("C253") as refused:
            call()
        assert "and extend that" not in refused.value.fix  # which is refused as well
    with fails_with("C085"):
        topdown.resolve(town.release, tree, targets="tree")
    out, asked = tmp_path / "stopped", {"targets": "tree", "coverage": "19/20", "name": "tree"}
    with pytest.raises(KeyboardInterrupt):
        topdown.resolve(town.release, out, **asked, report=stopping_at("solve", lambda event: event.done > 0))
    with pytest.raises(topdown.TopdownError, match="not an empty folder"):
        topdown.resolve(town.release, out, targets="tree", name="tree")
    topdown.resolve(town.release, out, **asked)
    assert files(out) == files(tree)
    spoilt = shutil.copytree(town.release, tmp_path / "spoilt")
    (spoilt / "measurements" / "journal.json").unlink()
    shutil.copyfile(spoilt / "plan.json", spoilt / "measurements" / "journal.json")
    with fails_with("V026"):
        topdown.resolve(spoilt, tmp_path / "out", **asked)


def forged(tree: Path, folder: Path, change: Callable[[Any, Any], None], *, both: bool = False) -> Path:
    """Copy a release and change its plan, hashes renewed; with `both` also the plan that it says was measured."""
    shutil.copytree(tree, folder)
    paths = folder / "plan.json", folder / "measurements" / "plan.json"
    plan, first = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    change(plan, first)
    for path, document in zip(paths, (plan, first), strict=True):
        document.pop("plan_hash")
        if both and path == paths[0]:
            inner = {key: value for key, value in first.items() if key != "plan_hash"}
            document["measured"]["plan_hash"] = hashlib.sha256(canonical(inner)).hexdigest()
        document["plan_hash"] = hashlib.sha256(canonical(document)).hexdigest()
        path.write_bytes(json_bytes(document))
    return folder


def relabel(plan: Any) -> None:
    labels = plan["schema"]["attributes"][1]["labels"]
    labels[0], labels[1] = labels[1], labels[0]


def first_too(change: Callable[[Any], None]) -> Callable[[Any, Any], None]:
    """Return a change that is made to both plans."""
    return lambda plan, first: (change(plan), change(first), None)[2]


FORGED: dict[str, tuple[Callable[[Any, Any], None], str]] = {
    "labels change places": (lambda plan, _: relabel(plan), "measured"),
    "a promise is dropped": (lambda plan, _: plan["invariants"].update(at_least=[]), "measured"),
    "another office signs": (lambda plan, _: plan["release"].update(agency="Somebody else"), "measured"),
    "another data set": (lambda plan, _: plan["release"].update(data_set="other"), "measured"),
    "a name of its own": (lambda plan, _: plan["release"].update(id="census-2030"), "measured"),
    "another first release": (lambda plan, _: plan["measured"].update(release="other"), "measured"),
    "no first release": (lambda plan, _: plan.pop("measured"), "ledger"),
    "another first hash": (lambda plan, _: plan["measured"].update(plan_hash="0" * 64), "ledger"),
    "the first is forged too": (first_too(relabel), "ledger"),
    "written anew without a change": (lambda plan, first: None, ""),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_plan_is_found(tree, tmp_path, case):
    """The first plan is all that ties the noise to its questions; a plan that says otherwise must fail."""
    change, check = FORGED[case]
    found = verify_measured(forged(tree, tmp_path / "bad", change, both=case.startswith("the first")))
    assert check in [one.name for one in found.checks if not one.ok] or (check, found.ok) == ("", True)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"{}")])
def test_the_first_plan_must_be_there(town, tree, tmp_path, spoil):
    """A release that lost it could not be checked; one that never had one must have none."""
    bad = shutil.copytree(tree, tmp_path / "bad")
    spoil(bad / "measurements" / "plan.json")
    reseal(bad)
    assert "measured" in [check.name for check in topdown.verify(bad).checks if not check.ok]
    plain = shutil.copytree(town.release, tmp_path / "plain")
    shutil.copyfile(tree / "measurements" / "plan.json", plain / "measurements" / "plan.json")
    reseal(plain)
    assert [c.name for c in topdown.verify(plain).checks if not c.ok] == ["manifest"]
