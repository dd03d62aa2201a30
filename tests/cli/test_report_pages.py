"""What pages of reports say, sentence by sentence and number by number, and whether everybody can read them."""

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import pyarrow.parquet as pq
import pytest

from tests.cli.test_budget_grid import write
from tests.helpers import policies
from tests.helpers.html_pages import check_accessible, check_html
from tests.pinned.releases import ESTIMATES, QUIET, SOFT, TREE, generate, run
from topdown import app, plan

ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    "gaussian": {},
    "add_remove": {"neighbours": "add_remove"},
    "geometric": {"mechanism": "geometric"},
    "optimal": {"mechanism": "optimal", "edit": lambda text: text.replace("1/1000", "1/100")},
    "intervals": {"edit": lambda text: text.replace("[budget]", ESTIMATES)},
    "tree": {"edit": lambda text: text.replace("[budget]", TREE)},
}
BUNDLED = ("pl94_2020", "pl94_2020_marginal_first", "pl94_2020_tree", "pl94_tuned")  # settings of a census
POLICIES = {name: {"more": text} for name, text in (policies.POLICIES | SOFT).items()}
EXTENDING = ("dhc_persons_2022", "dhc_persons_2022_tracts")  # of further attributes


@pytest.fixture(
    scope="module",
    params=[
        *KINDS,
        *(pytest.param(name, marks=pytest.mark.slow) for name in (*POLICIES, *BUNDLED, *EXTENDING)),
    ],
)
def made(request, tmp_path_factory) -> tuple[str, Path]:
    """Make a release of every law and relation, with and without intervals, and of each setting of a census."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param in KINDS | POLICIES:
        generate(folder, **(KINDS | POLICIES)[request.param])
    elif request.param in EXTENDING:
        schema = ("--schema", "dhc_persons", "--settings", request.param)
        run("synth", "--out", folder / "in", "--people", "150", *schema)
        run("generate", folder / "in" / "base.toml", "--out", folder / "base", *QUIET)
        extended = ("--base", folder / "base", "--out", folder / "release")
        run("extend", folder / "in" / "run.toml", *extended, *QUIET)
    else:
        run("synth", "--out", folder / "in", "--people", "150", "--settings", request.param)
        run("generate", folder / "in" / "run.toml", "--out", folder / "release", *QUIET)
    return request.param, folder / "release"


def first_page(release: Path) -> str:
    """Return the words of the summary, without marks."""
    page = (release / "report.html").read_text(encoding="utf-8")
    return re.sub(r"<[^>]+>", "", re.search(r'<div class="summary">(.*?)</div>', page, flags=re.S)[1])


def test_each_sentence_of_the_first_page_is_true_alone(made) -> None:
    """These sentences are quoted without the rest: every number in them is computed here once more, from the files."""
    kind, release = made
    said, document = first_page(release), json.loads((release / "plan.json").read_text())
    levels, unit = document["levels"], document["schema"]["unit"]
    records = sum(pq.read_table(release / "microdata" / "persons.parquet")["count"].to_pylist())
    leaf, n_leaves = levels[-1]["name"], pq.read_table(release / "public" / "leaves.parquet").num_rows
    assert f"describes {records:,} {unit} records in {n_leaves:,} areas of level {leaf}." in said
    base = release.parent / "base" / "plan.json"
    steps = ([json.loads(base.read_text())] if base.exists() else []) + [document]
    exact = ", ".join(one["name"] for step in steps for one in step["invariants"]["exact"])
    assert (
        f"Published without noise: {exact}." if exact else "No statistic is published without noise"
    ) in said

    right = int(re.search(r"rightly at most (\d+) times in 100; a coin gives 50", said)[1])
    measured = [m for step in steps for level in step["levels"] for m in level["measurements"]]
    loss = float(sum(Fraction(m["loss"]) for m in measured))
    if kind == "geometric":
        assert 50 < right <= math.ceil(100 / (1 + math.exp(-loss)))
    elif kind == "optimal":
        delta = float(Fraction(document["delta"]))
        assert 50 < right <= math.ceil(100 * (math.exp(loss) + delta) / (1 + math.exp(loss)))
    else:
        assert abs(right - 100 * NormalDist().cdf(math.sqrt(2 * loss) / 2)) <= 1.5
    assert ("were there at all" in said) == (kind == "add_remove")

    if document.get("estimates"):
        table = pq.read_table(release / "tables" / "total" / f"{leaf}.parquet")
        low, high = (table[name].to_pylist() for name in ("low", "high"))
        half = sorted((b - a) / 2 for a, b in zip(low, high, strict=True) if b > a)
        ends = [half[math.ceil(share * len(half)) - 1] for share in (0.5, 0.95)]
        found = re.search(
            r"at most ([\d.,]+) \S+ records on either side of its middle, .* nineteen in twenty of at most ([\d.,]+);",
            said,
        )
        assert [float(text.replace(",", "")) for text in found.groups()] == ends
        chance = 100 * float(Fraction(document["estimates"]["coverage"]))
        assert f"a chance of at least {chance:.1f} %" in said
        spread = ends[0]
    else:
        names = [at["name"] for at in levels]
        exact_at = [names.index(one["level"]) for one in document["invariants"]["exact"]]
        noisy = levels[
            max(exact_at, default=-1) + 1 :
        ]  # exact tables of a level make its totals exact, and all above
        without = f"The total of every area of level {leaf} is published without noise."
        assert (without in said) == (not noisy)
        totals = {at["name"]: m for at in noisy for m in at["measurements"] if m["query"] == "total"}
        if leaf not in totals:
            assert "standard deviation" not in said
            assert "not reliable" not in said
            return
        noise = {name: deviation(m) for name, m in totals.items()}
        best = min(noise, key=lambda name: (noise[name], list(noise).index(name)))
        found = re.search(
            r"at most ([\d.,]+) \S+ records at level (\S+), and of at most ([\d.,]+) at level (\S+),", said
        )
        assert (found[2], found[4]) == (leaf, best)
        for shown, level in ((found[1], leaf), (found[3], best)):
            assert noise[level] <= float(shown.replace(",", "")) + 1e-9
            assert float(shown.replace(",", "")) <= noise[level] + 0.102
        spread = noise[leaf]
    assert ("not reliable" in said) == (20 * spread * n_leaves > records)


def deviation(m: dict) -> float:
    """Return the standard deviation that least squares weighs."""
    if m["law"] == "optimal_integer":
        return math.sqrt(2 * sum(k * k * int(w) for k, w in enumerate(m["weights"])) / 2**128)
    parameter = float(Fraction(m["parameter"]))
    return math.sqrt(parameter) if m["law"] == "discrete_gaussian" else math.sqrt(2) * parameter


COLOURS = (
    (".stamp", "warn", "#fff"),
    (".lead", "soft", "#fff"),
    ("nav a", "blue", "#fff"),
    (".summary", "ink", "pale"),
)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.2), 1 .. 21."""

    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted([light(one), light(other)])
    return (high + 0.05) / (low + 0.05)


def test_a_report_can_be_read_by_everybody(made) -> None:
    """Who hears a page, sees it grey or walks it by keys must find headings, names of pictures, and enough contrast."""
    page = (made[1] / "report.html").read_text(encoding="utf-8")
    check_html(page)
    assert len(re.findall(r"<svg ", page)) >= 2
    assert set(re.findall(r'tabindex="(\d+)"', page)) <= {"0"}  # in the order of the page
    assert not re.search(r"<th(?! scope)", page.replace("<thead", ""))
    named_colours = dict(re.findall(r"--(\w+): (#\w+)", page))
    for _, text, ground in COLOURS:
        assert contrast(named_colours[text], named_colours.get(ground, ground)) >= 4.5
    tiles = set(re.findall(r'<rect[^>]*fill="(#\w+)"[^>]*/><text[^>]*fill="(#\w+)"', page))
    assert (len(tiles) > 2) == ('<section id="map"' in page)
    assert all(contrast(ground, text) >= 4.5 for ground, text in tiles)
    drawn = set(re.findall(r'<text[^>]*fill="(#\w+)"[^>]*>[^<\d-]', page))
    assert all(contrast(colour, "#fff") >= 4.5 for colour in drawn)


def test_errors_of_production_are_those_that_were_measured(made) -> None:
    """A figure that is put beside a release for scale misleads if it is another one, or of another census."""
    measured = json.loads((ROOT / "bench" / "results" / "production.json").read_text())["bureau"]
    page = (made[1] / "report.html").read_text(encoding="utf-8")
    said = re.search(r"the Census Bureau published of.*?</p>", page)
    schema = json.loads((made[1] / "plan.json").read_text())["schema"]["name"]
    assert (said is not None) == (schema == "pl94")
    for level in ("block", "tract") if said else ():
        shown = re.search(rf'production/{level}" data-form="up2">([\d.]+)<', said[0])
        assert float(shown[1]) == round(measured[f"{level} total"], 2)


@pytest.mark.parametrize("kind", ["bounded", "add_remove", "geometric"])
def test_a_decision_is_the_grid_and_no_release(topdown, toy, tmp_path, kind) -> None:
    """A board that votes on other numbers than those of the grid, or takes the page for a release, is misled."""
    run, other = (write(tmp_path / name, toy, kind, budget) for name, budget in (("a", "2"), ("b", "3")))
    page = tmp_path / "plan.html"
    asked = ("plan", run, "--compare", other, "--report", page, "--grid", "1/2, 4:1e-6")
    assert topdown(*asked).code == 0
    text = page.read_text(encoding="utf-8")
    assert "NOT A RELEASE" in text
    check_html(text)
    for name, at in (("decision", run), ("other", other)):
        grid = app.budget_grid(plan(at).prepared.context, [Fraction(1, 2), Fraction(4)], Fraction(1, 10**6))
        for i, point in enumerate(grid):
            assert f'"{name}#/points/{i}/right_in_100" data-form="whole">{point.right_in_100}</data>' in text
            assert f'<data value="{point.budget}" data-source="{name}#/points/{i}/budget"' in text
            assert point.sentence.split(",")[0] in text
            for j, error in enumerate(point.errors):
                of, value = ("noise", error.noise) if error.estimate is None else ("estimate", error.estimate)
                shown = re.search(rf'"{name}#/points/{i}/errors/{j}/{of}" data-form="up1">([\d.,]+)<', text)
                assert value <= float(shown[1].replace(",", "")) <= value + 0.1 + 1e-9
    assert topdown(*asked).refusal == "C080"


@pytest.mark.slow
def test_everybody_can_read_pages_before_a_release(topdown, toy, tmp_path) -> None:
    """Boards vote on these pages: who reads by keys or by ear, or cannot tell grey from white, votes too."""
    run, other, page = toy(tmp_path / "a"), toy(tmp_path / "b"), tmp_path / "page.html"
    assert topdown("plan", run, "--compare", other, "--report", page).code == 0
    check_accessible(page.read_text(encoding="utf-8"), tmp_path)
    truth = ("--truth", tmp_path / "a" / "persons.csv", "--truth-is-public", "nobody in it is real")
    asked = ("simulate", run, *truth, "--replicates", 2, "--workers", 1)
    topdown(*asked, "--out", tmp_path / "try", "--report", tmp_path / "errors.html").ok()
    check_accessible((tmp_path / "errors.html").read_text(encoding="utf-8"), tmp_path)


@pytest.mark.parametrize("kind", ["add_remove", "geometric", "exact"])
def test_errors_of_totals_stand_beside_the_size_of_the_area(topdown, toy, tmp_path, kind) -> None:
    """A board that reads a smaller per cent than the plan's error, or one for an exact total, decides wrongly."""
    run, other = (
        toy(tmp_path / name) if kind == "exact" else write(tmp_path / name, toy, kind) for name in ("a", "b")
    )
    moved = re.sub(r'^share = "1/4"', 'share = "1/8"', other.read_text(), count=1, flags=re.MULTILINE)
    other.write_text(re.sub(r'^share = "1/2"', 'share = "5/8"', moved, count=1, flags=re.MULTILINE))
    page = tmp_path / "plan.html"
    assert topdown("plan", run, "--compare", other, "--report", page, "--grid", "1,4").code == 0
    section = re.search(r'<section id="sizes".*?</section>', page.read_text(encoding="utf-8"), re.DOTALL)[0]
    exact = re.search(r"Totals of these levels are published without noise: (.*?)\.</p>", section)
    assert (exact and exact[1]) == ("land" if kind == "exact" else None)
    tables = {
        name: text.split("<tr>")[2:] for name, text in re.findall(r"<h3>(.*?)</h3>(.*?)</table>", section)
    }
    grids = [app.budget_grid(plan(at).prepared.context, [Fraction(1), Fraction(4)]) for at in (run, other)]
    expected = [
        {e.level: e.noise if e.estimate is None else e.estimate for e in grid[i].errors if e.query == "total"}
        for i in (0, 1)
        for grid in grids
    ]
    assert list(tables) == [level for level in expected[0] if not exact or level != exact[1]]
    assert expected[0] != expected[1]
    for level, rows in tables.items():
        of_level = [errors[level] for errors in expected]
        sizes = [10**k for k in range(1, 7)]
        shown = [size for size in sizes if min(of_level) <= size and max(of_level) > size / 1000]
        for size, row in zip(shown, rows, strict=True):
            first, *percents = (
                float(text.strip(" %").replace(",", ""))
                for text in re.findall(r">([\d,.]+(?: %)?)</data>", row)
            )
            assert first == size
            for error, percent in zip(of_level, percents, strict=True):
                assert 100 * error / size <= percent <= 100 * error / size + 0.1 + 1e-6


def test_a_simulation_has_a_page_that_is_no_release(topdown, tmp_path, monkeypatch) -> None:
    """Errors of made-up people that look like those of a release would be quoted as such."""
    monkeypatch.chdir(tmp_path)
    assert topdown("synth", "--out", "town", "--schema", "toy", "--people", 300).code == 0
    asked = ("simulate", "town/run.toml", "--truth", "town/persons.csv.gz", "--replicates", 2, "--workers", 1)
    said = topdown(*asked, "--out", "try", "--report", "simulated.html", "--json").ok()
    page = Path("simulated.html").read_text(encoding="utf-8")
    assert "NOT A RELEASE" in page
    check_html(page)
    for i, level in enumerate(said.document["levels"]):
        for j, query in enumerate(level["queries"]):
            for key in ("mae", "mae_standard_error", "bias"):
                shown = re.search(rf"levels/{i}/queries/{j}/{key}\" data-form=\"near2\">([-\d.,]+)<", page)
                assert abs(float(shown[1].replace(",", "")) - query[key]) <= 0.005 + 1e-9
        for j, size in enumerate(level["totals_by_size"]):
            shown = re.search(rf"levels/{i}/totals_by_size/{j}/mae\" data-form=\"near2\">([-\d.,]+)<", page)
            assert abs(float(shown[1].replace(",", "")) - size["mae"]) <= 0.005 + 1e-9
    again = topdown(*asked, "--out", "again", "--report", "simulated.html")
    assert (again.code, "C080" in again.err, Path("again").exists()) == (2, True, False)
