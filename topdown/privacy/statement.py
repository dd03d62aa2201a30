"""What is said of privacy: rows for each protected attribute, the sentence an official can quote, JSON-ready.

Under the bounded relation a replaced record changes two counts by one in every measurement it touches: the cell it
leaves and the cell it enters. A change of one attribute leaves unchanged every query that does not resolve it; a
move inside an area of a level leaves unchanged every query of that level and above. One record more or less
changes one count in every measurement.

What exact statistics say of a change is decided before, from labels alone. A change that every one of them, or
every public fact, gives away has no loss: noise elsewhere does not hide it.

Exact numbers are strings "a/b", enclosures are [low, high] decimal strings rounded outward.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from textwrap import wrap
from typing import Any

from topdown.errors import ConfigError
from topdown.formats.common import SecretKind, Status
from topdown.privacy.accountant import (
    ComposedLoss,
    Composition,
    NoisyCounts,
    PairLoss,
    PureLoss,
    WholeLoss,
    compose_noise,
)
from topdown.privacy.accountant import conversions as zcdp
from topdown.privacy.exact_values import Enclosure, Threshold, delta_of, positive, significant
from topdown.privacy.laws import LAWS, Weights
from topdown.privacy.relation import StatedChange, n_counts_moved, stated_change


@dataclass(frozen=True)
class Measurement:
    """One query measured at every area of one level.

    level: index from the root (0) down; level_name: its name; attributes: those whose change can change the
    query's answers; parameter: variance (discrete Gaussian), scale (geometric) or epsilon (optimal) of the noise on
    each answer, exact; delta, weights: of each answer's law, for a law that has them; shift: by how much a unit moves
    each count, at most.
    """

    level: int
    level_name: str
    query: str
    attributes: frozenset[str]
    parameter: Fraction
    law: str = "discrete_gaussian"
    delta: Fraction = Fraction(0)
    weights: Weights = ()
    shift: int = 1

    def __post_init__(self) -> None:
        positive(self.parameter, f"{LAWS[self.law].parameter_name} of {self.query} at {self.level_name}")


@dataclass(frozen=True)
class Claim:
    """What exact statistics say of one kind of change.

    kind; of: the attribute, or the name of the level; status; exact: names of the statistics that some change alters,
    or of what excludes every change; level: index of the level that a move stays inside of.
    """

    kind: SecretKind
    of: str
    status: Status
    exact: tuple[str, ...] = ()
    level: int = -1

    def stated(self, unit: str) -> StatedChange:
        """Return its words, for a unit of privacy."""
        return stated_change(self.kind, self.of, unit)


@dataclass(frozen=True)
class ProtectedAttribute:
    """One kind of secret and the loss that bounds it; None if it is disclosed."""

    claim: Claim
    loss: ComposedLoss | None


def protected_attributes(
    measurements: Iterable[Measurement], claims: Sequence[Claim]
) -> list[ProtectedAttribute]:
    """Return the loss of each claim that is not disclosed.

    Raises: ConfigError if nothing is measured, or if laws are mixed.
    """
    rows = tuple(measurements)
    if not rows:
        raise ConfigError("nothing is measured", code="A007", fix="give at least one measurement")
    if len({m.law for m in rows}) > 1:
        raise ConfigError(
            "two noise laws are measured together", code="A031", fix="state the loss of each mechanism apart"
        )
    return [
        ProtectedAttribute(c, None if c.status == "disclosed" else _composed_loss(rows, c)) for c in claims
    ]


def _composed_loss(rows: Sequence[Measurement], claim: Claim) -> ComposedLoss:
    """Return the composition of the measurements a change can touch: two counts each, one for presence."""
    touched = [m for m in rows if _touches(claim, m)]
    counts = n_counts_moved(claim.kind)
    moved = (NoisyCounts(m.law, m.parameter, counts, m.shift, m.delta, m.weights) for m in touched)
    return compose_noise(moved, LAWS[rows[0].law].loss_name)


def _touches(claim: Claim, m: Measurement) -> bool:
    if claim.kind == "attribute":
        return claim.of in m.attributes
    return claim.kind != "within_level" or m.level > claim.level


Document = dict[str, Any]
CURVE = tuple(Fraction(n, 100) for n in (1, 2, 5, 10, 20, 30, 40, 50, 60, 80))
COMPARISON_NOTE = "closed form of the continuous Gaussian; errs in both directions, not a bound"
EVERY_DELTA = "0"  # where pure epsilon is stated
QUARTERS = tuple(Fraction(n, 4) for n in (1, 2, 3, 4))  # of epsilon, where composed deltas are stated
_DELTA_DIGITS = 6
WIDE = Fraction(1, 10**6)  # of a point of the curve


@dataclass(frozen=True)
class StatementWords:
    """What a sentence speaks of: unit of privacy, whether public facts narrow what an answer can be, what is read."""

    unit: str = "person"
    public_facts: bool = False
    reads: str = "this release"

    def of_all(self, n_steps: int) -> StatementWords:
        """Return the words of a release with everything it extends."""
        return replace(self, reads="this release and what it extends") if n_steps > 1 else self

    def of_one(self) -> StatementWords:
        """Return the words of one step of a chain."""
        return replace(self, reads="the measurements of this step")


@dataclass(frozen=True)
class ChainStep:
    """One release of a chain: its id, its plan, and what it measures."""

    release: str
    plan_hash: str
    measurements: tuple[Measurement, ...]


EVERYTHING = Claim("everything", "", "protected")
PLAIN = StatementWords()


def statement(
    steps: Sequence[ChainStep],
    claims: Sequence[Claim],
    deltas: Sequence[Threshold] = ("1e-10",),
    *,
    words: StatementWords = PLAIN,
    anew: bool = False,
) -> Document:
    """Return what a release, together with those it extends, says of every secret.

    Args:
        steps: the releases, oldest first, the one that is stated last.
        claims: what exact statistics say of each secret; the first one is the neighbours' own and not disclosed.
        deltas: where epsilon is stated; pure epsilon is stated at 0, which holds for all, a pair at its own delta.
        words: of the sentences.
        anew: compute every number; otherwise those of bundled settings are read (`loss_numbers`).

    Returns:
        secrets, deltas, steps (rows of each release alone; empty if nothing is extended), curve, sentence; of a pair
        also composed: deltas at quarters of its epsilon.
    """
    everything = [m for step in steps for m in step.measurements]
    first = protected_attributes(everything, claims[:1])[0].loss
    if first is None:
        raise ConfigError(
            "no two neighbours agree on what is exact", code="C120", fix="keep fewer statistics exact"
        )
    mine = attribute_rows(everything, claims, deltas, words=words.of_all(len(steps)), anew=anew)
    part = words.of_one()
    return {
        "deltas": list(mine[0]["epsilon"]),
        "secrets": mine,
        "steps": [
            {
                "release": s.release,
                "plan_hash": s.plan_hash,
                "secrets": attribute_rows(s.measurements, claims, deltas, words=part, balls=False, anew=anew),
            }
            for s in (steps if len(steps) > 1 else ())
        ],
        "curve": _attack_powers(first),
        "sentence": mine[0]["sentence"],
    } | ({"composed": composed_deltas(first)} if isinstance(first, PairLoss) else {})


def composed_deltas(loss: PairLoss) -> list[Document]:
    """Return deltas that hold at quarters of a pair's epsilon, from composed losses; rounded up."""
    points = tuple(loss.epsilon * quarter for quarter in QUARTERS)
    found = list(loss.deltas_at(points))
    found[-1] = min(found[-1], loss.delta)  # at epsilon itself the sum holds too
    return [
        {"epsilon": str(e), "delta": significant(d, _DELTA_DIGITS, up=True)}
        for e, d in zip(points, found, strict=True)
    ]


def attribute_rows(
    measurements: Iterable[Measurement],
    claims: Sequence[Claim],
    deltas: Sequence[Threshold] = ("1e-10",),
    *,
    words: StatementWords = PLAIN,
    balls: bool = True,
    anew: bool = False,
) -> list[Document]:
    """Return one row a claim.

    Args:
        measurements, claims, deltas, words, anew: as for `statement`.
        balls: compute in balls, or in float64 with bounds where they would take more than a second; False: in
            float64 with bounds. `method` says which.
    """
    rows = []
    for secret in protected_attributes(measurements, claims):
        claim = secret.claim
        row: Document = {
            "name": claim.stated(words.unit).name,
            "kind": claim.kind,
            "status": claim.status,
            "exact": list(claim.exact),
        }
        if secret.loss is None:
            row["sentence"] = f"disclosed by: {', '.join(claim.exact)}"
        else:
            row |= _cached_numbers(secret.loss, tuple(deltas), balls=balls, anew=anew)
            row["sentence"] = attack_sentence(row["right_in_100"], claim, words)
        rows.append(row)
    return rows


def attack_sentence(times: int, claim: Claim = EVERYTHING, words: StatementWords = PLAIN) -> str:
    """Return the sentence an official can quote, of an attacker who is right at most so many times in 100."""
    exact = claim.exact if claim.status == "conditional" else ()
    reader = f"Someone who reads only {words.reads}"
    parts = [f"what is exact ({', '.join(exact)})"] * bool(exact) + ["the public facts"] * words.public_facts
    return claim.stated(words.unit).sentence(reader, words.unit, " and ".join(parts), times)


def accuracy_percent(best_guess: Enclosure) -> int:
    """Return the certified success rate in percent, rounded up."""
    return min(math.ceil(best_guess.upper * 100), 100)


def usual_conversions(rho: Fraction, deltas: Iterable[Threshold]) -> Document:
    """Return the comparison columns at each delta: zCDP by both conversions (rounded up), and mu-GDP."""
    mu, at = math.sqrt(float(2 * rho)), {str(delta): delta for delta in deltas}
    formulas = {"bun_steinke": zcdp.bun_steinke, "canonne_kamath_steinke": zcdp.canonne_kamath_steinke}
    columns: Document = {
        name: {key: formula(rho, delta).texts(12)[1] if rho else "0" for key, delta in at.items()}
        for name, formula in formulas.items()
    }
    columns["gaussian_comparison"] = {
        key: zcdp.gaussian_epsilon(mu, zcdp.log_ratio(delta_of(delta), Fraction(1))) if rho else 0.0
        for key, delta in at.items()
    }
    return columns | {"gaussian_note": COMPARISON_NOTE}


def loss_numbers(
    loss: ComposedLoss | WholeLoss, deltas: Sequence[Threshold], *, anew: bool = False
) -> Document:
    """Return the numbers of one loss: rho, epsilon by delta, best guess, how they were found.

    Of a `WholeLoss` of several kinds epsilon is stated at each delta plus the deltas that its laws have of their own;
    at 0, for every delta, where all of it has a pure epsilon. Numbers of bundled settings were computed once and are
    read from `LOSSES`, by the loss itself.

    Args:
        anew: compute them, whatever was computed before.
    """
    return dict(_cached_numbers(loss, tuple(deltas), balls=True, anew=anew))


LOSSES = files("topdown.privacy.accountant") / "data" / "certified_losses.json"


@cache
def stored_numbers() -> dict[str, Document]:
    """Return the numbers of losses of bundled settings, by `loss_sha256`; a slow test computes each anew."""
    losses: dict[str, Document] = json.loads(LOSSES.read_text(encoding="utf-8"))["losses"]
    return losses


def loss_sha256(loss: Composition, deltas: Sequence[Threshold], *, balls: bool) -> str:
    """Return the SHA-256 of all that the numbers of a loss follow from.

    That is variance, move and number of the counts that one record moves under the relation, in order, and what is
    asked of them: the same noise under another relation moves other numbers of counts.
    """
    counts = sorted((str(g.variance), g.shift, g.count) for g in loss.law.groups)
    return sha256(json.dumps([counts, [str(d) for d in deltas], balls]).encode()).hexdigest()


@lru_cache(maxsize=256)
def _cached_numbers(
    loss: ComposedLoss | WholeLoss, deltas: tuple[Threshold, ...], *, balls: bool, anew: bool
) -> Document:
    """Return the numbers of one loss; many rows, and the ledger's statement, are about the same loss."""
    if isinstance(loss, WholeLoss):
        if loss.of_one_kind is not None:
            return _cached_numbers(loss.of_one_kind, deltas, balls=balls, anew=anew)
        points = [str(delta_of(d) + loss.own_delta) if loss.own_delta else str(d) for d in deltas]
        if loss.is_pure:
            points = [EVERY_DELTA]
        ends = {at: loss.epsilon_at(at) for at in points}
        stated = {at: box for at, box in ends.items() if box is not None}
        return _accuracy_numbers(stated, loss.best_guess(), loss.coordinates)
    if isinstance(loss, Composition) and not anew:
        found = stored_numbers().get(loss_sha256(loss, deltas, balls=balls))
        if found is not None:
            return found
    if isinstance(loss, PairLoss):
        here = {str(loss.delta): Enclosure(loss.epsilon, loss.epsilon)}
        return {"delta": str(loss.delta)} | _accuracy_numbers(here, loss.best_guess(), loss.coordinates)
    if isinstance(loss, PureLoss):
        is_pure = loss.loss_name == "epsilon"
        at = [EVERY_DELTA] if is_pure else [str(d) for d in deltas]
        boxes = {d: Enclosure(loss.epsilon, loss.epsilon) for d in at}
        zero: Document = {} if is_pure else _zcdp_numbers(Fraction(0), deltas)
        return zero | _accuracy_numbers(boxes, loss.best_guess(), loss.coordinates)
    name = loss.certifying() if balls else "auto"
    boxes = {str(d): loss.epsilon(d, engine=name) for d in deltas}
    return _zcdp_numbers(loss.rho, deltas) | _accuracy_numbers(
        boxes, loss.best_guess(engine=name), loss.law.coordinates
    )


def _zcdp_numbers(rho: Fraction, deltas: Sequence[Threshold]) -> Document:
    return {"rho": str(rho), "mu": math.sqrt(float(2 * rho)), "usual": usual_conversions(rho, deltas)}


def _accuracy_numbers(boxes: dict[str, Enclosure], guess: Enclosure, coordinates: int) -> Document:
    return {
        "n_counts_moved": coordinates,
        "epsilon": {d: list(box.texts()) for d, box in boxes.items()},
        "best_guess": list(guess.texts()),
        "right_in_100": accuracy_percent(guess),
        "method": next((b.method for b in boxes.values() if b.method), guess.method),
    }


def _attack_powers(loss: ComposedLoss) -> list[Document]:
    """Return the attack power 1 - f(alpha) at a few false-alarm rates, enclosed.

    In float64 with bounds: a point lies between two lines of the lattice, so balls are no narrower, only slower.
    """
    if isinstance(loss, PureLoss | PairLoss):
        boxes = loss.trade_off_curve(CURVE)
    else:
        boxes = loss.trade_off_curve(CURVE, engine="auto")
        if any(
            box.width > WIDE for box in boxes
        ):  # the theorems that hold for every composition may say more
            both = zip(boxes, loss.trade_off_curve(CURVE, engine="bounds"), strict=True)
            boxes = [Enclosure(max(a.lower, b.lower), min(a.upper, b.upper), a.method) for a, b in both]
    return [
        {"alpha": str(a), "power": list(Enclosure(1 - b.upper, 1 - b.lower).texts(12))}
        for a, b in zip(CURVE, boxes, strict=True)
    ]


_SIZE, _MARGIN, _TITLE_WIDTH = 420, 58, 54
ALPHAS = tuple(Fraction(n * n, 160**2) for n in range(161))  # dense near 0, where the curve bends most


def trade_off_svg(loss: ComposedLoss, title: str, alphas: Sequence[Fraction] = ALPHAS) -> str:
    """Return an SVG of the certified lower bound of f(alpha): no attack gets below it; the diagonal is a coin."""
    points = [(a, box.lower) for a, box in zip(alphas, loss.trade_off_curve(alphas), strict=True)]
    curve = " ".join(f"{_x(a):.2f},{_y(f):.2f}" for a, f in points)
    ticks = "".join(
        f'<text x="{_x(t):.1f}" y="{_SIZE - _MARGIN + 18}" text-anchor="middle">{t * 100:g}%</text>'
        f'<text x="{_MARGIN - 8}" y="{_y(t) + 4:.1f}" text-anchor="end">{t * 100:g}%</text>'
        f'<path d="M{_x(t):.1f} {_y(0):.1f}V{_y(1):.1f}M{_x(0):.1f} {_y(t):.1f}H{_x(1):.1f}" stroke="#ddd"/>'
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    lines = wrap(title, _TITLE_WIDTH)[:2]
    heading = "".join(
        f'<text x="{_SIZE / 2}" y="{20 + 17 * i}" text-anchor="middle" font-size="13">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    middle = f'x="{_x(0.5) + 6:.1f}" y="{_y(0.5) - 6:.1f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" font-size="12" '
        f'font-family="sans-serif" fill="#333" role="img" aria-label="{escape(title)}">'
        f'<rect width="100%" height="100%" fill="#fff"/>'
        f"{heading}{ticks}"
        f'<path d="M{_x(0):.1f} {_y(1):.1f}L{_x(1):.1f} {_y(0):.1f}" stroke="#999" stroke-dasharray="4 4"/>'
        f'<text {middle} fill="#777">a coin</text>'
        f'<polygon points="{curve} {_x(1):.2f},{_y(0):.2f} {_x(1):.2f},{_y(1):.2f} {_x(0):.2f},{_y(1):.2f}" '
        f'fill="#0b6e99" fill-opacity="0.08"/>'
        f'<polyline points="{curve}" fill="none" stroke="#0b6e99" stroke-width="2"/>'
        f'<text x="{_SIZE / 2}" y="{_SIZE - 12}" text-anchor="middle">false alarms</text>'
        f'<text transform="translate(14 {_SIZE / 2}) rotate(-90)" text-anchor="middle">misses, at least</text></svg>\n'
    )


def _x(alpha: Fraction | float) -> float:
    return _MARGIN + float(alpha) * (_SIZE - 2 * _MARGIN)


def _y(miss: Fraction | float) -> float:
    return _SIZE - _MARGIN - float(miss) * (_SIZE - 2 * _MARGIN)
