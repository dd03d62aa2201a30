"""Whole releases under soft rules: every promise holds, and every leaf keeps every rule or is listed."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import policies, solved
from tests.helpers.depth import repeats
from tests.helpers.extension import INVARIANTS, make_land, records_kept
from tests.helpers.rule_texts import rule
from topdown.app import generate_release
from topdown.formats import Broken, Solve, json_bytes
from topdown.model import Histogram
from topdown.plan import load_context, prepare
from topdown.solve import SoftRuleRepair

DWELLING, SEX, AGE = np.unravel_index(np.arange(18), (3, 2, 3))
AT_HOME = DWELLING == 0
ROWS = {  # the rules below, written by hand
    "children": (AGE == 0) - 1 * (AGE > 0),
    "somebody works": 1 * AT_HOME - 99999 * (AT_HOME & (AGE == 1)),
    "old women": ((SEX == 0) & (AGE == 2)) - 2 * ((SEX == 1) & (AGE == 2)),
}


def soft(name: str, cells: str, than: str, times: int = 1) -> str:
    """Return a soft rule."""
    return rule("no_more_than", name, cells, than=than, times=times)


SOFT = (
    soft("children", 'age = ["0_17"]', 'age = ["18_64", "65_plus"]')
    + soft("somebody works", 'dwelling = ["home"]', 'dwelling = ["home"], age = ["18_64"]', 99999)
    + soft("old women", 'sex = ["female"], age = ["65_plus"]', 'sex = ["male"], age = ["65_plus"]', 2)
)


def release(census: solved.Census, seed: int, size: float, *, workers: int = 1) -> Any:
    """Solve a census from noisy answers."""
    return policies.solve(census, solved.noisy(census, seed, size=size), workers=workers)


def check_listed(
    document: Solve, codes: tuple[str, ...], leaves: np.ndarray, rows: dict[str, np.ndarray]
) -> None:
    """Fail unless the leaves that break a rule, and the rules, are those listed; repaired leaves keep all."""
    over = {name: leaves @ row > 0 for name, row in rows.items()}
    found = [
        Broken(node=code, proved=True, constraints=[name for name in rows if over[name][leaf]])
        for leaf, code in enumerate(codes)
        if any(over[name][leaf] for name in rows)
    ]
    assert document.comparisons.broken == sorted(found, key=lambda leaf: leaf.node)
    repaired = {repair.node for repair in document.comparisons.repairs}
    assert not repaired & {leaf.node for leaf in found}


def check_levels(document: Solve) -> None:
    """Fail unless all is certified and rounded to a proved optimum."""
    solved.check_proved(document)
    for repair in document.comparisons.repairs:
        assert repair.proved
        assert repair.distance > 0
        assert repair.distance % 2 == 0


@pytest.mark.deep
@pytest.mark.parametrize("policy", ["none", *policies.POLICIES])
@given(seed=st.integers(0, 1_000_000), size=st.sampled_from([0.3, 3.0]))
@settings(max_examples=repeats(1, 5), deadline=None)
def test_every_policy_keeps_promises_and_rules(policy: str, seed: int, size: float) -> None:
    """Soft rules may never cost a hard promise, and no leaf may break one without being listed."""
    with tempfile.TemporaryDirectory() as folder:
        census = policies.make_census(Path(folder), seed, policies.POLICIES.get(policy, "") + SOFT)
        result = release(census, seed + 1, size)
    policies.check_promises(census, result.leaves.whole())
    check_levels(result.document)
    leaves = result.leaves.whole().dense(0, result.leaves.n_nodes)
    check_listed(result.document, census.context.geography.leaves.codes, leaves, ROWS)


def test_repairs_change_the_listed_leaves_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without repairs all other leaves are the same, totals too, and the distances are those reported."""
    n_repairs = 0
    for seed in range(4):
        more = policies.POLICIES["blocks, caps, nested"] + SOFT
        census = policies.make_census(tmp_path / str(seed), seed, more, n_blocks=25)
        after = release(census, seed + 1, 3.0)
        with monkeypatch.context() as patch:
            patch.setattr(SoftRuleRepair, "finish", lambda _self, leaf, *_: leaf)
            before = release(census, seed + 1, 3.0)
        codes = census.context.geography.leaves.codes
        for one, two in zip(
            before.leaves.whole().at_every_level(census.context.geography),
            after.leaves.whole().at_every_level(census.context.geography),
            strict=True,
        ):
            np.testing.assert_array_equal(one.totals(), two.totals())
        moved = np.abs(
            after.leaves.whole().dense(0, len(codes)).astype(np.int64)
            - before.leaves.whole().dense(0, len(codes))
        ).sum(axis=1)
        told = {r.node: r.distance for r in after.document.comparisons.repairs}
        assert {code: int(d) for code, d in zip(codes, moved, strict=True) if d} == told
        n_repairs += len(told)
    assert n_repairs > 0


def test_without_noise_rules_that_the_truth_keeps_change_nothing(tmp_path: Path) -> None:
    """A soft rule that the records keep must not move any of them."""
    row, n_kept = (AGE == 0) - 2 * (AGE == 1), 0
    more = policies.BLOCKS + soft("children", 'age = ["0_17"]', 'age = ["18_64"]', 2)
    for seed in range(6):
        census = policies.make_census(tmp_path / str(seed), seed, more, n_blocks=6)
        truth = census.truth[-1].dense(0, census.truth[-1].n_nodes)
        if (truth @ row > 0).any():
            continue
        result = release(census, 4, 0.0)
        np.testing.assert_array_equal(result.leaves.whole().dense(0, len(truth)), truth)
        assert not result.document.comparisons.repairs
        n_kept += 1
    assert n_kept > 0


def test_one_or_two_workers_give_the_same_bytes(tmp_path: Path) -> None:
    """Repairs and lists must not depend on which worker finished first."""
    census = policies.make_census(tmp_path, 5, policies.POLICIES["counties, caps, mixed"] + SOFT, n_blocks=40)
    one, two = (release(census, 6, 3.0, workers=n) for n in (1, 2))
    assert json_bytes(one.document) == json_bytes(two.document)
    assert one.document.comparisons.repairs or one.document.comparisons.broken
    for name in ("node", "cell", "count"):
        assert getattr(one.leaves.whole(), name).tobytes() == getattr(two.leaves.whole(), name).tobytes()


KIND, JOB, _, YEARS = np.unravel_index(np.arange(6 * 2 * 2 * 6), (6, 2, 2, 6))
MORE_ROWS = {
    "no more workers": (JOB == 1) - 1 * (JOB == 0),
    "small children live with somebody": 1 * ((KIND == 1) & (YEARS == 0)) - 2 * ((KIND == 1) & (YEARS >= 2)),
    "young": 1 * (YEARS == 2) - 1 * (YEARS == 3),
}
MORE_SOFT = (
    soft("no more workers", 'job = ["some"]', 'job = ["none"]')
    + soft(
        "small children live with somebody",
        'kind = ["with_others"], years = ["0_9"]',
        'kind = ["with_others"], years = ["18_29", "30_64", "65_79", "80_plus"]',
        2,
    )
    + soft("young", 'years = ["18_29"]', 'years = ["30_64"]')
)


def extended(folder: Path, seed: int, *, by_job: bool, rules: bool = True) -> tuple[dict, Histogram, Path]:
    """Extend a toy release under soft rules; return its document, its leaves and its folder."""
    land = make_land(folder, seed, by_job=by_job)
    path = land.folder / "invariants.toml"
    text = path.read_text(encoding="utf-8")
    assert text.startswith(INVARIANTS)
    path.write_text(text + MORE_SOFT * rules, encoding="utf-8")
    generate_release(prepare(land.run, land.base), land.folder / "more", base=land.base)
    out = land.folder / "more"
    document = msgspec.json.decode((out / "solve.json").read_bytes(), type=Solve)
    more = records_kept(land.base, out)
    return document, more, out


@pytest.mark.parametrize("by_job", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("seed", [10, *(pytest.param(s, marks=pytest.mark.slow) for s in (11, 12))])
def test_an_extension_keeps_the_base_and_the_rules(tmp_path: Path, seed: int, *, by_job: bool) -> None:
    """Rules on what is added may never touch the base table; leaves keep them or are listed."""
    document, more, out = extended(tmp_path, seed, by_job=by_job)
    check_levels(document)
    codes = load_context(out).geography.leaves.codes
    check_listed(document, codes, more.dense(0, more.n_nodes), MORE_ROWS)
    assert (
        sum(level.n_enforced for level in document.comparisons.levels) > 0
    )  # or nothing was put to the test
