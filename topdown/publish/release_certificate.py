"""certificate.json: the certified loss of a release together with those it extends, its checks, the files that decide.

Every number of a loss is an enclosure, never a bare number.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy
from msgspec import UNSET, UnsetType, convert, structs

from topdown import __version__
from topdown.errors import InternalError
from topdown.formats.common import (
    Composed,
    DisclosedSecret,
    GaussianSecret,
    PairSecret,
    PureSecret,
    is_answered,
)
from topdown.formats.plan_documents import CertifiedLoss, ChangeStatus
from topdown.formats.release_documents import (
    Certificate,
    CertifiedPrivacy,
    PassedCheck,
    Privacy,
    ReleaseStamp,
    UnspentLoss,
    UsualEpsilon,
)
from topdown.formats.strict_toml import exact_text
from topdown.model import sections_of
from topdown.plan import Plan, PublicContext, ReleaseChain
from topdown.plan.plan_values import MEASURED_PLAN
from topdown.plan.release_chain import BaseFiles, carried_paths
from topdown.privacy.accountant import PairLoss, bun_steinke
from topdown.privacy.exact_values import fixed
from topdown.privacy.laws import law_of_mechanism
from topdown.privacy.ledger import Book, read_book
from topdown.privacy.statement import (
    ChainStep,
    Claim,
    Measurement,
    StatementWords,
    attribute_rows,
    composed_deltas,
    protected_attributes,
    statement,
)
from topdown.publish.ledger_statement import spent_statement
from topdown.publish.release_files import Hashes
from topdown.publish.release_tables import PERSONS

if TYPE_CHECKING:
    from topdown.privacy.accountant import ComposedLoss
    from topdown.verify import VerifyResult


DELTA = "1e-10"


def _secret_row(row: dict[str, Any]) -> PureSecret | DisclosedSecret:
    """Return a row about one secret in the form that its noise has."""
    if row["status"] == "disclosed":
        return convert(row, DisclosedSecret)
    return convert(row, GaussianSecret if "rho" in row else PairSecret if "delta" in row else PureSecret)


def statement_of(
    policy: ReleaseChain, deltas: Sequence[str] = (DELTA,), *, anew: bool = False
) -> dict[str, Any]:
    """Return every row that can be said of a release (see `statement`), and `conditional_on`."""
    said = statement(steps_of(policy), claims_of(policy), deltas, words=words_of(policy), anew=anew)
    return said | {"conditional_on": list(policy.conditional_on)}


def certified_privacy(policy: ReleaseChain) -> CertifiedPrivacy:
    """Return what the certificate adds to the plan's exact loss, every number an enclosure [low, high] of decimals."""
    said = statement_of(policy)
    del said["deltas"]
    return CertifiedPrivacy(epsilon=said["secrets"][0]["epsilon"], **said)


def certified_loss(policy: ReleaseChain, claims: Sequence[Claim] = ()) -> CertifiedLoss:
    """Return the row of the neighbours' own secret with the releases that are extended.

    Beside it `alone`, the same without those releases (None if there are none), and `replaced`, the row of a replaced
    record (None where that is the first row, or is disclosed).

    Args:
        policy: of the release.
        claims: those of the policy, if they are known already.
    """
    steps, claims, words = steps_of(policy), claims or claims_of(policy), words_of(policy)
    n = 2 if claims[0].kind == "presence" else 1
    everything = [m for s in steps for m in s.measurements]
    rows = attribute_rows(everything, claims[:n], (DELTA,), words=words.of_all(len(steps)))
    alone = (
        attribute_rows(steps[-1].measurements, claims[:1], (DELTA,), words=words.of_one())
        if len(steps) > 1
        else []
    )
    certified = convert(rows[0] | {"alone": None, "replaced": None}, CertifiedLoss)
    return structs.replace(
        certified,
        alone=_secret_row(alone[0]) if alone else None,
        replaced=_secret_row(rows[1]) if n == 2 and rows[1]["status"] != "disclosed" else None,
    )


def composed_loss(policy: ReleaseChain) -> Composed | UnsetType:
    """Return what `statement` says of composed losses, of a pair; nothing for another loss."""
    first = first_loss(policy) if policy.plan.delta else None
    return convert(composed_deltas(first), Composed) if isinstance(first, PairLoss) else UNSET


def first_loss(policy: ReleaseChain) -> ComposedLoss:
    """Return the loss that the trade-off curve is drawn of."""
    steps = steps_of(policy)
    loss = protected_attributes([m for s in steps for m in s.measurements], claims_of(policy)[:1])[0].loss
    if loss is None:
        raise InternalError("a plan whose neighbours all differ in what is exact was not refused")
    return loss


def steps_of(policy: ReleaseChain) -> tuple[ChainStep, ...]:
    """Return what each release measures, in attributes of the newest; oldest first."""
    out = []
    for plan, reading in policy.steps:
        rows = []
        for depth, level in enumerate(plan.levels):
            for m in level.measurements:
                touched = frozenset(reading[name][0] for name in plan.query(m.query).attributes)
                noise = (m.parameter, m.law, m.count_delta, m.whole_weights, plan.relation.most_records)
                rows.append(Measurement(depth, level.name, m.query, touched, *noise))
        out.append(ChainStep(plan.release.id, plan.plan_hash, tuple(rows)))
    return tuple(out)


def claims_of(policy: ReleaseChain) -> tuple[Claim, ...]:
    """Return what exact statistics say of each change."""
    depth = {name: i for i, name in enumerate(policy.geography.level_names)}
    return tuple(
        Claim(c.kind, c.of, c.status, c.exact, depth[c.of] if c.kind == "within_level" else -1)
        for c in policy.changes
    )


def change_statuses(policy: ReleaseChain) -> list[ChangeStatus]:
    """Return what exact statistics say of each change, in words."""
    unit = policy.plan.schema.unit
    return [
        ChangeStatus(name=c.stated(unit).name, kind=c.kind, status=c.status, exact=list(c.exact))
        for c in claims_of(policy)
    ]


def words_of(policy: ReleaseChain) -> StatementWords:
    """Return what sentences about a release speak of."""
    return StatementWords(policy.plan.schema.unit, policy.has_public_facts)


CERTIFICATE = "certificate.json"
NOTHING_CERTIFIED = CertifiedPrivacy()


def usual_epsilon(total: Fraction, loss_name: str) -> str:
    """Return the usual epsilon at delta 1e-10 of a total loss, rounded up to nine decimals.

    zCDP: rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016, Proposition 1.3). Pure DP: the loss itself, and that of
    pairs, at their own delta.
    """
    if loss_name == "rho" and total:
        total = bun_steinke(total, DELTA).upper
    return fixed(total, 9, up=True)


def open_answers(plan: Plan) -> list[str]:
    """Name the answers that only a person can give and nobody has given yet."""
    given = {key: text for key, text in structs.asdict(plan.release).items() if text or key != "licence"}
    names = [f"release.{key}" for key, text in given.items() if not is_answered(text)]
    for kind, constraints in plan.invariants.by_kind.items():
        names += [
            f"invariants.{kind}.{c.name}.legal_basis"
            for c in constraints
            if not is_answered(c.basis.legal_basis)
        ]
    return names


def stamps(plan: Plan) -> list[ReleaseStamp]:
    """Return what every reader must see: DEMO, DRAFT (open answers)."""
    demo = plan.release.data_set == "demo" or plan.release.id.startswith("demo-")
    marks: dict[ReleaseStamp, bool] = {"DEMO": demo, "DRAFT": bool(open_answers(plan))}
    return [word for word, due in marks.items() if due]


def make_certificate(
    release: Path,
    context: PublicContext,
    checked: VerifyResult,
    privacy: CertifiedPrivacy = NOTHING_CERTIFIED,
    hashes: Hashes | None = None,
) -> Certificate:
    """Return the certificate of a release whose other files are written.

    It repeats nothing that a file whose hash it states holds: the plan, the ledger and solve.json speak for themselves.

    Args:
        release: folder of the release; its files are read and hashed.
        context: plan and public facts.
        checked: result of `verify_content`.
        privacy: what is certified of the release.
        hashes: of its files, those that are known.
    """
    plan = context.plan
    ledger, hashes = release / "ledger.jsonl", hashes or Hashes(release)
    book = read_book(ledger.read_bytes(), ledger)[0]
    return Certificate(
        engine=__version__,
        plan_hash=plan.plan_hash,
        stamps=stamps(plan),
        open_answers=open_answers(plan),
        privacy=stated_privacy(context.policy, privacy, book),
        checks=[
            PassedCheck(name=c.name, ok=c.ok, text=c.text, n_checked=c.n_checked, n_failed=c.n_failed)
            for c in checked.checks
        ],
        software=software(),
        files={path: hashes.of(path) for path in sorted(certified_files(release, context))},
        measured=plan.measured or UNSET,
    )


def certified_files(release: Path, context: PublicContext) -> list[str]:
    """Return the files that decide the release: plan, public facts, ledger, measurements, microdata."""
    plan = context.plan
    paths = ["plan.json", "ledger.jsonl", "solve.json", "public/geography.parquet", "public/leaves.parquet"]
    paths += ["measurements/exact.json", *sections_of(context.geography).paths(PERSONS, len(plan.levels) - 1)]
    paths += [] if plan.base is None else list(BaseFiles.of_extension(release).copies)
    paths += {path for depth in range(len(context.bases)) for path in carried_paths(depth + 1)} - set(paths)
    paths += [] if plan.measured is None else [MEASURED_PLAN]
    for level in plan.levels:
        parts = (release / "measurements" / level.name).glob("part-*.parquet")
        paths += [path.relative_to(release).as_posix() for path in parts]
    return paths


def software() -> dict[str, str]:
    """Return the versions of what computed the release."""
    libraries = {library.__name__: library.__version__ for library in (np, pa, scipy)}
    return {"python": platform.python_version(), "topdown": __version__, **libraries}


def stated_privacy(policy: ReleaseChain, certified: CertifiedPrivacy, book: Book) -> Privacy:
    """Return the section `privacy` of a certificate.

    Args:
        policy: of the release.
        certified: what is certified of it.
        book: ledger that is charged for the release.
    """
    plan = policy.plan
    at = exact_text(plan.delta_of(plan.loss)) if plan.delta else DELTA
    return Privacy(
        **structs.asdict(certified),
        unit=plan.schema.unit,
        neighbours=plan.neighbours,
        loss_name=plan.loss_name,
        loss=exact_text(plan.loss),
        loss_with_base=exact_text(policy.loss),
        delta=delta_beside(plan, plan.loss),
        unspent=[
            UnspentLoss(
                level=name,
                loss=exact_text(plan.budget * share),
                delta=delta_beside(plan, plan.budget * share),
            )
            for name, share in plan.unspent
        ],
        usual=UsualEpsilon(
            label="usual formula",
            formula=law_of_mechanism(plan.mechanism).usual,
            epsilon={at: usual_epsilon(policy.loss, plan.loss_name)},
        ),
        everything_released=spent_statement(book, newest=plan.measured is None),
    )


def delta_beside(plan: Plan, loss: Fraction) -> str | UnsetType:
    """Return the delta beside a part of the budget, where losses are pairs."""
    return exact_text(plan.delta_of(loss)) if plan.delta else UNSET
