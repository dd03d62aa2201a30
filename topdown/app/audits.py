"""What a plan, a release, a whole ledger or any mechanisms cost together, and what the drawing code shows of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topdown.app.calls import PathText, path_of, public_function
from topdown.app.noise_law import Noise, noise
from topdown.app.planned import opened, opened_again
from topdown.errors import BudgetError, ConfigError
from topdown.formats.privacy_documents import AuditLedger
from topdown.made_up import refuse_simulation
from topdown.notebook import card
from topdown.plan.preparation import load_context, load_release_chain
from topdown.practice.audit_by_runs import audit_by_runs as run_pairs
from topdown.practice.audit_by_runs import runs_document
from topdown.privacy.accountant import Composition, WholeLoss
from topdown.privacy.exact_values import delta_of, significant
from topdown.privacy.ledger.ledger_file import read_ledger
from topdown.privacy.ledger.registry import is_newest
from topdown.privacy.statement import accuracy_percent
from topdown.progress import Report, silent
from topdown.publish.ledger_statement import ledger_document
from topdown.publish.release_certificate import statement_of
from topdown.verify.run_checks import verify_privacy

if TYPE_CHECKING:
    from topdown.app.private_choice import PlannedChoice
    from topdown.formats.privacy_documents import AuditRuns
    from topdown.plan import PublicContext, ReleaseChain
    from topdown.privacy.exact_values import Enclosure, Exact, Threshold


DELTA = "1e-10"


@dataclass(frozen=True, eq=False)
class Audit:
    """What can be said of a plan or release together with the releases it extends.

    >>> import topdown
    >>> found = topdown.audit("release", deltas=["1e-6"])
    >>> found.agrees
    True

    Args:
        policy: what the statements are made from.
        statement: every secret with its status and certified numbers, the curve and the sentence to quote.
        contradictions: what the release's certificate states that its files contradict; None if there is none.
    """

    policy: ReleaseChain
    statement: dict[str, Any]
    contradictions: tuple[str, ...] | None

    @property
    def agrees(self) -> bool | None:
        """Whether the certificate says the same; None without one."""
        return None if self.contradictions is None else not self.contradictions

    @property
    def sentence(self) -> str:
        """The sentence to quote."""
        return str(self.statement["sentence"])

    @property
    def document(self) -> dict[str, Any]:
        """The `topdown.audit.static` document."""
        return {
            "type": "topdown.audit.static",
            "version": 1,
            "engine": self.statement["secrets"][0]["method"],
            "neighbours": self.policy.plan.neighbours,
            "plan_hash": self.policy.plan.plan_hash,
            "certificate_agrees": self.agrees,
        } | self.statement

    def __repr__(self) -> str:
        return f"Audit(plan {self.policy.plan.plan_hash[:8]}, agrees={self.agrees}): {self.sentence}"

    def _repr_html_(self) -> str:
        rows = [(row["name"], row["status"], row["sentence"]) for row in self.statement["secrets"]]
        agrees = {None: "no certificate to compare with", True: "its certificate agrees"}
        return card(
            f"Audit of plan {self.policy.plan.plan_hash[:8]}",
            rows,
            head=("change", "status", "what is stated"),
            note=agrees.get(self.agrees, "its certificate states something else"),
        )


@dataclass(frozen=True, eq=False)
class RunsAudit:
    """What runs of the drawing code show.

    Args:
        document: what was shown beside what is claimed, by secret and by pair.
        extends: whether the plan extends a release; then both are about this step alone, not what it extends.
    """

    document: AuditRuns
    extends: bool

    @property
    def passes(self) -> bool:
        """Whether nothing shown beats its claim. That proves no claim right."""
        return self.document.passes

    def __repr__(self) -> str:
        made = self.document
        return f"RunsAudit(passes={made.passes}, runs={made.runs}, n_pairs={made.n_pairs}, extends={self.extends})"


@public_function
def audit(source: PathText, *, base: PathText | None = None, deltas: Sequence[str] = (DELTA,)) -> Audit:
    """Compute the privacy loss of a plan or release, together with what it extends, in proved bounds.

    Every number is an enclosure: the exact loss of all noise together lies between the two. A change that does not move
    the answers of every measurement costs less. What exact statistics give away is named and has no number.

    >>> import topdown
    >>> topdown.audit("town/run.toml").sentence[-41:]
    'at most 85 times in 100; a coin gives 50.'

    Args:
        source: run file, plan.json or folder of a release.
        base: folder of the release that the run file extends.
        deltas: where epsilon is stated, as text: "1e-10".

    Raises:
        ConfigError: a file is no plan, C122 the folder holds a simulation, or a delta is none.
        DataError, BudgetError: as `topdown.plan`.
    """
    path, below = path_of(source, "source"), None if base is None else path_of(base, "base")
    folder = _release_of_folder(path, below)
    policy = _audit_of_plan(path, below).policy if folder is None else load_release_chain(folder)
    statement = statement_of(policy, tuple(deltas), anew=True)
    if not (path / "certificate.json").is_file():
        return Audit(policy, statement, None)
    return Audit(policy, statement, tuple(finding.text for finding in verify_privacy(path).findings))


@public_function
def audit_ledger(
    ledger: PathText, *, deltas: Sequence[str] = (DELTA,), registry: PathText | None = None
) -> AuditLedger:
    """Compute what everything charged to a data set costs together, up to the last record; writes nothing.

    Where no registry says that no newer ledger is known, `newest` is false and every sentence says that it is according
    to a copy, and where that ends.

    >>> import topdown
    >>> topdown.audit_ledger("release/ledger.jsonl")
    AuditLedger('made-up', rho 2, 1 releases)

    Args:
        ledger: file.
        deltas: where epsilon is stated, as text.
        registry: folder of its registry; looked for beside the ledger and one folder above if None.

    Raises:
        BudgetError: B006 the file is no ledger, or it is damaged; B061 its registry knows a newer one; B016 there is no
            registry of this ledger in the folder that was given.
        ConfigError: a delta is none.
    """
    path = path_of(ledger, "ledger")
    book = read_ledger(path)
    if book.opened is None:
        raise BudgetError(
            f"{path} is no ledger: it has no whole first record",
            code="B006",
            file=str(path),
            fix="give the ledger that the run file names",
        )
    newest = is_newest(path, book, None if registry is None else path_of(registry, "registry"))
    return ledger_document(book, tuple(deltas), newest=newest)


@public_function
def audit_runs(
    source: PathText, runs: int, *, base: PathText | None = None, delta: str = DELTA, report: Report = silent
) -> RunsAudit:
    """Run the drawing code on made-up neighbours and compare what it shows with the claim; opens no records.

    >>> import topdown
    >>> topdown.audit_runs("town/run.toml", runs=1000).passes
    True

    Args:
        source, base: see `audit`.
        runs: draws on each side of each pair, 1,000 to 10,000,000.
        delta: where epsilon is stated, as text; of optimal noise it is the largest delta that is claimed.
        report: see `generate`.

    Returns:
        what was shown beside what is claimed; `passes` is False where the drawing code breaks its claim. Of an
        extension, its own step alone.

    Raises:
        ConfigError: as `audit`, A051 too few or too many runs, A052 no pair of neighbours.
    """
    path, below = path_of(source, "source"), None if base is None else path_of(base, "base")
    folder = _release_of_folder(path, below)
    context = _audit_of_plan(path, below) if folder is None else load_context(folder)
    own = replace(context.policy, bases=())  # what is drawn is noise of this step alone
    secrets = statement_of(own, (delta,), anew=True)["secrets"]
    at = max((Fraction(row["delta"]) for row in secrets if "delta" in row), default=delta_of(delta))
    found = run_pairs(context, runs, delta=at, report=report)
    made = runs_document(context, found, secrets)
    return RunsAudit(made, context.plan.base is not None)


def _release_of_folder(source: Path, base: Path | None) -> Path | None:
    """Return the folder that holds a plan with its public facts; None for a run file."""
    if source.is_dir():
        refuse_simulation(source)
    if base is not None:
        return None
    if source.is_dir():
        return source
    return source.parent if source.name == "plan.json" and (source.parent / "public").is_dir() else None


def _audit_of_plan(source: Path, base: Path | None) -> PublicContext:
    planned = opened_again(source) if base is None else opened(source, base)
    return planned.prepared.context


@dataclass(frozen=True, eq=False, repr=False)
class Account:
    """What several mechanisms cost together, exact or bounded from above. `topdown.account` makes it.

    >>> import topdown
    >>> topdown.account(gaussian=[100, 400], pure=["1/4"])
    Account(3 mechanisms, 57 right guesses in 100 at most)

    Args:
        loss: of all of them, composed as a ledger composes it.
    """

    loss: WholeLoss

    def epsilon(self, delta: Threshold) -> Enclosure:
        """Return ends of epsilon at a delta below 1; at 0 of mechanisms that keep an epsilon for every delta.

        Raises: ConfigError A018 there is none: the mechanisms have a larger delta of their own; A005 the delta.
        """
        found = self.loss.epsilon_at(delta_of(delta) if delta else 0)
        if found is None:
            raise ConfigError(
                "no epsilon has this delta: the mechanisms have deltas of their own",
                code="A018",
                fix=f"give a delta above {significant(self.loss.own_delta, 3, up=True)}",
            )
        return found

    def delta(self, epsilon: Threshold) -> Enclosure:
        """Return ends of delta at an epsilon of 0 or more."""
        alone = self.loss.of_one_kind
        if isinstance(alone, Composition):
            return alone.delta(epsilon, engine=alone.certifying())
        return self.loss.delta_at(epsilon)

    def best_guess(self) -> Enclosure:
        """Return ends of the chance that the best attacker is right of two equally likely neighbours."""
        alone = self.loss.of_one_kind
        if isinstance(alone, Composition):
            return alone.best_guess(engine=alone.certifying())
        return (alone or self.loss).best_guess()

    def __repr__(self) -> str:
        return f"Account({self._n} mechanisms, {accuracy_percent(self.best_guess())} right guesses in 100 at most)"

    @property
    def _n(self) -> int:
        return self.loss.coordinates + len(self.loss.pure)

    def _repr_html_(self) -> str:
        rows: list[tuple[str, str]] = []
        for delta in ("1e-6", "1e-10"):
            found = self.loss.epsilon_at(delta)
            shown = (
                "none: they have deltas of their own"
                if found is None
                else significant(found.upper, 6, up=True)
            )
            rows.append((f"\u03b5 at \u03b4 {delta}, at most", shown))
        rows.append(("best attacker right in 100, at most", str(accuracy_percent(self.best_guess()))))
        how = "Composed exactly." if self.loss.is_exact else "A bound from above."
        return card(f"{self._n} mechanisms together", rows, note=f"{how} Nothing was charged.")


@public_function
def account(
    *mechanisms: Noise | PlannedChoice,
    gaussian: Sequence[Exact] = (),
    geometric: Sequence[Exact] = (),
    pure: Sequence[Exact] = (),
    optimal: Sequence[tuple[Exact, Exact]] = (),
) -> Account:
    """Compose mechanisms of any kinds on the same records, and return their loss as a ledger would state it.

    Each is on one answer that moves by its sensitivity at most, 1 for those given by numbers. A count that moves by 1
    in each of two places, as under "bounded", is two mechanisms.

    >>> import topdown
    >>> ten = topdown.account(
    ...     gaussian=[100, 225, 400], geometric=["1/10", "1/5"], pure=["1/20", "1/8", "1/4"],
    ...     optimal=[(1, "1e-7"), ("1/2", "1e-8")],
    ... )
    >>> ten.epsilon(1e-6).texts(3)[1]
    '2.63'
    >>> topdown.account(gaussian=[100, 400], geometric=["1/10"], pure=["1/20", "1/4"]).delta(0.5).texts(3)
    ('0.00208', '0.00209')
    >>> topdown.account(topdown.noise(epsilon=1, delta="1/1000", sensitivity=2)).delta(1).texts(3)
    ('0.000999', '0.001')

    Args:
        mechanisms: from `topdown.noise`, and choices from `topdown.select`.
        gaussian: variances of discrete Gaussian noise, above 0.
        geometric: rates of two-sided geometric noise, above 0: epsilon of one count.
        pure: epsilons of mechanisms of which no more is known than that they keep epsilon; the loss is that of the
            worst of them (Kairouz, Oh, Viswanath 2015, theorem 3.3).
        optimal: (epsilon, delta) of optimal noise of least absolute error.

    Returns: its `epsilon(delta)`, `delta(epsilon)` and `best_guess()` are enclosures of the true values; where the
        losses have too many values to be listed, the lower end is that of the Gaussian noise alone.

    Raises:
        ConfigError: A002 a number that is not above 0, A007 nothing is given, and as `noise`.
        TypeError: a float.
    """
    made = [one for one in mechanisms if isinstance(one, Noise)]
    made += [noise(gaussian=variance) for variance in gaussian]
    made += [noise(geometric=rate) for rate in (*geometric, *pure)]  # one count: loss epsilon or -epsilon
    made += [noise(epsilon=epsilon, delta=delta) for epsilon, delta in optimal]
    choices = [one.charged for one in mechanisms if not isinstance(one, Noise)]
    if not made and not choices:
        raise ConfigError("no mechanism spends anything", code="A007", fix="give at least one")
    return Account(WholeLoss(tuple(one.counts() for one in made), tuple(choices)))
