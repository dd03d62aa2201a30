"""DHC persons: the bundled schema, budgets and invariants are the production's."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.failing import fails_with
from topdown.errors import ConfigError
from topdown.model import base_labels, parse_query, soft_rule_rows
from topdown.plan import load_invariants, load_run_file, load_schema, load_settings, prepare, run_file_text
from topdown.resources import find

ROOT = Path(__file__).resolve().parents[3]
# uscensusbureau/DAS_2020_DHC_Production_Code, persons strategy 2022-09-22: rho of each query of a level, in ten
# thousandths, in the order of QUERIES; the sixth and seventh query weigh four times as much at some levels.
LEVELS = {
    "us": (73, 4, 1),
    "state": (999, 4, 1),
    "county": (310, 4, 4),
    "prim": (478, 4, 1),
    "tract_subset_group": (478, 4, 1),
    "tract_subset": (868, 4, 4),
    "block_group": (430, 1, 1),
    "block": (11, 1, 1),
}
QUERIES = {
    "age_18_64_116 * relgq_4_groups": 12,
    "age_18_64_116 * sex": 6,
    "age_38_groups * sex": 76,
    "hispanic * sex": 4,
    "sex * relgq_4_groups": 8,
    "gq_constr_groups * age_10_groups": 60,
    "popSehsdTargetsRelship": 19,
    "hispanic * sex * age_40_groups * relship_and_eight_level_GQ * cenrace": 252_000,
    "relgq * age_40_groups * hispanic * cenrace * sex": 423_360,
    "detailed": 1_227_744,
}


@pytest.fixture(scope="module")
def schema():
    return load_schema(find("schemas", "dhc_persons", ROOT))


@pytest.mark.parametrize("name", ["dhc_persons_2022", "dhc_persons_2022_tracts"])
def test_budgets_are_the_productions(name: str) -> None:
    """Every level and query must cost exactly what the 2022 production spent on it."""
    settings = load_settings(find("settings", name, ROOT))
    assert settings.budget.rho == Fraction(24811, 5000)
    assert sum(table.share for table in settings.level) == 1
    names = [n if name == "dhc_persons_2022" or n != "tract_subset" else "tract" for n in LEVELS]
    assert [table.name for table in settings.level] == names
    for table, (rho, sixth, seventh) in zip(settings.level, LEVELS.values(), strict=True):
        assert list(table.queries) == list(QUERIES)
        factors = [1, 1, 1, 1, 1, sixth, seventh, 1, 1, 1]
        for share, factor in zip(table.queries.values(), factors, strict=True):
            assert settings.budget.rho * table.share * share == Fraction(rho * factor, 10_000)


def test_queries_have_the_productions_sizes(schema) -> None:
    """A wrong recode shows in the number of answers."""
    assert schema.shape == (42, 2, 116, 2, 63)
    assert {name: parse_query(schema, name).n_answers for name in QUERIES} == QUERIES


def test_every_base_attribute_has_its_counterpart(schema) -> None:
    """The extension would change what pl94 published if a recode did not match it label by label."""
    base = load_schema(find("schemas", "pl94", ROOT))
    of_cell = base_labels(schema, base, {})
    assert np.array_equal(np.unique(of_cell), np.arange(2016))
    cell = schema.cells(tuple(np.array([i]) for i in (27, 1, 17, 1, 62)))  # a nursing home, age 17, last race
    where = [int(i[0]) for i in base.coordinates(of_cell[cell])]
    labels = [a.labels[i] for a, i in zip(base.attributes, where, strict=True)]
    assert labels == ["nursing", "under_18", "hispanic", "63"]


FORBIDDEN = {  # code of relgq: ages (low, high) that the production's edit specifications forbid
    **dict.fromkeys(range(6), ((0, 14),)), **dict.fromkeys((6, 7, 8), ((90, 115),)), 10: ((0, 29),), 11: ((75, 115),),
    12: ((0, 29),), 13: ((0, 14), (90, 115)), 16: ((21, 115),), **dict.fromkeys(range(18, 23), ((0, 14),)),
    **dict.fromkeys((23, 31, 34, 35), ((0, 16), (66, 115))), **dict.fromkeys((24, 25, 26), ((26, 115),)),
    27: ((0, 19),), 32: ((0, 2), (31, 115)), 33: ((0, 15), (66, 115)), 37: ((0, 15),), 38: ((0, 15),),
    39: ((0, 15), (76, 115)),
}  # fmt: skip


def test_zeros_are_the_productions(schema) -> None:
    """32 kinds of people have ages that cannot be, and nobody else."""
    rules = load_invariants(find("invariants", "dhc_persons_2020", ROOT), schema)
    assert len(rules.never) == len(FORBIDDEN) == 32
    shut = np.zeros(schema.n_cells, dtype=bool)
    for rule in rules.never:
        shut |= schema.select(dict(rule.cells))
    table = shut.reshape(schema.shape)
    assert np.array_equal(table.any(axis=(1, 3, 4)), table.all(axis=(1, 3, 4)))
    expected = np.zeros((42, 116), dtype=bool)
    for code, spans in FORBIDDEN.items():
        for low, high in spans:
            expected[code, low : high + 1] = True
    assert np.array_equal(expected, table.any(axis=(1, 3, 4)))
    assert len(rules.at_least) == 24
    assert not rules.exact


def test_facilities_by_sex_keep_all_that_facilities_by_type_do(schema) -> None:
    """Whoever changes to the richer set must not lose a promise of the plainer one, nor a type or sex be forgotten."""
    plain, by_sex = (
        load_invariants(find("invariants", name, ROOT), schema)
        for name in ("dhc_persons_2020", "dhc_persons_by_sex")
    )
    assert plain.never == by_sex.never
    assert {*plain.at_least} < {*by_sex.at_least}
    assert plain.none_where_zero[0] == by_sex.none_where_zero[0]
    types = {dict(rule.cells)["relgq"][0]: rule.columns[0] for rule in plain.none_where_zero[1:]}
    assert len(types) == 24
    sexes = ("male", "female")
    assert {(rule.cells, rule.columns) for rule in by_sex.none_where_zero[1:]} == {
        ((("relgq", (label,)), ("sex", (sex,))), (f"{column}_{sex}", f"{column}_coed"))
        for label, column in types.items()
        for sex in sexes
    }
    assert {(rule.cells, rule.column, rule.per) for rule in by_sex.at_least} == {
        *((rule.cells, rule.column, rule.per) for rule in plain.at_least),
        *(
            ((("relgq", (label,)), ("sex", (sex,))), f"{column}_{sex}", 1)
            for label, column in types.items()
            for sex in sexes
        ),
    }


@pytest.mark.parametrize("name", ["dhc_persons_2022", "dhc_persons_2022_tracts"])
def test_init_writes_a_run_file_that_extends(tmp_path: Path, name: str) -> None:
    """What `init` writes for an extension must say so, and send who plans it alone to the right command."""
    out = tmp_path / "run.toml"
    out.write_text(run_file_text("dhc_persons", name, tmp_path / "r.csv", tmp_path / "l.csv", out))
    run = load_run_file(out)
    assert run.base is not None
    assert run.geography.levels[0] == "state"
    assert run.geography.levels[-1] == "block"
    with fails_with("C097", ConfigError):
        prepare(out)


def test_relationships_add_soft_rules_to_the_richer_set() -> None:
    """`adds_to` must bring the whole other set in, first and unchanged, and leave its names free of doubles."""
    schema = load_schema(ROOT / "schemas" / "dhc_persons.toml")
    base = load_invariants(ROOT / "invariants" / "dhc_persons_by_sex.toml", schema)
    own = load_invariants(ROOT / "invariants" / "dhc_persons_relationships.toml", schema)
    assert (own.at_least, own.none_where_zero, own.never) == (base.at_least, base.none_where_zero, base.never)
    assert [rule.times for rule in own.no_more_than] == [1, 2, 2, 99999]
    rows = soft_rule_rows(schema, own)
    assert sorted(set(rows[1].tolist())) == [-2, 0, 1]
    n_each = schema.n_cells // 42
    assert [(row == 1).sum() for row in rows] == [4 * n_each, n_each, n_each, 16 * n_each]


def test_sets_that_cannot_be_put_together_are_refused(tmp_path: Path) -> None:
    """A set that adds to itself would be read for ever; two rules of one name could not be told apart."""
    schema = load_schema(ROOT / "schemas" / "toy.toml")
    text = (ROOT / "invariants" / "toy.toml").read_text()
    head = text.replace('schema = "toy"', 'schema = "toy"\nadds_to = "b.toml"', 1)
    (tmp_path / "a.toml").write_text(head)
    (tmp_path / "b.toml").write_text(head.replace("b.toml", "a.toml"))
    with fails_with("C034", ConfigError, match="adds to itself"):
        load_invariants(tmp_path / "a.toml", schema)
    (tmp_path / "b.toml").write_text(text)
    with fails_with("C034", ConfigError, match="what it adds to"):
        load_invariants(tmp_path / "a.toml", schema)
