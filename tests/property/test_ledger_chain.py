"""The ledger adds exactly, refuses what it must, and notices every changed byte."""

import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.failing import fails_with
from topdown.errors import BudgetError
from topdown.privacy.ledger import (
    Disk,
    DrawnLaw,
    Intent,
    LedgerBinding,
    LedgerLocation,
    Limits,
    create_ledger,
    decimal_text,
    open_ledger,
    read_book,
    read_ledger,
    read_lines,
    read_registry,
    write_registry,
)

LOSS = st.fractions(min_value=Fraction(1, 10**6), max_value=3, max_denominator=10**9)
MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


BINDING = LedgerBinding("ri-2010", "bounded", "person")


def intent(
    loss: object, *, plan: str = "9b0e51c7", law: str = "discrete_gaussian", journal: str = "j"
) -> Intent:
    """Return an intent of some plan with this loss."""
    parameter = 1 / Fraction(loss) if law == "discrete_gaussian" else 2 / Fraction(loss)
    return Intent(
        "r1", plan, (DrawnLaw(law, parameter, 1, 2, "block", "total"),), (), 1, ("block",), journal, "bounded"
    )


def new_ledger(folder: Path) -> LedgerLocation:
    """Make a ledger with its registry beside it."""
    place = LedgerLocation(folder / "ledger.jsonl", folder, "", BINDING)
    return create_ledger(place)


def small_ledger(folder: Path) -> tuple[LedgerLocation, bytes]:
    """Write a ledger with a record of each kind; return its place and bytes."""
    place = new_ledger(folder)
    with open_ledger(place) as ledger:
        ledger.intent(intent("1/3"), Limits(Fraction(5)))
        ledger.intent(intent("1/7", journal="k"), Limits(Fraction(5), reason="a second look"))
        ledger.begin(1, "block/part-000")
        ledger.drawn(1, "block/part-000", "a" * 64)
        ledger.commit((1,), "9b0e51c7", "j", "f" * 64)
        ledger.void(2, "never left the room", "A. Witness")
    return place, place.path.read_bytes()


N_RECORDS = 7


@MANY
@given(LOSS, LOSS)
def test_the_limit_is_exact(tmp_path_factory, first, second):
    """Spending exactly the limit is allowed; the smallest bit more is not, and leaves no record."""
    place = new_ledger(tmp_path_factory.mktemp("l"))
    with open_ledger(place) as ledger:
        ledger.intent(intent(first), Limits(first + second))
        ledger.intent(intent(second), Limits(first + second))
        with pytest.raises(BudgetError) as error:
            ledger.intent(intent(Fraction(1, 10**30)), Limits(first + second))
    assert error.value.code == "B004"
    assert first + second == sum(read_ledger(place.path).charged.values(), Fraction(0))


def test_over_budget_says_what_was_spent_and_what_is_left(tmp_path):
    """Without date, plan, rest and fix nobody could tell what to do next."""
    place = new_ledger(tmp_path)
    with open_ledger(place) as ledger:
        entry = ledger.intent(intent(Fraction(24914, 10000)), Limits(Fraction(5, 2)))
        with pytest.raises(BudgetError) as error:
            ledger.intent(intent(Fraction(24914, 10000)), Limits(Fraction(5, 2)))
    assert str(error.value) == 'the plan costs ρ 2.4914; only 0.0086 of 5/2 is left for "ri-2010"'
    assert error.value.details[1:] == (("1", f"{entry.time[:10]}  9b0e51c7  ρ 2.4914"),)
    assert error.value.fix == (
        "lower budget.rho to 43/5000 or less, or raise the limit: write it into the run file, and topdown ledger limit "
        "RUN.toml --by NAME --reason ..."
    )
    assert error.value.exit_code == 2


def test_every_flipped_byte_is_noticed(tmp_path):
    """A changed loss, date or hash would change what was spent without a trace."""
    _, data = small_ledger(tmp_path)
    for i in range(len(data)):
        for flip in (0x01, 0x20, 0x80):
            changed = data[:i] + bytes([data[i] ^ flip]) + data[i + 1 :]
            with pytest.raises(BudgetError, match="ledger damaged"):
                read_book(changed, Path("ledger.jsonl"))


def mark_at(place: LedgerLocation, n_records: int) -> None:
    """Put the registry back to where the ledger had some records, as a crash before it was told would."""
    data = b"".join(place.path.read_bytes().splitlines(keepends=True)[:n_records])
    registry = read_registry(place.registry, Disk())
    assert registry is not None
    write_registry(registry.of_book(read_book(data, place.path)[0]), Disk())


def test_only_an_unfinished_last_line_is_cut(tmp_path):
    """A torn write took no effect and must not block the ledger; a whole record must survive even unterminated."""
    place, data = small_ledger(tmp_path)
    path = place.path
    start = data[:-1].rindex(b"\n") + 1
    for end in range(start, len(data)):
        path.write_bytes(data[:end])
        mark_at(place, N_RECORDS - 1)
        with open_ledger(place) as ledger:
            n_records = len(ledger.book.entries)
        whole = end == len(data) - 1
        assert n_records == (N_RECORDS if whole else N_RECORDS - 1)
        assert path.read_bytes() == (data if whole else data[:start])


def test_zeros_left_by_a_crash_are_cut(tmp_path):
    """Some file systems leave a tail of zeros where a write was cut."""
    place, data = small_ledger(tmp_path)
    path = place.path
    path.write_bytes(data + bytes(300))
    with open_ledger(place) as ledger:
        assert len(ledger.book.entries) == N_RECORDS
    assert path.read_bytes() == data


@pytest.mark.parametrize(("key", "code"), [("data_set", "B007"), ("neighbours", "B021"), ("unit", "B007")])
def test_a_ledger_serves_what_it_is_bound_to(tmp_path, key, code):
    """Losses of two data sets, relations or units on one ledger would mean nothing: their sum protects nobody."""
    place = small_ledger(tmp_path)[0]
    other = replace(place, binding=replace(BINDING, **{key: "other"}))
    with pytest.raises(BudgetError, match="other") as error, open_ledger(other):
        pass
    assert error.value.code == code


def test_a_ledger_is_made_once(tmp_path):
    """Making it again would wipe what was spent."""
    place, data = small_ledger(tmp_path)
    with pytest.raises(BudgetError, match="already") as error:
        create_ledger(replace(place, id=""))
    assert (error.value.code, place.path.read_bytes()) == ("B017", data)


def test_a_part_is_begun_once_and_drawn_once(tmp_path):
    """Two draws of a part under one intent are two answers for one charge."""
    with open_ledger(new_ledger(tmp_path)) as ledger:
        ledger.intent(intent(1), Limits(Fraction(5)))
        ledger.begin(1, "block/part-000")
        ledger.drawn(1, "block/part-000", "a" * 64)
        for wrong in (
            lambda: ledger.begin(1, "block/part-000"),
            lambda: ledger.drawn(1, "block/part-000", "b" * 64),
            lambda: ledger.drawn(1, "block/part-001", "b" * 64),
            lambda: ledger.begin(1, "county/part-000"),
            lambda: ledger.begin(2, "block/part-001"),
        ):
            with fails_with("B009", BudgetError, match="refuses"):
                wrong()
        assert len(ledger.book.entries) == 4


def test_a_record_takes_as_many_calls_however_many_are_before_it(tmp_path):
    """A nation has tens of thousands of parts: a walk over all records at each of them takes seconds."""
    place = new_ledger(tmp_path)
    n_calls: list[int] = []

    def count(frame: object, event: str, argument: object) -> None:
        n_calls[-1] += event in {"call", "c_call"}

    with open_ledger(place) as ledger:
        ledger.intent(intent("1/3"), Limits(Fraction(5)))
        for part in range(100):
            n_calls.append(0)
            sys.setprofile(count)
            try:
                ledger.begin(1, f"block/part-{part:03d}")
            finally:
                sys.setprofile(None)
    # the least of several: the garbage collector may call at any of them
    assert min(n_calls[-10:]) <= min(n_calls[:10])


@pytest.mark.parametrize(
    ("seq", "reason", "witness", "why"),
    [(1, "r", "w", "committed"), (2, "r", "w", "voided"), (0, "r", "w", "no intent"), (7, "", "w", "reason")],
)
def test_a_void_needs_an_open_intent_a_reason_and_a_witness(tmp_path, seq, reason, witness, why):
    """Taking back what was published, or without a witness, would unspend what was spent."""
    place = small_ledger(tmp_path)[0]
    with open_ledger(place) as ledger:
        ledger.intent(intent("1/2", journal="m"), Limits(Fraction(5)))
        before = ledger.book.head
        with pytest.raises(BudgetError, match=why):
            ledger.void(seq, reason, witness)
        assert before == ledger.book.head


@pytest.mark.parametrize("parameter", [0.5, 1])
def test_a_law_that_is_not_exact_is_refused(parameter):
    """A float is not the number that was typed."""
    with pytest.raises(TypeError, match="exact Fraction"):
        DrawnLaw("discrete_gaussian", parameter, 1, 2, "block", "total")


PROLOGUE = """
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from topdown.privacy.ledger import DrawnLaw, Intent, LedgerBinding as Binding, LedgerLocation as Place, Limits
from topdown.privacy.ledger import open_ledger
from topdown.errors import BudgetError
folder = Path(sys.argv[1])
place = Place(folder / "ledger.jsonl", folder, sys.argv[2], Binding("ri-2010", "bounded", "person"))
law = DrawnLaw("discrete_gaussian", Fraction(7), 1, 2, "block", "total")
intent = Intent("r", "p", (law,), (), 1, ("block",), "j", "bounded")
"""
RACE = (
    PROLOGUE
    + """
print("ready", flush=True)
sys.stdin.readline()
done = 0
while done < 10:
    try:
        with open_ledger(place) as ledger:
            ledger.intent(intent, Limits(Fraction(100)))
            done += 1
    except BudgetError as error:
        assert error.code == "B005", error
"""
)


def test_racing_processes_lose_no_charge(tmp_path):
    """Two operators at once must be refused or queued, never merged into one line."""
    place = new_ledger(tmp_path)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(tmp_path), place.id],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    for racer in racers:
        racer.stdout.readline()
    for racer in racers:
        racer.communicate(b"\n", timeout=240)
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert 30 * Fraction(1, 7) == sum(read_ledger(place.path).charged.values(), Fraction(0))


def test_a_symbolic_link_is_not_followed(tmp_path):
    """A link planted at the ledger's place could make the run write anywhere."""
    place = new_ledger(tmp_path)
    place.path.rename(tmp_path / "elsewhere")
    place.path.symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    with pytest.raises(BudgetError, match="cannot be opened"), open_ledger(place):
        pass
    assert before == (tmp_path / "elsewhere").read_bytes()


def test_a_full_disk_writes_no_record(tmp_path):
    """Half a record must not stay behind, and the error must say that nothing was spent."""
    place = new_ledger(tmp_path)
    code = (
        PROLOGUE
        + """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open_ledger(place) as ledger:
    size = place.path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
    try:
        ledger.intent(intent, Limits(Fraction(9)))
    except BudgetError as error:
        print(error.code, place.path.stat().st_size == size)
"""
    )
    command = [sys.executable, "-c", code, str(tmp_path), place.id]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    assert out.stdout.split() == ["B006", "True"]
    assert sum(read_ledger(place.path).charged.values(), Fraction(0)) == 0


def test_the_head_changes_with_every_record_and_each_line_names_the_one_before(tmp_path):
    """The head printed in a certificate must pin the whole ledger."""
    _, data = small_ledger(tmp_path)
    heads = {
        read_book(b"".join(data.splitlines(keepends=True)[:n]), Path("l"))[0].head
        for n in range(N_RECORDS + 1)
    }
    assert len(heads) == N_RECORDS + 1
    assert read_lines(data)[0][-1].sha256 == read_ledger(tmp_path / "ledger.jsonl").head


@given(st.fractions(min_value=0, max_value=100))
def test_decimals_are_rounded_outward(value):
    """A cost shown too low or a rest shown too high would be a promise not kept."""
    assert Fraction(decimal_text(value, up=False)) <= value <= Fraction(decimal_text(value, up=True))
    assert Fraction(decimal_text(value, up=True)) - Fraction(decimal_text(value, up=False)) <= Fraction(
        1, 10**4
    )
