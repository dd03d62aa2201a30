"""What people see: text, tables, errors and progress, at any width, with or without colour and Unicode."""

__all__ = []
