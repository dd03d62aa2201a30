"""`topdown export`, `pgsr export` and README.txt: what catalogues and readers are told is what the certificate says."""

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.pinned.releases import made_once, pgsr
from tests.pinned.seeded import in_sections
from topdown.app import EXPORTS, number_up

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = ROOT.parent / "shared" / "data" / "registry"


LIGHT = ("choices", "estimates", "extensions", "plain")
EVERY = (*LIGHT, "group_sizes", "odd", "policies", "sections")


@pytest.fixture(scope="module", params=["light", pytest.param("every", marks=pytest.mark.slow)])
def folders(request, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Make folders of every kind once: releases of all laws of noise, extensions, intervals, choices, group sizes."""
    found: dict[str, list[Path]] = {}
    for kind in LIGHT if request.param == "light" else EVERY:
        for path in sorted(made_once(kind).rglob("certificate.json")):
            stated = json.loads(path.read_text())
            if stated.get("release", True) and not (path.parent / "made_up.json").exists():
                found.setdefault(stated["type"], []).append(path.parent)
    groups = tmp_path_factory.mktemp("groups")
    pgsr("synth", "--shape", "tiny", "--out", groups / "in")
    pgsr("ledger", "new", groups / "in" / "run.toml")
    asked = ("--yes", "--agency", "Office of Farms", "--quiet", "--out", groups / "sizes")
    pgsr("release", groups / "in" / "run.toml", *asked)
    found.setdefault("pgsr.certificate", []).insert(0, groups / "sizes")
    return found


@pytest.fixture
def exported(topdown, pgsr_cli, folders, check) -> Iterator[Any]:
    """Export every folder to a catalogue: (certificate, text)."""

    def each(to: str) -> Iterator[tuple[dict[str, Any], str]]:
        assert set(folders) == {"topdown.certificate", "topdown.selection.certificate", "pgsr.certificate"}
        for kind, made in folders.items():
            for folder in made:
                program = pgsr_cli if kind[0] == "p" else topdown
                small = any(part.startswith("sections-") for part in folder.parts)
                with in_sections() if small else nullcontext():
                    said = program("export", folder, "--to", to, "--json")
                assert said.code == 0, (folder, said.err)
                check(said.document)
                yield json.loads((folder / "certificate.json").read_text()), said.document["text"]

    return each


def exact_losses(stated: dict[str, Any]) -> dict[str, Fraction]:
    """Return what a certificate says a release costs, by the names that the registry uses."""
    if stated["type"] == "topdown.selection.certificate":
        return {"epsilon": stated["n_attempts"] * Fraction(stated["epsilon"])}
    privacy = stated["privacy"]
    loss = Fraction(privacy.get("loss_with_base", privacy["loss"]))
    if privacy["loss_name"] == "epsilon":
        return {"epsilon": loss}
    if privacy["loss_name"] == "epsilon_delta":
        return {"epsilon": loss, "delta": Fraction(privacy["delta"])}
    delta, (_, high) = next(
        iter(next(row for row in privacy["secrets"] if "epsilon" in row)["epsilon"].items())
    )
    return {"rho": loss, "epsilon": Fraction(high), "delta": Fraction(delta)}


def test_registry_entries_state_no_loss_below_the_certificate(exported) -> None:
    """An entry with a smaller loss than the release has would promise more than was proved."""
    variants = set()
    for stated, text in exported("registry"):
        deployment = yaml.safe_load(text)["deployment"]
        variants.add(deployment["dp_variant"]["variant_name"])
        written = dict(re.findall(r"^      (rho|epsilon|delta): ([0-9.]+)$", text, re.MULTILINE))
        losses = exact_losses(stated)
        assert set(written) == set(losses) == set(deployment["privacy_loss"]["privacy_parameters"])
        for name, exact in losses.items():
            assert exact <= Fraction(written[name]) <= exact * Fraction(100001, 100000)
        details = deployment["privacy_loss"]["privacy_parameters_details"]
        first = losses.get("rho", losses["epsilon"])
        assert re.search(rf"(rho|epsilon) {first}[,.]", details)
        assert deployment["basic"]["intended_use"] == "to be stated by the office"
    assert variants == {"Zero-concentrated DP", "Pure DP", "Approximate DP"}


@pytest.mark.skipif(not REGISTRY.is_dir(), reason="the registry's schema lies in ../shared/data/registry")
def test_registry_entries_are_of_the_registrys_form(exported) -> None:
    """An entry with a key or value that the registry does not know is sent back to the office."""
    schema = yaml.safe_load((REGISTRY / "deployments-schema.yaml").read_text(encoding="utf-8"))
    judge = Draft202012Validator(schema)
    theirs = yaml.safe_load((REGISTRY / "census_redistricting_data.yaml").read_text(encoding="utf-8"))
    theirs["deployment"]["basic"]["publication_date"] = "2021-08-01"
    assert list(judge.iter_errors(theirs)) == []
    for _, text in exported("registry"):
        entry = yaml.safe_load(text)
        assert list(judge.iter_errors(entry)) == []
        entry["deployment"]["more"] = "free words"
        assert list(judge.iter_errors(entry)) != []


def test_sims_has_all_headings_and_leaves_open_what_only_the_office_knows(exported) -> None:
    """A heading that is missing, or filled with what nobody said, fails the office's own review."""
    for stated, text in exported("sims"):
        headings = [int(number) for number in re.findall(r"^(\d+)\. [A-Z]", text, re.MULTILINE)]
        assert headings == list(range(1, 20))
        parts = dict(re.findall(r"^(\d+)\. [^\n]*\n((?:   [^\n]*\n)+)", text, re.MULTILINE))
        left = [number for number, part in parts.items() if part.strip() == "To be stated by the office."]
        assert left == [str(n) for n in (1, 2, 4, 6, 8, 9, 10, 11, 12, 14, 16, 17, 19)]
        sentence = stated["sentence"] if "sentence" in stated else stated["privacy"]["secrets"][0]["sentence"]
        assert sentence in parts["7"]


def test_catalogues_and_citations_can_be_read_back(exported) -> None:
    """A catalogue that cannot parse an entry drops it; a citation must lead to the very certificate."""
    for stated, text in exported("dcat"):
        (data,) = json.loads(text)["dataset"]
        for key in ("title", "description", "keyword", "modified", "publisher", "contactPoint", "identifier"):
            assert data[key], key
        assert stated["plan_hash"][:8] in data["identifier"]
    digests = set()
    for _, text in exported("citation"):
        cited = yaml.safe_load(text)
        assert {"cff-version", "message", "title", "authors"} <= set(cited)
        assert (cited["cff-version"], cited["type"]) == ("1.2.0", "dataset")
        digests.add(cited["identifiers"][0]["value"])
    assert len(digests) == len(list(exported("citation")))


def test_an_export_goes_to_the_screen_or_to_a_file(topdown, pgsr_cli, release, folders, tmp_path) -> None:
    """What is printed must be what is written; a file that is there and a folder that is none are refused."""
    out = tmp_path / "CITATION.cff"
    shown = topdown("export", release, "--to", "citation")
    assert topdown("export", release, "--to", "citation", "--out", out).code == 0
    assert out.read_text(encoding="utf-8") == shown.out
    assert "C080" in topdown("export", release, "--to", "citation", "--out", out).err
    assert "C088" in topdown("export", tmp_path / "none", "--to", "citation").err
    assert "D137" in pgsr_cli("export", tmp_path / "none", "--to", "citation").err
    assert "Office of Farms" in pgsr_cli("export", folders["pgsr.certificate"][0], "--to", "citation").out


@given(st.fractions(min_value=0, max_value=10**9))
def test_numbers_are_rounded_up(value: Fraction) -> None:
    """A loss that is rounded down would be a false claim."""
    shown = Fraction(number_up(f"{value.numerator}/{value.denominator}"))
    assert value <= shown <= value * Fraction(100001, 100000)


def test_readme_names_whom_to_ask_and_under_which_licence(topdown, toy, tmp_path) -> None:
    """Who finds the folder in ten years must learn whose it is, how to cite it, and what may be done with it."""
    run = toy(tmp_path / "in", lambda text: text.replace("[input]", 'licence = "CC-BY-4.0"\n\n[input]'))
    text = run.read_text()
    for key, value in (("agency", "Office of Toys"), ("contact", "toys@office.example"), ("title", "Toys")):
        text = re.sub(rf'^{key} = "[^"]*"', f'{key} = "{value}"', text, flags=re.MULTILINE)
    run.write_text(text)
    assert topdown("generate", run, "--out", "made", "--yes", "--quiet", "--workers", 1).code == 0
    readme = Path("made/README.txt").read_text(encoding="utf-8")
    privacy = json.loads(Path("made/certificate.json").read_text())["privacy"]
    high = Fraction(privacy["epsilon"]["1e-10"][1])
    stated = Fraction(re.search(r"Epsilon is at most ([0-9.]+) at delta 1e-10", readme)[1])
    assert high <= stated < high + Fraction(1, 100)
    date = privacy["everything_released"]["up_to"]["date"]
    for line in (
        "From:      Office of Toys\n",
        "Questions: toys@office.example\n",
        "Licence:   CC-BY-4.0\n",
        f"Date:      {date}, ",
        "Cite as:   Office of Toys: Toys, ",
        "Published without noise: ",
    ):
        assert line in readme
    assert 'license: "CC-BY-4.0"' in topdown("export", "made", "--to", "citation").out
    assert topdown("verify", "made").code == 0
    assert {path.name for path in Path("made").iterdir()} - {"README.txt"} <= set(
        re.findall(r"[\w.]+", readme)
    )


def test_the_project_is_cited_as_it_names_itself() -> None:
    """A citation with another version, licence or author than the package has would be of something else."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["title"].startswith(f"{project['name']}: ")
    for key in ("version", "license", "authors", "keywords"):
        assert cited[key] == project[key]


def test_every_catalogue_of_the_help_is_there(topdown) -> None:
    """A catalogue that the help names and nobody writes would end in a traceback."""
    assert f"[{'|'.join(EXPORTS)}]" in topdown("export", "--help", width=200).out
