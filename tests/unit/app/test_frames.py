"""Records and leaves in memory: read as a file would be, shown to nobody, written nowhere."""

import copy
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import topdown
from tests.helpers.failing import fails_with, stopping_at
from tests.helpers.folders import files
from topdown.inputs import MemoryTable
from topdown.workers import refuse_confidential

TELLTALE = "Rumpelstiltskin"
PUBLIC = {"truth_is_public": "nobody in it is real"}


class Views:
    """A table whose text is in views and whose categories have unsigned codes, as polars hands them out."""

    def __init__(self, frame: pd.DataFrame) -> None:
        names = [c for c in frame if c != "count"]
        text = {c: pa.array(frame[c], pa.string()).cast(pa.string_view()) for c in names}
        codes = text["sex"].cast(pa.string()).dictionary_encode()
        labels = codes.dictionary.cast(pa.string_view())
        text["sex"] = pa.DictionaryArray.from_arrays(codes.indices.cast(pa.uint32()), labels)
        self._table = pa.table(text | {"count": frame["count"].to_numpy()})

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class Talkative:
    """A table of a library whose errors quote the data."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise RuntimeError(f"cannot export {TELLTALE}")


def of(run: Path) -> pd.DataFrame:
    """Return the records of a made-up town as a data frame."""
    return pd.read_csv(run.parent / "persons.csv.gz", dtype={"geocode": str, "age": str})


def leaves_of(run: Path) -> pd.DataFrame:
    """Return its leaves."""
    return pd.read_csv(run.parent / "blocks.csv.gz", dtype={"geocode": str})


def chosen(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose rows were sorted, with categories: it has an index of its own, without a name."""
    return frame.sort_values(["sex", "geocode"]).astype(dict.fromkeys(frame.columns[:-1], "category"))


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "frame": lambda frame: frame,
    "sorted frame with categories": chosen,
    "arrow table": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "views": Views,
    "geocode as index": lambda frame: frame.set_index("geocode"),
    "stream, once": lambda frame: pa.Table.from_pandas(frame, preserve_index=False).to_reader(7),
}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return the run file of a town without files of records and leaves, which lie elsewhere."""
    made = topdown.synth(tmp_path / "in", schema="toy", people=400, seed=3)
    assert made.run_file is not None
    return made.run_file


@pytest.fixture(scope="module")
def unspent(tmp_path_factory: pytest.TempPathFactory) -> topdown.Planned:
    """Return the plan of a town that nobody ever spends on."""
    made = topdown.synth(tmp_path_factory.mktemp("unspent") / "in", schema="toy", people=400, seed=3)
    assert made.run_file is not None
    return topdown.plan(made.run_file)


def simulated(run: Any, truth: Any) -> tuple[list[Any], Any]:
    """Return errors and replicates of one seed."""
    seen: list[topdown.SimulationErrors] = []
    found = topdown.simulate(run, truth, seed=7, replicates=1, each=seen.append, **PUBLIC)
    return [found.levels, seen[0].leaves.count.tolist(), seen[0].leaves.node.tolist()], found.truth


def test_every_form_gives_what_the_file_gives(town):
    """A library that reads a frame in another way than a file would make another release of the same people."""
    by_file, _ = simulated(town.run, town.run.parent / "persons.csv.gz")
    planned = topdown.plan(town.run, leaves=leaves_of(town.run).astype({"geocode": "category"}))
    assert topdown.plan(town.run).plan_hash == planned.plan_hash
    origins = set()
    for name, form in FORMS.items():
        found, origin = simulated(planned, form(of(town.run)))
        assert by_file == found, name
        origins.add((origin.kind, origin.name, origin.sha256))
    assert [one[:2] for one in origins] == [("public", "data frame")]
    with fails_with("C121"):
        topdown.simulate(planned, of(town.run))
    truth = topdown.evaluate(town.release, of(town.run))
    assert topdown.evaluate(town.release, town.run.parent / "persons.csv.gz") == truth


def test_a_release_of_frames_needs_no_files_and_goes_on_with_the_same_people(own, tmp_path):
    """Frames must be held to the rules of files: charged once, the same records until the end, no trace of them."""
    records, leaves, out = of(own), leaves_of(own), tmp_path / "release"
    for name in ("persons.csv.gz", "blocks.csv.gz"):
        (own.parent / name).rename(own.parent / f"elsewhere-{name}")
    stop = stopping_at("measure", lambda event: event.done < event.total)
    with pytest.raises(KeyboardInterrupt):
        topdown.generate(own, out, records=records, leaves=leaves, report=stop)
    other = records.assign(count=records["count"].where(records.index != 5, 9))
    before = files(tmp_path)
    with fails_with("D037"):
        topdown.generate(own, out, records=other, leaves=leaves, resume=True)
    assert before == files(tmp_path)
    (own.parent / "elsewhere-persons.csv.gz").rename(own.parent / "persons.csv.gz")
    planned = topdown.plan(own, leaves=pa.table(leaves))
    by_file = topdown.generate(planned, out, resume=True)  # the file holds the people of the frame
    assert (by_file.n_attempts, by_file.n_records, by_file.checks.ok) == (1, 400, True)
    with pytest.raises(topdown.TopdownError, match="made with the leaves it has"):
        topdown.generate(planned, out, leaves=leaves)


def broken(frame: pd.DataFrame, column: str, value: object) -> pd.DataFrame:
    """Return a frame with another value in one row."""
    return frame.assign(**{column: frame[column].astype(object).where(frame.index != 5, value)})


WRONG: dict[str, Callable[[pd.DataFrame], Any]] = {
    "D031": lambda frame: broken(frame, "sex", TELLTALE),
    "D032": lambda frame: frame.assign(count=frame["count"].astype(str).where(frame.index != 5, TELLTALE)),
    "D024": lambda frame: frame.assign(count=frame["count"] + 0.5),
    "D021": lambda frame: broken(frame.assign(count=frame["count"].astype(object)), "count", TELLTALE),
    "D041": lambda frame: frame.drop(columns="count"),
    "D040": lambda frame: frame.assign(income=TELLTALE),
    "C250": lambda frame: frame.to_numpy(),
}


@pytest.mark.parametrize("code", WRONG)
def test_wrong_records_have_the_code_of_a_file_and_say_nothing(unspent, tmp_path, code):
    """An error that quotes a record, or lists it in a file, would take it from memory to a log or a disk."""
    folder = unspent.prepared.path.parent
    before = files(folder)
    with pytest.raises(topdown.TopdownError) as refused:
        topdown.generate(unspent, tmp_path / "out", records=WRONG[code](of(unspent.prepared.path)))
    error = refused.value
    said = "".join(traceback.format_exception(error)) + repr(
        (error.to_json(), getattr(error, "__notes__", ()))
    )
    assert code == error.code
    assert TELLTALE not in said
    assert before == files(folder)
    assert not (tmp_path / "out").exists()


def test_a_library_that_talks_is_not_repeated(unspent, tmp_path):
    """What raises while it hands out a table may quote a row."""
    with fails_with("D021") as refused:
        topdown.generate(unspent, tmp_path / "out", records=Talkative())
    assert TELLTALE not in "".join(traceback.format_exception(refused.value))
    with pytest.raises(topdown.TopdownError, match="the leaves given as a data frame cannot be read"):
        topdown.plan(unspent.prepared.path, leaves=Talkative())


@pytest.mark.parametrize(
    "use", [pickle.dumps, copy.copy, copy.deepcopy, list, len, bool, hash, vars, refuse_confidential]
)
def test_the_box_shows_nothing(use):
    """A pickle is how a table reaches a worker, a print how it reaches a log."""
    box = MemoryTable(pa.table({"sex": [TELLTALE]}), "records")
    assert TELLTALE not in f"{box} {box!r} {[box]}"
    with pytest.raises(TypeError):
        use(box)
