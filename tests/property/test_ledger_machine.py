"""The ledger against a dictionary: whatever is written, torn, put back or taken by another, no charge is lost."""

from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.helpers.failing import fails_with
from tests.helpers.model_disk import OUTCOMES, Crash, ModelDisk
from topdown.errors import BudgetError
from topdown.privacy.ledger import (
    Book,
    DrawnLaw,
    Intent,
    Ledger,
    LedgerBinding,
    LedgerLocation,
    Limits,
    attest,
    create_ledger,
    open_ledger,
    read_book,
)

PATH, FOLDER = Path("/ledger/people.jsonl"), Path("/secret")
BINDING = LedgerBinding("people", "bounded", "person")
LIMIT = Fraction(5)
PARTS = ("land/part-000", "land/part-001")


class LedgerMachine(RuleBasedStateMachine):
    """A ledger on a modelled disk, and what a dictionary remembers of it.

    Attributes:
        model: number of an intent: [loss, state, parts drawn]; state is open, void or committed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.disk = ModelDisk()
        self.model: dict[int, list] = {}
        self.n_records = 1
        self.place: LedgerLocation

    @initialize()
    def create(self) -> None:
        """Make the ledger."""
        self.place = create_ledger(LedgerLocation(PATH, FOLDER, "", BINDING), self.disk)

    def intent(self, loss: int) -> Intent:
        """Return an intent of some loss."""
        law = DrawnLaw("discrete_gaussian", Fraction(1, loss), 1, 2, "land", "total")
        journal = f"{len(self.model):032x}"
        return Intent(f"r{journal}", journal, (law,), (), 1, ("land",), journal, "bounded")

    def sizes(self) -> list[int]:
        """Return the numbers of the open intents."""
        return [seq for seq, (_, state, _) in self.model.items() if state == "open"]

    @rule(loss=st.integers(1, 3))
    def charge(self, loss: int) -> None:
        """Charge what there is room for; refuse what there is not."""
        with open_ledger(self.place, self.disk) as ledger:
            if self.charged() + loss > LIMIT:
                with fails_with("B004", BudgetError):
                    ledger.intent(self.intent(loss), Limits(LIMIT))
                return
            seq = ledger.intent(self.intent(loss), Limits(LIMIT)).seq
        assert seq == self.n_records
        self.model[seq] = [Fraction(loss), "open", 0]
        self.n_records += 1

    @precondition(lambda self: self.sizes())
    @rule(data=st.data())
    def draw(self, data: st.DataObject) -> None:
        """Begin and record a part; never the same twice."""
        seq = data.draw(st.sampled_from(self.sizes()))
        done = self.model[seq][2]
        with open_ledger(self.place, self.disk) as ledger:
            if done == len(PARTS):
                with fails_with("B009", BudgetError):
                    ledger.begin(seq, PARTS[0])
                return
            ledger.begin(seq, PARTS[done])
            ledger.drawn(seq, PARTS[done], "0" * 64)
        self.model[seq][2] += 1
        self.n_records += 2

    @precondition(lambda self: self.sizes())
    @rule(data=st.data(), void=st.booleans())
    def end(self, data: st.DataObject, void: bool) -> None:
        """Commit or take back an intent; neither can be done again."""
        seq = data.draw(st.sampled_from(self.sizes()))
        with open_ledger(self.place, self.disk) as ledger:
            self._end(ledger, seq, void)
        with open_ledger(self.place, self.disk) as ledger, pytest.raises(BudgetError) as refused:
            self._end(ledger, seq, void)
        assert refused.value.code == "B009"
        self.model[seq][1] = "void" if void else "committed"
        self.n_records += 1

    def _end(self, ledger: Ledger, seq: int, void: bool) -> None:
        if void:
            ledger.void(seq, "burnt", "A. Person")
        else:
            made = ledger.book.intents[seq]
            ledger.commit((seq,), made.plan_hash, made.journal, "0" * 64)

    @rule(loss=st.integers(1, 3), step=st.integers(1, 12), outcome=st.sampled_from(OUTCOMES))
    def lose_power(self, loss: int, step: int, outcome: str) -> None:
        """Cut the power while an intent is charged: it counts or it does not, and what counted before still does."""
        self.disk.crash = (self.disk.steps + step, outcome)
        answered = False
        with suppress(Crash, BudgetError), open_ledger(self.place, self.disk) as ledger:
            ledger.intent(self.intent(loss), Limits(LIMIT))
            answered = True
        self.disk = self.disk.snapshot()
        with open_ledger(self.place, self.disk) as ledger:
            found = len(ledger.book.entries)
        assert found in ((self.n_records + 1,) if answered else (self.n_records, self.n_records + 1))
        if found > self.n_records:
            self.model[self.n_records] = [Fraction(loss), "open", 0]
            self.n_records = found

    @precondition(lambda self: self.n_records > 1)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        """Put an older copy of the ledger back: it is refused, and attesting it too; the newest one is taken."""
        newest = self.disk.read(PATH) or b""
        lines = newest.splitlines(keepends=True)
        older = b"".join(lines[: data.draw(st.integers(1, len(lines) - 1))])
        self.disk.restore(lambda path: path == PATH, {PATH: older})
        for use in (
            lambda: open_ledger(self.place, self.disk).__enter__(),
            lambda: attest(self.place, "A. Person", "x", self.disk),
        ):
            with fails_with("B008", BudgetError):
                use()
        self.disk.restore(lambda path: path == PATH, {PATH: newest})

    @rule()
    def second_writer(self) -> None:
        """While one has the ledger, another is sent away."""
        with open_ledger(self.place, self.disk):
            with pytest.raises(BudgetError) as refused, open_ledger(self.place, self.disk):
                pass
            assert refused.value.code == "B005"

    @rule()
    def lose_registry(self) -> None:
        """Without its registry a ledger is used by nobody until a person attests it, charged or not."""
        self.disk.restore(lambda path: path == self.place.registry, {})
        with pytest.raises(BudgetError) as refused, open_ledger(self.place, self.disk):
            pass
        assert refused.value.code == "B016"
        attest(self.place, "A. Person", "the records moved", self.disk)
        self.n_records += 1

    def charged(self) -> Fraction:
        """Return what the dictionary says is spent."""
        return sum((loss for loss, state, _ in self.model.values() if state != "void"), Fraction(0))

    @invariant()
    def the_book_says_what_the_dictionary_says(self) -> None:
        """Compare: a charge that the file forgets can be spent again."""
        if PATH not in self.disk.names_now:
            return
        book: Book = read_book(self.disk.read(PATH) or b"", PATH)[0]
        assert self.charged() == sum(book.charged.values(), Fraction(0)) <= LIMIT
        assert self.n_records == len(book.entries)
        states = {
            seq: "void" if seq in book.voided else "committed" if seq in book.committed else "open"
            for seq in book.intents
        }
        assert {seq: state for seq, (_, state, _) in self.model.items()} == states
        assert self.disk.safe(PATH) == self.disk.read(PATH)


LedgerMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLedgerMachine = LedgerMachine.TestCase
