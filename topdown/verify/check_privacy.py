"""Check `privacy`: every statement about privacy, derived anew from plans, public files and ledger.

A certificate may state nothing more favourable than what is derived, and nothing vague.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from topdown.verify.change_losses import (
    ALPHAS,
    CHOICE_METHOD,
    EVERY_DELTA,
    ChangeLoss,
    GaussianLoss,
    MovedCounts,
    PairLoss,
    PureLoss,
    WithChoices,
    delta_between,
    ends_agree,
    loss_of_laws,
    with_choices,
)
from topdown.verify.check_certificate import delta_charged
from topdown.verify.derived_privacy import DerivedPrivacy, derive_privacy
from topdown.verify.exact_arithmetic import (
    ROUNDED,
    Ends,
    digits_of,
    exact_text,
    fraction,
    read_decimal,
    read_enclosure,
    tight_formula,
    twelve_digits,
    usual_formula,
)
from topdown.verify.findings import Finding, Findings
from topdown.verify.gaussian_sums import continuous_epsilon
from topdown.verify.ledger_reader import Choice, LedgerFile, Opened
from topdown.verify.noise_laws import RELATIONS, REPLACED, law_named
from topdown.verify.plan_reader import PlanFile
from topdown.verify.session import Session


def row_name(kind: str, of: str, unit: str) -> str:
    """Return the name of a row."""
    if kind == "attribute":
        return f"{of} only"
    if kind == "within_level":
        return f"place within one {of}"
    return f"one {unit}, {kind}"


def disclosed_by(names: Sequence[str]) -> str:
    """Return the sentence of a secret that exact statistics give away."""
    return "disclosed by: " + ", ".join(names)


def change_sentence(
    kind: str, of: str, unit: str, exact: Sequence[str], times: int, *, public_facts: bool, reads: str
) -> str:
    """Return the sentence of a secret that noise protects.

    Args:
        exact: names of the exact statistics that some change alters.
        times: right choices in 100.
        public_facts: whether public facts narrow what an answer can be.
        reads: "release", "chain" (with what it extends) or "step" (of a chain).
    """
    read = {
        "release": "this release",
        "chain": "this release and what it extends",
        "step": "the measurements of this step",
    }[reads]
    facts = [f"what is exact ({', '.join(exact)})"] if exact else []
    fits = " and ".join(facts + ["the public facts"] * public_facts)
    which = f", both of which fit {fits}," if fits else ","
    if kind == "presence":
        which = f", where both fit {fits}," if fits else ","
        middle = f", and must tell whether one {unit}'s answers were there at all"
    elif kind == "everything":
        middle = f", and must tell which of two answers one {unit} gave"
    elif kind == "attribute":
        middle = f" and all of one {unit}'s but {of}, and must tell which of two values that is"
    else:
        middle = f" and all of one {unit}'s but the place within one {of}, and must tell which of two places that is"
    return (
        f"Someone who reads only {read}, knows every other {unit}'s answers{middle}{which} chooses rightly at most "
        f"{times} times in 100; a coin gives 50."
    )


def ledger_sentence(kind: str, readers: str, unit: str, exact: Sequence[str], times: int) -> str:
    """Return the sentence about everything charged to a ledger; `readers`: see `LedgerFile.readers`."""
    if kind == "presence":
        asked = f"whether one {unit}'s answers were there at all, where both fit"
    else:
        asked = f"which of two answers one {unit} gave, both of which fit"
    published = f"what was published exactly ({', '.join(exact)}) and " if exact else ""
    return (
        f"{readers}, knows every other {unit}'s answers, and must tell {asked} {published}the public facts, chooses "
        f"rightly at most {times} times in 100; a coin gives 50."
    )


FILE = "certificate.json"


BOUNDS, PURE, PAIR = "bounds: two Gaussians, zCDP, symmetry", "pure epsilon", "sums of epsilon and delta"
COMPOSED = f"{PAIR}, guesses by composed losses"


# How wide an enclosure may be, as a part of its high end, by the engine that its method names.
WIDTHS = (
    (re.compile(r"ball/[0-9]{2,4} bit"), Fraction(1, 10**9)),
    (re.compile(r"float64|atoms/(float64|long double)"), Fraction(1, 10**6)),
    (re.compile(r"ball-free/[0-9]{2,4} bit|free/float64"), Fraction(1, 10**4)),  # of variances far apart
    (re.compile(f"{PURE}|{PAIR}|{COMPOSED}"), Fraction(1, 10**11)),
    (re.compile(re.escape(BOUNDS)), Fraction(0)),
)


CURVE_WIDTH = Fraction(1, 10**6)


LEAST_WIDTH = Fraction(1, 10**12)


BOUND_SLACK = Fraction(1, 50)  # a search for bounds may stop this part of itself short


CLOSED_FORM_SLACK = Fraction(1, 10**10)


COMPARISON = "closed form of the continuous Gaussian; errs in both directions, not a bound"


MOST_DELTAS = 8


_NUMBERS = {"n_counts_moved", "epsilon", "best_guess", "right_in_100", "method"}


_OF_RHO = {"rho", "mu", "usual"}


@dataclass(frozen=True)
class StatedRow:
    """One row that a certificate must state.

    Args:
        head: what it must state literally.
        loss: of the secret; None if it is disclosed.
        sentence: the sentence, given how many choices in 100 are right.
    """

    head: dict[str, Any]
    loss: ChangeLoss | None
    sentence: Callable[[int], str]


@dataclass
class Comparison:
    """Collects contradictions between a certificate and what was derived; `deltas` is where epsilon is stated."""

    out: Findings
    deltas: tuple[str, ...] = ("1e-10",)

    def same(self, code: str, place: str, expected: Any, found: Any) -> bool:
        """Add a finding unless both are the same JSON."""
        self.out.n_checked += 1
        if _json_text(expected) == _json_text(found):
            return True
        self.wrong(code, place, "is not what follows from the files", _json_text(expected), _json_text(found))
        return False

    def wrong(self, code: str, place: str, text: str, expected: str = "", found: str = "") -> None:
        """Add a finding."""
        why = "the certificate would promise something that the files do not hold"
        line = f"the certificate's {place} {text}"
        self.out.add(Finding(code, line, FILE, None, None, expected[:120], found[:120], why))

    @contextmanager
    def reading(self, code: str, place: str) -> Iterator[None]:
        """Add a finding for whatever cannot be read inside the block."""
        self.out.n_checked += 1
        try:
            yield
        except (LookupError, ValueError, TypeError, AttributeError, StopIteration) as error:
            self.wrong(code, place, f"cannot be read: {str(error)[:120]}")

    def read_deltas(self, secrets: object, *, pure: bool) -> None:
        """Take from the first row where epsilon is stated; 1e-10 must be there, or 0 alone with geometric noise."""
        self.deltas = (EVERY_DELTA,) if pure else ("1e-10",)
        if pure:
            return
        with self.reading("V132", "privacy.secrets"):
            stated = tuple(secrets[0]["epsilon"]) if isinstance(secrets, list) and secrets else ()
            if "1e-10" not in stated or len(stated) > MOST_DELTAS:
                raise ValueError(f"no epsilon at delta 1e-10, or at more than {MOST_DELTAS} deltas")
            for delta in stated:
                digits_of(delta)
            self.deltas = stated

    def rows(self, code: str, place: str, stated: object, expected: Sequence[StatedRow]) -> None:
        """Compare rows one by one; others than those expected are all wrong."""
        found = [row if isinstance(row, dict) else {} for row in stated] if isinstance(stated, list) else []
        names = [row.head["name"] for row in expected]
        if self.same(code, f"{place}: its rows", names, [row.get("name") for row in found]):
            for i, row in enumerate(expected):
                self._row(code, f"{place}[{i}]", found[i], row)

    def _row(self, code: str, place: str, stated: dict[str, Any], row: StatedRow) -> None:
        loss = row.loss
        keys = {*row.head, "sentence"}
        if loss is not None:
            keys |= _NUMBERS | (_OF_RHO if loss.rho is not None else set())
            keys |= {"delta"} if loss.delta is not None else set()
        self.same(code, f"{place}: its keys", sorted(keys), sorted(stated))
        for key, value in row.head.items():
            self.same(code, f"{place}.{key}", value, stated.get(key))
        times = 0
        if loss is not None:
            self._numbers(place, stated, loss)
            times = stated.get("right_in_100", 0)
        self.same("V134", f"{place}.sentence", row.sentence(times), stated.get("sentence"))

    def _numbers(self, place: str, stated: dict[str, Any], loss: ChangeLoss) -> None:
        self.same("V132", f"{place}.n_counts_moved", loss.counts, stated.get("n_counts_moved"))
        method = stated.get("method")
        epsilon = stated.get("epsilon")
        at = dict(epsilon) if isinstance(epsilon, dict) else {}
        deltas = self.deltas
        if loss.delta is not None:
            deltas = (exact_text(loss.delta),)
            self.same("V132", f"{place}.delta", deltas[0], stated.get("delta"))
        if self.same("V132", f"{place}.epsilon: its deltas", sorted(deltas), sorted(at)):
            for delta in deltas:
                found = partial(_epsilon_at, delta=delta)
                self._enclosure(f"{place}.epsilon at {delta}", at[delta], loss, method, found)
        guess = stated.get("best_guess")
        if method == COMPOSED and isinstance(loss, PairLoss):
            self._composed_guess(f"{place}.best_guess", guess, loss)
        else:
            self._enclosure(f"{place}.best_guess", guess, loss, method, lambda x: x.guess)
        with self.reading("V132", f"{place}.right_in_100"):
            times = min(math.ceil(100 * read_enclosure(guess)[1]), 100)
            self.same("V132", f"{place}.right_in_100", times, stated.get("right_in_100"))
        if loss.rho is not None:
            self.same("V132", f"{place}.rho", exact_text(loss.rho), stated.get("rho"))
            with self.reading("V132", f"{place}.mu"):
                self._near(f"{place}.mu", _read_float(stated.get("mu")), math.sqrt(float(2 * loss.rho)))
            with self.reading("V131", f"{place}.usual"):
                self._usual(f"{place}.usual", stated["usual"], loss.rho)

    def curve(self, stated: object, loss: ChangeLoss, method: object) -> None:
        """Compare the power of the best test at ALPHAS."""
        place = "privacy.curve"
        points = [p if isinstance(p, dict) else {} for p in stated] if isinstance(stated, list) else []
        if not self.same(
            "V132", f"{place}: its alphas", list(map(str, ALPHAS)), [p.get("alpha") for p in points]
        ):
            return
        for i, point in enumerate(points):
            self.same("V132", f"{place}[{i}]: its keys", ["alpha", "power"], sorted(point))
            found = partial(_power_at, i=i)
            self._enclosure(f"{place}[{i}].power", point.get("power"), loss, method, found, bounds_do=True)

    def _enclosure(
        self,
        place: str,
        stated: object,
        loss: ChangeLoss,
        method: object,
        own: Callable[[ChangeLoss], Ends],
        *,
        bounds_do: bool = False,
    ) -> None:
        """Add a finding unless [low, high] can hold the true value, is not below it, and is as narrow as its method.

        bounds_do: the bounds of theorems are allowed, whatever the method (the curve, where its sums are not quick).
        """
        with self.reading("V132", place):
            low, high = read_enclosure(stated)
            if isinstance(loss, WithChoices):
                mine = own(loss)
                if method != CHOICE_METHOD or not ends_agree(low, high, mine):
                    line = "is not between the noise alone and the noise with choices"
                    self.wrong("V132", place, line, str(mine), _json_text(stated))
                return
            width = max(_allowed_width(method), CURVE_WIDTH) if bounds_do else _allowed_width(method)
            by_sums = method in (PAIR, COMPOSED)
            if (method == PURE) != isinstance(loss, PureLoss) or by_sums != isinstance(loss, PairLoss):
                raise ValueError(f"no method {method!r} gives it")
            mine = own(loss)
            if isinstance(loss, PureLoss):  # exact, or a bound with a trivial lower end: both ends are known
                room = width * mine.upper + LEAST_WIDTH
                outward = low <= mine.lower * (1 + 3 * ROUNDED) and mine.upper * (1 - 3 * ROUNDED) <= high
                if not (outward and mine.lower - low <= room and high - mine.upper <= room):
                    line = "is not the value found here"
                    self.wrong("V132", place, line, str(mine), _json_text(stated))
                return
            narrow = method != BOUNDS and high - low <= width * high + LEAST_WIDTH
            if (
                not narrow
                and isinstance(loss, GaussianLoss)
                and (method == BOUNDS or (bounds_do and loss.total.is_slow))
            ):
                wide = own(loss.widest)
                narrow = wide.lower * (1 - BOUND_SLACK) - LEAST_WIDTH <= low
                narrow &= high <= wide.upper * (1 + BOUND_SLACK) + LEAST_WIDTH
            if not (narrow and low <= mine.upper and mine.lower <= high):
                side = "above" if low > mine.upper else "below" if high < mine.lower else "too wide for"
                line = f"is {side} the value found here"
                self.wrong("V132", place, line, str(mine), _json_text(stated))

    def _composed_guess(self, place: str, stated: object, loss: PairLoss) -> None:
        """Add a finding unless a guess is bounded as composed losses do: from 1/2 to no less than they allow."""
        with self.reading("V132", place):
            low, high = read_enclosure(stated)
            if (
                low != Fraction(1, 2)
                or not loss.parts
                or not loss.composed_guess.lower <= high <= loss.composed_guess.upper
            ):
                self.wrong(
                    "V132",
                    place,
                    "is not what composed losses give",
                    str(loss.composed_guess),
                    _json_text(stated),
                )

    def _usual(self, place: str, stated: dict[str, Any], rho: Fraction) -> None:
        keys = ["bun_steinke", "canonne_kamath_steinke", "gaussian_comparison", "gaussian_note"]
        self.same("V131", f"{place}: its keys", keys, sorted(stated))
        self.same("V131", f"{place}.gaussian_note", COMPARISON, stated.get("gaussian_note"))
        for key in keys[:3]:
            if not self.same("V131", f"{place}.{key}: its deltas", sorted(self.deltas), sorted(stated[key])):
                continue
            for delta in self.deltas:
                text, digits = stated[key][delta], digits_of(delta)
                if key == "gaussian_comparison":
                    self._near(
                        f"{place}.{key}",
                        _read_float(text),
                        continuous_epsilon(rho, digits) if rho else 0.0,
                        1e-6,
                    )
                    continue
                true = _usual_bound(key, rho, digits)
                if not true * (1 - ROUNDED) <= read_decimal(text) <= true * (1 + CLOSED_FORM_SLACK):
                    self.wrong(
                        "V131", f"{place}.{key}", "is not what rho implies", twelve_digits(true), str(text)
                    )

    def _near(self, place: str, stated: float, mine: float, slack: float = 1e-12) -> None:
        self.out.n_checked += 1
        if not abs(stated - mine) <= slack * abs(mine):
            self.wrong("V132", place, "is not what rho implies", repr(mine), repr(stated))


def _epsilon_at(loss: ChangeLoss, *, delta: str) -> Ends:
    return loss.epsilon(delta)


def _power_at(loss: ChangeLoss, *, i: int) -> Ends:
    return loss.powers[i]


def _usual_bound(key: str, rho: Fraction, digits: int) -> Fraction:
    if not rho:
        return Fraction(0)
    return usual_formula(rho, digits) if key == "bun_steinke" else tight_formula(rho, digits)


def _allowed_width(method: object) -> Fraction:
    for known, width in WIDTHS:
        if isinstance(method, str) and known.fullmatch(method):
            return width
    raise ValueError(f"no method is called {str(method)[:40]!r}")


def _read_float(stated: object) -> float:
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not math.isfinite(stated):
        raise ValueError(f"{str(stated)[:40]!r} is not a number")
    return float(stated)


def _json_text(value: Any) -> str:
    # JSON true and 1, or 1 and 1.0, are equal in Python; they are not the same statement.
    return json.dumps(value, sort_keys=True)


USUAL_SLACK = Fraction(1, 10**6)  # a usual epsilon may be rounded up by this much, not more


_KEYS = (
    "conditional_on",
    "curve",
    "epsilon",
    "everything_released",
    "loss",
    "loss_name",
    "loss_with_base",
    "neighbours",
    "secrets",
    "sentence",
    "steps",
    "unit",
    "unspent",
    "usual",
)


_LEDGER_KEYS = (
    *("attestations", "charged", "conditional_on", "data_set", "ledger", "loss_name", "neighbours"),
    *("refunds", "secrets", "unit", "up_to"),
)


_USUAL = {
    "rho": {"label": "usual formula", "formula": "rho + 2 sqrt(rho ln(1/delta))"},
    "epsilon": {"label": "usual formula", "formula": "epsilon"},
    "epsilon_delta": {"label": "usual formula", "formula": "sums of epsilon and delta"},
}


_OF_PAIRS = ("composed", "delta")


QUARTERS = tuple(Fraction(n, 4) for n in (1, 2, 3, 4))


def check_privacy(session: Session, out: Findings) -> str:
    """Refuse every number, secret, sentence or step that does not follow from the files, or was left out."""
    plan, stated = session.plan, session.certificate.get("privacy")
    if not isinstance(stated, dict):
        out.add(Finding("V130", "the certificate states no privacy loss", file=FILE))
        return "the certificate states no privacy loss"
    compare = Comparison(out)
    pairs = plan.loss_name == "epsilon_delta"
    compare.same("V130", "privacy: its keys", sorted((*_KEYS, *(_OF_PAIRS * pairs))), sorted(stated))
    if pairs:
        compare.same("V130", "privacy.delta", exact_text(plan.delta), stated.get("delta"))
    below = session.plans_below
    total = plan.loss + sum(base.loss for base in below.values())
    for key, expected in (
        ("loss", exact_text(plan.loss)),
        ("loss_with_base", exact_text(total)),
        ("loss_name", plan.loss_name),
        ("neighbours", plan.doc.neighbours),
        ("unit", plan.schema.unit),
    ):
        compare.same("V130", f"privacy.{key}", expected, stated.get(key))
    with compare.reading("V131", "privacy.usual"):
        _check_usual(compare, plan, total, stated["usual"])
    own = _derived(session)
    _check_secrets(compare, plan, own, stated)
    with compare.reading("V136", "privacy.everything_released"):
        copy = session.plan.measured is not None
        check_everything_released(compare, session.ledger, stated["everything_released"], copy=copy)
    if not out.ok:
        return f"{out.n_failed} of {out.n_checked} statements about privacy do not follow from the files"
    open_rows = sum(change.status != "disclosed" for change in own.changes)
    loss = exact_text(plan.loss)
    said = f"{plan.loss_name} {loss}" if len(loss) < 40 else plan.loss_name
    if pairs:
        said = "epsilon and delta"
    return (
        f"{said} as planned; {open_rows} of {len(own.changes)} secrets have a loss, the first at most "
        f"{stated['secrets'][0]['right_in_100']} right choices in 100, computed anew"
    )


def _derived(session: Session) -> DerivedPrivacy:
    plans, facts = session.plans_below, session.facts_below
    return derive_privacy(session.plan, {p: (plans[p], facts[p]) for p in plans}, session.tree)


def _check_usual(compare: Comparison, plan: PlanFile, loss: Fraction, stated: dict[str, Any]) -> None:
    literal = {key: stated[key] for key in stated if key != "epsilon"}
    compare.same("V131", "privacy.usual", _USUAL[plan.loss_name], literal)
    at = exact_text(plan.delta) if plan.loss_name == "epsilon_delta" else "1e-10"
    if at not in stated["epsilon"] or (at != "1e-10" and len(stated["epsilon"]) > 1):
        raise ValueError(f"it states no epsilon at delta {at}, or at others")
    for delta, text in stated["epsilon"].items():
        true = usual_formula(loss, digits_of(delta)) if plan.loss_name == "rho" else loss
        if not true * (1 - ROUNDED) <= read_decimal(text) <= true + USUAL_SLACK:
            compare.wrong(
                "V131",
                f"privacy.usual at {delta}",
                "is not what the plan's loss implies",
                twelve_digits(true),
                text,
            )


def _check_secrets(compare: Comparison, plan: PlanFile, own: DerivedPrivacy, stated: dict[str, Any]) -> None:
    compare.same("V133", "privacy.conditional_on", list(own.conditional_on), stated.get("conditional_on"))
    compare.read_deltas(stated.get("secrets"), pure=plan.loss_name != "rho")
    if own.losses[0] is None:
        compare.wrong("V133", "privacy", "speaks of neighbours that no two data sets can be")
        return
    whole = "chain" if len(own.steps) > 1 else "release"
    compare.rows(
        "V133", "privacy.secrets", stated.get("secrets"), _expected_statements(plan, own, own.losses, whole)
    )
    with compare.reading("V132", "privacy.secrets[0]"):
        first = stated["secrets"][0]
        compare.same("V132", "privacy.epsilon", first["epsilon"], stated.get("epsilon"))
        compare.same("V134", "privacy.sentence", first["sentence"], stated.get("sentence"))
        compare.curve(stated.get("curve"), own.losses[0], first["method"])
    if plan.loss_name == "epsilon_delta":
        with compare.reading("V132", "privacy.composed"):
            _check_composed(compare, own, stated["composed"])
    with compare.reading("V135", "privacy.steps"):
        steps = own.steps if len(own.steps) > 1 else ()
        heads = [{"release": release, "plan_hash": plan_hash} for release, plan_hash, _ in steps]
        found = [{key: step[key] for key in step if key != "secrets"} for step in stated["steps"]]
        if compare.same("V135", "privacy.steps", heads, found):
            for i, (_, _, losses) in enumerate(steps):
                rows = stated["steps"][i].get("secrets")
                compare.rows(
                    "V135",
                    f"privacy.steps[{i}].secrets",
                    rows,
                    _expected_statements(plan, own, losses, "step"),
                )


def _check_composed(compare: Comparison, own: DerivedPrivacy, stated: list[dict[str, str]]) -> None:
    """Refuse deltas at quarters of epsilon that composed losses do not give: too small ones, and vague ones."""
    total = sum((epsilon * count for _, epsilon, count in own.first), Fraction(0))
    points = [total * quarter for quarter in QUARTERS]
    heads = [{key: one[key] for key in one if key != "delta"} for one in stated]
    if not compare.same(
        "V132", "privacy.composed: its epsilons", [{"epsilon": exact_text(p)} for p in points], heads
    ):
        return
    parts = [(weights, count) for weights, _, count in own.first]
    shares = [epsilon / total for _, epsilon, _ in own.first]
    for point, one in zip(points, stated, strict=True):
        low, high = delta_between(parts, shares, total, point)
        compare.out.n_checked += 1
        if not low <= float(read_decimal(one["delta"])) <= high:
            line = "is not between the sums found here"
            compare.wrong(
                "V132",
                f"privacy.composed at {exact_text(point)}",
                line,
                f"{low:.6g} .. {high:.6g}",
                one["delta"],
            )


def _expected_statements(
    plan: PlanFile, own: DerivedPrivacy, losses: tuple[ChangeLoss | None, ...], reads: str
) -> list[StatedRow]:
    unit, out = plan.schema.unit, []
    for change, loss in zip(own.changes, losses, strict=True):
        head = {
            "name": row_name(change.kind, change.of, unit),
            "kind": change.kind,
            "status": change.status,
            "exact": list(change.exact),
        }
        exact = change.exact if change.status == "conditional" else ()
        say = partial(
            change_sentence, change.kind, change.of, unit, exact, public_facts=own.public_facts, reads=reads
        )
        out.append(StatedRow(head, loss, say if loss is not None else partial(_disclosed, change.exact)))
    return out


def _disclosed(names: tuple[str, ...], _: int) -> str:
    return disclosed_by(names)


def check_everything_released(
    compare: Comparison,
    ledger: LedgerFile,
    stated: dict[str, Any],
    place: str = "privacy.everything_released",
    *,
    copy: bool = False,
) -> None:
    """Refuse what is stated of a whole ledger and does not follow from it.

    Args:
        compare: collects findings.
        ledger: as read.
        stated: the section of a certificate.
        place: its name there.
        copy: whether the ledger may be an older copy, as that of a release that solves another's measurement.
    """
    first = next(line for line in ledger.lines if isinstance(line, Opened))
    live = [intent for seq, intent in ledger.intents.items() if seq not in ledger.voided]
    exact = list(dict.fromkeys(name for intent in live for name in intent.exact))
    more = delta_charged(ledger)
    compare.same("V136", f"{place}: its keys", sorted((*_LEDGER_KEYS, *more)), sorted(stated))
    for key, value in more.items():
        compare.same("V136", f"{place}.{key}", value, stated.get(key))
    for key, expected in (
        ("ledger", first.ledger),
        ("up_to", ledger.up_to),
        ("attestations", ledger.attestations),
        ("refunds", ledger.refunds),
        ("data_set", first.data_set),
        ("neighbours", first.neighbours),
        ("unit", first.unit),
        ("loss_name", first.loss_name),
        ("charged", exact_text(ledger.charged)),
        ("conditional_on", exact),
    ):
        compare.same("V136", f"{place}.{key}", expected, stated.get(key))
    kinds = RELATIONS.get(first.neighbours, REPLACED).stated
    laws = [drawn for intent in live for drawn in intent.laws]
    if strange := sorted({x.law for x in laws if law_named(x.law).loss_name != first.loss_name}):
        text = f"is of noise that is not added up in a ledger of {first.loss_name}"
        compare.wrong("V136", f"{place}.secrets", text, first.loss_name, strange[0])
        return
    rows = [
        StatedRow(
            {"name": row_name(kind, "", first.unit), "kind": kind},
            with_choices(
                loss_of_laws(
                    first.loss_name,
                    (
                        (x.law, MovedCounts(x.scale, x.shift, times * x.coordinates, fraction(x.delta)))
                        for x in laws
                    ),
                ),
                [choice.charge(times) for choice in live if isinstance(choice, Choice)],
            ),
            partial(ledger_sentence, kind, ledger.readers(first, copy=copy), first.unit, exact),
        )
        for kind, times in kinds
    ]
    compare.rows("V136", f"{place}.secrets", stated.get("secrets"), rows if live else [])
