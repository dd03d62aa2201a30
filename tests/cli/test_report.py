"""`topdown report`: a page about a release in which every number is one of its files, for every kind of release."""

import json
import re
import shutil
import tomllib
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.attacked import shipped
from tests.helpers.html_pages import check_accessible, check_html
from tests.helpers.pages import run_page
from tests.helpers.sealed_flips import Sealer
from tests.pinned.releases import made_once
from tests.pinned.seeded import in_sections
from topdown.app import LANGUAGES
from topdown.publish import written

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("plain", "extensions", "estimates")
MANY = ("policies", "pl94", "tuned", "sections")
MOST_BYTES = 400 * 1024  # it does not grow with the number of areas: bench/bench_report.py


def finished(folder: Path) -> list[Path]:
    """Return the releases below a folder."""
    kinds = {path.parent: json.loads(path.read_text())["type"] for path in folder.rglob("certificate.json")}
    return [at for at, kind in sorted(kinds.items()) if kind == "topdown.certificate"]


def report_of(topdown, check, release: Path, file: Path) -> str:
    """Return the report of a release, written once more and checked."""
    said = topdown("report", release, "--out", file, "--force", "--json")
    assert said.code == 0, (release, said.err)
    check(said.document)
    checked = topdown("report", release, "--out", file, "--check", "--json")
    check(checked.document)
    assert (checked.code, checked.document["findings"], checked.document["language"]) == (0, [], "en")
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [*KINDS, *(pytest.param(kind, marks=pytest.mark.slow) for kind in MANY)])
def test_every_kind_of_release_has_a_report(topdown, check, tmp_path, kind) -> None:
    """A kind of plan whose report fails, or says a number that no file holds, would be found by its first reader."""
    releases = [at for at in finished(made_once(kind)) if not (at / "made_up.json").exists()]
    assert releases
    for release in releases:
        with in_sections() if kind == "sections" else nullcontext():
            page = report_of(topdown, check, release, tmp_path / "page.html")
        assert (release / "report.html").read_text(encoding="utf-8") == page
        assert len(page.encode()) <= MOST_BYTES
        check_html(page)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_everybody_can_read_a_report(topdown, release, tmp_path, language) -> None:
    """A table that only a mouse can scroll, or grey on grey, leaves readers out whom an office must serve."""
    page = tmp_path / "page.html"
    assert topdown("report", release, "--out", page, "--language", language).code == 0
    check_accessible(page.read_text(encoding="utf-8"), tmp_path)


def test_a_report_is_equal_each_time_and_a_changed_digit_is_found(topdown, release, tmp_path) -> None:
    """Whoever prints another number beside the same release must be found out, in every language."""
    for language in LANGUAGES:
        report, again = tmp_path / f"{language}.html", tmp_path / f"{language}-again.html"
        for path in (report, again):
            assert topdown("report", release, "--out", path, "--language", language).code == 0
        assert report.read_bytes() == again.read_bytes()
        page = report.read_text(encoding="utf-8")
        places = [m.start() for m in re.finditer(r"\d</data>", page)]
        assert len(places) > 40
        for place in places[:: max(1, len(places) // 7)]:
            digit = "1" if page[place] != "1" else "2"
            again.write_text(page[:place] + digit + page[place + 1 :], encoding="utf-8")
            said = topdown("report", release, "--out", again, "--check", "--json")
            assert (said.code, len(said.document["findings"])) == (1, 1)
    again.write_text(page.replace("</main>", "<p>and more</p></main>"), encoding="utf-8")
    said = topdown("report", release, "--out", again, "--check", "--json")
    assert (said.code, said.document["language"]) == (1, None)


def test_a_report_reads_published_files_only(topdown, release, tmp_path) -> None:
    """A report made where the release alone is must be the same: nothing of it comes from the records."""
    alone = tmp_path / "alone" / "release"
    shutil.copytree(release, alone)
    for folder, out in ((release, "one.html"), (alone, "other.html")):
        assert topdown("report", folder, "--out", tmp_path / out).code == 0
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "other.html").read_bytes()


def test_every_language_has_every_sentence() -> None:
    """A sentence without its slots, or a table without a column, would be a hole in one language only."""

    def shape(value: object) -> object:
        if isinstance(value, dict):
            return {key: shape(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return len(value)
        return sorted(re.findall(r"{(\w+)}", str(value)))

    folder = ROOT / "topdown" / "formats" / "report"
    words = [tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8")) for name in LANGUAGES]
    assert len(words) > 1
    assert all(shape(one) == shape(words[0]) for one in words)


def test_numbers_have_the_marks_of_the_language(topdown, release, tmp_path) -> None:
    """A German reader takes 16.22 for a thousand and more: decimals there have a comma."""
    pages = {}
    for language in LANGUAGES:
        out = tmp_path / f"{language}.html"
        assert topdown("report", release, "--out", out, "--language", language).code == 0
        shown = re.findall(r'data-source="([^"]*)" data-form="((?!text)[^"]*)">([^<]*)<', out.read_text())
        pages[language] = {(source, form): text for source, form, text in shown}
    assert any("." in text for text in pages["en"].values())
    swapped = str.maketrans(",.", ".,")
    assert pages["de"] == {key: text.translate(swapped) for key, text in pages["en"].items()}
    report = tmp_path / "de.html"
    assert topdown("report", release, "--out", report, "--check").code == 0


def test_what_cannot_be_reported_is_refused(topdown, release, tmp_path) -> None:
    """A report inside the release would be a file that no manifest names; an unknown language has no words."""
    assert topdown("report", release, "--out", release / "report.html").refusal == "C132"
    unknown = topdown("report", release, "--out", tmp_path / "r.html", "--language", "xx")
    assert (unknown.code, "C005" in unknown.err, ", ".join(LANGUAGES) in unknown.err) == (2, True, True)
    assert topdown("report", release, "--out", tmp_path / "none.html", "--check").refusal == "C001"


@given(st.fractions(0, 10**6), st.sampled_from(["up1", "up2", "up4", "percent_up"]))
def test_a_claim_is_never_rounded_in_its_favour(value: Fraction, form) -> None:
    """A loss that is shown smaller than it is would be a false claim."""
    shown = Fraction(written(value, form).removesuffix(" %").replace(",", ""))
    exact, digits = (100 * value, 1) if form == "percent_up" else (value, int(form[2:]))
    assert exact <= shown < exact + Fraction(1, 10**digits)


def test_the_page_runs_as_typed(topdown, tmp_path, monkeypatch) -> None:
    """A command on the page that fails stops whoever follows it."""
    monkeypatch.chdir(tmp_path)
    assert run_page(ROOT / "docs" / "how-to" / "report.md", topdown) == 9


def test_who_attested_stands_in_the_report(topdown, tmp_path, monkeypatch) -> None:
    """A ledger that is complete on somebody's word only must not look like one that is."""
    monkeypatch.chdir(tmp_path)
    assert topdown("synth", "--out", "town", "--schema", "toy", "--people", 500).code == 0
    for path in Path("town").rglob("*.registry"):
        path.unlink()
    topdown("ledger", "attest", "town/run.toml", "--by", "A. Person", "--reason", "disk lost").ok()
    assert topdown("generate", "town/run.toml", "--out", "release", "--yes", "--workers", 1).code == 0
    assert topdown("report", "release", "--out", "report.html").code == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert re.search(r"A\. Person attested on \d{4}-\d\d-\d\d that the ledger is complete: disk lost", page)
    assert re.search(r"up to record <data [^>]+>\d+</data> of \d{4}-\d\d-\d\d", page)


@pytest.mark.parametrize("change", ["digit", "text", "another", "empty", "none"])
def test_a_false_report_in_a_release_is_found(topdown, release, tmp_path, change) -> None:
    """Most readers see this page alone: whoever changes it and renews every hash must be found out."""
    folder = Path(shutil.copytree(release, tmp_path / "release"))
    page, sealer = folder / "report.html", Sealer(folder)
    text = page.read_text(encoding="utf-8")
    if change == "digit":
        place = text.index("</data>") - 1
        text = text[:place] + ("1" if text[place] != "1" else "2") + text[place + 1 :]
    elif change == "text":
        text = text.replace("</main>", "<p>All of it is exact.</p></main>")
    elif change == "another":
        text = text.replace("person", "household")
    page.write_text("" if change == "empty" else text, encoding="utf-8")
    sealer.seal(folder)
    said = topdown("verify", folder, "--json")
    failed = {check["name"]: check["findings"] for check in said.document["checks"] if not check["ok"]}
    assert (said.code, list(failed)) == ((0, []) if change == "none" else (1, ["report"]))
    assert all(finding["code"] == "V203" for finding in failed.get("report", []))


def test_a_release_has_a_report_in_another_language_or_none(topdown, tmp_path, monkeypatch) -> None:
    """An office that writes its own page, or writes in its own language, must get a release that verifies."""
    monkeypatch.chdir(tmp_path)
    for language in ("de", "none", "xx"):
        assert topdown("synth", "--out", language, "--schema", "toy", "--people", 300).code == 0
        asked = ("--out", f"{language}/release", "--yes", "--workers", 1, "--report-language", language)
        said = topdown("generate", f"{language}/run.toml", *asked)
        assert (said.code, "C005" in said.err) == ((2, True) if language == "xx" else (0, False))
        page = Path(language) / "release" / "report.html"
        assert page.exists() == (language == "de")
        if language != "xx":
            named = (page.parent / "README.txt").read_text(encoding="utf-8")
            assert ("report.html" in named, topdown("verify", page.parent).code) == (page.exists(), 0)
    assert '<html lang="de">' in (Path("de") / "release" / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("level", ["land", "block"])
def test_noise_is_stated_of_no_total_that_is_exact(topdown, toy, tmp_path, level) -> None:
    """Exact totals of blocks were said to have the noise of their measured answer, and to need adding up."""
    invariants = tmp_path / "invariants.toml"
    invariants.write_text(shipped("invariants", "toy").replace('level = "land"', f'level = "{level}"'))
    run = toy(tmp_path, lambda text: text.replace('invariants = "toy"', 'invariants = "invariants.toml"'))
    page = page_of_release(topdown, run)
    assert ("The total of every area of level block is published without noise." in page) == (
        level == "block"
    )
    assert ("The noise in the total of an area" in page) == (level == "land")
    assert ("/noise_share" in page) == (level == "land")


def test_intervals_of_one_number_are_no_missing_intervals(topdown, toy, tmp_path) -> None:
    """A plan with little noise asked for intervals, and its report said that it had not."""
    asked = '[estimates]\ntargets = "tree"\ncoverage = "19/20"\n\n[budget]\nrho = "3000"'

    def edit(text: str) -> str:
        return re.sub(
            r'(?s)(rho_limit = )"\d+"', r'\1"100000"', re.sub(r'\[budget\]\nrho = ".*?"', asked, text)
        )

    page = page_of_release(topdown, toy(tmp_path, edit))
    assert "Every interval of this release holds one number alone" in page
    assert "asks for no intervals" not in page


def page_of_release(topdown, run: Path) -> str:
    """Make the release of a run file; return its report, checked with it."""
    topdown("generate", run, "--out", run.parent / "release", "--yes").ok()
    return (run.parent / "release" / "report.html").read_text(encoding="utf-8")
