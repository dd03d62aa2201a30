"""Audits by runs: drawing code that is wrong in five ways is found, and right code passes.

Right code fails here once in a million audits (`RARELY`), by the union of all ends of rates; wrong code is held to the
default of one in a thousand.
"""

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers import audited, policies, solved
from tests.helpers.attacked import CENSUS
from tests.helpers.tiny_extension import draw_world
from topdown.plan import PublicContext
from topdown.practice.audit_by_runs import audit_by_runs

RARELY = Fraction(1, 10**6)
LAWS = [(m, n) for m in ("discrete_gaussian", "geometric", "optimal") for n in ("bounded", "add_remove")]
SOME = [LAWS[0], *(pytest.param(*of, marks=pytest.mark.slow) for of in LAWS[1:])]
WRONG = {
    "two files of each level after a crash": audited.drawn_twice,
    "one stream at two levels": lambda: audited.one_stream("region", "block"),
    "one stream at every level": lambda: audited.one_stream(*audited.LEVELS[0]),
    "sigma for sigma squared in one query": lambda: audited.root_of_variance("detailed"),
    "half the parameter in one query": lambda: audited.narrower(Fraction(1, 2), "detailed"),
    "no noise in one query": lambda: audited.silent("county", 1),
    "a record counted twice at one level": lambda: audited.counted_twice("county"),
}


@pytest.fixture(scope="module")
def lands(tmp_path_factory) -> dict[tuple[str, str], PublicContext]:
    """Return the land of four levels under every law and relation."""
    return {
        (law, relation): audited.make_land(
            tmp_path_factory.mktemp("land"), mechanism=law, neighbours=relation
        )
        for law, relation in LAWS
    }


@pytest.mark.parametrize(
    ("what", "law", "relation"),
    [
        pytest.param(what, *of, marks=[pytest.mark.slow] if of != LAWS[0] else [])
        for what in WRONG
        for of in LAWS
        if not (of[0] != "discrete_gaussian" and what.startswith("sigma"))  # other noise has no sigma
    ],
)
def test_wrong_drawing_is_found(what, law, relation, lands):
    """An audit that passes this code would pass the mistakes that published releases were made with."""
    with WRONG[what]():
        assert not audit_by_runs(lands[law, relation], 6_000, at_least=8).passes


@pytest.mark.slow
def test_wrong_drawing_is_found_under_shipped_settings(tmp_path):
    """Many queries with little budget each would hide a mistake in one of them, if only everything were looked at."""
    context = audited.make_shipped(tmp_path, "pl94_2020", "pl94_2020")
    wrong = {name: of for name, of in WRONG.items() if not name.startswith("one stream")}
    wrong["one stream at every level"] = lambda: audited.one_stream(*CENSUS[0])
    wrong["noise for add_remove"] = audited.calibrated_to_add_remove
    for name, of in wrong.items():
        with of():
            assert not audit_by_runs(context, 6_000, at_least=8).passes, name


@pytest.mark.parametrize(
    "law", ["discrete_gaussian", "optimal", pytest.param("geometric", marks=pytest.mark.slow)]
)
def test_noise_for_add_remove_on_bounded_data_is_found(law, lands):
    """The commonest mistake of all: a replaced record moves two counts, and the noise is for one."""
    with audited.calibrated_to_add_remove():
        found = audit_by_runs(lands[law, "bounded"], 8_000, at_least=8)
    assert {a.pair.kind for a in found.pairs if a.exceeds} >= {"everything", "attribute", "within_level"}


@pytest.mark.parametrize(("law", "relation"), SOME)
def test_right_drawing_passes(law, relation, lands):
    """An audit that fails right code would be switched off."""
    found = audit_by_runs(lands[law, relation], 8_000, false_alarm=RARELY)
    assert (found.passes, found.missing, len(found.pairs)) == (True, (), 50)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["blocks", "caps inside", "blocks, caps, nested", "land ages, block totals"])
def test_right_drawing_passes_under_rules(name, tmp_path):
    """Exact statistics and bounds change which neighbours there are; a wrong pair would refute right code."""
    context = policies.make_census(tmp_path, 5, policies.POLICIES[name]).context
    assert audit_by_runs(context, 4_000, false_alarm=RARELY, at_least=12).passes


@pytest.mark.parametrize(
    ("policy", "settings", "relation"),
    [
        ("toy", "toy", "bounded"),
        *(
            pytest.param(*of, marks=pytest.mark.slow)
            for of in (
                ("toy", "toy", "add_remove"),
                ("pl94_2020", "pl94_2020", "bounded"),
                ("pl94_block_population", "pl94_2020", "bounded"),
                ("pl94_2020", "pl94_2020", "add_remove"),
                ("dhc_persons_2020", "dhc_persons_2022_tracts", "bounded"),
            )
        ),
    ],
)
def test_right_drawing_passes_under_shipped_policies(policy, settings, relation, tmp_path):
    """What is shipped must pass its own audit, whatever its schema and budget."""
    context = audited.make_shipped(tmp_path, policy, settings, relation)
    found = audit_by_runs(context, 1_000, false_alarm=RARELY, at_least=8)
    assert found.passes
    assert found.pairs


def test_the_bound_is_close(lands):
    """A bound far below the truth would let everything pass: 8,000 runs show 65 % of mu."""
    found = audit_by_runs(lands["discrete_gaussian", "bounded"], 8_000, false_alarm=RARELY, at_least=8)
    likely = [
        v.shown[0].mu
        for a in found.pairs
        if a.pair.kind == "everything"
        for v in a.views
        if v.target is None and v.score == "likelihood ratio"
    ]
    assert max(low / high for low, high in likely) > 0.65


@pytest.mark.slow
@pytest.mark.parametrize(("law", "relation"), LAWS)
def test_right_drawing_passes_100_000_runs(law, relation, lands):
    """The audit's own size: what is close to its claim must not beat it."""
    found = audit_by_runs(lands[law, relation], 100_000, false_alarm=RARELY)
    assert found.passes
    if law == "discrete_gaussian":
        whole = [v for a in found.pairs if a.pair.kind == "everything" for v in a.views if v.target is None]
        low, high = max((v.shown[0].mu for v in whole), key=lambda mu: mu[0] / mu[1])
        assert 0.93 < low / high <= 1


CLOSE = {
    "a fifth less variance in one query": lambda: audited.narrower(Fraction(4, 5), "detailed"),
    "an eighth less variance everywhere": lambda: audited.narrower(Fraction(7, 8)),
    "sigma for sigma squared in one query": lambda: audited.root_of_variance("sex * age"),
}


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["bounded", "add_remove"])
@pytest.mark.parametrize("what", CLOSE)
def test_close_mistakes_need_100_000_runs(what, relation, lands):
    """A mistake of a tenth of sigma would pass an audit with one pair and one score."""
    with ExitStack() as stack:
        stack.enter_context(CLOSE[what]())
        assert not audit_by_runs(lands["discrete_gaussian", relation], 100_000).passes


def test_a_census_on_disk_needs_no_records(tmp_path: Path) -> None:
    """An audit that opened the records could show them."""
    census = solved.make_census(tmp_path, 2)
    assert not list(tmp_path.glob("*.csv.gz"))
    assert not (tmp_path / "persons.csv").exists()
    assert audit_by_runs(census.context, 1_000, at_least=4, false_alarm=RARELY).pairs


def test_an_extension_is_audited_on_what_its_base_leaves_open():
    """Extensions draw by other code: it must pass where it is right, and be found where it is wrong."""
    context = draw_world(4, n_leaves=4).context()
    found = audit_by_runs(context, 4_000, false_alarm=RARELY, at_least=8)
    assert found.passes
    assert {n for a in found.pairs for row in a.pair.moved for n in row} == {
        0,
        1,
        2,
    }  # 1: half of it is closed
    for wrong in (
        audited.silent("leaf", 1),
        audited.counted_twice("middle"),
        audited.one_stream("top", "leaf"),
    ):
        with wrong:
            assert not audit_by_runs(context, 4_000, at_least=8).passes
