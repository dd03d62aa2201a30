"""Practice without confidential records: made-up censuses, simulated releases, tuned shares, audits by runs."""

__all__ = []
