"""Select: a private choice among public candidates or answers, charged to the ledger of the data set."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import convert

from topdown.app.calls import PathText, path_of, public_function
from topdown.errors import ConfigError
from topdown.formats.caps import read_json
from topdown.formats.choice_documents import CheckedRatio, SelectionCheck, SelectionResult
from topdown.measure import choosing as questions
from topdown.measure.choosing import ChoiceRequest, choose
from topdown.measure.run_ledger import ledger_location
from topdown.output_paths import refuse_inside
from topdown.plan.candidates import Within, read_candidates
from topdown.plan.preparation import prepare
from topdown.privacy.exact_values import rational
from topdown.privacy.ledger import Disk, folder_lock, spend_note
from topdown.process import signals_as_interrupt
from topdown.publish.publish_choice import RESULT, publish_choice
from topdown.selection.sampling_rate import subsampling
from topdown.selection.selection_check import check_selection

if TYPE_CHECKING:
    from topdown.measure import ChoiceRequest as Asked  # commands name it
    from topdown.measure.choosing import Question
    from topdown.plan import PreparedRun
    from topdown.plan.candidates import Candidates
    from topdown.privacy.exact_values import Exact
    from topdown.selection import Subsampling

MOST_CHARACTERS = 40
_UNSTARTED = {"choice", "public", "selection.json.tmp"}


@dataclass(frozen=True)
class Cover:
    """Candidates and what they cover: all that lies within a radius, or what the table lists.

    Args:
        candidates: table `candidate`, `geocode`, one row an area that it covers; or `candidate`, `latitude`,
            `longitude`, with a radius.
        radius: kilometres, above 0; None for lists.
        centres: table `geocode`, `latitude`, `longitude` of the leaves; None for lists.
    """

    candidates: PathText
    radius: float | None = None
    centres: PathText | None = None


@dataclass(frozen=True)
class Sites:
    """Ask for k candidates that cover many records.

    Args:
        cover: candidates.
        k: 1 .. candidates.
        per: a column of the candidates or a level; None without limits by district.
        most: the most candidates of one district, with `per`.
    """

    cover: Cover
    k: int
    per: str | None = None
    most: int = 1


@dataclass(frozen=True)
class Order:
    """Ask for an order of all candidates in which every record soon meets one that covers it.

    Args:
        cover: candidates.
        most_records: public bound on the number of records, for an order by falling thresholds; a wrong one costs
            utility, not privacy. None: by as many choices.
    """

    cover: Cover
    most_records: int | None = None


@dataclass(frozen=True)
class Frequent:
    """Ask which answers of queries many records share.

    Args:
        queries: as in a run file, e.g. "sex * age"; one step each.
        level: of the areas; None for the whole land.
        cap: in how many reports one record counts at most, 1 .. queries.
        more_than: answers of so many records or fewer are reported with a small chance only, 0 .. 10,000.
    """

    queries: tuple[str, ...]
    level: str | None = None
    cap: int = 1
    more_than: int = 0


Wish = Sites | Order | Frequent


@public_function
def select_plan(run: PathText, wish: Wish, epsilon: Exact) -> Asked:
    """Plan a choice and spend nothing; the confidential records are not opened.

    Args:
        run: run file of the data set: schema, areas, neighbours, records, ledger and its limit.
        wish: what is asked.
        epsilon: exact, 10^-6 .. 10, pure differential privacy of the run's neighbours.

    Raises:
        ConfigError: a file says something impossible, C191 epsilon, C192-C195 what is asked.
        DataError: a public table breaks a rule.
    """
    asked = rational(epsilon, "epsilon")
    if len(str(asked)) > MOST_CHARACTERS:
        raise ConfigError("epsilon has too many digits", code="C191", fix="give one such as 1/2")
    prepared = prepare(path_of(run, "run"))
    plan = subsampling(asked, prepared.plan.neighbours)
    return ChoiceRequest(prepared, _question_of(prepared, wish, plan), asked, plan)


@public_function
def select(asked: Asked, out: PathText, *, again: bool = False, resume: bool = False) -> SelectionResult:
    """Spend the choice's loss once, choose, and write the choice with its certificate. The call is the approval.

    Args:
        asked: from `select_plan`.
        out: new or empty folder.
        again: choose a second time although the ledger holds this very choice.
        resume: go on with an interrupted choice in `out`.

    Returns: the choice.

    Raises:
        ConfigError: C085-C087 `out` holds something else, C132 it would hold a file the run needs, C173 another run
            holds it.
        DataError: the records break a rule, D050 the disk refuses.
        BudgetError: the ledger refuses; nothing was drawn.
    """
    target, spend, ledger = path_of(out, "out"), asked.spend, asked.prepared.ledger_path
    check_folder(asked, target, resume=resume)

    def words(spent: Fraction) -> str:
        return f"epsilon {spent}; what was drawn is kept, go on with --resume"

    with (
        spend_note(ledger_location(asked.prepared), spend.plan_hash, words),
        signals_as_interrupt(),
        folder_lock(target, Disk(), "choice", "public"),
    ):
        made = choose(asked, target, again=again)
        publish_choice(target, asked.document, ledger, made.journal)
    return convert(read_json(target / RESULT), SelectionResult)


def check_folder(asked: Asked, out: Path, *, resume: bool) -> None:
    """Refuse a folder that holds something else, before anybody is asked; errors as `select`."""
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise ConfigError(f"{out} is not a folder", code="C085", fix="give --out a new folder")
    refuse_inside(out, "--out", asked.prepared.needed)
    there = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    try:
        found = read_json(out / "selection.json")["plan_hash"] if there else None
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    mine = asked.document["plan_hash"]
    if resume and not there:
        raise ConfigError(
            f"nothing was begun in {out}, and nothing was spent for it",
            code="C087",
            fix="run the same command without --resume; if a run was begun elsewhere, give its folder to --out",
        )
    if found == mine and not resume:
        raise ConfigError(
            f"{out} holds this very choice, {mine[:8]}",
            code="C086",
            fix="add --resume to keep what was drawn; another folder would spend again",
        )
    unstarted = set(there) <= _UNSTARTED and not (out / "choice" / "journal.json").exists()
    if there and found != mine and not unstarted:
        raise ConfigError(
            f"{out} is not empty and does not hold this choice ({', '.join(there[:3])})",
            code="C085",
            fix="give --out a new or empty folder; nothing in it was touched",
        )


def select_check() -> SelectionCheck:
    """Compute the exact ratios of the shipped choices on small data sets, and hold them to what they promise."""
    rows = [
        CheckedRatio(
            question=row.question,
            neighbours=row.neighbours,
            worst=None if row.worst is None else str(row.worst),
            promised=str(row.promised),
            holds=row.holds,
        )
        for row in check_selection()
    ]
    return SelectionCheck(holds=all(row.holds for row in rows), ratios=rows)


def _question_of(prepared: PreparedRun, wish: Wish, plan: Subsampling) -> Question:
    context = prepared.context
    geography = context.geography
    if isinstance(wish, Frequent):
        level = geography.root.name if wish.level is None else wish.level
        if (
            level not in geography.level_names
            or not wish.queries
            or len(set(wish.queries)) < len(wish.queries)
        ):
            raise ConfigError(
                "frequent answers need queries, each once, and a level of the run",
                code="C194",
                fix=f"give queries of the schema, and one of: {', '.join(geography.level_names)}",
            )
        asked = [context.plan.query(name) for name in wish.queries]
        return questions.frequent_question(asked, geography, level, wish.cap, wish.more_than, plan)
    if isinstance(wish, Order):
        return questions.order_question(
            _candidates(prepared, wish.cover, None), geography, wish.most_records, plan
        )
    found = _candidates(prepared, wish.cover, wish.per)
    return questions.sites_question(found, geography, wish.k, plan, wish.per, wish.most)


def _candidates(prepared: PreparedRun, cover: Cover, per: str | None) -> Candidates:
    if (cover.radius is None) != (cover.centres is None) or not (cover.radius is None or cover.radius > 0):
        raise ConfigError(
            "a radius above 0 and a table of centres belong together",
            code="C194",
            fix="give both, or neither",
        )
    within = None
    if cover.radius is not None and cover.centres is not None:
        within = Within(cover.radius, path_of(cover.centres, "centres"))
    path, ignored = path_of(cover.candidates, "candidates"), prepared.run.input.ignore
    return read_candidates(path, prepared.context.geography, per, within, ignored)
