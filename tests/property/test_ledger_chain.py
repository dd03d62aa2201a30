"""The ledger adds exactly, refuses what it must, and notices every changed byte."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from topdown.errors import BudgetError
from topdown.ledger.book import Commit, Intent, read_book
from topdown.ledger.ledger import decimal_text, open_ledger, read_ledger
from topdown.ledger.lines import read_lines

LOSS = st.fractions(min_value=Fraction(1, 10**6), max_value=3, max_denominator=10**9)
MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def intent(loss: Fraction | str, *, plan: str = "9b0e51c7", unit: str = "rho", journal: str = "j") -> Intent:
    """Return an intent of some plan."""
    return Intent("r1", plan, Fraction(loss), unit, 1, ("state", "block"), journal)


def small_ledger(path: Path) -> bytes:
    """Write a ledger with a record of each kind; return its bytes."""
    with open_ledger(path, "ri-2010") as ledger:
        ledger.intent(intent("1/3"), Fraction(5))
        ledger.intent(intent("1/7", journal="k"), Fraction(5), "a second look")
        ledger.commit(Commit((1,), "9b0e51c7", "j", "f" * 64))
        ledger.void(2, "never left the room", "A. Witness")
    return path.read_bytes()


@MANY
@given(st.lists(LOSS, min_size=1, max_size=8))
def test_losses_of_all_plans_add_up_exactly(tmp_path_factory, losses):
    """A rounded sum would let a data set be spent beyond its limit, a little each time."""
    path = tmp_path_factory.mktemp("l") / "ledger.jsonl"
    for i, loss in enumerate(losses):
        with open_ledger(path, "d") as ledger:
            ledger.intent(intent(loss, plan=f"plan{i}"), Fraction(100))
    assert sum(losses, Fraction(0)) == read_ledger(path).charged


@MANY
@given(LOSS, LOSS)
def test_the_limit_is_exact(tmp_path_factory, first, second):
    """Spending exactly the limit is allowed; the smallest bit more is not, and leaves no record."""
    path = tmp_path_factory.mktemp("l") / "ledger.jsonl"
    with open_ledger(path, "d") as ledger:
        ledger.intent(intent(first), first + second)
        ledger.intent(intent(second), first + second)
        with pytest.raises(BudgetError) as error:
            ledger.intent(intent(Fraction(1, 10**30)), first + second)
    assert error.value.code == "B004"
    assert first + second == read_ledger(path).charged


def test_over_budget_says_what_was_spent_and_what_is_left(tmp_path):
    """Without date, plan, rest and fix nobody could tell what to do next."""
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path, "ri-2010") as ledger:
        entry = ledger.intent(intent(Fraction(24914, 10000)), Fraction(5, 2))
        with pytest.raises(BudgetError) as error:
            ledger.intent(intent(Fraction(24914, 10000)), Fraction(5, 2))
    assert str(error.value) == 'the plan costs ρ 2.4914; only 0.0086 of 5/2 is left for "ri-2010"'
    assert error.value.details[1:] == (("1", f"{entry.time[:10]}  9b0e51c7  2.4914"),)
    assert error.value.fix == "lower budget.rho to 43/5000 or less, or raise ledger.limit with a reason"
    assert error.value.exit_code == 2


def test_every_flipped_byte_is_noticed(tmp_path):
    """A changed loss, date or hash would change what was spent without a trace."""
    data = small_ledger(tmp_path / "ledger.jsonl")
    for i in range(len(data)):
        for flip in (0x01, 0x20, 0x80):
            changed = data[:i] + bytes([data[i] ^ flip]) + data[i + 1 :]
            with pytest.raises(BudgetError, match="ledger damaged"):
                read_book(changed, Path("ledger.jsonl"))


def test_removed_repeated_and_swapped_lines_are_noticed(tmp_path):
    """A record taken out of the middle would be money back."""
    rows = small_ledger(tmp_path / "ledger.jsonl").splitlines(keepends=True)
    for i in range(len(rows) - 1):
        for changed in (
            rows[:i] + rows[i + 1 :],
            rows[: i + 1] + rows[i:],
            rows[:i] + rows[i : i + 2][::-1] + rows[i + 2 :],
        ):
            with pytest.raises(BudgetError, match="ledger damaged"):
                read_book(b"".join(changed), Path("ledger.jsonl"))


def test_only_an_unfinished_last_line_is_cut(tmp_path):
    """A torn write took no effect and must not block the ledger; a whole record must survive even unterminated."""
    path = tmp_path / "ledger.jsonl"
    data = small_ledger(path)
    start = data[:-1].rindex(b"\n") + 1
    for end in range(start, len(data)):
        path.write_bytes(data[:end])
        with open_ledger(path, "ri-2010") as ledger:
            n_records = len(ledger.book.entries)
        whole = end == len(data) - 1
        assert n_records == (5 if whole else 4)
        assert path.read_bytes() == (data if whole else data[:start])


def test_zeros_left_by_a_crash_are_cut(tmp_path):
    """Some file systems leave a tail of zeros where a write was cut."""
    path = tmp_path / "ledger.jsonl"
    data = small_ledger(path)
    path.write_bytes(data + bytes(300))
    with open_ledger(path, "ri-2010") as ledger:
        assert len(ledger.book.entries) == 5
    assert path.read_bytes() == data


def test_rho_and_epsilon_are_not_added(tmp_path):
    """Losses in different units have no sum."""
    with open_ledger(tmp_path / "ledger.jsonl", "d") as ledger:
        ledger.intent(intent(1), Fraction(5))
        with pytest.raises(BudgetError, match="counts rho, the plan costs epsilon") as error:
            ledger.intent(intent(1, unit="epsilon"), Fraction(5))
    assert error.value.code == "B007"


def test_a_ledger_serves_one_data_set(tmp_path):
    """Losses of two data sets on one ledger would mean nothing."""
    small_ledger(tmp_path / "ledger.jsonl")
    with (
        pytest.raises(BudgetError, match="of data set 'ri-2010', not of 'other'"),
        open_ledger(tmp_path / "ledger.jsonl", "other"),
    ):
        pass


@pytest.mark.parametrize(
    ("seq", "reason", "witness", "why"),
    [(1, "r", "w", "committed"), (2, "r", "w", "voided"), (0, "r", "w", "no intent"), (5, "", "w", "reason")],
)
def test_a_void_needs_an_open_intent_a_reason_and_a_witness(tmp_path, seq, reason, witness, why):
    """Taking back what was published, or without a witness, would unspend what was spent."""
    small_ledger(tmp_path / "ledger.jsonl")
    with open_ledger(tmp_path / "ledger.jsonl", "ri-2010") as ledger:
        ledger.intent(intent("1/2", journal="m"), Fraction(5))
        before = ledger.book.head
        with pytest.raises(BudgetError, match=why):
            ledger.void(seq, reason, witness)
        assert before == ledger.book.head


def test_a_void_gives_back_exactly_its_loss(tmp_path):
    """The office's documented lost attempt must not count, and must stay on the record."""
    small_ledger(tmp_path / "ledger.jsonl")
    book = read_ledger(tmp_path / "ledger.jsonl")
    assert Fraction(1, 3) == book.charged
    assert len(book.entries) == 5


@pytest.mark.parametrize("loss", [0.5, 1])
def test_a_loss_that_is_not_a_fraction_is_refused(loss):
    """A float is not the number that was typed."""
    with pytest.raises(TypeError, match="exact Fraction"):
        Intent("r", "p", loss, "rho", 1, ("state",), "j")


def test_two_ledgers_in_one_process_exclude_each_other(tmp_path):
    """Two writers would each believe the same budget is left."""
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path, "d"), pytest.raises(BudgetError, match="in use") as error, open_ledger(path, "d"):
        pass
    assert error.value.code == "B005"


RACE = """
import sys
from fractions import Fraction
from pathlib import Path
from topdown.ledger.book import Intent
from topdown.ledger.ledger import open_ledger
from topdown.errors import BudgetError
print("ready", flush=True)
sys.stdin.readline()
done = 0
while done < 10:
    try:
        with open_ledger(Path(sys.argv[1]), "d") as ledger:
            ledger.intent(Intent("r", sys.argv[2], Fraction(1, 7), "rho", 1, ("a",), "j"), Fraction(100))
            done += 1
    except BudgetError as error:
        assert error.code == "B005", error
"""


def test_racing_processes_lose_no_charge(tmp_path):
    """Two operators at once must be refused or queued, never merged into one line."""
    path = tmp_path / "ledger.jsonl"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(path), f"p{i}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for i in range(3)
    ]
    for racer in racers:
        racer.stdout.readline()
    for racer in racers:
        racer.communicate(b"\n", timeout=60)
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert 30 * Fraction(1, 7) == read_ledger(path).charged


def test_a_symbolic_link_is_not_followed(tmp_path):
    """A link planted at the ledger's place could make the run write anywhere."""
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / "ledger.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BudgetError, match="cannot be opened"), open_ledger(tmp_path / "ledger.jsonl", "d"):
        pass
    assert (tmp_path / "elsewhere").read_text() == ""


def test_a_full_disk_writes_no_record(tmp_path):
    """Half a record must not stay behind, and the error must say that nothing was spent."""
    path = tmp_path / "ledger.jsonl"
    code = f"""
import resource, signal
from fractions import Fraction
from pathlib import Path
from topdown.ledger.book import Intent
from topdown.ledger.ledger import open_ledger
from topdown.errors import BudgetError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open_ledger(Path({str(path)!r}), "d") as ledger:
    size = Path({str(path)!r}).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
    try:
        ledger.intent(Intent("r", "p", Fraction(1), "rho", 1, ("a",), "j"), Fraction(9))
    except BudgetError as error:
        print(error.code, Path({str(path)!r}).stat().st_size == size)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.split() == ["B006", "True"]
    assert read_ledger(path).charged == 0


def test_the_head_changes_with_every_record_and_each_line_names_the_one_before(tmp_path):
    """The head printed in a certificate must pin the whole ledger."""
    data = small_ledger(tmp_path / "ledger.jsonl")
    heads = {read_book(b"".join(data.splitlines(keepends=True)[:n]), Path("l"))[0].head for n in range(6)}
    assert len(heads) == 6
    assert read_lines(data)[0][-1].sha256 == read_ledger(tmp_path / "ledger.jsonl").head


@given(st.fractions(min_value=0, max_value=100))
def test_decimals_are_rounded_outward(value):
    """A cost shown too low or a rest shown too high would be a promise not kept."""
    assert Fraction(decimal_text(value, up=False)) <= value <= Fraction(decimal_text(value, up=True))
    assert Fraction(decimal_text(value, up=True)) - Fraction(decimal_text(value, up=False)) <= Fraction(
        1, 10**4
    )
