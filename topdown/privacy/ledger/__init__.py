"""What was spent, durably: the ledger of a data set, and the order of steps that no crash turns into a second spend."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.privacy.ledger.book import (
        Book,
        Entry,
        canonical_line,
        line_hash,
        losses_by_plan,
        read_book,
        read_lines,
    )
    from topdown.privacy.ledger.charged_run import (
        NoiseCharge,
        check_new_charge,
        publish_committed,
        run_charged,
    )
    from topdown.privacy.ledger.durable import Disk, folder_lock
    from topdown.privacy.ledger.journal import (
        DIGEST_FILE,
        JOURNAL_FILE,
        Journal,
        MeasuredPart,
        keyed_digest,
        open_journal,
        records_changed,
        start_journal,
    )
    from topdown.privacy.ledger.ledger_file import (
        Ledger,
        LedgerLocation,
        attest,
        check_ledger,
        create_ledger,
        decimal_text,
        ledger_missing,
        next_line,
        open_ledger,
        read_ledger,
        write_witness,
    )
    from topdown.privacy.ledger.ledger_records import (
        LEDGER_VERSION,
        Begun,
        Charge,
        Choice,
        Commit,
        Drawn,
        DrawnLaw,
        Event,
        Intent,
        LedgerBinding,
        Opened,
        choice_loss,
        exact_text,
        from_fields,
        to_fields,
    )

__all__ = [
    "DIGEST_FILE",
    "JOURNAL_FILE",
    "LEDGER_VERSION",
    "Begun",
    "Book",
    "Charge",
    "Choice",
    "Commit",
    "Disk",
    "Drawn",
    "DrawnLaw",
    "Entry",
    "Event",
    "Intent",
    "Journal",
    "Ledger",
    "LedgerBinding",
    "LedgerLocation",
    "MeasuredPart",
    "NoiseCharge",
    "Opened",
    "attest",
    "canonical_line",
    "check_ledger",
    "check_new_charge",
    "choice_loss",
    "create_ledger",
    "decimal_text",
    "exact_text",
    "folder_lock",
    "from_fields",
    "keyed_digest",
    "ledger_missing",
    "line_hash",
    "losses_by_plan",
    "next_line",
    "open_journal",
    "open_ledger",
    "publish_committed",
    "read_book",
    "read_ledger",
    "read_lines",
    "records_changed",
    "run_charged",
    "start_journal",
    "to_fields",
    "write_witness",
]

__getattr__ = lazy_face(__name__, __file__)
