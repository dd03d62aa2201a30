"""What was spent, durably: the ledger of a data set, and the order of steps that no crash turns into a second spend."""

from typing import TYPE_CHECKING

from topdown.lazy import lazy_face

if TYPE_CHECKING:
    from topdown.privacy.ledger.book import (
        Book,
        canonical_line,
        charged_fields,
        decimal_text,
        over_budget,
        read_book,
        read_lines,
    )
    from topdown.privacy.ledger.charged_run import (
        NoiseCharge,
        PartSize,
        is_committed,
        run_charged,
        spend_note,
        with_charge,
    )
    from topdown.privacy.ledger.durable import (
        REAL_DISK,
        Disk,
        LockedFile,
        ReplacedError,
        disk_errors,
        folder_lock,
    )
    from topdown.privacy.ledger.former_ledgers import FormerLedger, find_former_ledger, take_over
    from topdown.privacy.ledger.journal import (
        DIGEST_FILE,
        JOURNAL_FILE,
        Journal,
        MeasuredPart,
        keyed_digest,
        open_journal,
        records_changed,
    )
    from topdown.privacy.ledger.ledger_file import (
        Ledger,
        attest,
        check_ledger,
        create_ledger,
        make_or_find_ledger,
        move_ledger,
        open_ledger,
        read_ledger,
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
        Limits,
        Opened,
        TakenOver,
        from_fields,
        to_fields,
    )
    from topdown.privacy.ledger.registry import (
        LedgerLocation,
        RecordsFile,
        Registry,
        is_newest,
        read_registry,
        write_registry,
    )
    from topdown.privacy.ledger.what_persons_said import UNNAMED, history_lines, ledger_history

__getattr__ = lazy_face(__name__, __file__)
