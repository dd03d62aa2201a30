"""What catalogues want to know of a finished folder: an entry of a registry, SIMS headings, DCAT-US, a citation.

Each is made from the folder's own documents, which `verify` checks. Numbers are rounded up, exact fractions stand
beside them. What only the office knows is named as open, never made up.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from topdown.app.calls import PathText, path_of, public_function
from topdown.app.read_release import Release
from topdown.errors import CertificateError
from topdown.file_names import file_sha256
from topdown.formats import json_bytes
from topdown.formats.caps import read_json
from topdown.formats.common import PrivacyUnit, is_answered
from topdown.formats.strict_toml import exact_text
from topdown.privacy.exact_values import significant
from topdown.privacy.relation import stated_changes
from topdown.publish.table_intervals import intervals_sentence
from topdown.verify.verify_choice import QUESTION, is_choice

OPEN = "to be stated by the office"
TEMPLATES = Path(__file__).with_name("exports.toml")
VARIANTS = {"rho": "Zero-concentrated DP", "epsilon": "Pure DP", "epsilon_delta": "Approximate DP"}
NOISE = {
    "discrete_gaussian": "discrete Gaussian noise",
    "geometric": "two-sided geometric noise",
    "optimal": "integer noise of least expected error at its epsilon and delta",
}
COMPOSED = {
    "rho": "All measurements are composed in one exact sum of rho; epsilon is computed from their joint distribution.",
    "epsilon": "Epsilon adds up over all measurements, exactly.",
    "epsilon_delta": "Epsilon and delta add up over all counts that one record moves, exactly.",
}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the documents of a finished folder say that catalogues ask for; "" where they do not.

    Args:
        kind: in words, such as "census release".
        id, title, agency, contact, licence, data_set: names.
        date: of the last line of the ledger, as ISO.
        stamps: words every reader must see.
        unit: whose answers are protected. neighbours: what two data sets differ by that must look alike.
        loss_name, loss, delta: exact, as fractions; delta "0" where there is none.
        epsilon: (delta, upper end of an enclosure, of which change) of the first protected change, if there is one.
        sentences: what is promised, and what is not.
        exact: names of what is published without noise, with the reason.
        covers, region: what is published, of which area.
        classes: names of attributes with how many values.
        noise, made: how it was measured, how counts were made from that.
        coherence: what agrees with what.
        accuracy: sentences.
        files: (path, media type, what it holds).
        composition: how losses add up.
        certificate_sha256, engine, plan_hash: of the folder.
    """

    kind: str
    id: str
    title: str
    agency: str = ""
    contact: str = ""
    licence: str = ""
    data_set: str = ""
    date: str
    stamps: tuple[str, ...] = ()
    unit: str
    neighbours: str
    loss_name: str
    loss: str
    delta: str = "0"
    epsilon: tuple[str, str, str] | None
    sentences: tuple[str, ...]
    exact: tuple[str, ...]
    covers: str
    region: str = ""
    classes: tuple[str, ...] = ()
    noise: str
    made: str
    coherence: str
    accuracy: tuple[str, ...] = ()
    files: tuple[tuple[str, str, str], ...]
    composition: str
    certificate_sha256: str
    engine: str
    plan_hash: str

    @property
    def stated_as(self) -> str:
        """What the loss is called."""
        return "rho" if self.loss_name == "rho" else "epsilon"

    @property
    def stated(self) -> dict[str, str]:
        """Parameters of the loss, exact; of rho also the certified epsilon with its delta."""
        if self.loss_name == "epsilon_delta":
            return {"epsilon": self.loss, "delta": self.delta}
        if self.loss_name == "epsilon" or self.epsilon is None:
            return {self.loss_name: self.loss}
        delta, epsilon, _ = self.epsilon
        return {"rho": self.loss, "epsilon": epsilon, "delta": delta}

    @property
    def warned(self) -> str:
        """A sentence for each stamp."""
        return "".join(f"{stamp}: not for use as official statistics. " for stamp in self.stamps)


@public_function
def export_text(folder: PathText, to: str) -> str:
    """Return the text of a finished release or choice for a catalogue; the same each time.

    Args:
        folder: a finished release, or a choice.
        to: one of `EXPORTS`.

    Raises:
        ConfigError: C088 the folder is no finished release.
        CertificateError: V090 a file of it is missing or damaged.
        KeyError: no such catalogue.
    """
    place = path_of(folder, "folder")
    return EXPORTS[to](_facts_of_choice(place) if is_choice(place) else _facts_of_release(Release(place)))


def first_epsilon(secrets: list[Mapping[str, Any]]) -> tuple[str, str, str] | None:
    """Return delta, upper end and name of the first change of a certificate that has an epsilon."""
    for row in secrets:
        for delta, (_, high) in row.get("epsilon", {}).items():
            return delta, high, row["name"]
    return None


def _facts_of_release(release: Release) -> Facts:
    plan, stated = release.plan, release.certificate
    privacy, names, root, leaf = stated["privacy"], plan.release, plan.levels[0], plan.levels[-1]
    top = release.arrow("total", root.name)
    code, people = top["geocode"].to_pylist()[0], int(top["count"].to_numpy().sum())
    rows = privacy["secrets"]
    exact = [e for e in plan.invariants.by_kind["exact"] if e.name in privacy["conditional_on"]]
    reasons = {e.name: e.basis.legal_basis for e in exact}
    deviations = [
        f"{level.name} {significant(Fraction(m.stddev), 3, up=True)}"
        for level in plan.levels
        for m in level.measurements
        if m.query == "total"
    ]
    said = f"Standard deviation of the noise in the total of an area, {plan.schema.record} records"
    accuracy = [f"{said}: {', '.join(deviations)}."] if deviations else []
    accuracy += [] if plan.coverage is None else [intervals_sentence(plan.coverage)]
    made = (
        "Noisy answers are fitted together from the largest areas to the smallest and rounded to whole records, "
        "from noisy answers and public facts alone (TopDown algorithm)."
    )
    if plan.measured is not None:
        made += f" The noisy answers are those of {plan.measured.release}: none was drawn for this one."
    return Facts(
        kind="census release",
        **{
            key: text if is_answered(text := getattr(names, key)) else ""
            for key in ("id", "title", "agency", "contact", "data_set")
        },
        licence=names.licence,
        date=privacy["everything_released"]["up_to"]["date"],
        stamps=tuple(stated["stamps"]),
        unit=privacy["unit"],
        neighbours=plan.relation.made_by,
        loss_name=privacy["loss_name"],
        loss=privacy["loss_with_base"],
        delta=privacy.get("delta", "0"),
        epsilon=first_epsilon(rows),
        sentences=(
            privacy["sentence"],
            *(f"{r['name']}: {r['sentence']}" for r in rows if r["status"] == "disclosed"),
        ),
        exact=tuple(
            f"{name} ({reasons[name]})" if reasons.get(name) else name for name in privacy["conditional_on"]
        ),
        covers=f"{people:,} {plan.schema.record} records in {leaf.n_nodes:,} {leaf.name} areas, with tables for "
        f"{', '.join(release.levels)}",
        region=f"{root.name} {code}".strip(),
        classes=tuple(f"{one.name} ({len(one.labels)} values)" for one in plan.schema.attributes),
        noise=NOISE[plan.mechanism],
        made=made,
        coherence="Every area is the sum of its parts, and every table agrees with the records.",
        accuracy=tuple(accuracy),
        files=(
            (
                "microdata/",
                "application/vnd.apache.parquet",
                "one row an area and kind of record, with its count",
            ),
            ("tables/", "application/vnd.apache.parquet", "one folder a table, one file a level"),
            ("measurements/", "application/vnd.apache.parquet", "the noisy answers"),
            ("certificate.json", "application/json", "privacy loss and checks"),
        ),
        composition=COMPOSED[privacy["loss_name"]],
        certificate_sha256=file_sha256(release.path / "certificate.json"),
        engine=stated["engine"],
        plan_hash=plan.plan_hash,
    )


def _facts_of_choice(folder: Path) -> Facts:
    try:
        question, stated = read_json(folder / QUESTION), read_json(folder / "certificate.json")
        digest = file_sha256(folder / "certificate.json")
    except (OSError, ValueError, TypeError) as error:
        raise CertificateError(
            f"{folder} cannot be read ({type(error).__name__})", code="V090", fix="run topdown verify on it"
        ) from None
    asked, name = question["question"], f"{stated['data_set']}-choice-{stated['plan_hash'][:8]}"
    covers = {
        "sites": lambda: f"{asked['k']} sites chosen among {len(asked['candidates'])} candidates",
        "order": lambda: f"an order of {len(asked['candidates'])} candidates",
        "frequent": lambda: (
            f"answers to {', '.join(asked['queries'])} that are frequent in areas of {asked['level']}"
        ),
    }[asked["kind"]]()
    return Facts(
        kind="private choice",
        id=name,
        title=f"A private choice from {stated['data_set']}: {covers}",
        data_set=stated["data_set"],
        date=stated["everything_released"]["up_to"]["date"],
        unit=stated["unit"],
        neighbours=stated_changes(stated["neighbours"], stated["unit"])[0].name,
        loss_name="epsilon",
        loss=exact_text(stated["n_attempts"] * Fraction(stated["epsilon"])),
        epsilon=None,
        sentences=(stated["sentence"], *(f"Not protected: {text}" for text in stated["not_protected"])),
        exact=(),
        covers=covers,
        noise="one-sided mechanisms on a random (Poisson) sample of the records",
        made="The result is what was drawn; nothing is fitted or rounded after that.",
        coherence="The question was fixed before the draw; its hash stands in certificate and ledger.",
        files=(
            ("result.json", "application/json", "what was chosen"),
            ("selection.json", "application/json", "what was asked"),
            ("certificate.json", "application/json", "privacy loss"),
        ),
        composition="Epsilon is that of the whole question, for every time that it was charged.",
        certificate_sha256=digest,
        engine=stated["engine"],
        plan_hash=stated["plan_hash"],
    )


def _words(facts: Facts) -> dict[str, str]:
    """Return what templates name; what nobody said is open."""
    exact = f"{facts.stated_as} {facts.loss}" + (f", delta {facts.delta}" if facts.delta != "0" else "")
    certified = (
        facts.epsilon and f" Epsilon {facts.epsilon[1]} at delta {facts.epsilon[0]}: {facts.epsilon[2]}."
    )
    stated = {key: number_up(value) for key, value in facts.stated.items()}
    plain = {name: text or OPEN for name, text in vars(facts).items() if isinstance(text, str)}
    return plain | {
        "OPEN": OPEN,
        "Open": OPEN.capitalize(),
        "title": facts.title or facts.id,
        "warned": facts.warned,
        "slug": re.sub(r"[^a-z0-9]+", "-", f"{facts.id}-{facts.date}".lower()).strip("-"),
        "product": "Synthetic data" if facts.kind == "census release" else "Summary statistics",
        "variant": VARIANTS[facts.loss_name],
        "unprotected": "; ".join(facts.exact) or "none, apart from public facts",
        "without_noise": "; ".join(facts.exact) or "nothing, apart from public facts",
        "said": " ".join(facts.sentences),
        "first_sentence": facts.sentences[0],
        "loss_with_delta": f"{exact}.{certified or ''}",
        "parameters": "\n".join(f"      {name}: {value}" for name, value in stated.items()),
        "parameters_in_line": ", ".join(f"{name} at most {value}" for name, value in stated.items()),
        "record": PrivacyUnit.read(facts.unit).record,
        "classes": ", ".join(facts.classes) or OPEN,
        "stated_as": facts.stated_as,
        **{
            name: "".join(f"   {text}\n" for text in getattr(facts, name))
            for name in ("sentences", "accuracy")
        },
    }


def _filled(name: str, facts: Facts) -> str:
    """Return a template of YAML: texts are quoted as in JSON."""
    words = _words(facts)
    quoted = {key: json.dumps(text, ensure_ascii=False)[1:-1] for key, text in words.items()}
    return _templates()[name].format_map(quoted | {"parameters": words["parameters"]})


@cache
def _templates() -> dict[str, str]:
    return tomllib.loads(TEMPLATES.read_text(encoding="utf-8"))


def registry_entry(facts: Facts) -> str:
    """Return an entry of the registry of deployments of differential privacy, as YAML; status Draft, tier 2."""
    return _filled("registry", facts)


def sims_text(facts: Facts) -> str:
    """Return the headings of SIMS/ESMS 2.0 as text: those that the folder knows, the others left to the office."""
    return _templates()["sims"].format_map(_words(facts))


def dcat_catalogue(facts: Facts) -> str:
    """Return a DCAT-US 1.1 catalogue with one data set, as JSON; what needs an address on the web is the office's."""
    mail = re.search(r"[^\s<>]+@[^\s<>]+", facts.contact)
    address = facts.licence if re.match(r"https?://", facts.licence) else ""
    rights = f" Licence: {facts.licence}." if facts.licence and not address else ""
    data = {
        "@type": "dcat:Dataset",
        "identifier": f"{facts.id}-{facts.plan_hash[:8]}",
        "title": facts.title or facts.id,
        "description": f"{facts.warned}A {facts.kind}: {facts.covers}. {' '.join(facts.sentences)}",
        "keyword": ["differential privacy", facts.kind, *(one.split(" (")[0] for one in facts.classes)],
        "modified": facts.date,
        "publisher": {"@type": "org:Organization", "name": facts.agency or OPEN},
        "contactPoint": {"@type": "vcard:Contact", "fn": facts.contact or OPEN}
        | ({"hasEmail": f"mailto:{mail[0]}"} if mail else {}),
        "accessLevel": "public",
        "rights": f"Published without noise: {_words(facts)['without_noise']}.{rights}",
        **({"license": address} if address else {}),
        **({"spatial": facts.region} if facts.region else {}),
        "distribution": [
            {"@type": "dcat:Distribution", "title": path, "mediaType": media, "description": text}
            for path, media, text in facts.files
        ],
    }
    catalogue = {
        "@context": "https://project-open-data.cio.gov/v1.1/schema/catalog.jsonld",
        "@type": "dcat:Catalog",
        "conformsTo": "https://project-open-data.cio.gov/v1.1/schema",
        "dataset": [data],
    }
    return json_bytes(catalogue).decode("utf-8")


def citation_file(facts: Facts) -> str:
    """Return CITATION.cff of a release, whose author is the office."""
    text = _filled("citation", facts)
    if re.match(r"https?://", facts.licence):
        return f"{text}license-url: {json.dumps(facts.licence, ensure_ascii=False)}\n"
    if re.fullmatch(r"[A-Za-z0-9]+([-.][A-Za-z0-9]+)+", facts.licence):
        return f"{text}license: {json.dumps(facts.licence)}\n"
    return text


EXPORTS: dict[str, Callable[[Facts], str]] = {
    "registry": registry_entry,
    "sims": sims_text,
    "dcat": dcat_catalogue,
    "citation": citation_file,
}
"""Name of a catalogue, and what writes the text for it."""


def number_up(value: str) -> str:
    """Write a number with six digits, rounded up, as plain decimals.

    >>> number_up("1/3"), number_up("1e-10")
    ('0.333334', '0.0000000001')
    """
    return format(Decimal(significant(Fraction(value), 6, up=True)), "f")
