"""Plans: exact budgets, hashes that cover what matters, data-free."""

import json
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.failing import fails_with
from tests.helpers.policies import inexact_toy
from tests.helpers.solved import toy_run
from topdown.errors import ConfigError, DataError
from topdown.formats import parse_exact
from topdown.plan import RunFileAnswers, load_settings, plan_from_document, prepare, run_file_text
from topdown.resources import bundled_names, bundled_root, find

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT.parent / "shared" / "reference" / "das_strategies_exact.json"
LEVELS = {"us": "US", "state": "State", "county": "County", "tract": "Tract"}
LEVELS |= {"block_group": "Block_Group", "block": "Block"}
LEAVES = "geocode,homes,dormitories,barracks\n101,3,1,0\n102,0,0,1\n201,2,0,0\n"


def write(folder: Path, text: str | None = None, leaves: str = LEAVES) -> Path:
    """Write a toy run and return its run file; there are no records at all."""
    (folder / "leaves.csv").write_text(leaves)
    (folder / "own.toml").write_text(inexact_toy())
    (folder / "run.toml").write_text(text or toy_run())
    return folder / "run.toml"


def test_plan_needs_no_records(tmp_path: Path) -> None:
    """A plan must be the same whatever the confidential file says, so it cannot depend on there being one."""
    plan = prepare(write(tmp_path)).context.plan
    assert plan.loss == 2
    assert not (tmp_path / "records.csv").exists()
    (tmp_path / "records.csv").write_text("anything")
    assert prepare(tmp_path / "run.toml").context.plan.plan_hash == plan.plan_hash


@pytest.mark.skipif(
    not REFERENCE.is_file(), reason="../shared with the reference strategies is not beside the checkout"
)
@pytest.mark.parametrize("name", ["pl94_2020", "pl94_2020_marginal_first"])
def test_settings_are_the_production_allocation(name: str) -> None:
    """Every share and every rho must be the published 2020 fraction, exactly."""
    reference = json.loads(REFERENCE.read_text())["products"]["PL94_US"]
    settings = load_settings(find("settings", name, ROOT))
    assert settings.budget.rho == Fraction(reference["rho"])
    assert {t.name: t.share for t in settings.level} == {
        level: Fraction(reference["level_share"][theirs]) for level, theirs in LEVELS.items()
    }
    for table in settings.level:
        theirs = LEVELS[table.name]
        queries, rhos = reference["queries"][theirs], reference["rho_i"][theirs]
        assert list(table.queries) == queries
        for query, rho in zip(queries, rhos, strict=True):
            assert settings.budget.rho * table.share * table.queries[query] == Fraction(rho)


def test_variances_follow_the_neighbour_relation(tmp_path: Path) -> None:
    """Bounded: variance 1/rho (the production's convention). Add or remove: half of it. Geometric: 2/eps and 1/eps."""
    folders = {}
    for relation in ("bounded", "add_remove"):
        for mechanism in ("discrete_gaussian", "geometric"):
            folder = tmp_path / relation / mechanism
            folder.mkdir(parents=True)
            text = (
                toy_run()
                .replace('invariants = "toy"', 'invariants = "own.toml"')
                .replace('"bounded"', f'"{relation}"')
                .replace('"discrete_gaussian"', f'"{mechanism}"')
            )
            if mechanism == "geometric":
                text = text.replace("rho =", "epsilon =")
            folders[relation, mechanism] = prepare(write(folder, text)).context.plan
    for (relation, mechanism), plan in folders.items():
        factor = {"bounded": 2, "add_remove": 1}[relation]
        for level in plan.levels:
            for m in level.measurements:
                gaussian = mechanism == "discrete_gaussian"
                assert m.parameter == (
                    Fraction(factor) / (2 * m.loss) if gaussian else Fraction(factor) / m.loss
                )
        assert sum(m.loss for level in plan.levels for m in level.measurements) == plan.loss == 2


def test_hash_covers_what_decides_the_release_and_nothing_else(tmp_path: Path) -> None:
    """Anything that changes a published number must change the hash; paths and ledger policy must not."""
    base = prepare(write(tmp_path)).context.plan.plan_hash
    inexact = toy_run().replace('invariants = "toy"', 'invariants = "own.toml"')
    bounded = prepare(write(tmp_path, inexact)).context.plan.plan_hash
    changes = {
        "shares": toy_run().replace(
            '"total" = "1/4"\n"sex * age" = "1/4"', '"total" = "1/8"\n"sex * age" = "3/8"'
        ),
        "budget": toy_run(rho="3"),
        "relation": inexact.replace('"bounded"', '"add_remove"'),
        "weights": toy_run().replace("weight = 100", "weight = 101"),
        "title": toy_run().replace("Toy land", "Toy sea"),
    }
    for text in changes.values():
        assert prepare(write(tmp_path, text)).context.plan.plan_hash not in (base, bounded)
    assert prepare(write(tmp_path, leaves=LEAVES.replace("101,3", "101,4"))).context.plan.plan_hash != base
    same = toy_run().replace("records.csv", "elsewhere.csv").replace('rho_limit = "20"', 'rho_limit = "21"')
    assert prepare(write(tmp_path, same)).context.plan.plan_hash == base
    rows = LEAVES.splitlines()
    shuffled = "\n".join([rows[0], *rows[:0:-1]]) + "\n"
    assert prepare(write(tmp_path, leaves=shuffled)).context.plan.plan_hash == base


def test_plan_survives_its_document(tmp_path: Path) -> None:
    """plan.json is the contract between stages: reading it back must give the same plan to the last fraction."""
    plan = prepare(write(tmp_path)).context.plan
    document = json.loads(json.dumps(plan.to_document()))
    assert plan_from_document(document) == plan
    assert plan_from_document(document).plan_hash == plan.plan_hash
    with pytest.raises(ConfigError):
        plan_from_document(document | {"neighbours": "friends"})


def test_a_plan_of_another_version_is_refused(tmp_path: Path) -> None:
    """A plan of version 1 could be a simulation's; read as one of today, its release would pass for charged."""
    document = prepare(write(tmp_path)).context.plan.to_document()
    assert document["version"] == 2
    old = document | {"version": 1, "simulate": True}
    with pytest.raises(ConfigError, match="an older version") as caught:
        plan_from_document(old)
    assert (caught.value.code, caught.value.fix[-24:]) == ("C016", "the version that made it")


@pytest.mark.parametrize("value", [0.5, True, "1.5", "1/0", "-1", "", None, "1e3", -2])
def test_only_exact_nonnegative_numbers_are_budgets(value: object) -> None:
    """A float is not the number that was typed; it must never reach noise or accounting."""
    with pytest.raises(ValueError, match=r"number"):
        parse_exact(value)


@pytest.mark.parametrize("name", [n for n in bundled_names("settings") if not n.startswith("dhc_persons")])
def test_init_writes_a_run_file_that_plans(tmp_path: Path, name: str) -> None:
    """What `init` writes must be complete: it plans as it stands once leaves are there."""
    settings = load_settings(bundled_root() / "settings" / f"{name}.toml")
    (tmp_path / "records.csv").write_text("")
    if settings.schema == "toy":
        (tmp_path / "leaves.csv").write_text("geocode,homes,dormitories,barracks\n12,3,1,0\n")
    else:
        gq = ["correctional_adult", "juvenile", "nursing", "other_institutional", "college", "military"]
        columns = ["housing_units", *(f"gq_{t}" for t in [*gq, "other_noninstitutional"])]
        row = ["440010301001000", "5", *["0"] * 7]
        (tmp_path / "leaves.csv").write_text(",".join(["geocode", *columns]) + "\n" + ",".join(row) + "\n")
    out = tmp_path / "run.toml"
    known = RunFileAnswers(prefix_lengths=(0, 1, 2) if settings.schema == "toy" else ())
    files = (tmp_path / "records.csv", tmp_path / "leaves.csv", out)
    out.write_text(run_file_text(settings.schema, name, *files, answers=known))
    plan = prepare(out).context.plan
    spent = sum((t.share for t in settings.level if t.name in {v.name for v in plan.levels}), Fraction(0))
    assert plan.loss == settings.budget.rho * spent
    with pytest.raises(ConfigError, match="are for schema"):
        run_file_text("other", name, tmp_path / "r", tmp_path / "l", out)


def parquet_leaves(folder: Path, **columns: pa.Array) -> Path:
    """Write a toy run whose leaves are Parquet with some columns replaced."""
    plain = {"geocode": pa.array(["101", "102", "201"])}
    plain |= {name: pa.array([1, 1, 1]) for name in ("homes", "dormitories", "barracks")}
    pq.write_table(pa.table(plain | columns), folder / "leaves.parquet")
    return write(folder, toy_run().replace("leaves.csv", "leaves.parquet"))


@pytest.mark.parametrize(
    ("column", "values", "code"),
    [("homes", pa.array([1, None, 1]), "D007"), ("geocode", pa.array(["101", None, "201"]), "D006")],
)
def test_an_empty_value_of_a_parquet_column_is_refused(
    tmp_path: Path, column: str, values: pa.Array, code: str
) -> None:
    """A leaf without a geocode, or with an unknown fact, would close or open cells by luck."""
    with fails_with(code, DataError):
        prepare(parquet_leaves(tmp_path, **{column: values}))
