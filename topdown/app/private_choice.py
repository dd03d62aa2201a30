"""Select: a private choice among public candidates or answers, charged to the ledger of the data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from msgspec import convert

from topdown.app.calls import PathText, path_of, public_function, records_source
from topdown.app.planned import Planned
from topdown.errors import ConfigError
from topdown.formats.caps import read_json
from topdown.formats.choice_documents import CheckedRatio, SelectionCheck, SelectionResult
from topdown.formats.strict_toml import exact_text
from topdown.measure import choosing as questions
from topdown.measure.choosing import ChoiceRequest, choose
from topdown.measure.run_ledger import ledger_location
from topdown.notebook import card
from topdown.output_paths import names_in_run
from topdown.plan.candidates import Within, read_candidates
from topdown.plan.preparation import prepare
from topdown.privacy.exact_values import rational
from topdown.privacy.ledger import Disk, disk_errors, folder_lock, spend_note
from topdown.process import signals_as_interrupt
from topdown.publish.publish_choice import RESULT, publish_choice
from topdown.selection.chance import subsampling
from topdown.selection.selection_check import check_selection

if TYPE_CHECKING:
    from topdown.inputs import ArrowTable
    from topdown.measure.choosing import Question
    from topdown.plan import PreparedRun
    from topdown.privacy.exact_values import Exact
    from topdown.selection import Subsampling

MOST_CHARACTERS = 40
_UNSTARTED = {"choice", "public", "selection.json.tmp"}
Asked = Literal["sites", "order", "frequent"]
"""Which k candidates cover many records; all candidates in an order that soon covers everybody; frequent answers."""
_TAKES = {  # arguments of each question, and whether they are needed
    "sites": {"candidates": True, "k": True, "radius": False, "centres": False, "per": False, "most": False},
    "order": {"candidates": True, "radius": False, "centres": False, "most_records": False},
    "frequent": {"query": True, "level": False, "cap": False, "more_than": False},
}


@dataclass(frozen=True, eq=False, repr=False)
class PlannedChoice:
    """A private choice before anything is spent. `topdown.select` makes it; only `choose` draws, after its charge.

    >>> import topdown
    >>> asked = topdown.select("town/run.toml", "frequent", "1/2", query=["sex"])
    >>> asked.epsilon == asked.charged[0]
    True

    Args:
        request: the question, its mechanism, and the run that knows records and ledger.
    """

    request: ChoiceRequest

    @property
    def epsilon(self) -> Fraction:
        """What `choose` charges: pure epsilon of the run's neighbours, exact."""
        return self.request.epsilon

    @property
    def plan_hash(self) -> str:
        """SHA-256 of the question, in hex; the ledger charges under it."""
        return str(self.request.document["plan_hash"])

    @property
    def charged(self) -> tuple[Fraction, Fraction]:
        """Epsilon, and the e**epsilon that its mechanism keeps: what the accountant composes."""
        return self.request.epsilon, self.request.plan.exp_epsilon

    def choose(self, out: PathText, *, again: bool = False, resume: bool = False) -> SelectionResult:
        """Spend the choice's loss once, choose, and write the choice with its certificate. The call is the approval.

        Args:
            out: new or empty folder.
            again: choose a second time although the ledger holds this very choice.
            resume: go on with an interrupted choice in `out`.

        Returns: the choice.

        Raises:
            ConfigError: C085-C087 `out` holds something else, C132 it would hold a file the run needs, C173 another
                run holds it.
            DataError: the records break a rule, D050 the disk refuses.
            BudgetError: the ledger refuses; nothing was drawn.
        """
        asked, target = self.request, path_of(out, "out")
        spend, ledger = asked.spend, asked.prepared.ledger_path
        check_folder(asked, target, resume=resume)

        def words(spent: Fraction) -> str:
            return f"epsilon {spent}; a finished choice is kept, go on with --resume"

        with (
            spend_note(ledger_location(asked.prepared), spend.plan_hash, words),
            signals_as_interrupt(),
            disk_errors(target),
            folder_lock(target, Disk(), "choice", "public"),
        ):
            made = choose(asked, target, again=again)
            publish_choice(target, asked.document, ledger, made.journal)
        return convert(read_json(target / RESULT), SelectionResult)

    def __repr__(self) -> str:
        asked = self.request.document["question"]["kind"]
        return f"PlannedChoice({asked}, epsilon {exact_text(self.epsilon)}, choice {self.plan_hash[:8]})"

    def _repr_html_(self) -> str:
        document = self.request.document
        rows = [("data set", document["data_set"]), ("neighbours", document["neighbours"])]
        rows += [
            (name, value) for name, value in document["question"].items() if isinstance(value, str | int)
        ]
        title = f"Choice {self.plan_hash[:8]}: epsilon {exact_text(self.epsilon)}"
        return card(title, rows, note="Nothing was read, drawn or charged.")


@public_function
def select(
    run: PathText | Planned,
    question: Asked,
    epsilon: Exact,
    *,
    candidates: PathText | ArrowTable | None = None,
    radius: float | None = None,
    centres: PathText | ArrowTable | None = None,
    k: int | None = None,
    per: str | None = None,
    most: int | None = None,
    most_records: int | None = None,
    query: Sequence[str] = (),
    level: str | None = None,
    cap: int | None = None,
    more_than: int | None = None,
) -> PlannedChoice:
    """Plan a private choice and spend nothing; the confidential records are not opened.

    What this returns is no release: only its `choose` draws, and it charges the ledger of the run first.

    >>> import topdown
    >>> asked = topdown.select("town/run.toml", "frequent", "1/2", query=["sex"], more_than=20)
    >>> str(asked.epsilon)
    '1/2'
    >>> import pandas as pd
    >>> tree = topdown.Geography.from_table({"town": ["1", "2", "3"]}, ["land", "town"])
    >>> planned = topdown.plan(schema=topdown.Schema.from_lists({"sex": ["f", "m"]}), geography=tree, rho=1)
    >>> offices = pd.DataFrame({"candidate": ["A", "B", "B"], "geocode": ["1", "2", "3"]})
    >>> str(topdown.select(planned, "sites", "1/4", candidates=offices, k=1).epsilon)
    '1/4'

    Args:
        run: run file of the data set: schema, areas, neighbours, records, ledger and its limit; or what `topdown.plan`
            returned, with its data frame of records if it has one.
        question: "sites": k candidates that cover many records; "order": of all candidates, in which every record soon
            meets one that covers it; "frequent": which answers of queries many records share.
        epsilon: exact, 10^-6 .. 10, pure differential privacy of the run's neighbours.
        candidates: file or data frame `candidate`, `geocode`, one row an area that it covers; or `candidate`,
            `latitude`, `longitude`, with a radius.
        radius: kilometres, above 0, with `centres`: table `geocode`, `latitude`, `longitude` of the leaves, as a file
            or data frame.
        k: how many sites, 1 .. candidates.
        per: a column of the candidates or a level; with it `most`, the most sites of one district, 1 if None.
        most_records: public bound on the number of records, for an order by falling thresholds; a wrong one costs
            utility, not privacy. None: an order by as many choices.
        query: as in a run file, e.g. "sex * age", several of them; one step each.
        level: of the areas of frequent answers; the whole land if None.
        cap: in how many reports one record counts at most, 1 .. queries; 1 if None.
        more_than: answers of so many records or fewer are reported with a small chance only, 0 .. 10,000; 0 if None.

    Raises:
        ConfigError: a file says something impossible, C005 a word that the question needs or does not take, C191
            epsilon, C192-C195 what is asked, C250 candidates or centres that are no table.
        DataError: a public table breaks a rule.
        TypeError: a float as epsilon.
    """
    arguments = QuestionArguments(
        candidates=candidates, radius=radius, centres=centres, k=k, per=per, most=most,
        most_records=most_records, query=tuple(query), level=level, cap=cap, more_than=more_than,
    )  # fmt: skip
    _check_arguments(question, arguments)
    asked = rational(epsilon, "epsilon")
    if len(str(asked)) > MOST_CHARACTERS:
        raise ConfigError("epsilon has too many digits", code="C191", fix="give one such as 1/2")
    planned = run if isinstance(run, Planned) else Planned(prepare(path_of(run, "run")))
    if planned.base is not None:
        raise ConfigError(
            "a choice is made with the run of a whole release, and this plan extends one",
            code="C005",
            fix="give the run file of the release that it extends",
        )
    prepared = planned.prepared
    plan = subsampling(asked, prepared.plan.neighbours)
    wanted = _question_of(prepared, question, arguments, plan)
    return PlannedChoice(ChoiceRequest(prepared, wanted, asked, plan, planned.records))


class QuestionArguments(TypedDict):
    """What a question was given; see `select`."""

    candidates: PathText | ArrowTable | None
    radius: float | None
    centres: PathText | ArrowTable | None
    k: int | None
    per: str | None
    most: int | None
    most_records: int | None
    query: Sequence[str]
    level: str | None
    cap: int | None
    more_than: int | None


def _check_arguments(question: str, arguments: QuestionArguments) -> None:
    if question not in _TAKES:
        raise ConfigError(
            f"there is no question {question!r}", code="C005", fix=f"ask one of: {', '.join(_TAKES)}"
        )
    takes = _TAKES[question]
    given = {
        name for name, value in arguments.items() if value is not None and not (name == "query" and not value)
    }
    wrong = [f"takes no {name}" for name in sorted(given - set(takes))]
    wrong += [f"needs {name}" for name, needed in takes.items() if needed and name not in given]
    if wrong:
        raise ConfigError(
            f"{question} {wrong[0]}",
            code="C005",
            fix="it needs "
            + ", ".join(name for name, needed in takes.items() if needed)
            + " and takes "
            + ", ".join(name for name, needed in takes.items() if not needed),
        )


def check_folder(asked: ChoiceRequest, out: Path, *, resume: bool) -> None:
    """Refuse a folder that holds something else, before anybody is asked; errors as `select`."""
    there = names_in_run(out, asked.prepared.needed, resume=resume)
    try:
        found = read_json(out / "selection.json")["plan_hash"] if there else None
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    mine = asked.document["plan_hash"]
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


def _question_of(
    prepared: PreparedRun, asked: Asked, arguments: QuestionArguments, plan: Subsampling
) -> Question:
    context = prepared.context
    geography = context.geography
    if asked == "frequent":
        level = geography.root.name if arguments["level"] is None else arguments["level"]
        names = arguments["query"]
        if level not in geography.level_names or len(set(names)) < len(names):
            raise ConfigError(
                "frequent answers need queries, each once, and a level of the run",
                code="C194",
                fix=f"give queries of the schema, and one of: {', '.join(geography.level_names)}",
            )
        queries = [context.plan.query(name) for name in names]
        cap = 1 if arguments["cap"] is None else arguments["cap"]
        return questions.frequent_question(queries, geography, level, cap, arguments["more_than"] or 0, plan)
    radius, centres = arguments["radius"], arguments["centres"]
    if (radius is None) != (centres is None) or not (radius is None or radius > 0):
        raise ConfigError(
            "a radius above 0 and a table of centres belong together",
            code="C194",
            fix="give both, or neither",
        )
    within = None if radius is None or centres is None else Within(radius, records_source(centres, "centres"))
    table = records_source("" if arguments["candidates"] is None else arguments["candidates"], "candidates")
    found = read_candidates(table, geography, arguments["per"], within, prepared.run.input.ignore)
    if asked == "order":
        return questions.order_question(found, geography, arguments["most_records"], plan)
    most = 1 if arguments["most"] is None else arguments["most"]
    return questions.sites_question(found, geography, arguments["k"] or 0, plan, arguments["per"], most)
