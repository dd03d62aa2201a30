"""Somebody changes what a certificate says of privacy and rewrites the manifest: verify derives it anew and refuses."""

import json
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.depth import repeats
from tests.helpers.extension import make_land
from tests.helpers.policies import BLOCKS, inexact_toy
from tests.helpers.small_release import build, reseal, write_canonical
from topdown.app import generate_release
from topdown.plan import prepare
from topdown.verify import verify, verify_privacy

Privacy = dict[str, Any]


def blocks() -> str:
    """Return toy invariants that also keep the total of every block."""
    return inexact_toy() + "\n" + BLOCKS


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return sound releases: plain, with exact block totals, add_remove, geometric, an extension, a chain of two."""
    folder = tmp_path_factory.mktemp("privacy")
    out = {
        "plain": build(folder / "plain").folder,
        "blocks": build(folder / "blocks", invariants=blocks()).folder,
        "add_remove": build(folder / "add", invariants=inexact_toy(), neighbours="add_remove").folder,
        "geometric": build(folder / "geometric", mechanism="geometric").folder,
    }
    land = make_land(folder / "land", 3, n_blocks=5)
    more, third = folder / "land" / "more", folder / "land" / "third"
    generate_release(prepare(land.run, land.base), more, base=land.base)
    (folder / "land" / "third.toml").write_text(land.run.read_text().replace('id = "full"', 'id = "third"'))
    generate_release(prepare(folder / "land" / "third.toml", more), third, base=more)
    return out | {"extension": more, "chain": third}


# one change in so many is tried; primes, so that all kinds of change come up
STRIDE = {
    "plain": repeats(23, 5),
    "blocks": repeats(29, 7),
    "add_remove": repeats(37, 11),
    "geometric": repeats(23, 5),
    "extension": repeats(307, 67),
    "chain": repeats(421, 97),
}
STATUSES = {"protected", "conditional", "disclosed"}
KINDS = ("plain", "blocks", "add_remove", "geometric", "extension", "chain")


@pytest.fixture
def copy(releases: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that copies one of the releases."""
    return lambda kind: Path(shutil.copytree(releases[kind], tmp_path / kind))


def state(release: Path, privacy: object) -> None:
    """Put another section privacy into the certificate."""
    path = release / "certificate.json"
    write_canonical(path, json.loads(path.read_text(encoding="utf-8")) | {"privacy": privacy})


def stated(release: Path) -> Privacy:
    """Return the section privacy of the certificate."""
    return json.loads((release / "certificate.json").read_text(encoding="utf-8"))["privacy"]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value inside a JSON document."""
    if path:
        yield path
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(inner, (*path, key))


def at(document: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at a place."""
    for key in path:
        document = document[key]
    return document


def others(value: Any) -> list[Any]:
    """Return what somebody might put in place of a value."""
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            flips = STATUSES if value in STATUSES else set()
            return [value + " ", "", None, *sorted(flips - {value})]
        lower, higher = f"{number * 0.99:.17f}", f"{number * 1.01 + 0.001:.17f}"
        return ["none", None, higher, *([lower] if number else [])]
    if isinstance(value, bool) or value is None:
        return [1]
    if isinstance(value, int | float):
        return [value - 1, value * 1.01 + 1, str(value), None]
    if isinstance(value, list):
        return [None, [*value, "more"], *([value[:-1], [*value, value[-1]]] if value else [])]
    return [None, {}, value | {"more": 1}]


def variants(privacy: Privacy) -> Iterator[tuple[tuple[Any, ...], Any, Privacy]]:
    """Yield every change of one value; `unspent` belongs to another check."""
    for path in places(privacy):
        if path[0] == "unspent":
            continue
        for other in others(at(privacy, path)):
            document = deepcopy(privacy)
            at(document, path[:-1])[path[-1]] = other
            yield path, other, document
        if isinstance(path[-1], str):
            document = deepcopy(privacy)
            del at(document, path[:-1])[path[-1]]
            yield path, "removed", document


@pytest.mark.parametrize("kind", KINDS)
def test_honest_certificates_pass(releases: dict[str, Path], kind: str) -> None:
    """A check that refuses what is true would be switched off."""
    result = verify(releases[kind])
    assert result.ok, [f.text for check in result.checks for f in check.findings]


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_every_changed_value_is_found(copy: Callable[[str], Path], kind: str) -> None:
    """Any number, name, status, word, row or step that may be changed unnoticed can be made up."""
    release = copy(kind)
    privacy, missed, n = stated(release), [], 0
    for i, (path, other, document) in enumerate(variants(privacy)):
        if i % STRIDE[kind]:
            continue
        state(release, document)
        n += 1
        if verify_privacy(release).ok:
            missed.append((path, other))
    assert not missed
    assert n > repeats(7, 35)


@pytest.mark.parametrize("kind", KINDS)
def test_statements_that_fit_each_other_are_found(copy: Callable[[str], Path], kind: str) -> None:
    """A forger changes everything that hangs together: rows, sentence, epsilon, curve, and the manifest."""
    release = copy(kind)
    privacy = stated(release)
    other = deepcopy(privacy)
    best = min((r for r in other["secrets"] if "epsilon" in r), key=lambda r: float(r["best_guess"][1]))
    first = other["secrets"][0]
    for key in set(best) - {"name", "kind", "status", "exact", "sentence"}:
        first[key] = best[key]
    words = first["sentence"].split(" times in 100")[0].rsplit(" ", 1)[0]
    first["sentence"] = f"{words} {best['right_in_100']} times in 100; a coin gives 50."
    other |= {"epsilon": best["epsilon"], "sentence": first["sentence"]}
    state(release, other)
    reseal(release)
    result = verify(release)
    # README.txt and report still quote the old sentence
    assert [check.name for check in result.checks if not check.ok] == ["privacy", "stamps", "report"]
    assert "V132" in {f.code for f in result.check("privacy").findings}


def test_a_disclosed_secret_cannot_be_called_protected(copy: Callable[[str], Path]) -> None:
    """Numbers of another row under a secret that exact totals give away would be quoted as protection."""
    release = copy("blocks")
    privacy = stated(release)
    i = next(i for i, row in enumerate(privacy["secrets"]) if row["status"] == "disclosed")
    row = deepcopy(privacy["secrets"][1]) | {key: privacy["secrets"][i][key] for key in ("name", "kind")}
    privacy["secrets"][i] = row | {"status": "protected", "exact": []}
    state(release, privacy)
    reseal(release)
    assert {f.code for f in verify(release).check("privacy").findings} >= {"V133"}


@pytest.mark.parametrize(
    "change",
    [
        lambda p: p["secrets"].pop(1),
        lambda p: p["secrets"].reverse(),
        lambda p: p["secrets"].append(p["secrets"][1] | {"name": "shoe size only"}),
        lambda p: p["steps"].pop(0),
        lambda p: p["steps"].reverse(),
        lambda p: p.update(steps=[]),
        lambda p: p.update(
            secrets=p["steps"][-1]["secrets"], sentence=p["steps"][-1]["secrets"][0]["sentence"]
        ),
        lambda p: p["secrets"][0].update(
            sentence=p["secrets"][0]["sentence"].replace("this release and what it extends", "this release")
        ),
        lambda p: p.update(curve=[]),
        lambda p: [x.update(power=[x["alpha"], x["alpha"]]) for x in p["curve"]],
    ],
)
def test_rows_and_steps_left_out_are_found(
    copy: Callable[[str], Path], change: Callable[[Privacy], object]
) -> None:
    """A step that is left out, or stated instead of the whole, is how a base is forgotten."""
    release = copy("chain")
    privacy = stated(release)
    change(privacy)
    state(release, privacy)
    assert not verify_privacy(release).ok


@pytest.mark.parametrize(
    "pair",
    [
        ["0", "1000000"],
        ["0", "20"],
        ["14.2", "15"],
        ["NaN", "NaN"],
        ["1e9", "2e9"],
        ["-1", "20"],
        ["20", "1"],
        [14, 15],
    ],
)
def test_pairs_that_say_nothing_are_refused(copy: Callable[[str], Path], pair: list[Any]) -> None:
    """An interval that holds everything encloses the truth and tells nobody anything."""
    release = copy("plain")
    privacy = stated(release)
    privacy["secrets"][0]["epsilon"] = privacy["epsilon"] = {"1e-10": pair}
    state(release, privacy)
    assert not verify_privacy(release).ok


@pytest.mark.parametrize("epsilon", [["0", "1000"], ["0", "14"], ["14.9", "15"]])
def test_bounds_are_those_that_theorems_give(copy: Callable[[str], Path], epsilon: list[str]) -> None:
    """Whoever calls a number a bound may not make up a wide one, nor one that the truth breaks."""
    release = copy("plain")
    privacy = stated(release)
    row = privacy["secrets"][1]
    row |= {"method": "bounds: two Gaussians, zCDP, symmetry", "epsilon": {"1e-10": epsilon}}
    state(release, privacy)
    assert [f.code for f in verify_privacy(release).findings] == ["V132"]
