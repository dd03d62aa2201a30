"""Extend a published table by new attributes: same splits, with the base table as the first, exact table."""
